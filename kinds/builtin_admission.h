#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "apiserver/server.h"
#include "net/outgoing.h"

/// What builtin kinds have to say about writes of all kinds.
namespace kintsugi::kinds {

/// Under this name policies and webhooks are kept of which there are copies (replicas.h).
[[nodiscard]] std::string replicated_rules(std::string_view cluster);

struct BuiltinAdmission {
  /// Kinds about which no tenant's policy or webhook is asked. Empty: there are none.
  std::function<bool(const apiserver::ResourceDef&)> is_system_kind;
  /// Whose policies and webhooks are asked about a resource that has an identity: a logical cluster
  /// of this server, or replicated_rules() of another. Empty: that of the object.
  std::function<std::string(const apiserver::PendingWrite&)> rules_of_bound;
  /// Where webhooks may be; null: the defaults.
  std::shared_ptr<const net::OutgoingPolicy> outgoing;
};

/// Adds to params.admission, in this order: namespaces (a new object's exists and stays),
/// MutatingAdmissionPolicies, mutating webhooks, ValidatingAdmissionPolicies, validating webhooks,
/// ResourceQuotas. The parts of `params` outlive the server.
void install_builtin_admission(apiserver::ServerParams& params, BuiltinAdmission options = {});

}  // namespace kintsugi::kinds
