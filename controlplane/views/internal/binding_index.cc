#include "controlplane/views/internal/binding_index.h"

#include <algorithm>
#include <optional>

#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

BindingInfo read_binding(ExportRef target, std::string_view cluster, std::string_view name,
                         const Json& binding) {
  BindingInfo out;
  out.cluster = cluster;
  out.name = name;
  out.target = std::move(target);
  out.leaving = !binding.text({"metadata", "deletionTimestamp"}).empty();
  out.claims = parse_claims(binding.at({"spec", "permissionClaims"}));
  std::erase_if(out.claims, [](const PermissionClaim& claim) { return !claim.accepted; });
  if (const Json* bound = binding.at({"status", "boundResources"})) {
    for (const Json& one : bound->items()) {
      out.bound.emplace_back(one.text({"group"}), one.text({"resource"}));
    }
  }
  return out;
}

}  // namespace

bool BindingInfo::has_bound(std::string_view group, std::string_view plural) const noexcept {
  return std::any_of(bound.begin(), bound.end(),
                     [&](const auto& one) { return one.first == group && one.second == plural; });
}

const PermissionClaim* BindingInfo::claim_on(std::string_view group, std::string_view resource,
                                             std::string_view identity,
                                             const IdentityCheck& in_root) const {
  const auto found = std::find_if(claims.begin(), claims.end(), [&](const PermissionClaim& claim) {
    return claim.is_about(group, resource, identity, in_root);
  });
  return found == claims.end() ? nullptr : &*found;
}

void BindingIndex::start(apiserver::ApiServer& server) {
  reader_ = &server.reader();
  subscription_ = server.on_change(kApisGroup, kApiBindings,
                                   [this](const apiserver::ApiServer::Change& change) {
                                     put(change.cluster, change.name, change.object.get());
                                   });
  reader_->list("*", kApisGroup, kApiBindings, "", [this](const Json& binding) {
    put(cluster_of(binding), binding.text({"metadata", "name"}), &binding);
    return true;
  });
  catalog_.on_export([this](const ExportRef& ref) { resolve_again(ref); });
}

const BindingInfo* BindingIndex::named(std::string_view cluster, std::string_view name) const {
  const auto place = clusters_.find(cluster);
  if (place == clusters_.end()) {
    return nullptr;
  }
  const auto found = place->second.find(name);
  return found == place->second.end() ? nullptr : &found->second;
}

const BindingInfo* BindingIndex::find(std::string_view cluster, const ExportRef& target) const {
  const auto place = clusters_.find(cluster);
  if (place == clusters_.end()) {
    return nullptr;
  }
  for (const auto& [name, binding] : place->second) {
    if (binding.target == target) {
      return &binding;
    }
  }
  return nullptr;
}

ExportRef BindingIndex::target_of(std::string_view cluster, const Json& binding) const {
  const Json* reference = binding.at({"spec", "reference", "export"});
  ExportRef out;
  out.name = reference == nullptr ? "" : reference->text({"name"});
  out.cluster = binding.text({"status", "apiExportClusterName"});
  if (out.cluster.empty() && !out.name.empty()) {
    const auto known = catalog_.find_export(cluster, reference->text({"path"}), out.name);
    out.cluster = known ? known->cluster : "";
  }
  // What was made anew is another (KK-173).
  if (const std::string_view uid = binding.text({"status", "apiExportUID"}); !uid.empty()) {
    const std::optional<Json> now = catalog_.get_export(out);
    if (now && now->text({"metadata", "uid"}) != uid) {
      out.cluster.clear();
    }
  }
  return out;
}

bool BindingIndex::has_claims(std::string_view cluster) const {
  const auto place = clusters_.find(cluster);
  return place != clusters_.end() &&
         std::any_of(place->second.begin(), place->second.end(),
                     [](const auto& one) { return !one.second.claims.empty(); });
}

void BindingIndex::put(std::string_view cluster, std::string_view name, const Json* binding) {
  std::optional<BindingInfo> before;
  if (const BindingInfo* known = named(cluster, name)) {
    before = *known;
  }
  std::optional<BindingInfo> now;
  if (binding != nullptr) {
    now = read_binding(target_of(cluster, *binding), cluster, name, *binding);
  }
  if (now && now->target.cluster.empty()) {
    unresolved_.emplace(cluster, name);
  } else {
    unresolved_.erase({std::string(cluster), std::string(name)});
  }
  if (now == before) {
    return;
  }
  if (now) {
    clusters_[std::string(cluster)].insert_or_assign(std::string(name), *now);
  } else {
    const auto place = clusters_.find(cluster);
    place->second.erase(place->second.find(name));
    if (place->second.empty()) {
      clusters_.erase(place);
    }
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    listeners_[i](now ? &*now : nullptr, before ? &*before : nullptr);
  }
}

void BindingIndex::resolve_again(const ExportRef& ref) {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const auto& [cluster, name] : unresolved_) {
    const BindingInfo* binding = named(cluster, name);
    if (binding != nullptr && binding->target.name == ref.name) {
      keys.emplace_back(cluster, name);
    }
  }
  for (const auto& [cluster, bindings] : clusters_) {
    for (const auto& [name, binding] : bindings) {
      if (binding.target == ref) {
        keys.emplace_back(cluster, name);
      }
    }
  }
  for (const auto& [cluster, name] : keys) {
    const std::optional<Json> binding = reader_->get(cluster, kApisGroup, kApiBindings, "", name);
    put(cluster, name, binding ? &*binding : nullptr);
  }
}

}  // namespace kintsugi::controlplane
