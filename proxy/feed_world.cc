#include "proxy/feed_world.h"

#include <algorithm>

#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using topology::Resource;

topology::ShardFacts facts_of(const topology::ShardInfo& info) {
  topology::ShardFacts facts;
  facts.name = info.spec.name;
  for (const auto& [key, value] : info.spec.labels) {
    facts.labels[key] = value;
  }
  facts.base_url = info.spec.base_url;
  facts.external_url = info.spec.external_url;
  facts.virtual_workspace_url = info.spec.virtual_workspace_url;
  facts.up = info.up;
  facts.synced =
      info.is_synced(Resource::kWorkspaces) && info.is_synced(Resource::kLogicalClusters);
  return facts;
}

}  // namespace

FeedWorld::FeedWorld(topology::Feed& feed) : feed_(feed) { feed_.add_listener(*this); }
FeedWorld::~FeedWorld() { feed_.remove_listener(*this); }

std::string FeedWorld::key(std::string_view cluster, std::string_view name) {
  return std::string(cluster) + "|" + std::string(name);
}

std::vector<topology::ShardFacts> FeedWorld::shard_facts() const {
  std::vector<topology::ShardFacts> facts;
  for (const auto& info : feed_.index().shards()) {
    facts.push_back(facts_of(*info));
  }
  std::sort(facts.begin(), facts.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return facts;
}

std::vector<endpointslice::SliceShard> FeedWorld::shards(std::string_view export_cluster,
                                                         std::string_view export_name) const {
  std::vector<endpointslice::SliceShard> result;
  for (const auto& info : feed_.index().shards()) {
    endpointslice::SliceShard shard;
    shard.facts = facts_of(*info);
    shard.bindings_synced = info->is_synced(Resource::kBindings);
    const auto found = bindings_.find(info->id);
    shard.has_consumer =
        found != bindings_.end() &&
        std::any_of(found->second.begin(), found->second.end(), [&](const auto& entry) {
          const Binding& binding = entry.second;
          if (binding.export_name != export_name) {
            return false;
          }
          const std::string own = entry.first.substr(0, entry.first.find('|'));
          const topology::Resolution target =
              topology::resolve(feed_.index(), binding.export_path.empty() ? std::string_view(own)
                                                                           : binding.export_path);
          return target.resolved() && target.cluster == export_cluster;
        });
    result.push_back(std::move(shard));
  }
  std::sort(result.begin(), result.end(),
            [](const auto& a, const auto& b) { return a.facts.name < b.facts.name; });
  return result;
}

endpointslice::ExportFacts FeedWorld::find_export(std::string_view path,
                                                  std::string_view name) const {
  using State = endpointslice::ExportFacts::State;
  const topology::Snapshot& index = feed_.index();
  const topology::Resolution target = topology::resolve(index, path);
  if (target.resolved()) {
    if (exports_.contains(key(target.cluster, name))) {
      return {State::kFound, std::string(target.cluster)};
    }
    return {target.shard->is_synced(Resource::kExports) ? State::kAbsent : State::kUnknown, {}};
  }
  for (const auto& [unused, one] : exports_) {
    if (one.record.name == name && one.record.path == path) {
      return {State::kFound, one.record.cluster};
    }
  }
  return {target.kind == topology::Resolution::Kind::kNotKnown ? State::kUnknown : State::kAbsent,
          {}};
}

void FeedWorld::exports(
    const std::function<void(const endpointslice::ExportRecord&)>& visit) const {
  for (const auto& [unused, one] : exports_) {
    visit(one.record);
  }
}

const endpointslice::ExportRecord* FeedWorld::export_record(std::string_view cluster,
                                                            std::string_view name) const {
  const auto found = exports_.find(key(cluster, name));
  return found == exports_.end() ? nullptr : &found->second.record;
}

void FeedWorld::on_change(const topology::ShardChanged& change) {
  if (change.removed) {
    std::erase_if(exports_,
                  [&](const auto& entry) { return entry.second.shard == change.shard.id; });
    bindings_.erase(change.shard.id);
  }
  if (events_.shards_changed) {
    events_.shards_changed();
  }
}

void FeedWorld::on_change(const topology::ExportChanged& change) {
  const std::string id = key(change.cluster, change.name);
  if (change.object == nullptr) {
    const auto found = exports_.find(id);
    if (found == exports_.end() || found->second.shard != change.shard) {
      return;
    }
    exports_.erase(found);
  } else {
    Export& one = exports_[id];
    one.shard = change.shard;
    const Json& object = *change.object;
    one.record = {std::string(change.cluster), std::string(change.name),
                  std::string(object.text({"metadata", "uid"})),
                  std::string(object.text({"metadata", "annotations", "kcp.io/path"})),
                  object.at({"metadata", "annotations",
                             "apiexports.apis.kcp.io/skip-endpointslice"}) != nullptr};
  }
  if (events_.export_changed) {
    events_.export_changed(change.cluster, change.name);
  }
}

void FeedWorld::on_change(const topology::BindingChanged& change) {
  auto& of_shard = bindings_[change.shard];
  const std::string id = key(change.cluster, change.name);
  std::string touched;
  if (const auto found = of_shard.find(id); found != of_shard.end()) {
    touched = found->second.export_name;
    of_shard.erase(found);
  }
  if (change.object != nullptr) {
    Binding binding{std::string(change.object->text({"spec", "reference", "export", "path"})),
                    std::string(change.object->text({"spec", "reference", "export", "name"}))};
    touched = binding.export_name;
    of_shard.emplace(id, std::move(binding));
  }
  if (!touched.empty() && events_.export_changed) {
    events_.export_changed("", touched);
  }
}

void FeedWorld::on_change(const topology::LogicalClusterChanged& change) {
  if (change.object == nullptr && !feed_.index().cluster(change.cluster) && events_.cluster_gone) {
    events_.cluster_gone(change.cluster);
  }
}

void FeedWorld::on_change(const topology::SyncedChanged& change) {
  (void)change;
  if (events_.shards_changed) {
    events_.shards_changed();
  }
}

}  // namespace kintsugi::proxy
