#pragma once

#include <string>

#include "net/upstream.h"

namespace kintsugi::net {

/// What spans of its requests call the server, a shard by its name (OP-503). Without, it has none.
/// @param upstream  of Upstream::make()
void name_peer(Upstream& upstream, std::string name);

}  // namespace kintsugi::net
