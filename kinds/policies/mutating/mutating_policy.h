#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kinds/policies/internal/compiled_policy.h"

namespace kintsugi::kinds {

/// A MutatingAdmissionPolicy, ready to run. Immutable, made once per spec. Threads: any.
struct MutatingPolicy {
  /// @param policy  a valid object.
  explicit MutatingPolicy(const krm::Json& policy);

  struct Mutation {
    bool is_patch = false;  ///< JSONPatch, else ApplyConfiguration
    PolicyExpression expression;
  };
  std::string name;
  bool ignores_failure = false;
  bool reinvoked = false;  ///< when somebody changes the object after it
  std::optional<GroupVersionName> param_kind;
  MatchResources constraints;
  cel::AdmissionEnvironment environment;
  std::vector<PolicyExpression> conditions;
  std::vector<Mutation> mutations;
};
using MutatingPolicyPtr = std::shared_ptr<const MutatingPolicy>;

}  // namespace kintsugi::kinds
