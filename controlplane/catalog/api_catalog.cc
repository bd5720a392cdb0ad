#include "controlplane/catalog/api_catalog.h"

#include <algorithm>
#include <utility>

#include "controlplane/catalog/conversion_rules.h"
#include "controlplane/clusters/trust.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

struct Source {
  std::string_view group, resource, api_version, kind;
};
constexpr Source kSources[] = {
    // by ApiCatalog::Kind
    {kApisGroup, kApiExports, "apis.kcp.io/v1alpha2", "APIExport"},
    {kApisGroup, kApiResourceSchemas, "apis.kcp.io/v1alpha1", "APIResourceSchema"},
    {kTenancyGroup, kWorkspaceTypes, "tenancy.kcp.io/v1alpha1", "WorkspaceType"},
};

std::string known_key(bool is_export, bool replica, std::string_view cluster,
                      std::string_view name) {
  std::string key = is_export ? "e" : "t";
  key += replica ? 'r' : 'l';
  key.append(cluster).append("/").append(name);
  return key;
}

}  // namespace

void ApiCatalog::start(apiserver::ApiServer& server, Paths paths) {
  server_ = &server;
  paths_ = std::move(paths);
  for (std::size_t i = 0; i < std::size(kSources); ++i) {
    follow(server, static_cast<Kind>(i), kSources[i].group, kSources[i].resource);
    follow(server, static_cast<Kind>(i), kinds::kReplicaGroup, kSources[i].resource);
  }
  follow(server, Kind::kSchema, kApisGroup, kApiConversions);
  follow(server, Kind::kSchema, kinds::kReplicaGroup, kApiConversions);
}

void ApiCatalog::follow(apiserver::ApiServer& server, Kind kind, std::string_view group,
                        std::string_view resource) {
  const bool replica = group == kinds::kReplicaGroup;
  subscriptions_.push_back(server.on_change(
      group, resource, [this, kind, replica](const apiserver::ApiServer::Change& change) {
        note(kind, replica, change.cluster, change.name, change.object.get());
        tell(kind, change.cluster, change.name);
      }));
  if (kind == Kind::kSchema) {
    return;  // nothing of them is kept
  }
  server.reader().list("*", group, resource, "", [this, kind, replica](const Json& object) {
    note(kind, replica, cluster_of(object), object.text({"metadata", "name"}), &object);
    return true;
  });
}

void ApiCatalog::note(Kind kind, bool replica, std::string_view cluster, std::string_view name,
                      const Json* object) {
  if (kind == Kind::kSchema) {
    return;
  }
  const std::string key = known_key(kind == Kind::kExport, replica, cluster, name);
  const auto found = known_.find(key);
  const std::string before = found == known_.end() ? std::string() : found->second.hash;
  if (object == nullptr) {
    if (found == known_.end()) {
      return;
    }
    known_.erase(found);
    --count_of(kind, replica);
    leave(cluster);
    identify({std::string(cluster), std::string(name)}, before, {});
    return;
  }
  Known now{annotation(*object, krm::kPathAnnotation), {}};
  if (kind == Kind::kExport) {
    now.hash = object->text({"status", "identityHash"});
  }
  if (found == known_.end()) {
    enter(cluster, now.path, replica);
    ++places_.find(cluster)->second.objects;
    ++count_of(kind, replica);
  } else if (found->second.path != now.path) {
    enter(cluster, now.path, replica);
  }
  identify({std::string(cluster), std::string(name)}, before, now.hash);
  known_.insert_or_assign(key, std::move(now));
}

std::size_t& ApiCatalog::count_of(Kind kind, bool replica) noexcept {
  if (kind == Kind::kExport) {
    return replica ? counts_.replicated_exports : counts_.exports;
  }
  return replica ? counts_.replicated_types : counts_.types;
}

/// An object of the cluster says that this is its path. Own clusters have theirs whatever is said;
/// of others nobody takes a path that this shard knows to be another's, or that another has.
void ApiCatalog::enter(std::string_view cluster, std::string_view said, bool replica) {
  Place& place = places_[std::string(cluster)];
  const std::string own = !replica && paths_.of_own ? paths_.of_own(cluster) : std::string();
  const std::string path = own.empty() ? std::string(said) : own;
  if (!own.empty() && !said.empty() && own != said) {
    note_untrusted(UntrustedValue::kPath, cluster, "", said);
  }
  if (path.empty() || place.path == path) {
    return;
  }
  const std::string known = own.empty() && paths_.leads_to ? paths_.leads_to(path) : std::string();
  const auto holder = clusters_.find(path);
  const bool is_held =
      own.empty() && holder != clusters_.end() && holder->second != cluster && known != cluster;
  if (is_held || (!known.empty() && known != cluster)) {
    note_untrusted(UntrustedValue::kPath, cluster, "", path);
    if (is_held && known.empty() && place.path.empty()) {
      place.path = path;  // should the other go
    }
    return;
  }
  if (const auto old = clusters_.find(place.path);
      old != clusters_.end() && old->second == cluster) {
    clusters_.erase(old);
  }
  place.path = path;
  clusters_.insert_or_assign(std::string(path), std::string(cluster));
}

/// An object of the cluster is gone.
void ApiCatalog::leave(std::string_view cluster) {
  const auto place = places_.find(cluster);
  if (--place->second.objects > 0) {
    return;
  }
  const std::string path = std::move(place->second.path);
  places_.erase(place);
  const auto known = clusters_.find(path);
  if (known == clusters_.end() || known->second != cluster) {
    return;
  }
  clusters_.erase(known);
  // A workspace of the same name may have been made before the old one was gone.
  const auto other = std::find_if(places_.begin(), places_.end(),
                                  [&](const auto& one) { return one.second.path == path; });
  if (other != places_.end()) {
    clusters_.emplace(path, other->first);
  }
}

void ApiCatalog::identify(const ExportRef& ref, std::string_view before, std::string_view now) {
  if (before == now) {
    return;
  }
  if (const auto old = by_identity_.find(before); old != by_identity_.end()) {
    const auto one = std::find(old->second.begin(), old->second.end(), ref);
    if (one != old->second.end()) {
      old->second.erase(one);
    }
    if (old->second.empty()) {
      by_identity_.erase(old);
    }
  }
  if (!now.empty()) {
    by_identity_[std::string(now)].push_back(ref);
  }
}

void ApiCatalog::tell(Kind kind, std::string_view cluster, std::string_view name) const {
  switch (kind) {
    case Kind::kExport: {
      const ExportRef ref{std::string(cluster), std::string(name)};
      for (std::size_t i = 0; i < export_listeners_.size(); ++i) {
        export_listeners_[i](ref);
      }
      return;
    }
    case Kind::kSchema:
      for (std::size_t i = 0; i < schema_listeners_.size(); ++i) {
        schema_listeners_[i](cluster, name);
      }
      return;
    case Kind::kType:
      for (std::size_t i = 0; i < type_listeners_.size(); ++i) {
        type_listeners_[i](cluster, name);
      }
  }
}

/// A path that is none of a known cluster may be the name of one.
std::string_view ApiCatalog::cluster_at(std::string_view path) const {
  if (places_.find(path) != places_.end()) {
    return path;  // no path is the name of another cluster
  }
  const auto known = clusters_.find(path);
  return known == clusters_.end() ? path : std::string_view(known->second);
}

ApiCatalog::Found ApiCatalog::get(Kind kind, std::string_view cluster,
                                  std::string_view name) const {
  if (server_ == nullptr || cluster.empty() || name.empty()) {
    return std::nullopt;
  }
  const Source& source = kSources[static_cast<std::size_t>(kind)];
  const apiserver::ObjectReader& reader = server_->reader();
  if (Found own = reader.get(cluster, source.group, source.resource, "", name)) {
    return own;
  }
  Found copy = reader.get(cluster, kinds::kReplicaGroup, source.resource, "", name);
  if (copy) {
    (*copy)["apiVersion"] = source.api_version;
    (*copy)["kind"] = source.kind;
  }
  return copy;
}

std::optional<ExportRef> ApiCatalog::find_export(std::string_view from, std::string_view path,
                                                 std::string_view name) const {
  const std::string cluster(path.empty() ? from : cluster_at(path));
  if (known_.contains(known_key(true, false, cluster, name)) ||
      known_.contains(known_key(true, true, cluster, name)) ||
      get(Kind::kExport, cluster, name)) {  // another loop may have seen it first
    return ExportRef{cluster, std::string(name)};
  }
  return std::nullopt;
}

std::optional<Json> ApiCatalog::get_export(const ExportRef& ref) const {
  return get(Kind::kExport, ref.cluster, ref.name);
}

std::optional<Json> ApiCatalog::get_schema(std::string_view cluster, std::string_view name) const {
  return get(Kind::kSchema, cluster, name);
}

std::optional<Json> ApiCatalog::get_conversion(std::string_view cluster,
                                               std::string_view name) const {
  return server_ == nullptr ? std::nullopt : conversion_of(server_->reader(), cluster, name);
}

std::optional<Json> ApiCatalog::get_type(std::string_view path, std::string_view name) const {
  return get(Kind::kType, cluster_at(path), name);
}

std::string ApiCatalog::path_of(std::string_view cluster) const {
  const auto place = places_.find(cluster);
  return place == places_.end() || place->second.path.empty() ? std::string(cluster)
                                                              : place->second.path;
}

std::vector<ExportRef> ApiCatalog::exports_with_identity(std::string_view hash) const {
  std::vector<ExportRef> refs;
  if (const auto found = by_identity_.find(hash); found != by_identity_.end()) {
    for (const ExportRef& ref : found->second) {
      if (std::find(refs.begin(), refs.end(), ref) == refs.end()) {
        refs.push_back(ref);
      }
    }
  }
  return refs;
}

}  // namespace kintsugi::controlplane
