#include "proxy/feed_world.h"

#include <algorithm>

#include "krm/annotations.h"
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

const std::vector<topology::ShardFacts>& FeedWorld::shard_table() const {
  if (!table_known_) {
    std::vector<const topology::ShardInfo*> rows;
    for (const auto& info : feed_.index().shards()) {
      rows.push_back(info.get());
    }
    std::sort(rows.begin(), rows.end(),
              [](const auto* a, const auto* b) { return a->spec.name < b->spec.name; });
    table_.clear();
    table_ids_.clear();
    for (const topology::ShardInfo* info : rows) {
      table_.push_back(facts_of(*info));
      table_ids_.push_back(info->id);
    }
    table_known_ = true;
  }
  return table_;
}

void FeedWorld::shard_imported(topology::ShardId shard) {
  for (const auto& [unused, one] : exports_) {
    if (one.shard == shard && events_.export_changed) {
      events_.export_changed(one.record.cluster, one.record.name);
    }
  }
}

void FeedWorld::forget_table() {
  table_known_ = false;
  if (events_.shards_changed) {
    events_.shards_changed();
  }
}

std::vector<endpointslice::SliceShard> FeedWorld::shards(std::string_view export_cluster,
                                                         std::string_view export_name) const {
  const std::vector<topology::ShardFacts>& table = shard_table();
  const std::vector<topology::ShardId> consumers =
      feed_.index().consumers(export_cluster, export_name);
  std::vector<endpointslice::SliceShard> result(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const topology::ShardInfo* info = feed_.index().shard(table_ids_[i]);
    result[i] = {&table[i], std::binary_search(consumers.begin(), consumers.end(), table_ids_[i]),
                 info != nullptr && info->is_synced(Resource::kBindings)};
  }
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
    return {target.shard->is_synced(Resource::kExports) ? State::kAbsent : State::kUnknown,
            std::string(target.cluster)};
  }
  // The path that an export says is nobody's (KK-103).
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
  if (found == exports_.end() || (events_.imported && !events_.imported(found->second.shard))) {
    return nullptr;
  }
  return &found->second.record;
}

void FeedWorld::on_change(const topology::ShardChanged& change) {
  if (change.removed) {
    std::erase_if(exports_,
                  [&](const auto& entry) { return entry.second.shard == change.shard.id; });
  }
  forget_table();
  if (change.removed && events_.shards_relisted) {
    events_.shards_relisted();
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
    one.record = {
        std::string(change.cluster), std::string(change.name),
        std::string(object.text({"metadata", "uid"})),
        std::string(object.text({"metadata", "annotations", krm::kPathAnnotation})),
        object.at({"metadata", "annotations", krm::kSkipEndpointSliceAnnotation}) != nullptr};
  }
  if (events_.export_changed) {
    events_.export_changed(change.cluster, change.name);
  }
}

void FeedWorld::on_change(const topology::ConsumersChanged& change) {
  if (events_.export_changed) {
    events_.export_changed("", change.change.name);
  }
}

void FeedWorld::on_change(const topology::WorkspaceChanged& change) {
  if (events_.path_changed) {
    events_.path_changed(change.name);
  }
}

void FeedWorld::on_change(const topology::LogicalClusterChanged& change) {
  if (change.object == nullptr && !feed_.index().cluster(change.cluster) && events_.cluster_gone) {
    events_.cluster_gone(change.cluster);
  }
  if (change.object != nullptr && events_.path_changed) {
    events_.path_changed("");
  }
}

void FeedWorld::on_change(const topology::SyncedChanged& change) {
  (void)change;
  forget_table();
  if (events_.shards_relisted) {
    events_.shards_relisted();
  }
}

}  // namespace kintsugi::proxy
