#pragma once

#include <string>
#include <vector>

#include "cel/admission.h"
#include "kinds/policies/internal/compiled_policy.h"
#include "krm/json.h"

namespace kintsugi::kinds {

/// One request as a policy with one parameter sees it.
struct PolicyInput {
  const krm::Json* object = nullptr;
  const krm::Json* old_object = nullptr;
  const krm::Json* request = nullptr;            ///< AdmissionRequest in the matched version
  const krm::Json* condition_request = nullptr;  ///< in the version of the request
  const krm::Json* namespace_object = nullptr;
  const krm::Json* params = nullptr;
  cel::AccessOracle* authorizer = nullptr;
  cel::AccessQuestion request_resource;
  /// What may be done for this and other parameters, less by what was. Null: is not counted.
  std::uint64_t* steps = nullptr;
};

/// Whether all match conditions hold.
struct MatchOutcome {
  bool matches = false;
  std::string fault;  ///< why that cannot be known; "": it is
};
/// Cost: bounded by cel::kMatchLimit.
[[nodiscard]] MatchOutcome evaluate_conditions(const cel::AdmissionEnvironment& environment,
                                               const std::vector<PolicyExpression>& conditions,
                                               const cel::AdmissionInput& input,
                                               std::uint64_t* steps = nullptr);
/// What a policy with one parameter sees.
[[nodiscard]] cel::AdmissionInput admission_input(const PolicyInput& input,
                                                  const krm::Json* request,
                                                  const krm::Json* namespace_object,
                                                  bool authorizer);

/// What a policy says to a request. Only what is not fine.
struct PolicyOutcome {
  struct Refusal {
    std::size_t index = 0;  ///< of the validation
    std::string message, reason;
  };
  std::vector<Refusal> refusals;
  /// Refusals whatever the binding's actions are.
  std::vector<Refusal> denials;
  struct Annotation {
    std::string key, value;
  };
  std::vector<Annotation> annotations;
};

/// Evaluates match conditions, validations and audit annotations (Kubernetes' validator.go). Cost:
/// bounded by cel::kMatchLimit, and twice cel::kObjectLimit.
[[nodiscard]] PolicyOutcome evaluate_policy(const CompiledPolicy& policy, const PolicyInput& input);

}  // namespace kintsugi::kinds
