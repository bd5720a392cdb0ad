#include "controlplane/controllers/workspace_types.h"

#include <algorithm>
#include <utility>

#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
constexpr std::size_t kMostTypes = 32;  // that one type may extend

bool has_flag(const Json& type, std::string_view field) {
  const Json* flag = type.at({"spec", field});
  return flag != nullptr && flag->as_bool();
}

/// No part of the path is empty.
bool is_whole(std::string_view path) {
  return !path.empty() && path.front() != ':' && path.back() != ':' &&
         path.find("::") == std::string_view::npos;
}

}  // namespace

std::optional<FoundType> WorkspaceTypeLookup::find(const apiserver::ObjectReader& reader,
                                                   std::string_view path,
                                                   std::string_view name) const {
  if (path == kRootCluster) {
    const Json* type = root_.type(name);
    if (type == nullptr) {
      return std::nullopt;
    }
    return FoundType{std::string(path), std::string(path), std::string(name), *type};
  }
  if (!is_whole(path)) {
    return std::nullopt;
  }
  const ClusterIndex::Answer answer = index_.resolve(path);
  if (answer.where != ClusterIndex::Where::kHere) {
    std::optional<Json> type = catalog_ == nullptr ? std::nullopt : catalog_->get_type(path, name);
    if (!type) {
      return std::nullopt;
    }
    const std::string cluster = cluster_of(*type);
    return FoundType{catalog_->path_of(cluster), cluster, std::string(name), std::move(*type)};
  }
  std::optional<Json> type = reader.get(answer.cluster, kTenancyGroup, kWorkspaceTypes, "", name);
  if (!type) {
    return std::nullopt;
  }
  return FoundType{index_.path_of(answer.cluster), answer.cluster, std::string(name),
                   std::move(*type)};
}

std::optional<FoundType> WorkspaceTypeLookup::resolve(const apiserver::ObjectReader& reader,
                                                      std::string_view cluster,
                                                      std::string_view name) const {
  std::string path = index_.path_of(cluster);
  while (!path.empty()) {
    if (std::optional<FoundType> found = find(reader, path, name)) {
      return found;
    }
    const std::size_t colon = path.rfind(':');
    if (colon == std::string::npos) {
      break;
    }
    path.resize(colon);
  }
  return find(reader, kRootCluster, name);  // home workspaces are not below root
}

std::vector<FoundType> WorkspaceTypeLookup::with_extended(const apiserver::ObjectReader& reader,
                                                          const FoundType& type) const {
  std::vector<FoundType> found = {type};
  for (std::size_t i = 0; i < found.size() && found.size() < kMostTypes; ++i) {
    const Json object = found[i].object;
    const std::string own_path = found[i].path;
    const Json* extended = object.at({"spec", "extend", "with"});
    if (extended == nullptr) {
      continue;
    }
    for (const Json& reference : extended->items()) {
      const std::string_view path = reference.text({"path"});
      std::optional<FoundType> other =
          find(reader, path.empty() ? std::string_view(own_path) : path, reference.text({"name"}));
      const auto same = [&](const FoundType& known) {
        return known.path == other->path && known.name == other->name;
      };
      if (other && std::none_of(found.begin(), found.end(), same)) {
        found.push_back(std::move(*other));
      }
    }
  }
  return found;
}

std::optional<FoundType> WorkspaceTypeLookup::type_of(const apiserver::ObjectReader& reader,
                                                      std::string_view cluster) const {
  const ClusterInfo* info = index_.find(cluster);
  const std::size_t colon = info == nullptr ? std::string::npos : info->type.rfind(':');
  if (colon == std::string::npos) {
    return std::nullopt;
  }
  return find(reader, std::string_view(info->type).substr(0, colon),
              std::string_view(info->type).substr(colon + 1));
}

std::vector<std::string> WorkspaceTypeLookup::initializers(const apiserver::ObjectReader& reader,
                                                           const FoundType& type) const {
  std::vector<std::string> names;
  bool binds = false;
  for (const FoundType& one : with_extended(reader, type)) {
    if (has_flag(one.object, "initializer")) {
      names.push_back(one.lifecycle_name());
    }
    const Json* bindings = one.object.at({"spec", "defaultAPIBindings"});
    binds = binds || (bindings != nullptr && bindings->size() > 0);
  }
  if (binds) {
    names.emplace_back(kApiBindingsInitializer);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> WorkspaceTypeLookup::terminators(const apiserver::ObjectReader& reader,
                                                          const FoundType& type) const {
  std::vector<std::string> names;
  for (const FoundType& one : with_extended(reader, type)) {
    if (has_flag(one.object, "terminator")) {
      names.push_back(one.lifecycle_name());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace kintsugi::controlplane
