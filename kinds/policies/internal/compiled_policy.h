#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cel/admission.h"
#include "kinds/policies/internal/match.h"
#include "krm/json.h"

namespace kintsugi::kinds {

/// An expression as it was written and as it runs; null: it does not compile any more.
struct PolicyExpression {
  std::string source;
  cel::AdmissionExpressionPtr program;
  std::string fault;
};

struct PolicyValidation {
  PolicyExpression expression;
  std::optional<PolicyExpression> message_expression;
  std::string message, reason;
};

struct PolicyAnnotation {
  std::string key;
  PolicyExpression value;
};

/// A ValidatingAdmissionPolicy, ready to run. Immutable, made once per spec. Threads: any.
struct CompiledPolicy {
  /// @param policy  a valid object.
  explicit CompiledPolicy(const krm::Json& policy);

  std::string name;
  bool ignores_failure = false;
  std::optional<GroupVersionName> param_kind;
  MatchResources constraints;
  cel::AdmissionEnvironment environment;
  std::vector<PolicyExpression> conditions;
  std::vector<PolicyValidation> validations;
  std::vector<PolicyAnnotation> annotations;
};
using CompiledPolicyPtr = std::shared_ptr<const CompiledPolicy>;

/// Which parameters a binding names.
struct ParamRef {
  std::string name, ns;
  std::optional<krm::Selector> selector;
  bool must_exist = false;
};

/// A ValidatingAdmissionPolicyBinding. Immutable.
struct PolicyBinding {
  explicit PolicyBinding(const krm::Json& binding);

  std::string name, policy;
  std::optional<ParamRef> params;
  MatchResources resources;
  std::vector<std::string> actions;
};
using PolicyBindingPtr = std::shared_ptr<const PolicyBinding>;

/// "ex.io/v1" and a kind, taken apart.
[[nodiscard]] GroupVersionName parse_kind(std::string_view api_version, std::string_view kind);

}  // namespace kintsugi::kinds
