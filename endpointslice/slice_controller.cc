#include "endpointslice/slice_controller.h"

#include <algorithm>

#include "base/time.h"
#include "krm/annotations.h"
#include "topology/conditions.h"

namespace kintsugi::endpointslice {
namespace {

using krm::Json;
using topology::Objects;
using topology::WriteCounts;

constexpr std::string_view kGroup = "apis.kcp.io";
constexpr std::string_view kSlices = "apiexportendpointslices";
constexpr std::string_view kPartitionGroup = "topology.kcp.io";
constexpr std::string_view kPartitions = "partitions";
constexpr Duration kFullPass = seconds(600);
constexpr Duration kLostPause = milliseconds(50);  // many logical clusters may come at once
constexpr Duration kLookUpGrace = seconds(1);
constexpr std::size_t kParallel = 256;  // writes that come together are one commit of the store

std::string key_of(std::string_view cluster, std::string_view name) {
  return std::string(cluster) + "|" + std::string(name);
}
bool is_export(const Json& owner) {
  return owner.text({"kind"}) == "APIExport" &&
         owner.text({"apiVersion"}).starts_with("apis.kcp.io/");
}
std::string_view mode_name(EndpointMode mode) {
  return mode == EndpointMode::kDirect    ? "direct"
         : mode == EndpointMode::kProxied ? "proxied"
                                          : "aggregated";
}
std::string_view cluster_of(const Json& object) {
  return object.text({"metadata", "annotations", krm::kClusterAnnotation});
}

}  // namespace

SliceController::SliceController(net::Loop& loop, Objects& objects, World& world,
                                 SliceDefaults defaults, Duration orphan_grace, Now now)
    : loop_(loop),
      objects_(objects),
      world_(world),
      orphan_grace_(orphan_grace),
      defaults_(std::move(defaults)),
      now_(now ? std::move(now) : [&loop] { return loop.now(); }),
      unknown_(kLookUpGrace),
      leaving_(defaults_.leave_grace),
      slices_(
          loop,
          [this](const std::string& key, net::WorkQueue::Finished done) {
            reconcile(key, std::move(done));
          },
          kParallel),
      defaults_queue_(loop,
                      [this](const std::string& key, net::WorkQueue::Finished done) {
                        reconcile_default(key, std::move(done));
                      }),
      pass_timer_(loop),
      lost_timer_(loop) {
  subscriptions_.push_back(
      objects_.on_change(kGroup, kSlices, [this](const Objects::Change& change) {
        const std::string key = key_of(change.cluster, change.name);
        remember(key, change.object);
        // A default slice that went is made again.
        (change.object != nullptr ? slices_ : defaults_queue_).add(key);
      }));
  subscriptions_.push_back(
      objects_.on_change(kPartitionGroup, kPartitions, [this](const Objects::Change& change) {
        const std::string key = key_of(change.cluster, change.name);
        selections_.erase(key);
        selected_.erase(key);  // its slices are told something else now
        if (const auto users = by_partition_.find(key); users != by_partition_.end()) {
          for (const std::string& slice : users->second) {
            slices_.add(slice);
          }
        }
      }));
  objects_.list("*", kGroup, kSlices, [this](const Json& slice) {
    remember(key_of(cluster_of(slice), slice.text({"metadata", "name"})), &slice);
    return true;
  });
  full_pass();
}

SliceController::Reference SliceController::reference_of(std::string_view cluster,
                                                         const Json& slice) const {
  Reference now;
  if (const std::string_view partition = slice.text({"spec", "partition"}); !partition.empty()) {
    now.partition = key_of(cluster, partition);
  }
  now.export_name = slice.text({"spec", "export", "name"});
  now.export_path = slice.text({"spec", "export", "path"});
  if (const Json* owners = slice.at({"metadata", "ownerReferences"})) {
    for (const Json& owner : owners->items()) {
      if (is_export(owner)) {
        now.owners.emplace_back(owner.text({"name"}));
      }
    }
  }
  now.mode = mode_name(endpoint_mode(slice, defaults_));
  if (const Json* endpoints = slice.at({"status", "endpoints"})) {
    now.endpoints = endpoints->size();
  }
  if (const Json* conditions = slice.at({"status", "conditions"})) {
    for (const Json& one : conditions->items()) {
      if (one.text({"type"}) == "EndpointURLsReady" && one.text({"status"}) == "False") {
        now.reason = one.text({"reason"});
      }
    }
  }
  return now;
}

void SliceController::index(const std::string& key, const Reference& reference, bool add) {
  const auto put = [&](StringMap<Keys>& table, std::string_view from) {
    const auto found = table.find(from);
    if (add) {
      (found != table.end() ? found->second : table[std::string(from)]).insert(key);
    } else if (found != table.end() && found->second.erase(key) > 0 && found->second.empty()) {
      table.erase(found);
    }
  };
  const std::string_view cluster = std::string_view(key).substr(0, key.find('|'));
  if (!reference.partition.empty()) {
    put(by_partition_, reference.partition);
  }
  put(by_export_, reference.export_name);
  if (!reference.export_path.empty()) {
    for (const std::string_view segment : split(reference.export_path, ':')) {
      put(by_segment_, segment);
    }
  }
  for (const std::string& owner : reference.owners) {
    put(by_owner_, key_of(cluster, owner));
  }
  const auto count = [add](std::size_t& value, std::size_t by) { value += add ? by : 0 - by; };
  count(census_.slices, 1);
  count(census_.endpoints[reference.mode], reference.endpoints);
  if (!reference.reason.empty()) {
    count(census_.not_ready[reference.reason], 1);
  }
}

/// Keeps the ways from Partitions and exports to a slice; null: it is gone.
void SliceController::remember(const std::string& key, const Json* slice) {
  const std::string_view cluster = std::string_view(key).substr(0, key.find('|'));
  Reference now = slice != nullptr ? reference_of(cluster, *slice) : Reference{};
  if (const auto before = known_.find(key); before != known_.end()) {
    if (slice != nullptr && before->second == now) {
      return;
    }
    index(key, before->second, false);
    known_.erase(before);
  }
  if (slice == nullptr) {
    lost_.erase(key);
    unknown_.forget(key);
    leaving_.forget(key);
    return;
  }
  index(key, now, true);
  known_.emplace(key, std::move(now));
}

void SliceController::release() {
  if (--holds_ == 0) {
    full_pass();
  }
}

void SliceController::full_pass() {
  selections_.clear();
  for (const auto& [key, unused] : known_) {
    slices_.add(key);
  }
  world_.exports(
      [this](const ExportRecord& one) { defaults_queue_.add(key_of(one.cluster, one.name)); });
  for (const auto& [owner, unused] : by_owner_) {
    defaults_queue_.add(owner);  // exports that went while nobody looked
  }
  pass_timer_.start(kFullPass, [this] { full_pass(); });
}

void SliceController::shards_changed() {
  selections_.clear();
  std::erase_if(selected_, [this](const auto& entry) {
    return !entry.first.empty() && !by_partition_.contains(entry.first);
  });
  for (const auto& [partition, slices] : by_partition_) {
    if (selection_changed(partition)) {
      for (const std::string& key : slices) {
        slices_.add(key);
      }
    }
  }
  if (selection_changed("")) {
    for (const auto& [key, reference] : known_) {
      if (reference.partition.empty()) {
        slices_.add(key);
      }
    }
  }
}

bool SliceController::selection_changed(const std::string& partition) {
  const ShardSelection* selection = nullptr;
  if (!partition.empty()) {
    const std::size_t bar = partition.find('|');
    selection = selection_of(std::string_view(partition).substr(0, bar),
                             std::string_view(partition).substr(bar + 1));
  }
  const std::vector<topology::ShardFacts>& table = world_.shard_table();
  std::string text = std::to_string(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const bool counts =
        partition.empty() ||
        (selection != nullptr && i < selection->selected.size() && selection->selected[i]);
    if (counts) {
      const topology::ShardFacts& shard = table[i];
      text += "\n" + shard.name + " " + shard.base_url + " " + shard.virtual_workspace_url + " " +
              std::string(shard.labels.text({"name"})) + " " +
              std::string(shard.labels.text({defaults_.regions.label})) + (shard.up ? "+" : "-") +
              (shard.synced ? "+" : "-");
    }
  }
  std::string& before = selected_[partition];
  const bool changed = before != text;
  before = std::move(text);
  return changed;
}

void SliceController::export_changed(std::string_view cluster, std::string_view name) {
  if (!cluster.empty()) {
    defaults_queue_.add(key_of(cluster, name));
  }
  // A slice may name the export's cluster by any of its paths, so the name alone selects.
  if (const auto users = by_export_.find(name); users != by_export_.end()) {
    for (const std::string& slice : users->second) {
      slices_.add(slice);
    }
  }
}

void SliceController::path_changed(std::string_view segment) {
  if (holds_ > 0) {
    return;
  }
  if (!segment.empty()) {
    if (const auto users = by_segment_.find(segment); users != by_segment_.end()) {
      for (const std::string& slice : users->second) {
        slices_.add(slice);
      }
    }
  } else if (!lost_.empty() && !lost_wait_) {
    lost_wait_ = true;
    lost_timer_.start(kLostPause, [this] {
      lost_wait_ = false;
      for (const std::string& slice : lost_) {
        slices_.add(slice);
      }
    });
  }
}

const ShardSelection* SliceController::selection_of(std::string_view cluster,
                                                    std::string_view partition) {
  const std::string key = key_of(cluster, partition);
  if (const auto found = selections_.find(key); found != selections_.end()) {
    return &found->second;
  }
  const auto stored = objects_.get(cluster, kPartitionGroup, kPartitions, partition);
  if (!stored) {
    return nullptr;
  }
  ++stats_.selections;
  return &selections_.emplace(key, select_shards(*stored, world_.shard_table())).first->second;
}

bool SliceController::is_due(const std::string& key, const ExportFacts& facts) {
  if (facts.state != ExportFacts::State::kUnknown) {
    unknown_.forget(key);
    return true;
  }
  const Grace::Verdict verdict = unknown_.judge(key, {"export"}, now_());
  if (verdict.began) {
    slices_.add_after(key, unknown_.limit());
  }
  return verdict.passing.empty();
}

void SliceController::keep_leaving(const std::string& key, SliceInput& input) {
  if (defaults_.leave_grace <= Duration::zero()) {
    return;
  }
  const Grace::Verdict verdict = leaving_.judge(key, leaving_shards(input, defaults_), now_());
  for (SliceShard& shard : input.shards) {
    shard.stays = std::find(verdict.passing.begin(), verdict.passing.end(), shard.facts->name) !=
                  verdict.passing.end();
  }
  if (verdict.began) {
    slices_.add_after(key, leaving_.limit());
  }
}

void SliceController::reconcile(const std::string& key, net::WorkQueue::Finished finished) {
  if (holds_ > 0) {
    finished(true);
    return;
  }
  ++stats_.runs;
  const std::size_t bar = key.find('|');
  const std::string cluster = key.substr(0, bar);
  auto slice = objects_.get(cluster, kGroup, kSlices, key.substr(bar + 1));
  if (!slice || slice->at({"metadata", "deletionTimestamp"}) != nullptr) {
    finished(true);
    return;
  }
  SliceInput input = input_of(*slice, cluster);
  if (input.export_facts.cluster_name.empty()) {
    lost_.insert(key);
  } else {
    lost_.erase(key);
  }
  if (!is_due(key, input.export_facts)) {
    finished(true);
    return;
  }
  keep_leaving(key, input);
  Json status = build_slice_status(input, defaults_);
  const Json* old = slice->find("status");
  if (old != nullptr && topology::same_but_times(*old, status)) {
    finished(true);
    return;
  }
  (*slice)["status"] = std::move(status);
  objects_.update(cluster, kGroup, kSlices, "status", std::move(*slice),
                  [this, finished](Expected<Json> result) {
                    ++stats_.writes;
                    stats_.slices.count(&WriteCounts::updated, result);
                    finished(result || result.error().code() == Errc::kNotFound);
                  });
}

SliceInput SliceController::input_of(const Json& slice, const std::string& cluster) {
  SliceInput input;
  input.slice = &slice;
  input.cluster = cluster;
  input.now = rfc3339(unix_seconds());
  const std::string_view path = slice.text({"spec", "export", "path"});
  const std::string_view name = slice.text({"spec", "export", "name"});
  input.export_facts = world_.find_export(path.empty() ? std::string_view(cluster) : path, name);
  input.shards = world_.shards(input.export_facts.cluster_name, name);
  if (const std::string_view wanted = slice.text({"spec", "partition"}); !wanted.empty()) {
    input.partition = selection_of(cluster, wanted);
  }
  input.foreign_urls = foreign_urls(slice, world_.shard_table());
  return input;
}

std::optional<std::vector<ShardPart>> SliceController::explain(const Json& slice) {
  SliceInput input = input_of(slice, std::string(cluster_of(slice)));
  const std::string key = key_of(input.cluster, slice.text({"metadata", "name"}));
  for (SliceShard& shard : input.shards) {
    shard.stays = leaving_.passes(key, shard.facts->name, now_());
  }
  const bool partition_holds = slice.text({"spec", "partition"}).empty() ||
                               (input.partition != nullptr && input.partition->fault.empty());
  if (input.export_facts.state != ExportFacts::State::kFound || !partition_holds) {
    return std::nullopt;
  }
  return explain_shards(input, defaults_);
}

bool SliceController::export_gone(const std::string& key) {
  const std::size_t bar = key.find('|');
  const std::string_view cluster = std::string_view(key).substr(0, bar);
  if (world_.find_export(cluster, std::string_view(key).substr(bar + 1)).state !=
          ExportFacts::State::kAbsent ||
      !by_owner_.contains(key)) {
    away_.erase(key);
    return false;
  }
  const TimePoint since = away_.try_emplace(key, loop_.now()).first->second;
  const Duration rest = since + orphan_grace_ - loop_.now();
  if (rest > Duration{}) {
    defaults_queue_.add_after(key, rest);
    return false;
  }
  return true;
}

std::optional<Json> SliceController::orphan_of(const std::string& key,
                                               const ExportRecord* record) const {
  const auto users = by_owner_.find(key);
  if (users == by_owner_.end()) {
    return std::nullopt;
  }
  const std::string cluster = key.substr(0, key.find('|'));
  const auto gone = [&](const Json& owner) {
    if (!is_export(owner)) {
      return false;  // owners of other kinds are never taken for absent
    }
    if (key_of(cluster, owner.text({"name"})) == key) {
      return record == nullptr || record->uid != owner.text({"uid"});
    }
    const ExportRecord* other = world_.export_record(cluster, owner.text({"name"}));
    return other != nullptr ? other->uid != owner.text({"uid"})
                            : world_.find_export(cluster, owner.text({"name"})).state ==
                                  ExportFacts::State::kAbsent;
  };
  for (const std::string& one : users->second) {
    auto slice = objects_.get(cluster, kGroup, kSlices, one.substr(one.find('|') + 1));
    const Json* owners = slice ? slice->at({"metadata", "ownerReferences"}) : nullptr;
    if (owners != nullptr && slice->at({"metadata", "deletionTimestamp"}) == nullptr &&
        std::all_of(owners->items().begin(), owners->items().end(), gone)) {
      return slice;
    }
  }
  return std::nullopt;
}

void SliceController::reconcile_default(const std::string& key, net::WorkQueue::Finished finished) {
  if (holds_ > 0 || !defaults_.make_defaults) {
    finished(true);
    return;
  }
  const std::size_t bar = key.find('|');
  const std::string cluster = key.substr(0, bar);
  const std::string name = key.substr(bar + 1);
  const ExportRecord* record = world_.export_record(cluster, name);
  if (record != nullptr) {
    away_.erase(key);
  }
  const bool decided = record != nullptr || export_gone(key);
  if (const auto orphan = decided ? orphan_of(key, record) : std::nullopt) {
    objects_.remove(cluster, kGroup, kSlices, orphan->text({"metadata", "name"}),
                    orphan->text({"metadata", "uid"}),
                    [this, key, finished](Expected<Json> result) {
                      const bool done = result || result.error().code() == Errc::kNotFound;
                      stats_.slices.count(&WriteCounts::deleted, result);
                      if (done) {
                        defaults_queue_.add(key);  // there may be more, or one to make
                      }
                      finished(done);
                    });
    return;
  }
  const auto slice = objects_.get(cluster, kGroup, kSlices, name);
  if (record == nullptr) {
    finished(true);
    return;
  }
  if (slice || record->skip_default_slice) {
    finished(true);
    return;
  }
  Json spec = Json::object({{"export", Json::object({{"name", name}})}});
  if (!record->path.empty()) {
    spec["export"]["path"] = record->path;
  }
  Json owner = Json::object({{"apiVersion", "apis.kcp.io/v1alpha1"},
                             {"kind", "APIExport"},
                             {"name", name},
                             {"uid", record->uid}});
  Json object = Json::object(
      {{"apiVersion", "apis.kcp.io/v1alpha1"},
       {"kind", "APIExportEndpointSlice"},
       {"metadata", Json::object({{"name", name}, {"ownerReferences", Json::array({owner})}})},
       {"spec", spec}});
  objects_.create(cluster, kGroup, kSlices, std::move(object),
                  [this, finished](Expected<Json> result) {
                    ++stats_.writes;
                    stats_.slices.count(&WriteCounts::created, result);
                    finished(result || result.error().code() == Errc::kAlreadyExists);
                  });
}

}  // namespace kintsugi::endpointslice
