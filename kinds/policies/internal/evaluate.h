#pragma once

#include <functional>
#include <memory>
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

/// Said of expressions that cost more than they may together.
inline constexpr const char* kBudgetIsSpent =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Whether all match conditions hold.
struct MatchOutcome {
  bool matches = false;
  std::string fault;  ///< why that cannot be known; "": it is
};
/// The judgement, a condition at a time, so that others may have turns meanwhile (SE-102). Cost:
/// bounded by cel::kMatchLimit together; a step by cel::kCallLimit. Threads: the authorizer's.
class ConditionRun {
 public:
  /// All outlive this, what `input` points to included. @param steps  as PolicyInput has it
  ConditionRun(const cel::AdmissionEnvironment& environment,
               const std::vector<PolicyExpression>& conditions, const cel::AdmissionInput& input,
               std::uint64_t* steps = nullptr);
  ~ConditionRun();
  ConditionRun(const ConditionRun&) = delete;
  ConditionRun& operator=(const ConditionRun&) = delete;

  /// Evaluates one condition after the other. @param is_enough  asked after each
  /// @returns false: it is not over
  [[nodiscard]] bool go_on(const std::function<bool()>& is_enough);
  /// When it is over.
  [[nodiscard]] MatchOutcome take();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};
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

/// Match conditions, validations, their messages and audit annotations (Kubernetes' validator.go),
/// an expression at a time, so that others may have turns meanwhile (SE-102). Cost: bounded by
/// cel::kMatchLimit for all conditions and twice cel::kObjectLimit; a step by cel::kCallLimit.
/// Threads: the authorizer's.
class PolicyRun {
 public:
  /// @param policy  outlives this, as what `input` points to
  PolicyRun(const CompiledPolicy& policy, const PolicyInput& input);
  ~PolicyRun();
  PolicyRun(const PolicyRun&) = delete;
  PolicyRun& operator=(const PolicyRun&) = delete;

  /// Evaluates one expression after the other. @param is_enough  asked after each
  /// @returns false: it is not over
  [[nodiscard]] bool go_on(const std::function<bool()>& is_enough);
  /// When it is over.
  [[nodiscard]] PolicyOutcome take();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kintsugi::kinds
