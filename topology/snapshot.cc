#include "topology/snapshot.h"

#include <algorithm>

#include "krm/path_prefixes.h"
#include "topology/index.h"

namespace kintsugi::topology {

std::string_view resource_name(Resource resource) noexcept {
  switch (resource) {
    case Resource::kWorkspaces:
      return "workspaces";
    case Resource::kLogicalClusters:
      return "logicalclusters";
    case Resource::kExports:
      return "apiexports";
    case Resource::kBindings:
      return "apibindings";
  }
  return "";
}

std::string shard_target(const ShardInfo& shard, std::string_view cluster, std::string_view rest) {
  std::string target;
  target.reserve(krm::kClustersPrefix.size() + cluster.size() + 1 + rest.size());
  if (!shard.spec.plain) {
    target.append(krm::kClustersPrefix).append(cluster);
    if (rest.substr(0, 1) == "/" && (rest.size() == 1 || rest[1] == '?')) {
      rest.remove_prefix(1);
    }
  } else if (rest.empty() || rest.front() != '/') {
    target.push_back('/');
  }
  target.append(rest);
  return target;
}

std::string shard_url(const ShardInfo& shard, std::string_view cluster, std::string_view rest) {
  return shard.spec.base_url + shard_target(shard, cluster, rest);
}

std::string_view untrusted_fact_name(UntrustedFact fact) noexcept {
  return fact == UntrustedFact::kWorkspaceEdge ? "workspace-edge" : "cluster-name";
}

const std::string* ShardSpec::label(std::string_view key) const noexcept {
  const auto at =
      std::lower_bound(labels.begin(), labels.end(), key,
                       [](const auto& pair, std::string_view k) { return pair.first < k; });
  return at != labels.end() && at->first == key ? &at->second : nullptr;
}

bool Snapshot::all_synced(Resource resource) const noexcept {
  return shards_listed_ && std::all_of(shards_.begin(), shards_.end(), [&](const auto& shard) {
           return shard->is_synced(resource);
         });
}

const ShardInfo* Snapshot::shard(ShardId id) const noexcept {
  const auto at = std::lower_bound(shards_.begin(), shards_.end(), id,
                                   [](const auto& row, ShardId key) { return row->id < key; });
  return at != shards_.end() && (*at)->id == id ? at->get() : nullptr;
}

const ShardInfo* Snapshot::shard(std::string_view name) const noexcept {
  for (const auto& row : shards_) {
    if (row->spec.name == name) {
      return row.get();
    }
  }
  return nullptr;
}

std::optional<ClusterFact> Snapshot::cluster(std::string_view name) const noexcept {
  const auto entry = clusters_.find(name);
  if (!entry) {
    return std::nullopt;
  }
  FactReader in(entry->value);
  ClusterFact fact;
  fact.name = entry->key;
  const std::string_view parents = in.text();
  if (in.empty()) {
    return std::nullopt;  // only a Workspace knows it
  }
  fact.owner = in.u32();  // the owner's report stands first
  fact.changed = in.u32();
  const std::uint8_t flags = in.u8();
  fact.inactive = (flags & kInactiveFlag) != 0;
  if ((flags & kOwnedFlag) != 0) {
    fact.parent = in.u64();
    for (FactReader marks(parents); !marks.empty();) {
      fact.parents += marks.u64() == fact.parent ? 1U : 0U;
    }
  }
  fact.type = in.text();
  return fact;
}

bool Snapshot::rests(ShardId shard, std::string_view name) const noexcept {
  const auto entry = conflicts_ == 0 ? std::nullopt : clusters_.find(name);
  if (!entry) {
    return false;
  }
  FactReader in(entry->value);
  (void)in.text();
  for (bool first = true; !in.empty(); first = false) {
    const ShardId reporter = in.u32();
    (void)in.u32();
    const std::uint8_t flags = in.u8();
    const bool inactive = (flags & kInactiveFlag) != 0;
    if (first && (inactive || reporter == shard)) {
      return false;  // the owner's report stands first
    }
    if (reporter == shard) {
      return inactive;
    }
    if ((flags & kOwnedFlag) != 0) {
      (void)in.u64();
    }
    (void)in.text();
    (void)in.text();
  }
  return false;
}

std::optional<WorkspaceFact> Snapshot::workspace(ShardId shard, std::string_view cluster,
                                                 std::string_view name) const noexcept {
  char key[sizeof(ShardId) + 1 + 250];
  const std::size_t size = sizeof(shard) + 1 + cluster.size() + name.size();
  if (size > sizeof(key)) {
    return std::nullopt;
  }
  std::memcpy(key, &shard, sizeof(shard));
  key[sizeof(shard)] = static_cast<char>(cluster.size());
  std::memcpy(key + sizeof(shard) + 1, cluster.data(), cluster.size());
  std::memcpy(key + sizeof(shard) + 1 + cluster.size(), name.data(), name.size());
  const auto entry = workspaces_.find(std::string_view(key, size));
  if (!entry) {
    return std::nullopt;
  }
  FactReader in(entry->value);
  WorkspaceFact fact;
  fact.unavailable = in.u8() != 0;
  fact.mark = in.u64();
  fact.changed = in.u32();
  fact.child = in.text();
  fact.mount_url = in.text();
  return fact;
}

Snapshot::ParentName Snapshot::parent_of(std::string_view name) const noexcept {
  const auto fact = cluster(name);
  ParentName found;
  if (!fact || fact->parent == 0) {
    return found;
  }
  workspaces_.for_each([&](const IndexMap::Entry& entry) {
    FactReader in(entry.value);
    in.u8();
    const std::uint64_t mark = in.u64();
    in.u32();
    if (mark == fact->parent && in.text() == name) {
      const std::string_view key = entry.key.substr(sizeof(ShardId));
      const auto size = static_cast<unsigned char>(key.front());
      found = {key.substr(1, size), key.substr(1 + std::size_t{size})};
    }
  });
  return found;
}

std::vector<std::string_view> Snapshot::claimants(std::string_view path) const {
  std::vector<std::string_view> names;
  if (const auto entry = claims_.find(path); entry) {
    FactReader in(entry->value);
    while (!in.empty()) {
      const auto fact = cluster(in.text());
      if (fact && fact->parent == 0) {
        names.push_back(fact->name);
      }
    }
  }
  return names;
}

std::vector<ShardId> Snapshot::consumers(std::string_view export_cluster,
                                         std::string_view export_name) const {
  std::vector<ShardId> shards;
  if (const auto entry = consumers_.find(consumers_key(export_cluster, export_name)); entry) {
    FactReader in(entry->value);
    in.text();
    while (!in.empty()) {
      shards.push_back(in.u32());
    }
  }
  return shards;
}

bool Snapshot::has_consumer(ShardId shard, std::string_view export_cluster,
                            std::string_view export_name) const noexcept {
  const auto entry = consumers_.find(consumers_key(export_cluster, export_name));
  if (!entry) {
    return false;
  }
  FactReader in(entry->value);
  in.text();
  while (!in.empty()) {
    if (in.u32() == shard) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> Snapshot::consumed_exports(ShardId shard) const {
  std::vector<std::string> exports;
  consumers_.for_each([&](const IndexMap::Entry& entry) {
    FactReader in(entry.value);
    const std::string_view name = in.text();
    while (!in.empty()) {
      if (in.u32() == shard) {
        exports.emplace_back(name);
      }
    }
  });
  std::sort(exports.begin(), exports.end());
  return exports;
}

bool Snapshot::claims_foreign(std::string_view export_cluster, std::string_view export_name,
                              std::string_view group, std::string_view resource) const noexcept {
  const std::optional<ClusterFact> home = cluster(export_cluster);
  const auto claims = [&](ShardId shard) {
    const auto entry = foreign_claims_.find(claims_key(shard, export_cluster, export_name));
    for (FactReader in(entry ? entry->value : std::string_view()); !in.empty();) {
      const std::string_view claim = in.text();
      const std::size_t slash = claim.find('/');
      if (claim == kAnyResource ||
          (claim.substr(0, slash) == group && claim.substr(slash + 1) == resource)) {
        return true;
      }
    }
    return false;
  };
  // Of an export the shard knows that has its logical cluster; nobody else's word counts.
  return home ? claims(home->owner)
              : std::any_of(shards_.begin(), shards_.end(),
                            [&](const auto& shard) { return claims(shard->id); });
}

std::size_t Snapshot::owned(ShardId id) const noexcept {
  for (const Owned& row : owned_) {
    if (row.shard == id) {
      return row.clusters;
    }
  }
  return 0;
}

std::uint64_t Snapshot::moved_away(ShardId id) const noexcept {
  if (id == 0) {
    return moved_away_;
  }
  for (const Owned& row : owned_) {
    if (row.shard == id) {
      return row.moved_away;
    }
  }
  return 0;
}

std::size_t Snapshot::bytes() const noexcept {
  return clusters_.bytes() + workspaces_.bytes() + claims_.bytes() + consumers_.bytes() +
         foreign_claims_.bytes();
}

void SnapshotView::offer(const std::shared_ptr<SnapshotView>& self, SnapshotPtr snapshot) {
  bool waiting = false;
  {
    const std::lock_guard lock(self->mutex_);
    waiting = self->next_ != nullptr;
    self->next_ = std::move(snapshot);
  }
  if (!waiting) {
    self->loop_.post([self] { self->take(); });
  }
}

void SnapshotView::take() {
  SnapshotPtr next;
  {
    const std::lock_guard lock(mutex_);
    next = std::move(next_);
    next_ = nullptr;
  }
  const SnapshotPtr before = std::exchange(current_, std::move(next));
  for (const auto& changed : changed_) {
    changed(*before, *current_);
  }
}

std::shared_ptr<SnapshotView> SnapshotPublisher::attach(net::Loop& loop) {
  auto view = std::make_shared<SnapshotView>(loop);
  view->current_ = last_;
  views_.push_back(view);
  return view;
}

void SnapshotPublisher::publish(SnapshotPtr snapshot) {
  last_ = std::move(snapshot);
  for (const auto& view : views_) {
    SnapshotView::offer(view, last_);
  }
}

}  // namespace kintsugi::topology
