#pragma once

#include <cstddef>
#include <string>

namespace kintsugi {

/// How much memory this process may use [bytes]: the least limit of its control groups (memory.max
/// and memory.high, or version 1) or, without one, the machine's memory. Reads files: for start-up.
/// Threads: any.
/// @param root  prefix of /proc and /sys, for tests
[[nodiscard]] std::size_t memory_limit(const std::string& root = {});

}  // namespace kintsugi
