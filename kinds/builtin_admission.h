#pragma once

#include <functional>

#include "apiserver/resource.h"
#include "apiserver/server.h"

/// What builtin kinds have to say about writes of all kinds.
namespace kintsugi::kinds {

struct BuiltinAdmission {
  /// Kinds that no tenant's ValidatingAdmissionPolicy may refuse. Empty: there are none.
  std::function<bool(const apiserver::ResourceDef&)> is_system_kind;
};

/// Adds to params.admission, in this order: namespaces (a new object's exists and stays),
/// ValidatingAdmissionPolicies, ResourceQuotas. The parts of `params` outlive the server.
void install_builtin_admission(apiserver::ServerParams& params, BuiltinAdmission options = {});

}  // namespace kintsugi::kinds
