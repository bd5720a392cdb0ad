#include "kinds/builtin_admission.h"

#include <memory>
#include <utility>

#include "kinds/internal/namespace_admission.h"
#include "kinds/policies/policy_admission.h"
#include "kinds/quota/quota_admission.h"

namespace kintsugi::kinds {

void install_builtin_admission(apiserver::ServerParams& params, BuiltinAdmission options) {
  params.admission.push_back(std::make_unique<NamespaceAdmission>(params.store, params.registry));
  params.admission.push_back(std::make_unique<PolicyAdmission>(
      params.loop, params.registry, params.authorizer, std::move(options.is_system_kind)));
  params.admission.push_back(std::make_unique<QuotaAdmission>(params.store));
}

}  // namespace kintsugi::kinds
