#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"

namespace kintsugi::topology {

/// One status condition of the kcp kinds (KK-022).
struct Condition {
  std::string type;
  std::string status = "True";  ///< True, False, Unknown
  std::string reason = {};      ///< left out when empty
  std::string severity = {};    ///< Error, Warning, Info; only kept when status is False
  std::string message = {};     ///< left out when empty
};

/// The wanted conditions as a JSON list: sorted by type with Ready first. lastTransitionTime is
/// taken from `old` when nothing else differs, else it is `now` (RFC 3339, seconds). Types of `old`
/// that are not wanted are dropped.
[[nodiscard]] krm::Json render_conditions(std::vector<Condition> wanted, const krm::Json* old,
                                          std::string_view now);

/// True when both status objects are equal but for lastTransitionTime.
[[nodiscard]] bool same_but_times(const krm::Json& a, const krm::Json& b);

}  // namespace kintsugi::topology
