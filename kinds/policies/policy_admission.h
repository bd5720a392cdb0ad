#pragma once

#include <functional>
#include <utility>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "apiserver/server.h"
#include "auth/authorizer.h"
#include "kinds/policies/internal/policy_index.h"
#include "net/loop.h"

namespace kintsugi::kinds {

/// Asks the ValidatingAdmissionPolicies of a write's logical cluster (AM-334), once the write was
/// found valid. Warnings and audit annotations are left in PendingWrite::notes. Exempt are policies
/// and their bindings themselves, system kinds, and controllers but for those that delete what a
/// user's deletion reaches. Threads: one loop. Cost: two look-ups a write in a cluster without
/// policies.
class PolicyAdmission final : public apiserver::AdmissionStep {
 public:
  /// All outlive it. @param is_system_kind  exempt for everybody; empty: none.
  PolicyAdmission(net::Loop& loop, const apiserver::Registry& registry,
                  auth::Authorizer& authorizer,
                  std::function<bool(const apiserver::ResourceDef&)> is_system_kind)
      : loop_(loop),
        registry_(registry),
        authorizer_(authorizer),
        is_system_kind_(std::move(is_system_kind)) {}

  void start(apiserver::ApiServer& server) override;
  [[nodiscard]] bool concerns(const apiserver::PendingWrite& write) const override;
  void review(const apiserver::PendingWritePtr& write, apiserver::Review review,
              std::function<void(Expected<void>)> done) override;

 private:
  net::Loop& loop_;
  const apiserver::Registry& registry_;
  auth::Authorizer& authorizer_;
  std::function<bool(const apiserver::ResourceDef&)> is_system_kind_;
  apiserver::ApiServer* server_ = nullptr;
  PolicyIndex policies_;
};

}  // namespace kintsugi::kinds
