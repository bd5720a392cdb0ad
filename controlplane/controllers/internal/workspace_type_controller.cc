#include "controlplane/controllers/internal/workspace_type_controller.h"

#include <set>
#include <string_view>
#include <utility>

#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/controllers/lifecycle.h"
#include "controlplane/internal/names.h"
#include "krm/path_prefixes.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

apiserver::ObjectKey type_key(std::string_view cluster, std::string_view name) {
  return {std::string(cluster), std::string(kTenancyGroup), std::string(kWorkspaceTypes), "",
          std::string(name)};
}

}  // namespace

WorkspaceTypeController::WorkspaceTypeController(const apiserver::ControllerContext& context,
                                                 RootView& root)
    : apiserver::ControllerBase(context, "kintsugi-workspace-type"), root_(root) {}

void WorkspaceTypeController::start() {
  follow(kTenancyGroup, kWorkspaceTypes, [this](const apiserver::ApiServer::Change& change) {
    if (change.object != nullptr) {
      queue_.add(type_key(change.cluster, change.name).pack());
    }
  });
  root_.listen(alive_.guard([this] {
    reader().list("*", kTenancyGroup, kWorkspaceTypes, "", [this](const Json& type) {
      queue_.add(type_key(cluster_of(type), type.text({"metadata", "name"})).pack());
      return true;
    });
  }));
}

Json WorkspaceTypeController::urls(const apiserver::ObjectKey& type) const {
  std::set<std::pair<std::string, std::string_view>> urls;
  for (const auto& [name, shard] : root_.shards()) {
    std::string_view base = shard.virtual_workspace_url;
    while (base.ends_with('/')) {
      base.remove_suffix(1);
    }
    if (base.empty()) {
      continue;
    }
    for (const Lifecycle lifecycle : {Lifecycle::kInitializing, Lifecycle::kTerminating}) {
      urls.emplace(std::string(base) + std::string(krm::kServicesPrefix) +
                       std::string(lifecycle_names(lifecycle).virtual_workspace) + "/" +
                       type.cluster + ":" + type.name,
                   lifecycle == Lifecycle::kInitializing ? "initializing" : "terminating");
    }
  }
  Json list = Json::array();
  for (const auto& [url, life] : urls) {
    list.push_back(Json::object({{"url", url}, {"type", life}}));
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
  if (!root_.synced()) {
    finished(true);  // the root's news queue it
    return;
  }
  Json updated = *type;
  updated.make({"status", "virtualWorkspaces"}) = urls(key);
  set_kcp_condition(updated, "Ready",
                    "True");  // of the conditions below; bases are asked when used
  set_kcp_condition(updated, "VirtualWorkspaceURLsReady", "True");
  settle_status(key, *type, std::move(updated), std::move(finished));
}

}  // namespace kintsugi::controlplane
