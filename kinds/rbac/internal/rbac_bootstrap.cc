#include "kinds/rbac/internal/rbac_bootstrap.h"

#include <algorithm>
#include <utility>

#include "auth/effective_users.h"
#include "krm/annotations.h"
#include "krm/labels.h"

namespace kintsugi::kinds {
namespace {

using Texts = std::vector<std::string>;

const Texts kRead = {"get", "list", "watch"};
const Texts kWrite = {"create", "delete", "deletecollection", "patch", "update"};

PolicyRule resources(Texts groups, Texts names, Texts verbs) {
  return PolicyRule{std::move(verbs), std::move(groups), std::move(names), {}, {}};
}

PolicyRule urls(Texts paths, Texts verbs) {
  return PolicyRule{std::move(verbs), {}, {}, {}, std::move(paths)};
}

void append(PolicyRules& rules, const PolicyRules& more) {
  rules.insert(rules.end(), more.begin(), more.end());
}

PolicyRules view_rules() {
  return {
      resources({""},
                {"bindings",
                 "configmaps",
                 "endpoints",
                 "events",
                 "limitranges",
                 "namespaces",
                 "namespaces/status",
                 "persistentvolumeclaims",
                 "persistentvolumeclaims/status",
                 "pods",
                 "pods/log",
                 "pods/status",
                 "replicationcontrollers",
                 "replicationcontrollers/scale",
                 "replicationcontrollers/status",
                 "resourcequotas",
                 "resourcequotas/status",
                 "serviceaccounts",
                 "services",
                 "services/status"},
                kRead),
      resources({"discovery.k8s.io"}, {"endpointslices"}, kRead),
      resources({"apps"},
                {"controllerrevisions", "daemonsets", "daemonsets/status", "deployments",
                 "deployments/scale", "deployments/status", "replicasets", "replicasets/scale",
                 "replicasets/status", "statefulsets", "statefulsets/scale", "statefulsets/status"},
                kRead),
      resources({"autoscaling"}, {"horizontalpodautoscalers", "horizontalpodautoscalers/status"},
                kRead),
      resources({"batch"}, {"cronjobs", "cronjobs/status", "jobs", "jobs/status"}, kRead),
      resources({"policy"}, {"poddisruptionbudgets", "poddisruptionbudgets/status"}, kRead),
      resources({"networking.k8s.io"}, {"ingresses", "ingresses/status", "networkpolicies"},
                kRead)};
}

PolicyRules edit_rules() {
  PolicyRules rules = {
      resources({""},
                {"secrets", "services/proxy", "pods/attach", "pods/exec", "pods/portforward",
                 "pods/proxy"},
                kRead),
      resources({""}, {"serviceaccounts"}, {"impersonate"}),
      resources({""}, {"serviceaccounts/token", "pods/eviction"}, {"create"}),
      resources({""},
                {"configmaps", "events", "persistentvolumeclaims", "pods", "pods/attach",
                 "pods/exec", "pods/portforward", "pods/proxy", "replicationcontrollers",
                 "replicationcontrollers/scale", "secrets", "serviceaccounts", "services",
                 "services/proxy"},
                kWrite),
      resources({"apps"},
                {"daemonsets", "deployments", "deployments/rollback", "deployments/scale",
                 "replicasets", "replicasets/scale", "statefulsets", "statefulsets/scale"},
                kWrite),
      resources({"autoscaling"}, {"horizontalpodautoscalers"}, kWrite),
      resources({"batch"}, {"cronjobs", "jobs"}, kWrite),
      resources({"policy"}, {"poddisruptionbudgets"}, kWrite),
      resources({"networking.k8s.io"}, {"ingresses", "networkpolicies"}, kWrite),
      resources(
          {"coordination.k8s.io"}, {"leases"},
          {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})};
  append(rules, view_rules());
  return rules;
}

PolicyRules admin_rules() {
  PolicyRules rules = {
      resources({"authorization.k8s.io"}, {"localsubjectaccessreviews"}, {"create"}),
      resources(
          {"rbac.authorization.k8s.io"}, {"rolebindings", "roles"},
          {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})};
  append(rules, edit_rules());
  return rules;
}

PolicyRules everything() { return {resources({"*"}, {"*"}, {"*"}), urls({"*"}, {"*"})}; }

constexpr std::string_view kTenancyReader = "system:kcp:tenancy:reader";
constexpr std::string_view kTypesUser = "system:kcp:tenancy:workspacetypes:use";
constexpr std::string_view kExportsBinder = "system:kcp:tenancy:apiexports:bind";
constexpr std::string_view kHomeMaker = "system:kcp:home-clusterworkspace-create";

PolicyRule named(std::string group, std::string resource, Texts names, std::string verb) {
  return PolicyRule{
      {std::move(verb)}, {std::move(group)}, {std::move(resource)}, std::move(names), {}};
}

/// What controllers of kcp may do in clusters of their own shard.
PolicyRules logical_cluster_admin_rules() {
  return {resources({"core.kcp.io"}, {"logicalclusters", "logicalclusters/status"}, {"*"}),
          resources({"tenancy.kcp.io"}, {"workspaces"}, {"delete", "get", "update"}),
          urls({"/"}, {"access"})};
}

/// What shards of kcp may do in clusters of other shards.
PolicyRules external_logical_cluster_admin_rules() {
  return {
      resources({"core.kcp.io"}, {"logicalclusters", "logicalclusters/status"},
                {"delete", "get", "update"}),
      resources({"tenancy.kcp.io"}, {"workspaces"}, {"delete", "get", "patch", "update"}),
      resources({"tenancy.kcp.io"}, {"workspaceauthenticationconfigurations"}, {"get"}),
      resources({""}, {"secrets", "serviceaccounts"}, {"get"}),
      resources({"authorization.k8s.io"}, {"subjectaccessreviews"}, {"create"}),
      resources({"apis.kcp.io"}, {"apiexportendpointslices"}, kRead),
      resources({"apis.kcp.io"}, {"apiexportendpointslices/status"}, {"get", "patch", "update"}),
      resources({"apis.kcp.io"}, {"apibindings"}, {"list"}),
      resources({"apis.kcp.io"}, {"apiexports", "apiresourceschemas"}, {"get"}),
      resources({"cache.kcp.io"}, {"clustercachedresourceendpointslices"}, kRead),
      resources({"cache.kcp.io"}, {"clustercachedresourceendpointslices/status"},
                {"get", "patch", "update"}),
      resources({"migration.kcp.io"}, {"logicalclusterdumps"}, {"create"}),
      resources({"migration.kcp.io"}, {"logicalclustermigrations"}, {"get", "patch", "update"}),
      resources({"apiextensions.k8s.io"}, {"customresourcedefinitions"}, {"create", "get"}),
      urls({"/"}, {"access"})};
}

std::vector<BootstrapRole> make_roles() {
  const Texts health = {"/healthz", "/livez", "/readyz", "/version", "/version/"};
  Texts discovery = {"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"};
  discovery.insert(discovery.end(), health.begin(), health.end());
  std::sort(discovery.begin(), discovery.end());  // as the reference shows them (KK-333)
  std::vector<BootstrapRole> roles;
  roles.push_back({"cluster-admin", everything(), kToNone});
  roles.push_back({"admin", admin_rules(), kToAdmin | kToEdit | kToView});
  roles.push_back({"edit", edit_rules(), kToEdit | kToView});
  roles.push_back({"view", view_rules(), kToView});
  roles.push_back({"system:discovery", {urls(discovery, {"get"})}, kToNone});
  roles.push_back({"system:public-info-viewer", {urls(health, {"get"})}, kToNone});
  roles.push_back({"system:basic-user",
                   {resources({"authorization.k8s.io"},
                              {"selfsubjectaccessreviews", "selfsubjectrulesreviews"}, {"create"}),
                    resources({"authentication.k8s.io"}, {"selfsubjectreviews"}, {"create"})},
                   kToNone});
  roles.push_back({"system:service-account-issuer-discovery",
                   {urls({"/.well-known/openid-configuration", "/.well-known/openid-configuration/",
                          "/openid/v1/jwks", "/openid/v1/jwks/"},
                         {"get"})},
                   kToNone});
  roles.push_back({"system:auth-delegator",
                   {resources({"authentication.k8s.io"}, {"tokenreviews"}, {"create"}),
                    resources({"authorization.k8s.io"}, {"subjectaccessreviews"}, {"create"})},
                   kToNone});
  roles.push_back({std::string(kWorkspaceAccessRole), {urls({"/"}, {"access"})}, kToNone});
  roles.push_back({std::string(auth::kGroupExternalLogicalClusterAdmin),
                   external_logical_cluster_admin_rules(), kToNone});
  roles.push_back(
      {std::string(auth::kGroupLogicalClusterAdmin), logical_cluster_admin_rules(), kToNone});
  roles.push_back({std::string(auth::kGroupBootstrapper), everything(), kToNone});
  roles.push_back(
      {std::string(kTypesUser),
       {named("tenancy.kcp.io", "workspacetypes", {"organization", "team", "universal"}, "use")},
       kToNone});
  roles.push_back(
      {std::string(kExportsBinder),
       {named("apis.kcp.io", "apiexports", {"tenancy.kcp.io", "topology.kcp.io"}, "bind")},
       kToNone});
  roles.push_back(
      {std::string(kHomeMaker), {named("tenancy.kcp.io", "workspaces", {"~"}, "create")}, kToNone});
  roles.push_back({std::string(kTenancyReader),
                   {resources({"tenancy.kcp.io"}, {"workspaces", "workspacetypes"}, kRead),
                    resources({"core.kcp.io"}, {"logicalclusters"}, kRead)},
                   kToNone});
  roles.push_back({"system:kcp:metrics-reader", {urls({"/metrics"}, {"get"})}, kToNone});
  roles.push_back({"system:kintsugi:console-viewer", {urls({"/ui/api/v1/*"}, {"get"})}, kToNone});
  return roles;
}

/// @param role "": that of the binding's name.
Binding group_binding(std::string_view name, Texts groups, std::string_view role = {}) {
  Binding binding;
  binding.name = name;
  binding.role = role.empty() ? name : role;
  for (std::string& group : groups) {
    binding.subjects.push_back({Subject::Kind::kGroup, std::move(group), {}});
  }
  return binding;
}

}  // namespace

const std::vector<BootstrapRole>& bootstrap_roles() {
  static const std::vector<BootstrapRole> kRoles = make_roles();
  return kRoles;
}

const BootstrapRole* bootstrap_role(std::string_view name) {
  const std::vector<BootstrapRole>& roles = bootstrap_roles();
  const auto found = std::find_if(roles.begin(), roles.end(),
                                  [&](const BootstrapRole& role) { return role.name == name; });
  return found == roles.end() ? nullptr : &*found;
}

const std::vector<Binding>& bootstrap_bindings() {
  static const std::vector<Binding> kBindings = {
      group_binding("cluster-admin", {std::string(auth::kGroupMasters)}),
      group_binding(auth::kGroupKcpAdmin, {std::string(auth::kGroupKcpAdmin)}, "cluster-admin"),
      group_binding(auth::kGroupBootstrapper,
                    {std::string(auth::kGroupBootstrapper),
                     "apis.kcp.io:binding:" + std::string(auth::kGroupBootstrapper)}),
      group_binding(auth::kGroupLogicalClusterAdmin,
                    {std::string(auth::kGroupLogicalClusterAdmin)}),
      group_binding("system:discovery", {std::string(auth::kGroupAuthenticated)}),
      group_binding("system:basic-user", {std::string(auth::kGroupAuthenticated)}),
      group_binding("system:public-info-viewer", {std::string(auth::kGroupAuthenticated),
                                                  std::string(auth::kGroupUnauthenticated)}),
      group_binding("system:service-account-issuer-discovery", {"system:serviceaccounts"}),
      group_binding(auth::kGroupExternalLogicalClusterAdmin,
                    {std::string(auth::kGroupExternalLogicalClusterAdmin)}),
  };
  return kBindings;
}

const std::vector<Binding>& bootstrap_open_bindings() {
  static const std::vector<Binding> kBindings = {
      group_binding(kTypesUser, {std::string(auth::kGroupAuthenticated)}),
      group_binding(kExportsBinder, {std::string(auth::kGroupAuthenticated)}),
      group_binding(kHomeMaker, {std::string(auth::kGroupAuthenticated)})};
  return kBindings;
}

const std::vector<Binding>& bootstrap_reader_bindings() {
  static const std::vector<Binding> kBindings = {
      group_binding(kTenancyReader, {std::string(auth::kGroupAuthenticated)})};
  return kBindings;
}

std::vector<krm::Json> bootstrap_policy_objects() {
  using krm::Json;
  constexpr std::string_view kGroup = "rbac.authorization.k8s.io";
  const auto object_of = [](std::string_view kind, std::string_view name) {
    Json object = Json::object({{"apiVersion", "rbac.authorization.k8s.io/v1"}, {"kind", kind}});
    object.make({"metadata", "name"}) = name;
    object.make({"metadata", "labels", krm::kBootstrappingLabel}) = "rbac-defaults";
    object.make({"metadata", "annotations", krm::kAutoUpdateAnnotation}) = "true";
    return object;
  };
  std::vector<Json> objects;
  for (const BootstrapRole& role : bootstrap_roles()) {
    Json object = object_of("ClusterRole", role.name);
    object["rules"] = rules_to_json(role.rules);
    objects.push_back(std::move(object));
  }
  for (const Binding& binding : bootstrap_bindings()) {
    Json object = object_of("ClusterRoleBinding", binding.name);
    object["roleRef"] =
        Json::object({{"apiGroup", kGroup}, {"kind", "ClusterRole"}, {"name", binding.role}});
    Json subjects = Json::array();
    for (const Subject& subject : binding.subjects) {  // groups all
      subjects.push_back(
          Json::object({{"apiGroup", kGroup}, {"kind", "Group"}, {"name", subject.name}}));
    }
    object["subjects"] = std::move(subjects);
    objects.push_back(std::move(object));
  }
  return objects;
}

std::uint8_t aggregation_labels(const krm::Json& cluster_role) {
  unsigned bits = kToNone;
  const auto has = [&](std::string_view label) {
    return cluster_role.text({"metadata", "labels", label}) == "true";
  };
  bits |= has(krm::kAggregateToViewLabel) ? unsigned{kToView} : 0U;
  bits |= has(krm::kAggregateToEditLabel) ? unsigned{kToEdit} : 0U;
  bits |= has(krm::kAggregateToAdminLabel) ? unsigned{kToAdmin} : 0U;
  return static_cast<std::uint8_t>(bits);
}

}  // namespace kintsugi::kinds
