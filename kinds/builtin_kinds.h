#pragma once

#include <vector>

#include "apiserver/resource.h"
#include "krm/json.h"

/// The kinds that every logical cluster of a shard has, and those that definitions add.
namespace kintsugi::kinds {

/// Namespaces, ConfigMaps, Secrets, ServiceAccounts, ResourceQuotas, Events (core and
/// events.k8s.io), admission policies and webhooks, Leases, RBAC and CustomResourceDefinitions
/// (AM-316), in discovery order: core first, then groups by name. Reviews and subresources with
/// answers of their own are added by their owners. Cost: builds new definitions at each call;
/// schemas are shared.
[[nodiscard]] std::vector<apiserver::ResourcePtr> builtin_kinds();

/// The resource that a CustomResourceDefinition serves, by its accepted names when its status has
/// them: versions in order of preference (v10, v2, v1, v1beta1, …), schemas, columns, selectable
/// fields, scale paths. Conditions are not looked at. Null when group, plural or kind is missing or
/// no version is marked for storage.
[[nodiscard]] apiserver::ResourcePtr resource_from_crd(const krm::Json& crd);

}  // namespace kintsugi::kinds
