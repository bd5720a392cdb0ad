#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apiserver/admission.h"
#include "base/error.h"
#include "kinds/policies/internal/access_cache.h"
#include "kinds/policies/internal/evaluate.h"
#include "kinds/policies/internal/params.h"
#include "kinds/policies/internal/policy_index.h"
#include "kinds/policies/internal/policy_request.h"
#include "kinds/policies/internal/surroundings.h"
#include "kinds/policies/internal/write_subject.h"
#include "krm/json.h"

namespace kintsugi::kinds {

/// What the MutatingAdmissionPolicies of one write do to it, in one round or two. Threads: one
/// loop. Lifetime: shared by what it waits for.
class PolicyMutations : public std::enable_shared_from_this<PolicyMutations> {
 public:
  using Hooks = std::shared_ptr<const std::vector<MutatingPolicyIndex::Hook>>;
  /// @param rules  the logical cluster whose policies, bindings and parameters hold
  /// @param forms  has the object, and gets what becomes of it
  PolicyMutations(AdmissionSurroundings around, std::string rules, Hooks hooks,
                  apiserver::PendingWritePtr write, std::shared_ptr<WriteForms> forms);

  /// One round: of all, or of those that are to be asked again. `done` at once or later, with
  /// whether the object has changed. @error is the answer; its Status is noted
  void run(bool again, std::function<void(const Expected<bool>&)> done);
  /// Somebody else has changed the object: those with IfNeeded that were asked are asked again.
  void object_changed();

 private:
  struct Invocation {
    MutatingPolicyPtr policy;
    PolicyBindingPtr binding;
    GroupVersionName resource;
    std::optional<krm::Json> params;
    std::string key;  ///< of policy, binding and parameter
  };
  [[nodiscard]] std::vector<Invocation> find();
  struct Fault {
    std::string text;
    bool of_configuration = false;
  };
  void failed(const MutatingPolicy& policy, const PolicyBinding* binding, std::string_view why,
              bool configuration = false);
  /// The match conditions of an invocation on their way, over what they see.
  struct Matching {
    krm::Json object, request;
    std::unique_ptr<ConditionRun> run;
    int rounds = 0;  ///< that waited for the authorizer
  };
  void begin(std::size_t i);
  void go_on(std::size_t i);
  void match(std::size_t i, int rounds);
  void evaluate_conditions(std::size_t i, const std::shared_ptr<Matching>& matching);
  void matched(std::size_t i, const MatchOutcome& outcome);
  void next_step(std::size_t i, std::size_t step);
  void mutate(std::size_t i, std::size_t step, int rounds);
  void apply(std::size_t i, std::size_t step, const apiserver::ServedKindPtr& kind,
             const krm::Json& shown, krm::Json made);
  void finish();
  [[nodiscard]] PolicyInput input(const Invocation& invocation, const WriteForms::Form& form,
                                  const krm::Json* object, const krm::Json* request);
  [[nodiscard]] krm::Json document(const Invocation& invocation, const WriteForms::Form& form,
                                   bool matched) const;

  const AdmissionSurroundings around_;
  const std::string rules_;
  const Hooks hooks_;
  const apiserver::PendingWritePtr write_;
  const std::shared_ptr<WriteForms> forms_;
  const PolicyRequest request_;
  WriteSubject subject_;
  const std::shared_ptr<AccessCache> access_;
  std::function<void(const Expected<bool>&)> done_;
  std::optional<krm::Json> namespace_document_;
  std::vector<Invocation> invocations_;
  std::vector<Fault> faults_;
  bool again_ = false, changed_ = false, invocation_changed_ = false;
  std::set<std::string> asked_before_, asked_again_;  ///< keys
};

}  // namespace kintsugi::kinds
