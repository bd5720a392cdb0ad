#include "topology/internal/consumers.h"

#include "topology/resolver.h"

namespace kintsugi::topology {
namespace {

std::string joined(std::string_view cluster, std::string_view name) {
  std::string key(cluster);
  key.append("|").append(name);
  return key;
}

ConsumerChange change_of(ShardId shard, std::string_view export_key, bool present) {
  const std::size_t bar = export_key.find('|');
  return {shard, std::string(export_key.substr(0, bar)), std::string(export_key.substr(bar + 1)),
          present};
}

std::string export_key_of(const Snapshot& facts, std::string_view cluster, std::string_view path,
                          std::string_view name) {
  const Resolution target = resolve(facts, path.empty() ? cluster : path);
  return target.resolved() ? joined(target.cluster, name) : std::string();
}

}  // namespace

void ConsumerTable::release(ShardId shard, ExportEntry* from, ConsumerChanges& changes) {
  if (from == nullptr) {
    return;
  }
  const auto count = from->second.find(shard);
  if (--count->second > 0) {
    return;
  }
  changes.push_back(change_of(shard, from->first, false));
  from->second.erase(count);
  if (from->second.empty()) {
    exports_.erase(exports_.find(from->first));
  }
}

/// The new export first, so that one that stays the same is never without its binding.
void ConsumerTable::point(ShardId shard, const std::string& key, std::string_view export_key,
                          ConsumerChanges& changes) {
  ExportEntry*& row = rows_[shard][key];
  ExportEntry* const before = row;
  if (before != nullptr && before->first == export_key) {
    return;
  }
  row = nullptr;
  if (!export_key.empty()) {
    row = &*exports_.try_emplace(std::string(export_key)).first;
    if (++row->second[shard] == 1) {
      changes.push_back(change_of(shard, export_key, true));
    }
  }
  release(shard, before, changes);
}

void ConsumerTable::upsert(const Snapshot& facts, ShardId shard, const BindingReport& report,
                           ConsumerChanges& changes) {
  if (report.export_name.empty()) {
    erase(shard, report.cluster, report.name, changes);
    return;
  }
  const std::string key = joined(report.cluster, report.name);
  if (!report.export_cluster.empty()) {
    open_.erase({shard, key});
    point(shard, key, joined(report.export_cluster, report.export_name), changes);
    return;
  }
  open_.insert_or_assign(BindingKey(shard, key),
                         Open{report.cluster, report.export_path, report.export_name});
  point(shard, key, export_key_of(facts, report.cluster, report.export_path, report.export_name),
        changes);
}

void ConsumerTable::erase(ShardId shard, std::string_view cluster, std::string_view name,
                          ConsumerChanges& changes) {
  const auto of_shard = rows_.find(shard);
  if (of_shard == rows_.end()) {
    return;
  }
  const std::string key = joined(cluster, name);
  const auto row = of_shard->second.find(key);
  if (row == of_shard->second.end()) {
    return;
  }
  ExportEntry* const before = row->second;
  of_shard->second.erase(row);
  open_.erase({shard, key});
  release(shard, before, changes);
}

void ConsumerTable::erase_shard(ShardId shard, ConsumerChanges& changes) {
  const auto of_shard = rows_.find(shard);
  if (of_shard == rows_.end()) {
    return;
  }
  for (const auto& [key, row] : of_shard->second) {
    release(shard, row, changes);
  }
  rows_.erase(of_shard);
  open_.erase(open_.lower_bound({shard, {}}), open_.lower_bound({shard + 1, {}}));
}

void ConsumerTable::settle(const Snapshot& facts, ConsumerChanges& changes) {
  for (const auto& [key, open] : open_) {
    point(key.first, key.second, export_key_of(facts, open.cluster, open.path, open.name), changes);
  }
}

}  // namespace kintsugi::topology
