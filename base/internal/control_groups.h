#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kintsugi {

/// The control groups of one hierarchy that this process is in.
struct ControlGroups {
  bool is_second = false;            ///< version 2: files of all controllers are in one folder
  std::vector<std::string> folders;  ///< its own group first, then those around it
};

/// The hierarchies that say something of a controller ("memory", "cpu"), of both versions.
/// Reads files: for start-up. Threads: any.
/// @param root  prefix of /proc and /sys, for tests
[[nodiscard]] std::vector<ControlGroups> control_groups(std::string_view controller,
                                                        const std::string& root = {});

}  // namespace kintsugi
