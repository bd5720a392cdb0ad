#include "apiserver/shard/cluster_index.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "apiserver/shard/names.h"

namespace kintsugi::apiserver {
namespace {

using krm::Json;

ClusterInfo info_of(std::string_view name, const Json& object) {
  ClusterInfo info;
  info.name = name;
  info.path = annotation(object, kPathAnnotation);
  if (info.path.empty()) {
    info.path = name;
  }
  info.type = annotation(object, kTypeAnnotation);
  info.phase = object.text({"status", "phase"});
  info.required_groups = annotation(object, kRequiredGroupsAnnotation);
  info.inactive = annotation(object, "core.kcp.io/inactive") == "true" ||
                  annotation(object, "internal.kcp.io/inactive") == "true";
  info.deleting = !object.text({"metadata", "deletionTimestamp"}).empty();
  return info;
}

std::string child_key(std::string_view parent, std::string_view name) {
  return std::string(parent) + " " + std::string(name);
}

}  // namespace

void ClusterIndex::start(ApiServer& server) {
  reader_ = &server.reader();
  subscriptions_.push_back(
      server.on_change(kCoreGroup, kLogicalClusters, [this](const ApiServer::Change& change) {
        if (change.name == kClusterName) {
          put_cluster(change.cluster, change.object.get());
        }
      }));
  subscriptions_.push_back(
      server.on_change(kTenancyGroup, kWorkspaces, [this](const ApiServer::Change& change) {
        put_workspace(change.cluster, change.name, change.object.get());
      }));
  reader_->list("*", kCoreGroup, kLogicalClusters, "", [this](const Json& object) {
    put_cluster(cluster_of(object), &object);
    return true;
  });
  reader_->list("*", kTenancyGroup, kWorkspaces, "", [this](const Json& object) {
    put_workspace(cluster_of(object), object.text({"metadata", "name"}), &object);
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
    if (child == children_.end()) {
      return {};
    }
    if (find_now(child->second) == nullptr) {
      return {Where::kElsewhere, child->second};
    }
    cluster = child->second;
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

void ClusterIndex::put_cluster(std::string_view name, const Json* logical_cluster) {
  const auto found = clusters_.find(name);
  std::optional<ClusterInfo> before;
  if (found != clusters_.end()) {
    before = found->second;
  }
  std::optional<ClusterInfo> now;
  if (logical_cluster != nullptr) {
    now = info_of(name, *logical_cluster);
  }
  if (before == now) {
    return;
  }
  if (before && (!now || now->path != before->path)) {
    const auto path = by_path_.find(before->path);
    if (path != by_path_.end() && path->second == name) {
      by_path_.erase(path);
    }
  }
  if (now) {
    by_path_.insert_or_assign(now->path, now->name);
    clusters_.insert_or_assign(std::string(name), *now);
  } else {
    clusters_.erase(found);
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    listeners_[i](now ? &*now : nullptr, before ? &*before : nullptr);
  }
}

void ClusterIndex::put_workspace(std::string_view cluster, std::string_view name,
                                 const Json* workspace) {
  const std::string key = child_key(cluster, name);
  const std::string_view child =
      workspace == nullptr ? std::string_view() : workspace->text({"spec", "cluster"});
  if (child.empty()) {
    children_.erase(key);
  } else {
    children_.insert_or_assign(key, std::string(child));
  }
}

}  // namespace kintsugi::apiserver
