#include "apiserver/shard/workspace_admission.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/shard/names.h"
#include "apiserver/shard/shard_kinds.h"
#include "auth/user_document.h"
#include "base/strings.h"
#include "krm/status.h"

namespace kintsugi::apiserver {
namespace {

using krm::Json;

Json universal() { return Json::object({{"name", "universal"}, {"path", kRootCluster}}); }

/// Types that every authenticated user may use, as kcp's bootstrap policy says.
bool is_open_type(const FoundType& type) {
  return type.path == kRootCluster &&
         (type.name == "universal" || type.name == "organization" || type.name == "team");
}

Error refused(const Json& workspace, std::string_view text) {
  return krm::forbidden(kTenancyGroup, kWorkspaces, workspace.text({"metadata", "name"}), text);
}

bool is_none(const Json& type, std::string_view limit) {
  const Json* none = type.at({"spec", limit, "none"});
  return none != nullptr && none->as_bool();
}

std::vector<std::string> allowed_by(const Json& type, std::string_view limit) {
  std::vector<std::string> names;
  if (const Json* list = type.at({"spec", limit, "types"})) {
    for (const Json& reference : list->items()) {
      names.push_back(std::string(reference.text({"path"})) + ":" +
                      std::string(reference.text({"name"})));
    }
  }
  return names;
}

bool any_in(const std::vector<FoundType>& types, const std::vector<std::string>& names) {
  return std::any_of(types.begin(), types.end(), [&](const FoundType& type) {
    return std::find(names.begin(), names.end(), type.full_name()) != names.end();
  });
}

std::string names_of(const std::vector<FoundType>& types) {
  std::vector<std::string> names;
  for (const FoundType& type : types) {
    names.push_back(type.full_name());
  }
  return "[" + join(names, " ") + "]";
}

/// One direction: whether `limited` lets the `others` be its children or parents.
Expected<void> check_limit(const Json& workspace, const std::vector<FoundType>& limited,
                           const std::vector<FoundType>& others, std::string_view limit,
                           std::string_view role) {
  for (const FoundType& type : limited) {
    if (is_none(type.object, limit)) {
      return fail(refused(workspace, "workspace type " + type.full_name() + " cannot have any " +
                                         std::string(role)));
    }
    const std::vector<std::string> allowed = allowed_by(type.object, limit);
    if (!allowed.empty() && !any_in(others, allowed)) {
      return fail(refused(workspace, "workspace type " + type.full_name() + " only allows [" +
                                         join(allowed, " ") + "] " + std::string(role) +
                                         " workspace types, but only has " + names_of(others)));
    }
  }
  return {};
}

Expected<void> check_mount(const Json& workspace) {
  for (const std::string_view field : {"kind", "name"}) {
    if (workspace.text({"spec", "mount", "ref", field}).empty()) {
      return fail(refused(workspace, "spec.mount." + std::string(field) + " must be set"));
    }
  }
  return {};
}

Expected<FoundType> find_type(const WorkspaceTypeLookup& types, const WriteContext& context,
                              const Json& workspace) {
  const std::string_view name = workspace.text({"spec", "type", "name"});
  const std::string_view path = workspace.text({"spec", "type", "path"});
  if (path.empty()) {
    if (std::optional<FoundType> found = types.resolve(context.reader, context.cluster, name)) {
      return std::move(*found);
    }
    return fail(
        refused(workspace, "workspace type \"" + std::string(name) + "\" cannot be resolved"));
  }
  if (std::optional<FoundType> found = types.find(context.reader, path, name)) {
    return std::move(*found);
  }
  return fail(refused(workspace, "Internal error occurred: workspacetypes.tenancy.kcp.io \"" +
                                     std::string(path) + ":" + std::string(name) + "\" not found"));
}

Expected<void> check_limits(const WorkspaceTypeLookup& types, const WriteContext& context,
                            const Json& workspace, const FoundType& type) {
  const std::optional<FoundType> parent = types.type_of(context.reader, context.cluster);
  if (!parent) {
    return {};
  }
  const std::vector<FoundType> parents = types.with_extended(context.reader, *parent);
  const std::vector<FoundType> children = types.with_extended(context.reader, type);
  if (Expected<void> fits =
          check_limit(workspace, parents, children, "limitAllowedChildren", "child");
      !fits) {
    return fits;
  }
  return check_limit(workspace, children, parents, "limitAllowedParents", "parent");
}

/// A new workspace asks for the same groups as its parent; only masters may say otherwise.
void inherit_required_groups(const WriteContext& context, Json& workspace) {
  const bool is_set =
      workspace.at({"metadata", "annotations", kRequiredGroupsAnnotation}) != nullptr;
  if (is_set && context.user.in_group(auth::kGroupMasters)) {
    return;
  }
  const std::optional<Json> parent =
      context.reader.get(context.cluster, kCoreGroup, kLogicalClusters, "", kClusterName);
  const std::string groups = parent ? annotation(*parent, kRequiredGroupsAnnotation) : "";
  if (!groups.empty()) {
    workspace.make({"metadata", "annotations", kRequiredGroupsAnnotation}) = groups;
  } else if (is_set) {
    workspace.make({"metadata", "annotations"}).erase(kRequiredGroupsAnnotation);
  }
}

}  // namespace

void prepare_workspace(const WorkspaceTypeLookup& types, const WriteContext& context,
                       Json& workspace, const Json* old) {
  if (old != nullptr || !context.subresource.empty()) {
    return;
  }
  workspace.make({"status", "phase"}) = "Scheduling";
  workspace.make({"metadata", "annotations", kOwnerAnnotation}) =
      user_document(context.user).dump();
  inherit_required_groups(context, workspace);
  if (workspace.at({"spec", "mount"}) != nullptr) {
    return;
  }
  if (workspace.text({"spec", "type", "name"}).empty()) {
    const std::optional<FoundType> parent = types.type_of(context.reader, context.cluster);
    const Json* standard =
        parent ? parent->object.at({"spec", "defaultChildWorkspaceType"}) : nullptr;
    workspace.make({"spec", "type"}) = standard != nullptr ? *standard : universal();
  }
  const Expected<FoundType> type = find_type(types, context, workspace);
  if (!type) {
    return;  // admission says so
  }
  workspace.make({"spec", "type", "path"}) = type->path;
  for (const FoundType& one : types.with_extended(context.reader, *type)) {
    const Json* labels = one.object.at({"spec", "additionalWorkspaceLabels"});
    if (labels == nullptr) {
      continue;
    }
    for (const krm::JsonMember& label : labels->members()) {
      if (workspace.at({"metadata", "labels", label.key}) == nullptr) {
        workspace.make({"metadata", "labels", label.key}) = label.value;
      }
    }
  }
}

void admit_workspace(const WorkspaceTypeLookup& types, auth::Authorizer& authorizer,
                     const WriteContext& context, const Json* workspace, const Json* old,
                     Hooks::AdmitDone done) {
  if (old != nullptr || workspace == nullptr) {
    done({});
    return;
  }
  if (workspace->at({"spec", "mount"}) != nullptr) {
    done(check_mount(*workspace));
    return;
  }
  Expected<FoundType> type = find_type(types, context, *workspace);
  if (!type) {
    done(fail(std::move(type.error())));
    return;
  }
  if (Expected<void> fits = check_limits(types, context, *workspace, *type); !fits) {
    done(std::move(fits));
    return;
  }
  if (is_open_type(*type)) {
    done({});
    return;
  }
  auth::Attributes use;
  use.user = context.user;
  use.cluster = type->cluster;
  use.verb = "use";
  use.group = kTenancyGroup;
  use.version = "v1alpha1";
  use.resource = kWorkspaceTypes;
  use.name = type->name;
  use.deep = true;  // also who may not enter that cluster may use what it offers
  const std::string name(workspace->text({"metadata", "name"}));
  authorizer.authorize(use, [name, full_name = type->full_name(),
                             done = std::move(done)](Expected<auth::Decision> decision) {
    if (!decision) {
      done(fail(std::move(decision.error())));
    } else if (!decision->allowed) {
      done(fail(krm::forbidden(kTenancyGroup, kWorkspaces, name,
                               "unable to use workspacetype " + full_name +
                                   ": missing verb='use' permission on workspacetype")));
    } else {
      done({});
    }
  });
}

}  // namespace kintsugi::apiserver
