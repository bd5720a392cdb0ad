#pragma once

#include <string>

#include "topology/feed.h"

namespace kintsugi::proxy {

/// Why the topology is not known yet, in one line: what is not listed, and what servers refuse
/// (FP-157); "": nothing is known to be wrong. For those who run the proxy alone: it names shards.
[[nodiscard]] std::string why_not_ready(const topology::Feed& feed);

}  // namespace kintsugi::proxy
