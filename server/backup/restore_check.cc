// What does not fit together in an installation whose stores are of different moments (GR-412).
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "krm/json.h"
#include "server/backup/backup_program.h"
#include "server/backup/internal/installation_snapshot.h"
#include "server/backup/internal/parked_clusters.h"
#include "server/backup/internal/stored_objects.h"
#include "server/encryption.h"
#include "server/program.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr Duration kPatience = seconds(2);
constexpr std::string_view kWorkspaces = "workspaces.tenancy.kcp.io";
constexpr std::string_view kClusters = "logicalclusters.core.kcp.io";
constexpr std::string_view kExports = "apiexports.apis.kcp.io";
constexpr std::string_view kBindings = "apibindings.apis.kcp.io";
constexpr std::string_view kShards = "shards.core.kcp.io";

/// Objects by "cluster/name".
using Objects = std::map<std::string, Json, std::less<>>;

class RestoreCheck {
 public:
  RestoreCheck(const Layout& layout, StoredObjects stored)
      : layout_(layout), stored_(std::move(stored)) {}

  Expected<void> read() {
    auto source = InstallationSnapshot::open(layout_);
    auto pinned = source ? (*source)->pin(kPatience) : fail(source.error().clone());
    if (!pinned) {
      return fail(std::move(pinned.error()));
    }
    const std::vector<StoreFolder>& stores = (*source)->stores();
    for (std::size_t i = 0; i < stores.size(); ++i) {
      here_.insert(stores[i].name);
      const auto damaged = (*source)->read(i, [this, i, &stores](const store::EntryView& row) {
        if (std::string cluster = logical_cluster_of(row.key); !cluster.empty()) {
          places_[std::move(cluster)].push_back(stores[i].name);
        }
        take(row);
        return Expected<void>();
      });
      if (!damaged) {
        return fail(damaged.error().clone().at(stores[i].name));
      }
    }
    return {};
  }

  /// @returns how many lines it has printed.
  std::size_t print() {
    look_at_workspaces();
    look_at_clusters();
    look_at_bindings();
    for (const auto& [cluster, places] : places_) {
      if (places.size() > 1) {
        found_.push_back("LogicalCluster " + cluster + ": is at " + join(places, " and "));
      }
    }
    std::vector<std::string> elsewhere;
    for (const auto& [key, shard] : objects_.at(std::string(kShards))) {
      const std::string name(shard.text({"metadata", "name"}));
      if (here_.count("shard/" + name) == 0) {
        elsewhere.push_back(name);
      }
    }
    for (const std::string& line : found_) {
      std::printf("%s\n", line.c_str());
    }
    if (unread_ > 0) {
      std::printf("%zu objects could not be read: no key of %s opens them\n", unread_,
                  encryption_config_path(layout_).c_str());
    }
    if (!elsewhere.empty()) {
      std::printf("what is missing may be at shards that are not in %s: %s\n", layout_.dir.c_str(),
                  join(elsewhere, ", ").c_str());
    }
    std::printf("%s: %zu workspaces, %zu logical clusters, %zu bindings: %s\n", layout_.dir.c_str(),
                objects_.at(std::string(kWorkspaces)).size(),
                objects_.at(std::string(kClusters)).size(),
                objects_.at(std::string(kBindings)).size(),
                found_.empty() ? "ok" : (std::to_string(found_.size()) + " to look at").c_str());
    return found_.size();
  }

 private:
  /// Keys are resource, cluster and name.
  void take(const store::EntryView& row) {
    const auto parts = split(row.key, '\0');
    const auto kind = parts.size() == 3 ? objects_.find(parts[0]) : objects_.end();
    if (kind == objects_.end()) {
      return;
    }
    auto object = stored_.read(row);
    if (!object) {
      ++unread_;
      return;
    }
    kind->second.insert_or_assign(std::string(parts[1]) + '/' + std::string(parts[2]),
                                  std::move(*object));
  }

  [[nodiscard]] const Json* find(std::string_view kind, const std::string& key) const {
    const Objects& all = objects_.find(kind)->second;
    const auto at = all.find(key);
    return at == all.end() ? nullptr : &at->second;
  }

  void look_at_workspaces() {
    for (const auto& [key, workspace] : objects_.at(std::string(kWorkspaces))) {
      const std::string cluster(workspace.text({"spec", "cluster"}));
      if (!cluster.empty() && find(kClusters, cluster + "/cluster") == nullptr) {
        found_.push_back("Workspace " + key + ": its logical cluster " + cluster + " is missing");
      }
    }
  }

  void look_at_clusters() {
    for (const auto& [key, cluster] : objects_.at(std::string(kClusters))) {
      const Json* const owner = cluster.at({"spec", "owner"});
      if (owner == nullptr || owner->text({"resource"}) != "workspaces") {
        continue;
      }
      const std::string name = key.substr(0, key.find('/'));
      const std::string at =
          std::string(owner->text({"cluster"})) + '/' + std::string(owner->text({"name"}));
      const Json* const workspace = find(kWorkspaces, at);
      if (workspace == nullptr) {
        found_.push_back("LogicalCluster " + name + ": its Workspace " + at + " is missing");
      } else if (workspace->text({"spec", "cluster"}) != name) {
        found_.push_back("LogicalCluster " + name + ": its Workspace " + at +
                         " has another logical cluster");
      }
    }
  }

  void look_at_bindings() {
    for (const auto& [key, binding] : objects_.at(std::string(kBindings))) {
      const std::string cluster(binding.text({"status", "apiExportClusterName"}));
      const std::string name(binding.text({"spec", "reference", "export", "name"}));
      if (!cluster.empty() && find(kExports, cluster + '/' + name) == nullptr) {
        found_.push_back("APIBinding " + key + ": its APIExport " + cluster + '/' + name +
                         " is missing");
      }
    }
  }

  const Layout& layout_;
  const StoredObjects stored_;
  std::map<std::string, Objects, std::less<>> objects_ = {{std::string(kWorkspaces), {}},
                                                          {std::string(kClusters), {}},
                                                          {std::string(kExports), {}},
                                                          {std::string(kBindings), {}},
                                                          {std::string(kShards), {}}};
  std::set<std::string, std::less<>> here_;                              // stores
  std::map<std::string, std::vector<std::string>, std::less<>> places_;  // stores by cluster
  std::vector<std::string> found_;
  std::size_t unread_ = 0;
};

}  // namespace

int run_restore_check_program(const Layout& layout) {
  auto stored = StoredObjects::of(layout);
  if (!stored) {
    return complain("restore", stored.error());
  }
  RestoreCheck check(layout, std::move(*stored));
  if (auto read = check.read(); !read) {
    return complain("restore", read.error());
  }
  return check.print() == 0 ? 0 : kBackupWithReservations;
}

}  // namespace kintsugi::server
