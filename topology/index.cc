#include "topology/index.h"

#include <algorithm>

#include "base/digest.h"
#include "base/log.h"
#include "base/strings.h"

namespace kintsugi::topology {
namespace {

constexpr std::size_t kMaxUrl = 4'096;

std::string_view without_trailing_slash(std::string_view url) {
  while (!url.empty() && url.back() == '/') {
    url.remove_suffix(1);
  }
  return url;
}

constexpr std::size_t kMostReplicas = 16;

bool is_http_url(std::string_view url) {
  for (std::string_view scheme : {std::string_view("https://"), std::string_view("http://")}) {
    if (url.substr(0, scheme.size()) == scheme) {
      const std::string_view rest = url.substr(scheme.size());
      return !rest.empty() && rest.front() != '/' && rest.front() != ':' &&
             rest.find_first_of(" \t\r\n?#") == std::string_view::npos;
    }
  }
  return false;
}

ShardSpec normalised(ShardSpec spec) {
  spec.base_url = std::string(without_trailing_slash(spec.base_url));
  spec.external_url = std::string(without_trailing_slash(spec.external_url));
  spec.virtual_workspace_url = std::string(without_trailing_slash(spec.virtual_workspace_url));
  if (spec.external_url.empty()) {
    spec.external_url = spec.base_url;
  }
  if (spec.virtual_workspace_url.empty()) {
    spec.virtual_workspace_url = spec.base_url;
  }
  std::sort(spec.labels.begin(), spec.labels.end());
  std::vector<std::string> replicas;
  for (const std::string& given : spec.replica_urls) {
    std::string url(without_trailing_slash(given));
    if (is_http_url(url) && url != spec.base_url && replicas.size() < kMostReplicas) {
      replicas.push_back(std::move(url));
    }
  }
  std::sort(replicas.begin(), replicas.end());
  replicas.erase(std::unique(replicas.begin(), replicas.end()), replicas.end());
  spec.replica_urls = std::move(replicas);
  return spec;
}

/// R-07: a path of one segment, other than root and other than the cluster's own name. A cluster
/// that belongs to a Workspace has that one's path, whatever it says (KK-103).
std::string claim_of(const ClusterReport& report) {
  const bool claims = !report.path.empty() && report.path.find(':') == std::string::npos &&
                      report.path != kRootName && report.path != report.cluster &&
                      report.path.size() <= 63 && report.owner_name.empty();
  return claims ? report.path : std::string();
}

}  // namespace

std::string workspace_key(ShardId shard, std::string_view cluster, std::string_view name) {
  if (cluster.empty() || name.empty() || cluster.size() + name.size() > 250) {
    return {};
  }
  return FactWriter()
      .u32(shard)
      .u8(static_cast<std::uint8_t>(cluster.size()))
      .raw(cluster)
      .raw(name)
      .bytes();
}

std::string consumers_key(std::string_view cluster, std::string_view name) {
  constexpr std::size_t kLongest = 255;  // of a key of the map
  std::string key(cluster);
  key.append("|").append(name);
  if (key.size() > kLongest) {
    key = sha256_text(key);
  }
  return key;
}

std::string claims_key(ShardId shard, std::string_view cluster, std::string_view name) {
  constexpr std::size_t kLongest = 255;
  std::string key = FactWriter().u32(shard).raw(consumers_key(cluster, name)).bytes();
  if (key.size() > kLongest) {
    const auto digest = sha256(key);
    key = FactWriter().u32(shard).bytes();
    key.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  }
  return key;
}

std::size_t Index::shard_row(ShardId id) const noexcept {
  for (std::size_t i = 0; i < facts_.shards_.size(); ++i) {
    if (facts_.shards_[i]->id == id) {
      return i;
    }
  }
  return facts_.shards_.size();
}

template <class Change>
bool Index::change_shard(ShardId id, Change change) {
  const std::size_t row = shard_row(id);
  if (row == facts_.shards_.size()) {
    return false;
  }
  auto next = std::make_shared<ShardInfo>(*facts_.shards_[row]);
  if (!change(*next)) {
    return false;
  }
  facts_.shards_[row] = std::move(next);
  return true;
}

Index::ShardChange Index::upsert_shard(const ShardSpec& given) {
  ShardSpec spec = normalised(given);
  const bool usable = is_http_url(spec.base_url);
  ShardChange result;
  if (const ShardInfo* known = facts_.shard(spec.name); known != nullptr) {
    result.id = known->id;
    result.changed = change_shard(known->id, [&](ShardInfo& row) {
      if (row.spec == spec) {
        return false;
      }
      const std::vector<std::string>& before = row.spec.replica_urls;
      result.urls_changed = row.spec.base_url != spec.base_url || before != spec.replica_urls;
      if (row.spec.base_url != spec.base_url &&
          !std::binary_search(before.begin(), before.end(), spec.base_url)) {
        result.base_url_changed = true;
        row.synced = 0;
      }
      row.usable = usable;
      row.spec = std::move(spec);
      return true;
    });
  } else {
    auto row = std::make_shared<ShardInfo>();
    row->id = ++last_id_;
    row->spec = std::move(spec);
    row->usable = usable;
    result.id = row->id;
    result.added = result.changed = true;
    facts_.owned_.push_back({row->id, 0, 0});
    facts_.shards_.push_back(std::move(row));
  }
  if (result.changed && !usable) {
    log_warn("shard has no usable base URL", {{"shard", given.name}, {"url", given.base_url}});
  }
  return result;
}

bool Index::delete_shard(std::string_view name) {
  const ShardInfo* known = facts_.shard(name);
  if (known == nullptr) {
    return false;
  }
  const ShardId id = known->id;
  const std::string prefix = FactWriter().u32(id).bytes();
  std::vector<std::string> keys;
  facts_.workspaces_.for_each([&](const IndexMap::Entry& entry) {
    if (entry.key.substr(0, prefix.size()) == prefix) {
      keys.emplace_back(entry.key);
    }
  });
  for (const std::string& key : keys) {
    FactReader in(facts_.workspaces_.find(key)->value);
    in.u8();
    const std::uint64_t mark = in.u64();
    in.u32();
    const std::string child(in.text());
    facts_.workspaces_.erase(key);
    drop_parent(child, mark);
  }
  keys.clear();
  facts_.clusters_.for_each([&](const IndexMap::Entry& entry) { keys.emplace_back(entry.key); });
  for (const std::string& cluster : keys) {
    delete_cluster(id, cluster);
  }
  ConsumerChanges consumers;
  consumers_.erase_shard(id, consumers);
  take_consumers(consumers, 0);
  keys.clear();
  facts_.foreign_claims_.for_each([&](const IndexMap::Entry& entry) {
    if (FactReader(entry.key).u32() == id) {
      keys.emplace_back(entry.key);
    }
  });
  for (const std::string& key : keys) {
    facts_.foreign_claims_.erase(key);
  }
  const std::size_t row = shard_row(id);
  facts_.shards_.erase(facts_.shards_.begin() + static_cast<std::ptrdiff_t>(row));
  facts_.owned_.erase(facts_.owned_.begin() + static_cast<std::ptrdiff_t>(row));
  return true;
}

bool Index::set_shards_listed() { return !std::exchange(facts_.shards_listed_, true); }

bool Index::set_synced(ShardId shard, Resource resource, bool synced) {
  return change_shard(shard, [&](ShardInfo& row) {
    const auto bit = static_cast<std::uint8_t>(1U << static_cast<unsigned>(resource));
    const std::uint8_t before = row.synced;
    row.synced = static_cast<std::uint8_t>(synced ? before | bit : before & ~bit);
    return row.synced != before;
  });
}

bool Index::set_health(ShardId shard, bool up, std::string_view cause) {
  return change_shard(shard, [&](ShardInfo& row) {
    if (row.up == up && row.cause == cause) {
      return false;
    }
    row.up = up;
    row.cause = cause;
    return true;
  });
}

Index::ClusterRecord Index::read_cluster(std::string_view name) const {
  ClusterRecord record;
  if (const auto entry = facts_.clusters_.find(name); entry) {
    FactReader in(entry->value);
    for (FactReader marks(in.text()); !marks.empty();) {
      record.parents.push_back(marks.u64());
    }
    while (!in.empty()) {
      Report report;
      report.shard = in.u32();
      report.changed = in.u32();
      const std::uint8_t flags = in.u8();
      report.inactive = (flags & kInactiveFlag) != 0;
      report.home = (flags & kHomeFlag) != 0;
      report.owner = (flags & kOwnedFlag) != 0 ? in.u64() : 0;
      report.type = in.text();
      report.claim = in.text();
      record.reports.push_back(std::move(report));
    }
    std::reverse(record.reports.begin(), record.reports.end());
  }
  return record;
}

bool Index::write_cluster(std::string_view name, const ClusterRecord& before,
                          const ClusterRecord& now) {
  const ShardId old_owner = before.reports.empty() ? 0 : before.reports.back().shard;
  const ShardId new_owner = now.reports.empty() ? 0 : now.reports.back().shard;
  if (old_owner != new_owner) {
    count_owned(old_owner, -1);
    count_owned(new_owner, 1);
    if (old_owner != 0 && new_owner != 0) {
      count_move(old_owner);
    }
    facts_.cluster_count_ += (new_owner != 0 ? 1U : 0U);
    facts_.cluster_count_ -= (old_owner != 0 ? 1U : 0U);
  }
  facts_.conflicts_ += (now.reports.size() > 1 ? 1U : 0U);
  facts_.conflicts_ -= (before.reports.size() > 1 ? 1U : 0U);
  bool changed = false;
  if (now.parents.empty() && now.reports.empty()) {
    changed = facts_.clusters_.erase(name);
  } else {
    FactWriter marks;
    for (const std::uint64_t mark : now.parents) {
      marks.u64(mark);
    }
    FactWriter out;
    out.text(marks.bytes());
    for (auto report = now.reports.rbegin(); report != now.reports.rend(); ++report) {
      const unsigned flags = (report->inactive ? kInactiveFlag : 0U) |
                             (report->owner != 0 ? kOwnedFlag : 0U) |
                             (report->home ? kHomeFlag : 0U);
      out.u32(report->shard).u32(report->changed).u8(static_cast<std::uint8_t>(flags));
      if (report->owner != 0) {
        out.u64(report->owner);
      }
      out.text(report->type).text(report->claim);
    }
    changed = facts_.clusters_.put(name, out.bytes());
  }
  paths_moved_ = paths_moved_ || changed;
  const std::string_view old_claim =
      before.reports.empty() ? std::string_view() : before.reports.back().claim;
  const std::string_view new_claim =
      now.reports.empty() ? std::string_view() : now.reports.back().claim;
  if (old_claim != new_claim) {
    move_claim(name, old_claim, new_claim);
  }
  return changed;
}

void Index::move_claim(std::string_view cluster, std::string_view from, std::string_view to) {
  const auto rewrite = [&](std::string_view path, bool add) {
    if (path.empty()) {
      return;
    }
    FactWriter out;
    if (const auto entry = facts_.claims_.find(path); entry) {
      FactReader in(entry->value);
      while (!in.empty()) {
        const std::string_view name = in.text();
        if (name != cluster) {
          out.text(name);
        }
      }
    }
    if (add) {
      out.text(cluster);
    }
    if (out.bytes().empty()) {
      facts_.claims_.erase(path);
    } else {
      facts_.claims_.put(path, out.bytes());
    }
  };
  rewrite(from, false);
  rewrite(to, true);
  if (!to.empty() && facts_.claimants(to).size() > 1) {
    log_warn("several logical clusters claim one path", {{"path", to}, {"cluster", cluster}});
  }
}

void Index::count_owned(ShardId id, int by) noexcept {
  for (Snapshot::Owned& row : facts_.owned_) {
    if (row.shard == id) {
      row.clusters += static_cast<std::size_t>(by);
    }
  }
}

void Index::count_move(ShardId from) noexcept {
  ++facts_.moved_away_;
  for (Snapshot::Owned& row : facts_.owned_) {
    row.moved_away += row.shard == from ? 1U : 0U;
  }
}

bool Index::upsert_cluster(ShardId shard, const ClusterReport& given) {
  if (shard_row(shard) == facts_.shards_.size() || given.cluster.empty() ||
      given.cluster.size() > 200) {
    return false;
  }
  const ClusterRecord before = read_cluster(given.cluster);
  ClusterRecord now = before;
  const std::uint64_t owner = given.cluster == kRootName
                                  ? 0
                                  : mark_of(given.owner_cluster, given.owner_name, given.owner_uid);
  Report report{shard,          time_, given.inactive,
                given.is_home,  owner, given.type.substr(0, 1'024),
                claim_of(given)};
  const auto known = std::find_if(now.reports.begin(), now.reports.end(),
                                  [&](const Report& r) { return r.shard == shard; });
  const bool is_new = known == now.reports.end();
  const bool has_it = !is_new && known + 1 == now.reports.end();
  if (!is_new) {
    if (has_it && known->inactive == report.inactive && known->home == report.home &&
        known->owner == report.owner && known->type == report.type &&
        known->claim == report.claim) {
      return false;
    }
    now.reports.erase(known);
  }
  // Among equals of which nothing speaks for any, the newest counts.
  const int weight = rank(given.cluster, now, report);
  const bool takes = now.reports.empty() || has_it || weight == 0 ||
                     weight > rank(given.cluster, now, now.reports.back());
  now.reports.insert(takes ? now.reports.end() : now.reports.end() - 1, std::move(report));
  elect(given.cluster, now);
  const bool changed = write_cluster(given.cluster, before, now);
  if (is_new && now.reports.size() > 1) {
    const ShardInfo* teller = facts_.shard(shard);
    const ShardInfo* routed = facts_.shard(now.reports.back().shard);
    distrust(UntrustedFact::kClusterName, given.cluster,
             "also reported by shard " + teller->spec.name + "; requests go to shard " +
                 (routed == nullptr ? std::string() : routed->spec.name));
  }
  const bool foreign = std::any_of(now.parents.begin(), now.parents.end(),
                                   [&](std::uint64_t mark) { return mark != owner; });
  if (is_new && foreign) {
    distrust(UntrustedFact::kWorkspaceEdge, given.cluster,
             "a workspace that is not its owner names it");
  }
  return changed;
}

bool Index::delete_cluster(ShardId shard, std::string_view cluster) {
  const ClusterRecord before = read_cluster(cluster);
  ClusterRecord now = before;
  const auto gone = std::remove_if(now.reports.begin(), now.reports.end(),
                                   [&](const Report& r) { return r.shard == shard; });
  if (gone == now.reports.end()) {
    return false;
  }
  now.reports.erase(gone, now.reports.end());
  elect(cluster, now);
  return write_cluster(cluster, before, now);
}

bool Index::upsert_workspace(ShardId shard, const WorkspaceReport& report) {
  const std::string key = workspace_key(shard, report.cluster, report.name);
  if (shard_row(shard) == facts_.shards_.size() || key.empty() || report.child.size() > 200) {
    return false;
  }
  const std::uint64_t mark = mark_of(report.cluster, report.name, report.uid);
  if (report.phase == "Scheduling") {
    const auto known = facts_.workspace(shard, report.cluster, report.name);
    return known && known->mark != mark && delete_workspace(shard, report.cluster, report.name);
  }
  const bool unavailable = report.phase == "Unavailable";
  const bool mounted = report.mount && report.child.empty() && report.url.size() <= kMaxUrl;
  const std::string_view mount_url =
      mounted ? without_trailing_slash(report.url) : std::string_view();
  std::string old_child;
  std::uint64_t old_mark = 0;
  if (const auto fact = facts_.workspace(shard, report.cluster, report.name); fact) {
    if (fact->unavailable == unavailable && fact->child == report.child && fact->mark == mark &&
        fact->mount_url == mount_url) {
      return false;
    }
    old_child = fact->child;
    old_mark = fact->mark;
  }
  facts_.workspaces_.put(key, FactWriter()
                                  .u8(unavailable ? 1 : 0)
                                  .u64(mark)
                                  .u32(time_)
                                  .text(report.child)
                                  .text(mount_url)
                                  .bytes());
  paths_moved_ = true;
  if (old_child != report.child || old_mark != mark) {
    add_parent(report.child, mark);
    drop_parent(old_child, old_mark);
    const auto child = facts_.cluster(report.child);
    if (child && (mark == 0 || child->parent != mark)) {
      distrust(UntrustedFact::kWorkspaceEdge, report.child,
               "named by workspace " + report.cluster + ":" + report.name + ", not its owner");
    }
  }
  return true;
}

bool Index::delete_workspace(ShardId shard, std::string_view cluster, std::string_view name) {
  const auto fact = facts_.workspace(shard, cluster, name);
  if (!fact) {
    return false;
  }
  const std::string child(fact->child);
  const std::uint64_t mark = fact->mark;
  facts_.workspaces_.erase(workspace_key(shard, cluster, name));
  paths_moved_ = true;
  drop_parent(child, mark);
  return true;
}

bool Index::take_consumers(const ConsumerChanges& changes, std::size_t first) {
  for (std::size_t i = first; i < changes.size(); ++i) {
    const ConsumerChange& change = changes[i];
    std::vector<ShardId> shards = facts_.consumers(change.cluster, change.name);
    const auto at = std::lower_bound(shards.begin(), shards.end(), change.shard);
    if (change.present) {
      shards.insert(at, change.shard);
    } else if (at != shards.end() && *at == change.shard) {
      shards.erase(at);
    }
    const std::string key = consumers_key(change.cluster, change.name);
    if (shards.empty()) {
      facts_.consumers_.erase(key);
      continue;
    }
    FactWriter out;
    out.text(change.cluster + "|" + change.name);
    for (const ShardId shard : shards) {
      out.u32(shard);
    }
    facts_.consumers_.put(key, out.bytes());
  }
  return changes.size() > first;
}

bool Index::upsert_binding(ShardId shard, const BindingReport& report, ConsumerChanges& changes) {
  if (shard_row(shard) == facts_.shards_.size()) {
    return false;
  }
  const std::size_t first = changes.size();
  consumers_.upsert(facts_, shard, report, changes);
  return take_consumers(changes, first);
}

bool Index::delete_binding(ShardId shard, std::string_view cluster, std::string_view name,
                           ConsumerChanges& changes) {
  const std::size_t first = changes.size();
  consumers_.erase(shard, cluster, name, changes);
  return take_consumers(changes, first);
}

bool Index::settle_bindings(ConsumerChanges& changes) {
  if (!std::exchange(paths_moved_, false)) {
    return false;
  }
  const std::size_t first = changes.size();
  consumers_.settle(facts_, changes);
  return take_consumers(changes, first);
}

bool Index::upsert_export(ShardId shard, const ExportReport& report) {
  constexpr std::size_t kMost = 60'000;  // bytes of a value of the map
  if (report.foreign_claims.empty()) {
    return delete_export(shard, report.cluster, report.name);
  }
  if (shard_row(shard) == facts_.shards_.size()) {
    return false;
  }
  FactWriter out;
  for (const std::string& claim : report.foreign_claims) {
    out.text(claim);
  }
  const std::string all = FactWriter().text(kAnyResource).bytes();
  return facts_.foreign_claims_.put(claims_key(shard, report.cluster, report.name),
                                    out.bytes().size() > kMost ? all : out.bytes());
}

bool Index::delete_export(ShardId shard, std::string_view cluster, std::string_view name) {
  return facts_.foreign_claims_.erase(claims_key(shard, cluster, name));
}

SnapshotPtr Index::freeze() {
  ++facts_.generation_;
  return std::make_shared<const Snapshot>(facts_);
}

}  // namespace kintsugi::topology
