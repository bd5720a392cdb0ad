#include "apiserver/shard/binding_admission.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "apiserver/shard/binding_status.h"
#include "apiserver/shard/bound_schema.h"
#include "apiserver/shard/names.h"
#include "base/strings.h"
#include "krm/status.h"

namespace kintsugi::apiserver {
namespace {

using krm::Json;

Error refused(std::string_view name, std::string_view text) {
  return krm::forbidden(kApisGroup, kApiBindings, name, text);
}

/// Admission of the reference comes before a name is made.
std::string shown_name(const WriteContext& context, const Json& object) {
  return std::string(object.text({"metadata", context.generated_name ? "generateName" : "name"}));
}

/// The cluster in which the right to bind is asked. Of root, the export need not be known.
std::optional<std::string> export_cluster(const ApiCatalog& catalog, std::string_view cluster,
                                          const Json& binding) {
  const std::string_view path = binding.text({"spec", "reference", "export", "path"});
  if (path.empty()) {
    return std::string(cluster);
  }
  if (path == kRootCluster) {
    return std::string(kRootCluster);
  }
  const std::optional<ExportRef> ref =
      catalog.find_export(cluster, path, binding.text({"spec", "reference", "export", "name"}));
  return ref ? std::optional(ref->cluster) : std::nullopt;
}

std::size_t size_of(const Json& claim, std::string_view member) {
  const Json* value = claim.at({"selector", member});
  return value == nullptr ? 0 : value->size();
}

/// Faults of claims that the schema cannot say, as kcp prints lists of them.
std::vector<std::string> claim_faults(const Json& binding) {
  std::vector<std::string> faults;
  const Json* claims = binding.at({"spec", "permissionClaims"});
  for (std::size_t i = 0; claims != nullptr && i < claims->items().size(); ++i) {
    const Json& claim = claims->items()[i];
    const std::string field = "spec.permissionClaims[" + std::to_string(i) + "].selector";
    const Json* all = claim.at({"selector", "matchAll"});
    if (all == nullptr || !all->as_bool()) {
      if (size_of(claim, "matchLabels") == 0 && size_of(claim, "matchExpressions") == 0) {
        faults.push_back(
            field +
            ": Required value: either one of matchAll, matchLabels, or matchExpressions must be "
            "set");
      }
      continue;
    }
    for (const char* member : {"matchLabels", "matchExpressions"}) {
      if (size_of(claim, member) > 0) {
        faults.push_back(field + "." + member +
                         ": Invalid value: " + claim.find("selector")->dump() + ": " + member +
                         " cannot be used with matchAll");
      }
    }
  }
  return faults;
}

bool same_reference(const Json& a, const Json& b) {
  const Json* left = a.at({"spec", "reference"});
  const Json* right = b.at({"spec", "reference"});
  return (left == nullptr) == (right == nullptr) && (left == nullptr || *left == *right);
}

/// Whoever could write what is bound would put objects among those of an export without the right
/// to bind it.
bool forges_status(const WriteContext& context, const Json& binding, const Json& old) {
  const auto differs = [&](std::string_view member) {
    const Json* now = binding.at({"status", member});
    const Json* before = old.at({"status", member});
    return (now == nullptr) != (before == nullptr) || (now != nullptr && !(*now == *before));
  };
  return !context.user.in_group(auth::kGroupMasters) &&
         (differs("boundResources") || differs("apiExportClusterName"));
}

}  // namespace

void prepare_binding(const WriteContext& context, Json& binding, const Json* old) {
  if (context.verb == "delete" || !context.subresource.empty()) {
    return;
  }
  if (old == nullptr) {
    if (!has_finalizer(binding, kBindingFinalizer)) {
      binding.make({"metadata", "finalizers"}).push_back(Json(kBindingFinalizer));
    }
    return;
  }
  const std::optional<Json> stored = context.reader.get(context.cluster, kApisGroup, kApiBindings,
                                                        "", binding.text({"metadata", "name"}));
  if (const Json* status = stored ? stored->find("status") : nullptr) {
    binding["status"] = *status;
  }
}

void admit_binding(const ApiCatalog& catalog, auth::Authorizer& authorizer,
                   const WriteContext& context, const Json* binding, const Json* old,
                   Hooks::AdmitDone done) {
  if (binding == nullptr || context.verb == "delete") {
    done({});
    return;
  }
  if (!context.subresource.empty()) {
    if (old != nullptr && forges_status(context, *binding, *old)) {
      done(fail(refused(shown_name(context, *binding),
                        "status.boundResources and status.apiExportClusterName are set by the "
                        "system")));
    } else {
      done({});
    }
    return;
  }
  const std::string name = shown_name(context, *binding);
  if (binding->at({"spec", "reference"}) == nullptr) {
    done({});  // the schema requires it
    return;
  }
  const bool has_export = binding->at({"spec", "reference", "export"}) != nullptr;
  const bool changed = old == nullptr || !same_reference(*binding, *old);
  const std::string_view path = binding->text({"spec", "reference", "export", "path"});
  const std::string_view export_name = binding->text({"spec", "reference", "export", "name"});
  const std::string no_permission =
      "unable to " + std::string(old == nullptr ? "create" : "update") +
      " APIBinding: no permission to bind to export " +
      (path.empty() ? std::string(export_name)
                    : std::string(path) + ":" + std::string(export_name));
  const std::optional<std::string> cluster =
      has_export ? export_cluster(catalog, context.cluster, *binding) : std::nullopt;
  if (has_export && changed && !cluster) {
    done(fail(refused(name, no_permission)));
    return;
  }
  std::vector<std::string> faults = claim_faults(*binding);
  if (!has_export) {
    faults.insert(faults.begin(), "spec.reference.export: Required value");
  }
  if (!faults.empty()) {
    done(fail(refused(name, "[" + join(faults, ", ") + "]")));
    return;
  }
  if (old != nullptr) {
    done({});  // a changed reference is refused by the schema's rule
    return;
  }
  auth::Attributes bind;
  bind.user = context.user;
  bind.cluster = *cluster;
  bind.verb = "bind";
  bind.group = kApisGroup;
  bind.version = "v1alpha1";
  bind.resource = kApiExports;
  bind.name = export_name;
  bind.deep = true;
  authorizer.authorize(
      bind, [name, no_permission, done = std::move(done)](Expected<auth::Decision> decision) {
        if (!decision) {
          done(fail(std::move(decision.error())));
        } else if (!decision->allowed) {
          done(fail(refused(name, no_permission)));
        } else {
          done({});
        }
      });
}

ResourcePtr with_reserved_groups(const ResourcePtr& definitions) {
  auto def = std::make_shared<ResourceDef>(*definitions);
  const auto inner = def->hooks.admit;
  def->hooks.admit = [inner](const WriteContext& context, const Json* object, const Json* old,
                             Hooks::AdmitDone done) {
    const std::string_view group =
        object == nullptr ? std::string_view() : object->text({"spec", "group"});
    if (old == nullptr && group.ends_with(".kcp.io") &&
        !context.user.in_group(auth::kGroupMasters)) {
      done(fail(krm::forbidden("apiextensions.k8s.io", "customresourcedefinitions",
                               object->text({"metadata", "name"}),
                               std::string(group) + " is a reserved group")));
    } else if (inner) {
      inner(context, object, old, std::move(done));
    } else {
      done({});
    }
  };
  return def;
}

}  // namespace kintsugi::apiserver
