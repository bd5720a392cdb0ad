#include "controlplane/admission/workspace_admission.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "controlplane/admission/internal/typed_form.h"
#include "controlplane/admission/privileges.h"
#include "controlplane/catalog/shard_kinds.h"
#include "controlplane/controllers/owner_annotation.h"
#include "controlplane/internal/names.h"
#include "controlplane/kinds/kcp_kinds.h"
#include "krm/annotations.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

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

/// "[root:a root:b]", sorted.
std::string sorted_names(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return "[" + join(names, " ") + "]";
}

std::string names_of(const std::vector<FoundType>& types) {
  std::vector<std::string> names;
  for (const FoundType& type : types) {
    names.push_back(type.full_name());
  }
  return sorted_names(std::move(names));
}

/// One direction (KK-058, KK-059): whether the first of `limited`, with all that it extends, lets
/// the first of `others` be its child or parent.
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
      const std::string own = limited.front().full_name();
      const std::string by =
          type.full_name() == own ? "" : " extends " + type.full_name() + ", which";
      return fail(refused(
          workspace, "workspace type " + own + by + " only allows " + sorted_names(allowed) + " " +
                         std::string(role) + " workspaces, but " + std::string(role) + " type " +
                         others.front().full_name() + " only implements " + names_of(others)));
    }
  }
  return {};
}

struct DefaultType {
  Json reference;
  std::string fault;  ///< why there is none
};

/// The type of a workspace that names none: what its parent's type says (KK-043).
DefaultType default_type(const WorkspaceTypeLookup& types, const apiserver::WriteContext& context) {
  const std::string key(krm::kTypeAnnotation);
  const std::optional<Json> parent =
      context.reader.get(context.cluster, kCoreGroup, kLogicalClusters, "", kClusterName);
  if (!parent) {
    return {{},
            "workspace type cannot be resolved: logicalclusters.core.kcp.io \"cluster\" not found"};
  }
  const std::string own = annotation(*parent, krm::kTypeAnnotation);
  if (own.empty()) {
    return {{}, "annotation " + key + " on LogicalCluster must be set"};
  }
  const std::size_t colon = own.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == own.size()) {
    return {{}, "annotation " + key + " on LogicalCluster must be in the form of cluster:name"};
  }
  const std::optional<FoundType> type =
      types.find(context.reader, std::string_view(own).substr(0, colon),
                 std::string_view(own).substr(colon + 1));
  if (!type) {
    return {
        {},
        "parent type cannot be resolved: workspacetypes.tenancy.kcp.io \"" + own + "\" not found"};
  }
  const Json* child = type->object.at({"spec", "defaultChildWorkspaceType"});
  if (child == nullptr) {
    return {{}, "spec.defaultChildWorkspaceType of workspace type " + own + " must be set"};
  }
  return {*child, {}};
}

std::string missing_use(std::string_view type) {
  return "unable to use workspace type " + std::string(type) +
         ": missing verb='use' permission on workspacetype";
}

Expected<FoundType> find_type(const WorkspaceTypeLookup& types,
                              const apiserver::WriteContext& context, const Json& workspace) {
  const std::string_view name = workspace.text({"spec", "type", "name"});
  const std::string_view path = workspace.text({"spec", "type", "path"});
  if (name.empty()) {
    return fail(refused(workspace, default_type(types, context).fault));
  }
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
  // KK-332: what is not there looks like what one may not use.
  const std::string full = std::string(path) + ":" + std::string(name);
  const bool may_know = has_any(context.user, kSystem | kAdmin | kBootstrapper);
  return fail(refused(workspace, may_know
                                     ? "Internal error occurred: workspacetypes.tenancy.kcp.io \"" +
                                           full + "\" not found"
                                     : missing_use(full)));
}

/// The type and all that it extends. @error kForbidden a ring, or a base that is not there.
class Aliases {
 public:
  Aliases(const WorkspaceTypeLookup& types, const apiserver::WriteContext& context,
          const Json& workspace)
      : types_(types), context_(context), workspace_(workspace) {}

  Expected<std::vector<FoundType>> of(const FoundType& type) {
    if (Expected<void> added = add(type); !added) {
      return fail(std::move(added.error()));
    }
    return std::move(found_);
  }

 private:
  static constexpr std::size_t kMost = 64;

  Expected<void> add(const FoundType& type) {
    const std::string name = type.full_name();
    const bool rings = std::find(way_.begin(), way_.end(), name) != way_.end();
    way_.push_back(name);
    if (rings) {
      return fail(refused(workspace_, "circular dependency detected in workspace type " +
                                          way_.front() + ": " + join(way_, " -> ")));
    }
    const bool known = std::any_of(found_.begin(), found_.end(),
                                   [&](const FoundType& one) { return one.full_name() == name; });
    if (!known && found_.size() < kMost) {
      found_.push_back(type);
      if (Expected<void> below = add_bases(type); !below) {
        return below;
      }
    }
    way_.pop_back();
    return {};
  }

  Expected<void> add_bases(const FoundType& type) {
    const Json* bases = type.object.at({"spec", "extend", "with"});
    if (bases == nullptr) {
      return {};
    }
    for (const Json& reference : bases->items()) {
      const std::string_view given = reference.text({"path"});
      const std::string path(given.empty() ? std::string_view(type.path) : given);
      const std::string_view name = reference.text({"name"});
      const std::optional<FoundType> base = types_.find(context_.reader, path, name);
      if (!base) {
        return fail(
            refused(workspace_, "unable to find inherited workspace type " + std::string(name)));
      }
      if (Expected<void> added = add(*base); !added) {
        return added;
      }
    }
    return {};
  }

  const WorkspaceTypeLookup& types_;
  const apiserver::WriteContext& context_;
  const Json& workspace_;
  std::vector<FoundType> found_;
  std::vector<std::string> way_;
};

Expected<void> check_limits(const WorkspaceTypeLookup& types,
                            const apiserver::WriteContext& context, const Json& workspace,
                            const std::vector<FoundType>& children) {
  const std::optional<FoundType> parent = types.type_of(context.reader, context.cluster);
  if (!parent) {
    return {};
  }
  const std::vector<FoundType> parents = types.with_extended(context.reader, *parent);
  if (Expected<void> fits =
          check_limit(workspace, children, parents, "limitAllowedParents", "parent");
      !fits) {
    return fits;
  }
  return check_limit(workspace, parents, children, "limitAllowedChildren", "child");
}

/// "" when the parent asks for none.
std::string groups_of_parent(const apiserver::WriteContext& context) {
  const std::optional<Json> parent =
      context.reader.get(context.cluster, kCoreGroup, kLogicalClusters, "", kClusterName);
  return parent ? std::string(annotation(*parent, krm::kRequiredGroupsAnnotation)) : "";
}

/// A new workspace asks for the same groups as its parent; only masters may say otherwise.
void inherit_required_groups(const apiserver::WriteContext& context, Json& workspace) {
  const bool is_set =
      workspace.at({"metadata", "annotations", krm::kRequiredGroupsAnnotation}) != nullptr;
  if (is_set && has_any(context.user, kSystem)) {
    return;
  }
  const std::string groups = groups_of_parent(context);
  if (!groups.empty()) {
    workspace.make({"metadata", "annotations", krm::kRequiredGroupsAnnotation}) = groups;
  } else if (is_set) {
    workspace.make({"metadata", "annotations"}).erase(krm::kRequiredGroupsAnnotation);
  }
}

bool is_mount(const Json& workspace) { return workspace.at({"spec", "mount"}) != nullptr; }

bool differs(const Json& a, const Json& b, std::string_view field) {
  return a.text({"spec", field}) != b.text({"spec", field});
}

/// KK-050, KK-053: the place of a workspace is the system's to say, that of a mount too.
std::string changed_place(const apiserver::WriteContext& context, const Json& workspace,
                          const Json& old) {
  const bool system = has_any(context.user, kSystem);
  for (const std::string_view field : {"cluster", "URL"}) {
    if (!differs(workspace, old, field)) {
      continue;
    }
    if (field == "cluster" && workspace.text({"spec", field}).empty()) {
      return "spec.cluster cannot be unset";
    }
    if (!system) {
      return "spec." + std::string(field) + " can only be changed by system privileged users";
    }
  }
  return {};
}

std::string changed_type(const Json& workspace, const Json& old) {
  const Json* now = workspace.at({"spec", "type"});
  const Json* before = old.at({"spec", "type"});
  if ((now == nullptr) != (before == nullptr)) {
    return "spec.type is immutable";
  }
  if (now != nullptr && !(*now == *before)) {
    const Cause cause = krm::field_invalid("spec.type", *now, "field is immutable");
    return cause.field + ": " + cause.message;
  }
  return {};
}

/// KK-052, KK-054.
std::string changed_mount(const apiserver::WriteContext& context, const Json& workspace,
                          const Json& old) {
  if (!is_mount(old)) {
    return is_mount(workspace) ? "spec.mount is immutable" : "";
  }
  if (!is_mount(workspace)) {
    return "spec.mount cannot be unset";
  }
  for (const std::string_view field : {"kind", "name", "namespace", "apiVersion"}) {
    if (workspace.text({"spec", "mount", "ref", field}) !=
        old.text({"spec", "mount", "ref", field})) {
      return "spec.mount." + std::string(field) + " is immutable";
    }
  }
  const bool adds_type =
      workspace.at({"spec", "type"}) != nullptr && old.at({"spec", "type"}) == nullptr;
  return adds_type && !has_any(context.user, kSystem)
             ? "spec.type cannot be set for mounted workspaces"
             : "";
}

/// KK-048: what prepare_workspace has written is still there, whatever came behind it.
std::string forged_annotation(const apiserver::WriteContext& context, const Json& workspace) {
  const std::string owner = owner_annotation(context.user);
  if (annotation(workspace, krm::kOwnerAnnotation) != owner) {
    return "expected user annotation " + std::string(krm::kOwnerAnnotation) + "=" + owner;
  }
  const std::string groups = groups_of_parent(context);
  if (annotation(workspace, krm::kRequiredGroupsAnnotation) != groups) {
    return "missing required groups annotation " + std::string(krm::kRequiredGroupsAnnotation) +
           "=" + groups;
  }
  return {};
}

std::string new_workspace_fault(const apiserver::WriteContext& context, const Json& workspace) {
  const bool system = has_any(context.user, kSystem);
  if (!system && !workspace.text({"spec", "cluster"}).empty()) {
    return "spec.Cluster can only be set by system privileged users";
  }
  if (!system && !workspace.text({"spec", "URL"}).empty()) {
    return "spec.URL can only be set by system privileged users";
  }
  if (std::string forged = system ? "" : forged_annotation(context, workspace); !forged.empty()) {
    return forged;
  }
  if (!is_mount(workspace)) {
    return {};
  }
  for (const std::string_view field : {"kind", "name", "apiVersion"}) {
    if (workspace.text({"spec", "mount", "ref", field}).empty()) {
      return "spec.mount." + std::string(field) + " must be set";
    }
  }
  return workspace.at({"spec", "type"}) != nullptr && !system
             ? "spec.type cannot be set for mounted workspaces"
             : "";
}

/// KK-019: what is missing in the reference of a mount or in an expression is empty, so the schema
/// has it, and admission says what is wrong (KK-003, KK-049).
/// @returns false: something has another type, which is the schema's to say.
bool form_workspace(Json& workspace) {
  const krm::SchemaProperty* spec = workspace_kind()->storage_version().schema->property("spec");
  return to_typed_form(*spec->schema, workspace.make({"spec"}));
}

/// KK-051.
std::string status_fault(const Json& workspace, const Json& old) {
  const bool becomes_ready =
      workspace.text({"status", "phase"}) == "Ready" && old.text({"status", "phase"}) != "Ready";
  if (!becomes_ready || is_mount(workspace)) {
    return {};
  }
  for (const std::string_view field : {"cluster", "URL"}) {
    if (workspace.text({"spec", field}).empty()) {
      return "spec." + std::string(field) + " must be set for phase Ready";
    }
  }
  return {};
}

/// Asks for verb `use` of one type after the other.
struct UseCheck : std::enable_shared_from_this<UseCheck> {
  auth::Authorizer& authorizer;
  auth::UserInfo user;
  std::string name;  ///< of the workspace
  std::vector<FoundType> types;
  Expected<void> limits;  ///< what is said when all of them may be used
  apiserver::Hooks::AdmitDone done;

  UseCheck(auth::Authorizer& asked, auth::UserInfo who) : authorizer(asked), user(std::move(who)) {}

  void refuse(const std::string& text) {
    done(fail(krm::forbidden(kTenancyGroup, kWorkspaces, name, text)));
  }

  void ask(std::size_t next) {
    while (next < types.size() && is_open_type(types[next])) {
      ++next;
    }
    if (next == types.size()) {
      done(std::move(limits));
      return;
    }
    const FoundType& type = types[next];
    auth::Attributes use;
    use.user = user;
    use.cluster = type.cluster;
    use.verb = "use";
    use.group = kTenancyGroup;
    use.version = "v1alpha1";
    use.resource = kWorkspaceTypes;
    use.name = type.name;
    use.deep = true;  // also who may not enter that cluster may use what it offers
    authorizer.authorize(use, [self = shared_from_this(), next](Expected<auth::Decision> decision) {
      const std::string full = self->types[next].full_name();
      if (!decision) {
        self->refuse("unable to determine access to workspace type " + full + ": " +
                     std::string(decision.error().message()));
      } else if (!decision->allowed) {
        self->refuse(missing_use(full));
      } else {
        self->ask(next + 1);
      }
    });
  }
};

}  // namespace

void prepare_workspace(const WorkspaceTypeLookup& types, const apiserver::WriteContext& context,
                       Json& workspace, const Json* old) {
  if (old != nullptr || !context.subresource.empty()) {
    return;
  }
  workspace.make({"status", "phase"}) = "Scheduling";
  if (!has_any(context.user, kSystem) || annotation(workspace, krm::kOwnerAnnotation).empty()) {
    workspace.make({"metadata", "annotations", krm::kOwnerAnnotation}) =
        owner_annotation(context.user);
  }
  inherit_required_groups(context, workspace);
  if (!form_workspace(workspace) || is_mount(workspace)) {
    return;
  }
  if (workspace.text({"spec", "type", "name"}).empty()) {
    DefaultType standard = default_type(types, context);
    if (!standard.fault.empty()) {
      return;  // admission says so
    }
    workspace.make({"spec", "type"}) = std::move(standard.reference);
  }
  const Expected<FoundType> type = find_type(types, context, workspace);
  if (!type) {
    return;  // admission says so
  }
  if (workspace.text({"spec", "type", "path"}).empty()) {
    workspace.make({"spec", "type", "path"}) = type->path;
  }
  if (const Json* labels = type->object.at({"spec", "additionalWorkspaceLabels"})) {
    for (const krm::JsonMember& label : labels->members()) {
      if (workspace.at({"metadata", "labels", label.key}) == nullptr) {
        workspace.make({"metadata", "labels", label.key}) = label.value;
      }
    }
  }
}

void admit_workspace(const WorkspaceTypeLookup& types, const apiserver::WriteContext& context,
                     const Json* workspace, const Json* old, apiserver::Hooks::AdmitDone done) {
  Json formed = workspace == nullptr ? Json() : *workspace;
  if (old == nullptr && workspace != nullptr && !is_mount(*workspace) && form_workspace(formed)) {
    if (Expected<FoundType> type = find_type(types, context, *workspace); !type) {
      done(fail(std::move(type.error())));
      return;
    }
  }
  done({});
}

std::string workspace_fault(const apiserver::WriteContext& context, const Json& workspace,
                            const Json* old) {
  if (old == nullptr) {
    return new_workspace_fault(context, workspace);
  }
  if (context.subresource == "status") {
    return status_fault(workspace, *old);
  }
  std::string fault = changed_place(context, workspace, *old);
  if (fault.empty()) {
    fault = changed_mount(context, workspace, *old);
  }
  if (fault.empty()) {
    fault = changed_type(workspace, *old);
  }
  return fault;
}

void approve_workspace(const WorkspaceTypeLookup& types, auth::Authorizer& authorizer,
                       const apiserver::WriteContext& context, const Json* workspace,
                       const Json* old, apiserver::Hooks::AdmitDone done) {
  if (workspace == nullptr) {
    done({});
    return;
  }
  if (const std::string fault = workspace_fault(context, *workspace, old); !fault.empty()) {
    done(fail(refused(*workspace, fault)));
    return;
  }
  if (old != nullptr || is_mount(*workspace)) {
    done({});
    return;
  }
  Expected<FoundType> type = find_type(types, context, *workspace);
  if (!type) {
    done(fail(std::move(type.error())));
    return;
  }
  Expected<std::vector<FoundType>> aliases = Aliases(types, context, *workspace).of(*type);
  if (!aliases) {
    done(fail(std::move(aliases.error())));
    return;
  }
  auto check = std::make_shared<UseCheck>(authorizer, context.user);
  check->limits = check_limits(types, context, *workspace, *aliases);
  check->name = workspace->text({"metadata", "name"});
  check->types = std::move(*aliases);
  check->done = std::move(done);
  check->ask(0);
}

}  // namespace kintsugi::controlplane
