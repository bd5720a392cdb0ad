#include "workers/messaging/control/internal/tenant_wish.h"

#include "workers/messaging/control/internal/kinds.h"

namespace kintsugi::workers {

namespace {

/// The fields that the annotations say; null for one that they do not: a patch takes it out.
krm::Json spec_of(const MessagingSpace& wanted) {
  krm::Json out = krm::Json::object();
  krm::Json& plan = out["messagingPlanRef"];
  if (!wanted.plan.empty()) {
    plan["name"] = wanted.plan.name;
  }
  krm::Json& service = out["authenticationService"];
  if (!wanted.authentication_service.empty()) {
    service["name"] = wanted.authentication_service;
  }
  return out;
}

std::string object_of(const TenantWish& wish) {
  const Resource& kind = resource_of(MessagingKind::kTenant);
  krm::Json out =
      krm::Json::object({{"apiVersion", kind.group + "/" + kind.version}, {"kind", kind.kind}});
  krm::Json& metadata = out["metadata"];
  metadata["name"] = "default";
  metadata["namespace"] = wish.ns;
  metadata["ownerReferences"] = krm::Json::array({krm::Json::object(
      {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"name", wish.ns}, {"uid", wish.uid}})});
  krm::Json spec = spec_of(*wish.wanted);
  for (const std::string_view key : {"messagingPlanRef", "authenticationService"}) {
    if (spec.find(key)->is_null()) {
      spec.erase(key);
    }
  }
  out["spec"] = std::move(spec);
  return out.dump();
}

bool same(const MessagingSpace& has, const MessagingSpace& wanted) {
  return has.plan.name == wanted.plan.name && has.plan.ns.empty() &&
         has.authentication_service == wanted.authentication_service;
}

}  // namespace

TenantStep tenant_step(const TenantWish& wish) {
  using Kind = TenantStep::Kind;
  if (wish.deleting || wish.tenant_deleting || (wish.unknown_value && !wish.project) ||
      (wish.tenant != nullptr && !wish.tenant->owned)) {
    return {};
  }
  const bool wanted = wish.wanted != nullptr && !wish.project;
  if (wish.tenant == nullptr) {
    return wanted ? TenantStep{Kind::kCreate, object_of(wish)} : TenantStep{};
  }
  if (!wanted) {
    const krm::Json uid = krm::Json::object({{"uid", wish.tenant->id.uid}});
    return {
        Kind::kDelete,
        krm::Json::object({{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"preconditions", uid}})
            .dump()};
  }
  if (same(*wish.tenant, *wish.wanted)) {
    return {};
  }
  return {Kind::kPatch, krm::Json::object({{"spec", spec_of(*wish.wanted)}}).dump()};
}

}  // namespace kintsugi::workers
