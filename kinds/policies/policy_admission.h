#pragma once

#include <functional>
#include <utility>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "apiserver/server.h"
#include "auth/authorizer.h"
#include "base/alive.h"
#include "kinds/policies/internal/admission_scope.h"
#include "kinds/policies/internal/policy_index.h"
#include "kinds/policies/policy_names.h"
#include "net/loop.h"

namespace kintsugi::kinds {

/// Asks the ValidatingAdmissionPolicies whose scope includes a write (AM-334, KK-222), once the
/// write was found valid. Warnings and audit annotations are left in PendingWrite::notes. Threads:
/// one loop. Cost: two look-ups a write in a cluster without policies.
class PolicyAdmission final : public apiserver::AdmissionStep {
 public:
  /// All outlive it.
  PolicyAdmission(net::Loop& loop, const apiserver::Registry& registry,
                  auth::Authorizer& authorizer, AdmissionScope scope)
      : loop_(loop), registry_(registry), authorizer_(authorizer), scope_(std::move(scope)) {}

  void start(apiserver::ApiServer& server) override;
  [[nodiscard]] bool concerns(const apiserver::PendingWrite& write) const override;
  void review(const apiserver::PendingWritePtr& write, apiserver::Review review,
              std::function<void(Expected<void>)> done) override;

 private:
  net::Loop& loop_;
  const apiserver::Registry& registry_;
  auth::Authorizer& authorizer_;
  AdmissionScope scope_;
  apiserver::ApiServer* server_ = nullptr;
  PolicyIndex policies_{kPolicies, kPolicyBindings};
  Alive alive_;
};

}  // namespace kintsugi::kinds
