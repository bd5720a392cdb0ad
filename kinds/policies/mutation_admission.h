#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "apiserver/server.h"
#include "auth/authorizer.h"
#include "base/alive.h"
#include "kinds/policies/internal/admission_scope.h"
#include "kinds/policies/internal/policy_index.h"
#include "kinds/policies/policy_names.h"
#include "kinds/policies/webhooks/webhook_calls.h"
#include "kinds/policies/webhooks/webhook_index.h"
#include "net/loop.h"

namespace kintsugi::kinds {

/// Lets the MutatingAdmissionPolicies whose scope includes a write change it, then the mutating
/// webhooks, one after another, and those with reinvocationPolicy IfNeeded once more when somebody
/// has changed the object after them.
/// Threads: one loop. Cost: a look-up a write in a cluster without any.
class MutationAdmission final : public apiserver::AdmissionStep {
 public:
  /// All outlive it. @param calls  shared with others of the loop
  MutationAdmission(net::Loop& loop, const apiserver::Registry& registry,
                    auth::Authorizer& authorizer, AdmissionScope scope,
                    std::shared_ptr<WebhookCalls> calls)
      : loop_(loop),
        registry_(registry),
        authorizer_(authorizer),
        scope_(std::move(scope)),
        calls_(std::move(calls)) {}

  void start(apiserver::ApiServer& server) override;
  [[nodiscard]] bool may_change(const apiserver::PendingWrite& write) const override;
  void mutate(const apiserver::PendingWritePtr& write, apiserver::Review review,
              std::function<void(Expected<apiserver::Changed>)> done) override;

 private:
  net::Loop& loop_;
  const apiserver::Registry& registry_;
  auth::Authorizer& authorizer_;
  AdmissionScope scope_;
  std::shared_ptr<WebhookCalls> calls_;
  apiserver::ApiServer* server_ = nullptr;
  MutatingPolicyIndex policies_{kMutatingPolicies, kMutatingPolicyBindings};
  WebhookIndex webhooks_{true};
  Alive alive_;
};

}  // namespace kintsugi::kinds
