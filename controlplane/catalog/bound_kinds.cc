#include "controlplane/catalog/bound_kinds.h"

#include <algorithm>
#include <optional>

#include "apiserver/controllers/controller.h"
#include "apiserver/keys.h"
#include "base/log.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/catalog/conversion_rules.h"
#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

std::string kind_key(std::string_view uid, std::string_view identity) {
  return std::string(uid) + " " + std::string(identity);
}

std::string resource_key(std::string_view group, std::string_view plural,
                         std::string_view identity) {
  return apiserver::stored_resource(group, std::string(plural) + ":" + std::string(identity));
}

}  // namespace

void BoundKinds::start(apiserver::ApiServer& server) {
  server_ = &server;
  subscriptions_.push_back(server.on_change(kBoundGroup, kApiResourceSchemas,
                                            [this](const apiserver::ApiServer::Change& change) {
                                              if (change.object != nullptr) {
                                                schema_came(change.name);
                                              }
                                            }));
  subscriptions_.push_back(server.on_change(kApisGroup, kApiResourceSchemas,
                                            [this](const apiserver::ApiServer::Change& change) {
                                              count_versions(change.object.get(), false);
                                              count_versions(change.previous.get(), true);
                                            }));
  for (const std::string_view group : {kApisGroup, kinds::kReplicaGroup}) {
    subscriptions_.push_back(server.on_change(
        group, kApiConversions, [this](const apiserver::ApiServer::Change& change) {
          conversion_changed({std::string(change.cluster), std::string(change.name)});
        }));
  }
  server.reader().list("*", kApisGroup, kApiResourceSchemas, "", [this](const Json& schema) {
    count_versions(&schema, false);
    return true;
  });
  subscriptions_.push_back(server.on_change(
      kApisGroup, kApiBindings, [this](const apiserver::ApiServer::Change& change) {
        apply(change.cluster, change.name, change.object.get());
      }));
  server.reader().list("*", kApisGroup, kApiBindings, "", [this](const Json& binding) {
    apply(cluster_of(binding), binding.text({"metadata", "name"}), &binding);
    return true;
  });
  ready_ = true;
}

apiserver::ResourcePtr BoundKinds::find(std::string_view cluster, std::string_view group,
                                        std::string_view plural, std::string_view identity) const {
  const auto found = clusters_.find(cluster);
  if (found == clusters_.end()) {
    return nullptr;
  }
  for (const auto& [name, binding] : found->second.bindings) {
    for (const Bound& bound : binding.resources) {
      if (bound.def->plural == plural && bound.def->group == group &&
          (identity.empty() || bound.def->identity == identity)) {
        return bound.def;
      }
    }
  }
  return nullptr;
}

const BoundKinds::From* BoundKinds::export_of(std::string_view cluster, std::string_view group,
                                              std::string_view plural) const {
  const auto found = clusters_.find(cluster);
  if (found == clusters_.end()) {
    return nullptr;
  }
  for (const auto& [name, binding] : found->second.bindings) {
    for (const Bound& bound : binding.resources) {
      if (bound.def->plural == plural && bound.def->group == group) {
        return &binding.from;
      }
    }
  }
  return nullptr;
}

std::optional<apiserver::ServedBy> BoundKinds::served_by(std::string_view cluster,
                                                         const apiserver::ResourceDef& def) const {
  const auto found = clusters_.find(cluster);
  if (found == clusters_.end()) {
    return std::nullopt;
  }
  for (const auto& [name, binding] : found->second.bindings) {
    for (const Bound& bound : binding.resources) {
      if (bound.def->plural == def.plural && bound.def->group == def.group &&
          bound.def->identity == def.identity) {
        auto key = apiserver::object_key(apiserver::stored_resource(kApisGroup, kApiBindings),
                                         cluster, "", name);
        return apiserver::ServedBy{std::move(key).value_or(""), binding.revision,
                                   bound.def->terminating};
      }
    }
  }
  return std::nullopt;
}

apiserver::ResourcePtr BoundKinds::find_anywhere(std::string_view group, std::string_view plural,
                                                 std::string_view identity) const {
  const auto found = resources_.find(resource_key(group, plural, identity));
  return found == resources_.end() ? nullptr : found->second.back()->def;
}

apiserver::ResourcePtr BoundKinds::find_any_identity(std::string_view group,
                                                     std::string_view plural) const {
  const std::string prefix = resource_key(group, plural, {});
  std::shared_ptr<apiserver::ResourceDef> all;
  for (const auto& [key, kinds] : resources_) {
    if (!key.starts_with(prefix) || kinds.empty()) {
      continue;
    }
    const apiserver::ResourceDef& def = *kinds.back()->def;
    if (all == nullptr) {
      all = std::make_shared<apiserver::ResourceDef>(def);
      all->identity = apiserver::kAnyIdentity;
      all->webhook = nullptr;
      all->field_labels.clear();
      continue;
    }
    for (const apiserver::ResourceVersion& version : def.versions) {
      if (all->version(version.name) == nullptr) {
        all->versions.push_back(version);
      }
    }
  }
  return all;
}

std::uint64_t BoundKinds::generation(std::string_view cluster) const {
  const auto found = clusters_.find(cluster);
  return found == clusters_.end() ? 0 : found->second.generation;
}

void BoundKinds::count_versions(const Json* schema, bool gone) {
  const Json* versions = schema == nullptr ? nullptr : schema->at({"spec", "versions"});
  for (const Json& version : versions == nullptr ? Json::Array() : versions->items()) {
    const std::string name =
        std::string(schema->text({"spec", "group"})) + "/" + std::string(version.text({"name"}));
    if (!gone) {
      ++offered_[name];
    } else if (const auto known = offered_.find(name);
               known != offered_.end() && --known->second == 0) {
      offered_.erase(known);
    }
  }
}

bool BoundKinds::serves(std::string_view group, std::string_view version) const {
  if (offered_.find(std::string(group) + "/" + std::string(version)) != offered_.end()) {
    return true;
  }
  return std::any_of(resources_.begin(), resources_.end(), [&](const auto& one) {
    const apiserver::ResourceDef& def = *one.second.back()->def;
    const apiserver::ResourceVersion* found = def.group == group ? def.version(version) : nullptr;
    return found != nullptr && found->served;
  });
}

bool BoundKinds::uses_schema(std::string_view uid) const {
  return std::any_of(kinds_.begin(), kinds_.end(),
                     [uid](const auto& one) { return one.second->uid == uid; });
}

void BoundKinds::schema_came(std::string_view uid) {
  const auto found = waiting_.find(uid);
  if (found == waiting_.end()) {
    return;
  }
  const auto bindings = std::move(found->second);
  waiting_.erase(found);
  for (const auto& [cluster, name] : bindings) {
    apply_stored(cluster, name);
  }
}

void BoundKinds::apply_stored(std::string_view cluster, std::string_view name) {
  const std::optional<Json> binding =
      server_->reader().get(cluster, kApisGroup, kApiBindings, "", name);
  apply(cluster, name, binding ? &*binding : nullptr);
}

/// The kinds of its schema are made anew, for all who have bound it.
void BoundKinds::conversion_changed(const Origin& origin) {
  const auto erased =
      std::erase_if(kinds_, [&](const auto& one) { return one.second->origin == origin; });
  if (erased == 0) {
    return;
  }
  std::vector<std::pair<std::string, std::string>> bindings;
  for (const auto& [cluster, entry] : clusters_) {
    for (const auto& [name, binding] : entry.bindings) {
      if (std::any_of(binding.resources.begin(), binding.resources.end(),
                      [&](const Bound& bound) { return bound.kind->origin == origin; })) {
        bindings.emplace_back(cluster, name);
      }
    }
  }
  for (const auto& [cluster, name] : bindings) {
    apply_stored(cluster, name);
  }
}

BoundKinds::KindPtr BoundKinds::kind_of(const std::string& uid, std::string_view identity,
                                        const Origin& origin) {
  const std::string key = kind_key(uid, identity);
  if (const auto found = kinds_.find(key); found != kinds_.end()) {
    return found->second;
  }
  const std::optional<Json> schema =
      server_->reader().get(kBoundCluster, kBoundGroup, kApiResourceSchemas, "", uid);
  if (!schema) {
    return nullptr;
  }
  auto kind = std::make_shared<Kind>();
  kind->uid = uid;
  kind->origin = origin;
  kind->def = with_conversion(bound_resource(*schema, identity),
                              conversion_of(server_->reader(), origin.cluster, origin.name));
  if (kind->def == nullptr) {
    log_error("the schema of a bound resource cannot be served", {{"uid", uid}});
    return nullptr;
  }
  kind->resource = resource_key(kind->def->group, kind->def->plural, identity);
  kinds_.emplace(key, kind);
  return kind;
}

apiserver::ResourcePtr BoundKinds::leaving_of(Kind& kind) const {
  if (apiserver::ResourcePtr known = kind.leaving.lock()) {
    return known;
  }
  auto def = std::make_shared<apiserver::ResourceDef>(*kind.def);
  def->terminating = true;
  kind.leaving = def;
  return def;
}

BoundKinds::Resources BoundKinds::resources_of(std::string_view cluster, std::string_view name,
                                               const Json* binding) {
  Resources out;
  const Json* list = binding == nullptr ? nullptr : binding->at({"status", "boundResources"});
  if (list == nullptr) {
    return out;
  }
  const bool leaving = apiserver::is_deleted(*binding);
  for (const Json& entry : list->items()) {
    const std::string uid(entry.text({"schema", "UID"}));
    const std::string_view identity = entry.text({"schema", "identityHash"});
    if (uid.empty() || identity.empty()) {
      continue;
    }
    KindPtr kind = kind_of(uid, identity,
                           {std::string(binding->text({"status", "apiExportClusterName"})),
                            std::string(entry.text({"schema", "name"}))});
    if (kind == nullptr) {
      waiting_[uid].emplace(cluster, name);
      continue;
    }
    apiserver::ResourcePtr def = leaving ? leaving_of(*kind) : kind->def;
    out.push_back({std::move(kind), std::move(def)});
  }
  return out;
}

void BoundKinds::use(const Resources& resources) {
  for (const Bound& bound : resources) {
    if (bound.kind->uses++ > 0) {
      continue;
    }
    std::vector<KindPtr>& known = resources_[bound.kind->resource];
    known.push_back(bound.kind);
    if (known.size() > 1) {  // those who watch all clusters are to see the new schema
      server_->end_watches("*", bound.def->group, bound.def->plural);
    }
  }
}

void BoundKinds::release(const Resources& resources) {
  for (const Bound& bound : resources) {
    if (--bound.kind->uses > 0) {
      continue;
    }
    const auto known = resources_.find(bound.kind->resource);
    std::erase(known->second, bound.kind);
    if (known->second.empty()) {
      resources_.erase(known);
    }
    const auto made = kinds_.find(kind_key(bound.kind->uid, bound.def->identity));
    if (made != kinds_.end() && made->second == bound.kind) {
      kinds_.erase(made);
    }
  }
}

void BoundKinds::apply(std::string_view cluster, std::string_view name, const Json* binding) {
  const auto place = clusters_.find(cluster);
  Resources before;
  if (place != clusters_.end()) {
    if (const auto known = place->second.bindings.find(name);
        known != place->second.bindings.end()) {
      before = known->second.resources;
    }
  }
  for (auto& [uid, bindings] : waiting_) {  // nearly always empty
    bindings.erase({std::string(cluster), std::string(name)});
  }
  const Resources now = resources_of(cluster, name, binding);
  const auto same_def = [](const Bound& a, const Bound& b) { return a.def == b.def; };
  From from;
  if (binding != nullptr) {
    from = {{std::string(binding->text({"status", "apiExportClusterName"})),
             std::string(binding->text({"spec", "reference", "export", "name"}))},
            std::string(binding->text({"status", "apiExportUID"})),
            binding->text({"status", "apiExportPolicy"}) == kLocalPolicy};
  }
  if (std::equal(now.begin(), now.end(), before.begin(), before.end(), same_def)) {
    if (!now.empty()) {
      Binding& kept = place->second.bindings.find(name)->second;
      kept.from = std::move(from);
      kept.revision = apiserver::revision_of(*binding);
    }
    return;
  }
  Cluster& entry = clusters_[std::string(cluster)];
  ++entry.generation;
  use(now);
  if (now.empty()) {
    entry.bindings.erase(entry.bindings.find(name));
  } else {
    entry.bindings.insert_or_assign(
        std::string(name), Binding{std::move(from), now, apiserver::revision_of(*binding)});
  }
  for (const Bound& bound : before) {
    const bool kept = std::any_of(now.begin(), now.end(),
                                  [&](const Bound& one) { return one.kind == bound.kind; });
    if (!kept) {
      server_->end_watches(cluster, bound.def->group, bound.def->plural);
    }
  }
  release(before);
}

}  // namespace kintsugi::controlplane
