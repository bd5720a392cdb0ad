#include "kinds/registry.h"

#include <algorithm>
#include <utility>

#include "apiserver/controllers/controller.h"
#include "apiserver/keys.h"
#include "apiserver/server.h"
#include "base/digest.h"
#include "kinds/builtin_kinds.h"
#include "krm/annotations.h"

namespace kintsugi::kinds {
namespace {

constexpr std::string_view kGroup = "apiextensions.k8s.io";
constexpr std::string_view kResource = "customresourcedefinitions";

std::string qualified(std::string_view group, std::string_view resource) {
  std::string name(resource);
  if (!group.empty()) {
    (name += '.') += group;
  }
  return name;
}

bool has_condition(const krm::Json& crd, std::string_view type) {
  const krm::Json* conditions = crd.at({"status", "conditions"});
  return conditions != nullptr &&
         std::any_of(conditions->items().begin(), conditions->items().end(),
                     [type](const krm::Json& condition) {
                       return condition.text({"type"}) == type &&
                              condition.text({"status"}) == "True";
                     });
}

bool is_established(const krm::Json& crd) { return has_condition(crd, "Established"); }
bool is_terminating(const krm::Json& crd) { return has_condition(crd, "Terminating"); }

/// Whatever the served resource depends on.
std::string fingerprint_of(const krm::Json& crd) {
  std::string text;
  if (const krm::Json* spec = crd.find("spec"); spec != nullptr) {
    spec->dump_to(text);
  }
  if (const krm::Json* names = crd.at({"status", "acceptedNames"}); names != nullptr) {
    names->dump_to(text);
  }
  return sha256_text(text);
}

}  // namespace

StaticPlusCrdRegistry::StaticPlusCrdRegistry(std::vector<StaticKind> kinds) {
  for (StaticKind& kind : kinds) {
    add(std::move(kind));
  }
}

void StaticPlusCrdRegistry::add(StaticKind kind) {
  static_index_.emplace(kind.def->qualified_name(), static_.size());
  static_.push_back(std::move(kind));
  ++static_generation_;
}

void StaticPlusCrdRegistry::follow(apiserver::ApiServer& server) {
  subscription_ = server.on_change(
      kGroup, kResource, [this, &server](const apiserver::ApiServer::Change& change) {
        apply(server, change.cluster, change.name, change.object.get());
      });
  server.reader().list("*", kGroup, kResource, "", [this, &server](const krm::Json& crd) {
    apply(server, crd.text({"metadata", "annotations", krm::kClusterAnnotation}),
          crd.text({"metadata", "name"}), &crd);
    return true;
  });
  ready_ = true;
}

void StaticPlusCrdRegistry::apply(apiserver::ApiServer& server, std::string_view cluster,
                                  std::string_view name, const krm::Json* crd) {
  Cluster& known = clusters_[std::string(cluster)];
  const auto found = known.definitions.find(name);
  const bool was_served = found != known.definitions.end();
  apiserver::ResourcePtr def;
  std::string fingerprint;
  bool same = false;
  if (crd != nullptr && is_established(*crd)) {
    fingerprint = fingerprint_of(*crd);
    same = was_served && found->second.fingerprint == fingerprint;
    if (same && (found->second.def->terminating || !is_terminating(*crd))) {
      found->second.revision = apiserver::revision_of(*crd);
      return;
    }
    def = resource_from_crd(*crd);
  }
  if (def == nullptr && !was_served) {
    return;
  }
  const apiserver::ResourcePtr before = was_served ? found->second.def : nullptr;
  if (def == nullptr) {
    known.definitions.erase(found);
  } else {
    known.definitions[std::string(name)] = {std::move(def), std::move(fingerprint),
                                            apiserver::revision_of(*crd)};
  }
  ++known.generation;
  if (before != nullptr && !same) {
    server.end_watches(cluster, before->group, before->plural);
    server.end_watches("*", before->group, before->plural);
  }
}

apiserver::ResourcePtr StaticPlusCrdRegistry::find(std::string_view cluster, std::string_view group,
                                                   std::string_view resource) const {
  const std::string name = qualified(group, resource);
  if (const auto found = static_index_.find(name); found != static_index_.end()) {
    const StaticKind& kind = static_[found->second];
    return cluster == "*" || !kind.served_in || kind.served_in(cluster) ? kind.def : nullptr;
  }
  const auto known = clusters_.find(cluster);
  if (known == clusters_.end()) {
    return nullptr;
  }
  const auto found = known->second.definitions.find(name);
  return found == known->second.definitions.end() ? nullptr : found->second.def;
}

apiserver::ResourcePtr StaticPlusCrdRegistry::find_any_identity(std::string_view group,
                                                                std::string_view resource) const {
  const std::string name = qualified(group, resource);
  std::shared_ptr<apiserver::ResourceDef> all;
  for (const auto& [cluster, known] : clusters_) {
    const auto found = known.definitions.find(name);
    if (found == known.definitions.end()) {
      continue;
    }
    const apiserver::ResourceDef& def = *found->second.def;
    if (all == nullptr) {
      all = std::make_shared<apiserver::ResourceDef>(def);
      all->of_any_definition = true;
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

std::vector<apiserver::ResourcePtr> StaticPlusCrdRegistry::all(std::string_view cluster) const {
  std::vector<apiserver::ResourcePtr> out;
  for (const StaticKind& kind : static_) {
    if (cluster == "*" || !kind.served_in || kind.served_in(cluster)) {
      out.push_back(kind.def);
    }
  }
  if (const auto known = clusters_.find(cluster); known != clusters_.end()) {
    std::vector<apiserver::ResourcePtr> custom;
    for (const auto& item : known->second.definitions) {
      custom.push_back(item.second.def);
    }
    std::sort(custom.begin(), custom.end(),
              [](const apiserver::ResourcePtr& a, const apiserver::ResourcePtr& b) {
                return a->plural < b->plural;
              });
    out.insert(out.end(), custom.begin(), custom.end());
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const apiserver::ResourcePtr& a, const apiserver::ResourcePtr& b) {
                     return a->group < b->group;
                   });
  return out;
}

std::optional<apiserver::ServedBy> StaticPlusCrdRegistry::served_by(
    std::string_view cluster, const apiserver::ResourceDef& def) const {
  const std::string name = def.qualified_name();
  if (!def.identity.empty() || static_index_.find(name) != static_index_.end()) {
    return apiserver::ServedBy();
  }
  const auto known = clusters_.find(cluster);
  if (known == clusters_.end()) {
    return std::nullopt;
  }
  const auto found = known->second.definitions.find(name);
  if (found == known->second.definitions.end()) {
    return std::nullopt;
  }
  auto key =
      apiserver::object_key(apiserver::stored_resource(kGroup, kResource), cluster, "", name);
  return apiserver::ServedBy{std::move(key).value_or(""), found->second.revision,
                             found->second.def->terminating};
}

std::uint64_t StaticPlusCrdRegistry::generation(std::string_view cluster) const {
  const auto known = clusters_.find(cluster);
  return static_generation_ << 32 | (known == clusters_.end() ? 0 : known->second.generation);
}

}  // namespace kintsugi::kinds
