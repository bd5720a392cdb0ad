#include "controlplane/clusters/cluster_index.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "controlplane/clusters/server_facts.h"
#include "controlplane/controllers/home_workspace.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/request_info.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

ClusterInfo info_of(std::string_view name, const Json& object) {
  ClusterInfo info;
  info.name = name;
  info.uid = object.text({"metadata", "uid"});
  if (const Json* owner = object.at({"spec", "owner"});
      owner != nullptr && owner->text({"resource"}) == kWorkspaces) {
    info.owner_cluster = owner->text({"cluster"});
    info.owner_name = owner->text({"name"});
    info.owner_uid = owner->text({"uid"});
  }
  info.type = annotation(object, krm::kTypeAnnotation);
  info.phase = object.text({"status", "phase"});
  info.required_groups = annotation(object, krm::kRequiredGroupsAnnotation);
  info.asks_for_groups =
      object.at({"metadata", "annotations", krm::kRequiredGroupsAnnotation}) != nullptr;
  info.inactive = annotation(object, krm::kInactiveAnnotation) == "true" ||
                  annotation(object, krm::kFormerInactiveAnnotation) == "true";
  info.deleting = !object.text({"metadata", "deletionTimestamp"}).empty();
  return info;
}

std::string child_key(std::string_view parent, std::string_view name) {
  return std::string(parent) + " " + std::string(name);
}

}  // namespace

void ClusterIndex::start(apiserver::ApiServer& server) {
  reader_ = &server.reader();
  subscriptions_.push_back(server.on_change(kCoreGroup, kLogicalClusters,
                                            [this](const apiserver::ApiServer::Change& change) {
                                              if (change.name == kClusterName) {
                                                put_cluster(change.cluster, change.object.get());
                                              }
                                            }));
  subscriptions_.push_back(server.on_change(
      kTenancyGroup, kWorkspaces, [this](const apiserver::ApiServer::Change& change) {
        put_workspace(change.cluster, change.name, change.object.get());
      }));
  reader_->list("*", kTenancyGroup, kWorkspaces, "", [this](const Json& object) {
    put_workspace(cluster_of(object), object.text({"metadata", "name"}), &object);
    return true;
  });
  // In any order: a child whose parent comes later gets its path with it.
  reader_->list("*", kCoreGroup, kLogicalClusters, "", [this](const Json& object) {
    put_cluster(cluster_of(object), &object);
    return true;
  });
}

const ClusterInfo* ClusterIndex::find(std::string_view name) const {
  const auto found = clusters_.find(name);
  return found == clusters_.end() ? nullptr : &found->second;
}

const ClusterInfo* ClusterIndex::find_now(std::string_view name) {
  if (const ClusterInfo* known = find(name); known != nullptr || reader_ == nullptr) {
    return known;
  }
  const std::optional<Json> object =
      reader_->get(name, kCoreGroup, kLogicalClusters, "", kClusterName);
  if (!object) {
    return nullptr;
  }
  put_cluster(name, &*object);
  return find(name);
}

ClusterIndex::Answer ClusterIndex::walk(std::string_view start, std::string_view rest) {
  std::string cluster(start);
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const auto child = children_.find(child_key(cluster, rest.substr(0, colon)));
    if (child == children_.end() || child->second.cluster.empty()) {
      return {};
    }
    const ClusterInfo* info = find_now(child->second.cluster);
    if (info == nullptr) {
      return {Where::kElsewhere, child->second.cluster};
    }
    if (child->second.uid.empty() || info->owner_uid != child->second.uid ||
        child_key(info->owner_cluster, info->owner_name) != child->first) {
      return {};  // it is another's (KK-064)
    }
    cluster = child->second.cluster;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return {Where::kHere, std::move(cluster)};
}

ClusterIndex::Answer ClusterIndex::resolve(std::string_view path) {
  if (find_now(path) != nullptr) {
    return {Where::kHere, std::string(path)};
  }
  // The longest part that is known leads furthest.
  for (std::size_t end = path.size(); end != std::string_view::npos && end != 0;
       end = path.rfind(':', end - 1)) {
    const std::string_view head = path.substr(0, end);
    const std::string_view rest = path.substr(std::min(end + 1, path.size()));
    if (const auto known = by_path_.find(head); known != by_path_.end()) {
      if (Answer answer = walk(known->second, rest); answer.where != Where::kUnknown) {
        return answer;
      }
    }
  }
  const std::size_t colon = path.find(':');
  if (colon == std::string_view::npos || find_now(path.substr(0, colon)) == nullptr) {
    return {};
  }
  return walk(path.substr(0, colon), path.substr(colon + 1));
}

std::string ClusterIndex::path_of(std::string_view cluster) const {
  const ClusterInfo* info = find(cluster);
  return info == nullptr ? std::string(cluster) : info->path;
}

std::vector<std::string> ClusterIndex::names() const {
  std::vector<std::string> names;
  names.reserve(clusters_.size());
  for (const auto& [name, info] : clusters_) {
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The path that follows from what this shard knows, and whether it is sure.
void ClusterIndex::derive_path(ClusterInfo& info, const Json* object,
                               const ClusterInfo* before) const {
  info.path_is_sure = true;
  if (info.name == kRootCluster) {
    info.path = kRootCluster;
    return;
  }
  const ClusterInfo* parent = info.owner_cluster.empty() ? nullptr : find(info.owner_cluster);
  if (parent != nullptr) {
    const auto child = children_.find(child_key(info.owner_cluster, info.owner_name));
    const bool owned = child != children_.end() && child->second.uid == info.owner_uid &&
                       (child->second.cluster.empty() || child->second.cluster == info.name);
    if (owned) {
      info.path = parent->path + ":" + info.owner_name;
      return;
    }
  }
  const std::string_view creator =
      object == nullptr ? std::string_view() : object->text({"spec", "createdBy", "username"});
  if (info.owner_uid.empty() && !creator.empty() && krm::home_cluster_name(creator) == info.name) {
    info.path = home_path(creator);
    return;
  }
  info.path_is_sure = false;
  if (before != nullptr && before->uid == info.uid) {
    info.path = before->path;  // what was said first
    return;
  }
  if (reader_ != nullptr) {
    if (const std::optional<Json> fact =
            read_fact(*reader_, info.name, kLogicalClusters, kClusterName);
        fact && fact->text({"uid"}) == info.uid) {
      info.path = fact->text({"path"});
      return;
    }
  }
  info.path = object == nullptr ? std::string() : annotation(*object, krm::kPathAnnotation);
  const bool fits = info.owner_name.empty()
                        ? !info.path.starts_with("user:") && info.path != kRootCluster
                        : info.path.ends_with(":" + info.owner_name);
  if (!fits || parent != nullptr) {
    info.path.clear();
  }
}

/// Leaves a path to the cluster that has it.
void ClusterIndex::settle_path(ClusterInfo& info) {
  if (info.path.empty()) {
    info.path = info.name;
  }
  const auto holder = by_path_.find(info.path);
  if (holder == by_path_.end() || holder->second == info.name) {
    return;
  }
  const ClusterInfo* other = find(holder->second);
  if (other == nullptr || (info.path_is_sure && !other->path_is_sure)) {
    if (other != nullptr) {
      ClusterInfo loser = *other;
      loser.path = loser.name;
      change(*other, std::move(loser));
    }
    return;
  }
  info.path = info.name;
}

void ClusterIndex::put_cluster(std::string_view name, const Json* logical_cluster) {
  const auto found = clusters_.find(name);
  std::optional<ClusterInfo> before;
  if (found != clusters_.end()) {
    before = found->second;
  }
  std::optional<ClusterInfo> now;
  if (logical_cluster != nullptr) {
    now = info_of(name, *logical_cluster);
    derive_path(*now, logical_cluster, before ? &*before : nullptr);
    settle_path(*now);
  }
  change(before, std::move(now));
}

void ClusterIndex::change(const std::optional<ClusterInfo>& before,
                          std::optional<ClusterInfo> now) {
  if (before == now) {
    return;
  }
  const bool moved = now && (!before || now->path != before->path);
  if (before && (!now || moved)) {
    const auto path = by_path_.find(before->path);
    if (path != by_path_.end() && path->second == before->name) {
      by_path_.erase(path);
    }
  }
  if (now) {
    by_path_.insert_or_assign(now->path, now->name);
    clusters_.insert_or_assign(now->name, *now);
  } else {
    clusters_.erase(before->name);
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    listeners_[i](now ? &*now : nullptr, before ? &*before : nullptr);
  }
  if (moved) {
    follow_path(now->name);
  }
}

/// The paths of those below follow that of the cluster.
void ClusterIndex::follow_path(std::string_view name) {
  const std::string prefix = child_key(name, "");
  std::vector<std::string> below;
  for (auto at = children_.lower_bound(prefix);
       at != children_.end() && at->first.starts_with(prefix); ++at) {
    const ClusterInfo* info = find(at->second.cluster);
    if (info != nullptr && child_key(info->owner_cluster, info->owner_name) == at->first) {
      below.push_back(at->second.cluster);
    }
  }
  for (const std::string& child : below) {
    const ClusterInfo before = clusters_.find(child)->second;
    ClusterInfo now = before;
    derive_path(now, nullptr, &before);
    settle_path(now);
    change(before, std::move(now));
  }
}

void ClusterIndex::put_workspace(std::string_view cluster, std::string_view name,
                                 const Json* workspace) {
  const std::string key = child_key(cluster, name);
  if (workspace == nullptr) {
    children_.erase(key);
    return;
  }
  Child child{std::string(workspace->text({"spec", "cluster"})),
              std::string(workspace->text({"metadata", "uid"}))};
  Child& known = children_[key];
  if (known.cluster == child.cluster && known.uid == child.uid) {
    return;
  }
  known = std::move(child);
  if (const ClusterInfo* info = find(known.cluster);
      info != nullptr && child_key(info->owner_cluster, info->owner_name) == key) {
    const ClusterInfo before = *info;
    ClusterInfo now = before;
    derive_path(now, nullptr, &before);
    settle_path(now);
    change(before, std::move(now));
  }
}

}  // namespace kintsugi::controlplane
