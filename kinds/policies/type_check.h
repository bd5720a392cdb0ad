#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "krm/json.h"

namespace kintsugi::kinds {

/// An expression that does not fit a kind that its policy is about.
struct ExpressionWarning {
  std::string field;  ///< "spec.validations[0].expression"
  std::string
      warning;  ///< "/v1, Kind=ConfigMap: ERROR: <input>:1:7: …", one line break behind each
};

/// Checks validations and message expressions of a valid policy against the kinds that its resource
/// rules name, without wildcards, as its cluster serves them now; ten kinds at most. Source:
/// typechecking.go of Kubernetes. Cost: compiles every expression once a kind.
[[nodiscard]] std::vector<ExpressionWarning> check_policy_types(const krm::Json& policy,
                                                                const apiserver::Registry& registry,
                                                                std::string_view cluster);

}  // namespace kintsugi::kinds
