#include "kinds/builtin_admission.h"

#include <memory>
#include <utility>

#include "kinds/internal/namespace_admission.h"
#include "kinds/policies/mutation_admission.h"
#include "kinds/policies/policy_admission.h"
#include "kinds/policies/webhooks/webhook_admission.h"
#include "kinds/quota/quota_admission.h"

namespace kintsugi::kinds {

void install_builtin_admission(apiserver::ServerParams& params, BuiltinAdmission options) {
  const AdmissionScope scope{std::move(options.is_system_kind), std::move(options.rules_of_bound)};
  const auto calls = std::make_shared<WebhookCalls>(params.loop, options.outgoing);
  auto& steps = params.admission;
  steps.push_back(std::make_unique<NamespaceAdmission>(params.store, params.registry));
  steps.push_back(std::make_unique<MutationAdmission>(params.loop, params.registry,
                                                      params.authorizer, scope, calls));
  steps.push_back(
      std::make_unique<PolicyAdmission>(params.loop, params.registry, params.authorizer, scope));
  steps.push_back(std::make_unique<WebhookAdmission>(params.loop, params.registry,
                                                     params.authorizer, scope, calls));
  steps.push_back(std::make_unique<QuotaAdmission>(params.store));
}

}  // namespace kintsugi::kinds
