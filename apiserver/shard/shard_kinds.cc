#include "apiserver/shard/shard_kinds.h"

#include <memory>
#include <utility>

#include "apiserver/kcp_kinds/kcp_kinds.h"
#include "apiserver/shard/binding_admission.h"
#include "apiserver/shard/logical_cluster_admission.h"
#include "apiserver/shard/names.h"
#include "apiserver/shard/privileges.h"
#include "apiserver/shard/workspace_admission.h"
#include "apiserver/shard/workspace_type_admission.h"
#include "krm/status.h"

namespace kintsugi::apiserver {
namespace {

using krm::Json;

ResourcePtr logical_clusters() {
  ResourceDef def = *logical_cluster_kind();
  def.hooks.prepare = [](const WriteContext&, Json& object, const Json* old) {
    prepare_logical_cluster(object, old);
  };
  def.hooks.approve = approve_logical_cluster;
  return std::make_shared<const ResourceDef>(std::move(def));
}

ResourcePtr workspaces(const ShardKindContext& context) {
  ResourceDef def = *workspace_kind();
  const WorkspaceTypeLookup& types = context.types;
  auth::Authorizer& authorizer = context.authorizer;
  def.hooks.prepare = [&types](const WriteContext& write, Json& object, const Json* old) {
    prepare_workspace(types, write, object, old);
  };
  def.hooks.admit = [&types](const WriteContext& write, const Json* object, const Json* old,
                             Hooks::AdmitDone done) {
    admit_workspace(types, write, object, old, std::move(done));
  };
  def.hooks.approve = [&types, &authorizer](const WriteContext& write, const Json* object,
                                            const Json* old, Hooks::AdmitDone done) {
    approve_workspace(types, authorizer, write, object, old, std::move(done));
  };
  def.hooks.computed = [&homes = context.homes](const auth::UserInfo& user,
                                                std::string_view cluster, std::string_view name,
                                                const Hooks::GetDone& done) {
    return homes.get(user, cluster, name, done);
  };
  return std::make_shared<const ResourceDef>(std::move(def));
}

ResourcePtr workspace_types(const ShardKindContext& context) {
  ResourceDef def = *workspace_type_kind();
  def.hooks.prepare = [](const WriteContext& write, Json& object, const Json*) {
    prepare_workspace_type(write, object);
  };
  def.hooks.admit = admit_workspace_type;
  def.hooks.approve =
      [&index = context.index, &catalog = context.catalog, &authorizer = context.authorizer](
          const WriteContext& write, const Json* object, const Json* old, Hooks::AdmitDone done) {
        approve_workspace_type(index, catalog, authorizer, write, object, old, std::move(done));
      };
  return std::make_shared<const ResourceDef>(std::move(def));
}

/// The identity says whose objects the export's virtual workspace shows, and what a binding has
/// bound whose a resource is: only the system, which has seen the secret and asked for the right,
/// writes these (KK-143, KK-167), by whatever way a request comes here.
void approve_export(const WriteContext& context, const Json* object, const Json*,
                    const Hooks::AdmitDone& done) {
  if (object != nullptr && context.subresource == "status" && !has_any(context.user, kSystem)) {
    done(fail(krm::forbidden(kApisGroup, kApiExports, object->text({"metadata", "name"}),
                             "access denied")));
  } else {
    done({});
  }
}

ResourcePtr api_exports() {
  ResourceDef def = *api_export_kind();
  const auto before = def.hooks.prepare;
  def.hooks.prepare = [before](const WriteContext& context, Json& object, const Json* old) {
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
  return std::make_shared<const ResourceDef>(std::move(def));
}

ResourcePtr api_bindings(const ShardKindContext& context) {
  ResourceDef def = *api_binding_kind();
  const ApiCatalog& catalog = context.catalog;
  auth::Authorizer& authorizer = context.authorizer;
  def.hooks.prepare = prepare_binding;
  def.hooks.admit = [&catalog, &authorizer](const WriteContext& write, const Json* object,
                                            const Json* old, Hooks::AdmitDone done) {
    admit_binding(catalog, authorizer, write, object, old, std::move(done));
  };
  def.hooks.approve = [&authorizer, may_escalate = context.claims_escalation](
                          const WriteContext& write, const Json* object, const Json* old,
                          Hooks::AdmitDone done) {
    approve_binding(may_escalate ? nullptr : &authorizer, write, object, old, std::move(done));
  };
  return std::make_shared<const ResourceDef>(std::move(def));
}

}  // namespace

std::vector<StaticPlusCrdRegistry::StaticKind> shard_kinds(const ShardKindContext& context) {
  const auto in_root = [](std::string_view cluster) { return cluster == kRootCluster; };
  return {{api_bindings(context), {}},
          {api_exports(), {}},
          {with_reserved_groups(api_resource_schema_kind()), {}},
          {logical_clusters(), {}},
          {shard_kind(), in_root},
          {workspace_authentication_kind(), {}},
          {workspaces(context), {}},
          {workspace_types(context), {}}};
}

}  // namespace kintsugi::apiserver
