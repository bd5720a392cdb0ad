#include "controlplane/controllers/internal/workspace_type_controller.h"

#include <set>
#include <utility>

#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/controllers/lifecycle.h"
#include "controlplane/internal/names.h"
#include "krm/path_prefixes.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
constexpr Duration kLookAgain = seconds(5);

apiserver::ObjectKey type_key(std::string_view cluster, std::string_view name) {
  return {std::string(cluster), std::string(kTenancyGroup), std::string(kWorkspaceTypes), "",
          std::string(name)};
}

}  // namespace

WorkspaceTypeController::WorkspaceTypeController(const apiserver::ControllerContext& context,
                                                 const WorkspaceTypeLookup& types, RootView& root)
    : apiserver::ControllerBase(context, "kintsugi-workspace-type"), types_(types), root_(root) {}

void WorkspaceTypeController::start() {
  follow(kTenancyGroup, kWorkspaceTypes, [this](const apiserver::ApiServer::Change& change) {
    if (change.object != nullptr) {
      queue_.add(type_key(change.cluster, change.name).pack());
    }
  });
  root_.listen([this] {
    reader().list("*", kTenancyGroup, kWorkspaceTypes, "", [this](const Json& type) {
      queue_.add(type_key(cluster_of(type), type.text({"metadata", "name"})).pack());
      return true;
    });
  });
}

Json WorkspaceTypeController::urls(const apiserver::ObjectKey& type) const {
  std::set<std::string> urls;
  for (const auto& [name, shard] : root_.shards()) {
    std::string_view base = shard.virtual_workspace_url;
    while (base.ends_with('/')) {
      base.remove_suffix(1);
    }
    if (base.empty()) {
      continue;
    }
    for (const Lifecycle lifecycle : {Lifecycle::kInitializing, Lifecycle::kTerminating}) {
      urls.insert(std::string(base) + std::string(krm::kServicesPrefix) +
                  std::string(lifecycle_names(lifecycle).virtual_workspace) + "/" + type.cluster +
                  ":" + type.name);
    }
  }
  Json list = Json::array();
  for (const std::string& url : urls) {
    list.push_back(Json::object({{"url", url}}));
  }
  return list;
}

void WorkspaceTypeController::add_cluster(std::string_view cluster) {
  reader().list(cluster, kTenancyGroup, kWorkspaceTypes, "", [&](const Json& type) {
    queue_.add(type_key(cluster, type.text({"metadata", "name"})).pack());
    return true;
  });
}

void WorkspaceTypeController::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  const std::optional<Json> type = get(key);
  if (!type || apiserver::is_deleted(*type)) {
    finished(true);
    return;
  }
  std::string missing;
  if (const Json* extended = type->at({"spec", "extend", "with"})) {
    for (const Json& reference : extended->items()) {
      const std::string_view path = reference.text({"path"});
      const std::string_view name = reference.text({"name"});
      const bool found = path.empty() ? types_.resolve(reader(), key.cluster, name).has_value()
                                      : types_.find(reader(), path, name).has_value();
      if (!found && missing.empty()) {
        missing = std::string(path) + ":" + std::string(name);
      }
    }
  }
  if (!missing.empty()) {
    queue_.add_once_after(text, kLookAgain);
  }
  Json updated = *type;
  if (root_.synced()) {
    updated.make({"status", "virtualWorkspaces"}) = urls(key);
    set_kcp_condition(updated, "VirtualWorkspaceURLsReady", "True");
  }
  if (missing.empty()) {
    set_kcp_condition(updated, "Ready", "True");
  } else {
    set_kcp_condition(updated, "Ready", "False", "Error", "ExtensionNotFound",
                      "workspacetypes.tenancy.kcp.io \"" + missing + "\" not found");
  }
  if (updated == *type) {
    finished(true);
    return;
  }
  update(key, "status", std::move(updated),
         [finished = std::move(finished)](Expected<Json> stored) { finished(stored.has_value()); });
}

}  // namespace kintsugi::controlplane
