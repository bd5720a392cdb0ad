#pragma once

#include <string_view>

#include "base/time.h"

namespace kintsugi::shards {

/// A line of level debug (--v=4 of kcp's command line) for a request to a server and how it was
/// answered, without its query, which may hold secrets. Costs a comparison at other levels.
/// @param code  0: not at all
void log_answer(std::string_view server, std::string_view method, std::string_view target, int code,
                Duration took);

}  // namespace kintsugi::shards
