#include "controlplane/catalog/shard_kinds.h"

#include <memory>
#include <utility>

#include "controlplane/admission/binding_admission.h"
#include "controlplane/admission/cached_resource_admission.h"
#include "controlplane/admission/export_admission.h"
#include "controlplane/admission/logical_cluster_admission.h"
#include "controlplane/admission/migration_admission.h"
#include "controlplane/admission/workspace_admission.h"
#include "controlplane/admission/workspace_type_admission.h"
#include "controlplane/internal/names.h"
#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

apiserver::ResourcePtr logical_clusters() {
  apiserver::ResourceDef def = *logical_cluster_kind();
  def.hooks.prepare = [](const apiserver::WriteContext&, Json& object, const Json* old) {
    prepare_logical_cluster(object, old);
  };
  def.hooks.approve = approve_logical_cluster;
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

apiserver::ResourcePtr workspaces(const ShardKindContext& context) {
  apiserver::ResourceDef def = *workspace_kind();
  const WorkspaceTypeLookup& types = context.types;
  auth::Authorizer& authorizer = context.authorizer;
  def.hooks.prepare = [&types](const apiserver::WriteContext& write, Json& object,
                               const Json* old) { prepare_workspace(types, write, object, old); };
  def.hooks.admit = [&types](const apiserver::WriteContext& write, const Json* object,
                             const Json* old, apiserver::Hooks::AdmitDone done) {
    admit_workspace(types, write, object, old, std::move(done));
  };
  def.hooks.approve = [&types, &authorizer](const apiserver::WriteContext& write,
                                            const Json* object, const Json* old,
                                            apiserver::Hooks::AdmitDone done) {
    approve_workspace(types, authorizer, write, object, old, std::move(done));
  };
  def.hooks.computed = [&homes = context.homes](const auth::UserInfo& user,
                                                std::string_view cluster, std::string_view name,
                                                const apiserver::Hooks::GetDone& done) {
    return homes.get(user, cluster, name, done);
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

apiserver::ResourcePtr workspace_types(const ShardKindContext& context) {
  apiserver::ResourceDef def = *workspace_type_kind();
  def.hooks.prepare = [](const apiserver::WriteContext& write, Json& object, const Json*) {
    prepare_workspace_type(write, object);
  };
  def.hooks.admit = admit_workspace_type;
  def.hooks.approve = [&index = context.index, &catalog = context.catalog,
                       &authorizer = context.authorizer](const apiserver::WriteContext& write,
                                                         const Json* object, const Json* old,
                                                         apiserver::Hooks::AdmitDone done) {
    approve_workspace_type(index, catalog, authorizer, write, object, old, std::move(done));
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

apiserver::ResourcePtr api_exports() {
  apiserver::ResourceDef def = *api_export_kind();
  const auto before = def.hooks.prepare;
  def.hooks.prepare = [before](const apiserver::WriteContext& context, Json& object,
                               const Json* old) {
    if (before) {
      before(context, object, old);
    }
    if (context.subresource.empty() && context.verb != "delete" &&
        !object.text({"spec", "identity", "secretRef", "name"}).empty() &&
        object.text({"spec", "identity", "secretRef", "namespace"}).empty()) {
      object.make({"spec", "identity", "secretRef", "namespace"}) = "kcp-system";
    }
  };
  def.hooks.approve = approve_export;
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

apiserver::ResourcePtr api_bindings(const ShardKindContext& context) {
  apiserver::ResourceDef def = *api_binding_kind();
  const ApiCatalog& catalog = context.catalog;
  auth::Authorizer& authorizer = context.authorizer;
  def.hooks.prepare = prepare_binding;
  def.hooks.admit = [&catalog, &authorizer](const apiserver::WriteContext& write,
                                            const Json* object, const Json* old,
                                            apiserver::Hooks::AdmitDone done) {
    admit_binding(catalog, authorizer, write, object, old, std::move(done));
  };
  def.hooks.approve = [&authorizer, may_escalate = context.claims_escalation](
                          const apiserver::WriteContext& write, const Json* object, const Json* old,
                          apiserver::Hooks::AdmitDone done) {
    approve_binding(may_escalate ? nullptr : &authorizer, write, object, old, std::move(done));
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

apiserver::ResourcePtr migrations(const ShardKindContext& context) {
  apiserver::ResourceDef def = *migration_kind();
  def.hooks.approve = [root = context.root, refuses = context.refuses](
                          const apiserver::WriteContext& write, const Json* object, const Json* old,
                          apiserver::Hooks::AdmitDone done) {
    approve_migration(root, refuses, write, object, old, std::move(done));
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

apiserver::ResourcePtr cached_resources(const ShardKindContext& context) {
  apiserver::ResourceDef def = *cached_resource_kind();
  def.hooks.approve = [registry = context.registry, &authorizer = context.authorizer](
                          const apiserver::WriteContext& write, const Json* object, const Json* old,
                          apiserver::Hooks::AdmitDone done) {
    approve_cached_resource(registry(), authorizer, write, object, old, std::move(done));
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

}  // namespace

std::vector<kinds::StaticPlusCrdRegistry::StaticKind> shard_kinds(const ShardKindContext& context) {
  const auto in_root = [](std::string_view cluster) { return cluster == kRootCluster; };
  return {{api_bindings(context), {}}, {api_conversion_kind(), {}},
          {api_exports(), {}},         {with_reserved_groups(api_resource_schema_kind()), {}},
          {cached_slice_kind(), {}},   {cached_resources(context), {}},
          {logical_clusters(), {}},    {migrations(context), in_root},
          {shard_kind(), in_root},     {workspace_authentication_kind(), {}},
          {workspaces(context), {}},   {workspace_types(context), {}}};
}

}  // namespace kintsugi::controlplane
