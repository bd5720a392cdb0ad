#include "apiserver/shard/shard_kinds.h"

#include <memory>
#include <utility>

#include "apiserver/kcp_kinds/kcp_kinds.h"
#include "apiserver/shard/binding_admission.h"
#include "apiserver/shard/cluster_resolver.h"
#include "apiserver/shard/lifecycle.h"
#include "apiserver/shard/names.h"
#include "apiserver/shard/workspace_admission.h"
#include "krm/status.h"

namespace kintsugi::apiserver {
namespace {

using krm::Json;

/// Objects that others name by path carry the path of their cluster.
void set_path(ClusterIndex& index, const WriteContext& context, Json& object) {
  object.make({"metadata", "annotations", kPathAnnotation}) = index.path_of(context.cluster);
}

Error logical_cluster_forbidden(std::string_view text) {
  return krm::forbidden(kCoreGroup, kLogicalClusters, kClusterName, text);
}

/// AM-488, AM-490: made and deleted by the system only.
Expected<void> admit_logical_cluster(const WriteContext& context, const Json* object,
                                     const Json* old) {
  if (is_bootstrap_identity(context.user)) {
    return {};
  }
  if (old == nullptr) {
    // A wrong name is the validation's to tell.
    if (object->text({"metadata", "name"}) != kClusterName) {
      return {};
    }
    return fail(logical_cluster_forbidden("LogicalCluster cannot be created"));
  }
  if (object == nullptr) {
    const Json* deletable = old->at({"spec", "directlyDeletable"});
    if (deletable == nullptr || !deletable->as_bool()) {
      return fail(logical_cluster_forbidden("LogicalCluster cannot be deleted"));
    }
    return {};
  }
  return check_lifecycle(*object, *old);
}

ResourcePtr logical_clusters() {
  ResourceDef def = *logical_cluster_kind();
  def.hooks.prepare = [](const WriteContext&, Json& object, const Json*) {
    keep_lifecycle(object);
  };
  def.hooks.admit = [](const WriteContext& context, const Json* object, const Json* old,
                       Hooks::AdmitDone done) {
    done(admit_logical_cluster(context, object, old));
  };
  return std::make_shared<const ResourceDef>(std::move(def));
}

ResourcePtr workspaces(const ShardKindContext& context) {
  ResourceDef def = *workspace_kind();
  const WorkspaceTypeLookup& types = context.types;
  auth::Authorizer& authorizer = context.authorizer;
  def.hooks.prepare = [&types](const WriteContext& write, Json& object, const Json* old) {
    prepare_workspace(types, write, object, old);
  };
  def.hooks.admit = [&types, &authorizer](const WriteContext& write, const Json* object,
                                          const Json* old, Hooks::AdmitDone done) {
    admit_workspace(types, authorizer, write, object, old, std::move(done));
  };
  def.hooks.computed = [&homes = context.homes](const auth::UserInfo& user,
                                                std::string_view cluster, std::string_view name,
                                                const Hooks::GetDone& done) {
    return homes.get(user, cluster, name, done);
  };
  return std::make_shared<const ResourceDef>(std::move(def));
}

ResourcePtr workspace_types(ClusterIndex& index) {
  ResourceDef def = *workspace_type_kind();
  def.hooks.prepare = [&index](const WriteContext& context, Json& object, const Json*) {
    if (!context.subresource.empty()) {
      return;
    }
    set_path(index, context, object);
    if (object.at({"spec", "defaultChildWorkspaceType"}) == nullptr) {
      object.make({"spec", "defaultChildWorkspaceType"}) =
          Json::object({{"name", "universal"}, {"path", kRootCluster}});
    }
  };
  return std::make_shared<const ResourceDef>(std::move(def));
}

/// The identity says whose objects the export's virtual workspace shows: only the system, which has
/// seen the secret, sets it.
void keep_identity(const WriteContext& context, Json& object, const Json* old) {
  if (context.subresource != "status" || old == nullptr ||
      context.user.in_group(auth::kGroupMasters)) {
    return;
  }
  if (const Json* known = old->at({"status", "identityHash"})) {
    object.make({"status", "identityHash"}) = *known;
  } else if (Json* status = object.find("status")) {
    status->erase("identityHash");
  }
}

ResourcePtr api_exports(ClusterIndex& index) {
  ResourceDef def = *api_export_kind();
  const auto before = def.hooks.prepare;
  def.hooks.prepare = [&index, before](const WriteContext& context, Json& object, const Json* old) {
    if (before) {
      before(context, object, old);
    }
    keep_identity(context, object, old);
    if (!context.subresource.empty() || context.verb == "delete") {
      return;
    }
    set_path(index, context, object);
    if (!object.text({"spec", "identity", "secretRef", "name"}).empty() &&
        object.text({"spec", "identity", "secretRef", "namespace"}).empty()) {
      object.make({"spec", "identity", "secretRef", "namespace"}) = "kcp-system";
    }
  };
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
  return std::make_shared<const ResourceDef>(std::move(def));
}

}  // namespace

std::vector<StaticPlusCrdRegistry::StaticKind> shard_kinds(const ShardKindContext& context) {
  const auto in_root = [](std::string_view cluster) { return cluster == kRootCluster; };
  return {{api_bindings(context), {}},      {api_exports(context.index), {}},
          {api_resource_schema_kind(), {}}, {logical_clusters(), {}},
          {shard_kind(), in_root},          {workspace_authentication_kind(), {}},
          {workspaces(context), {}},        {workspace_types(context.index), {}}};
}

}  // namespace kintsugi::apiserver
