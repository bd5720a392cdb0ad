#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kintsugi::workers {

/// A family of metrics that a role has besides those of the runtime. Texts have static life; values
/// of labels come from fixed sets, never from objects.
struct RoleFamily {
  std::string_view name, help;
  bool counter = false;  ///< else a gauge
  std::vector<std::string_view> labels;
  /// Without labels; its series are by upper bound, each with what the smaller ones have ("0.001",
  /// "+Inf"), and "sum".
  bool histogram = false;
};

/// Values by position of the family in Role::families and values of its labels. Units add theirs.
using RoleSeries = std::map<std::pair<std::size_t, std::vector<std::string>>, double>;

}  // namespace kintsugi::workers
