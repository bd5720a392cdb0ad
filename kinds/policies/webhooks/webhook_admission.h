#pragma once

#include <functional>
#include <memory>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "apiserver/server.h"
#include "auth/authorizer.h"
#include "kinds/policies/internal/admission_scope.h"
#include "kinds/policies/webhooks/webhook_calls.h"
#include "kinds/policies/webhooks/webhook_index.h"
#include "net/loop.h"

namespace kintsugi::kinds {

/// Asks the validating webhooks whose scope includes a write, up to eight at once, when everybody
/// else has found it fine. The answer is that of the first one that refuses, in the order of
/// WebhookIndex. Threads: one loop. Cost: a look-up a write in a cluster without webhooks.
class WebhookAdmission final : public apiserver::AdmissionStep {
 public:
  /// All outlive it. @param calls  shared with others of the loop
  WebhookAdmission(net::Loop& loop, const apiserver::Registry& registry,
                   auth::Authorizer& authorizer, AdmissionScope scope,
                   std::shared_ptr<WebhookCalls> calls)
      : loop_(loop),
        registry_(registry),
        authorizer_(authorizer),
        scope_(std::move(scope)),
        calls_(std::move(calls)) {}

  void start(apiserver::ApiServer& server) override;
  [[nodiscard]] bool concerns(const apiserver::PendingWrite& write) const override;
  void review(const apiserver::PendingWritePtr& write, apiserver::Review review,
              std::function<void(Expected<void>)> done) override;

 private:
  net::Loop& loop_;
  const apiserver::Registry& registry_;
  auth::Authorizer& authorizer_;
  AdmissionScope scope_;
  std::shared_ptr<WebhookCalls> calls_;
  apiserver::ApiServer* server_ = nullptr;
  WebhookIndex webhooks_{false};
  Alive alive_;
};

}  // namespace kintsugi::kinds
