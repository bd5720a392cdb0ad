#include "topology/partition_controller.h"

#include "base/log.h"
#include "base/time.h"
#include "krm/annotations.h"
#include "topology/conditions.h"

namespace kintsugi::topology {
namespace {

using krm::Json;

constexpr std::string_view kGroup = "topology.kcp.io";
constexpr std::string_view kSets = "partitionsets";
constexpr std::string_view kPartitions = "partitions";
constexpr Duration kFullPass = seconds(600);
constexpr std::size_t kNameBase = 58;  // of a Partition's name, set name first

std::string key_of(std::string_view cluster, std::string_view name) {
  return std::string(cluster) + "|" + std::string(name);
}
std::string key_of(const Json& object) {
  return key_of(object.text({"metadata", "annotations", krm::kClusterAnnotation}),
                object.text({"metadata", "name"}));
}

const Json* owning_set(const Json& partition) {
  if (const Json* owners = partition.at({"metadata", "ownerReferences"})) {
    for (const Json& owner : owners->items()) {
      if (owner.text({"kind"}) == "PartitionSet") {
        return &owner;
      }
    }
  }
  return nullptr;
}

}  // namespace

/// One pass over one set: the writes left to do, and the first thing that failed.
struct PartitionController::Run {
  std::string cluster;
  Json set;
  PartitionSetPlan plan;
  std::size_t removed = 0, updated = 0, created = 0;
  std::string failure;
  std::string creating;  ///< name of the Partition whose creation runs
  bool raced = false;    ///< somebody else wrote first: the plan is old
  net::WorkQueue::Finished finished;
};

PartitionController::PartitionController(net::Loop& loop, Objects& objects,
                                         std::function<std::vector<ShardFacts>()> shards)
    : objects_(objects),
      shards_(std::move(shards)),
      queue_(loop,
             [this](const std::string& key, net::WorkQueue::Finished finished) {
               reconcile(key, std::move(finished));
             }),
      pass_timer_(loop) {
  subscriptions_.push_back(objects_.on_change(kGroup, kSets, [this](const Objects::Change& change) {
    const std::string key = key_of(change.cluster, change.name);
    if (change.object == nullptr) {
      sets_.erase(key);
      return;
    }
    sets_.insert(key);
    queue_.add(key);
  }));
  subscriptions_.push_back(
      objects_.on_change(kGroup, kPartitions, [this](const Objects::Change& change) {
        remember(key_of(change.cluster, change.name), change.object);
        for (const Json* object : {change.object, change.previous}) {
          if (const Json* owner = object != nullptr ? owning_set(*object) : nullptr) {
            queue_.add(key_of(change.cluster, owner->text({"name"})));
          }
        }
      }));
  objects_.list("*", kGroup, kPartitions, [this](const Json& partition) {
    remember(key_of(partition), &partition);
    return true;
  });
  objects_.list("*", kGroup, kSets, [this](const Json& set) {
    sets_.insert(key_of(set));
    return true;
  });
  full_pass();
}

void PartitionController::release() {
  if (--holds_ == 0) {
    full_pass();
  }
}

void PartitionController::full_pass() {
  shards_changed();
  pass_timer_.start(kFullPass, [this] { full_pass(); });
}

void PartitionController::shards_changed() {
  for (const std::string& key : sets_) {
    queue_.add(key);
  }
}

/// Keeps the names and the owners of Partitions; null: it is gone.
void PartitionController::remember(const std::string& key, const Json* partition) {
  const Json* owner = partition != nullptr ? owning_set(*partition) : nullptr;
  const std::string uid(owner != nullptr ? owner->text({"uid"}) : std::string_view());
  const auto before = owners_.find(key);
  if (before != owners_.end()) {
    if (partition != nullptr && before->second == uid) {
      return;
    }
    if (const auto of_set = owned_.find(before->second); of_set != owned_.end()) {
      of_set->second.erase(key);
      if (of_set->second.empty()) {
        owned_.erase(of_set);
      }
    }
    owners_.erase(before);
  }
  if (partition == nullptr) {
    return;
  }
  if (!uid.empty()) {
    owned_[uid].insert(key);
  }
  owners_.emplace(key, uid);
}

/// What a plan has to know of: the Partitions that the set owns, and those whose names begin like
/// the ones that it would give.
std::vector<Json> PartitionController::partitions_near(const std::string& cluster,
                                                       const Json& set) const {
  std::set<std::string> keys;
  if (const auto mine = owned_.find(set.text({"metadata", "uid"})); mine != owned_.end()) {
    keys = mine->second;
  }
  const std::string base = std::string(set.text({"metadata", "name"})) + "-";
  const std::string prefix = key_of(cluster, std::string_view(base).substr(0, kNameBase));
  for (auto at = owners_.lower_bound(prefix); at != owners_.end() && at->first.starts_with(prefix);
       ++at) {
    keys.insert(at->first);
  }
  std::vector<Json> found;
  for (const std::string& key : keys) {
    if (auto partition =
            objects_.get(cluster, kGroup, kPartitions, key.substr(cluster.size() + 1))) {
      found.push_back(std::move(*partition));
    }
  }
  return found;
}

void PartitionController::reconcile(const std::string& key, net::WorkQueue::Finished finished) {
  if (holds_ > 0) {
    finished(true);
    return;
  }
  ++stats_.runs;
  const std::size_t bar = key.find('|');
  auto run = std::make_shared<Run>();
  run->cluster = key.substr(0, bar);
  auto set = objects_.get(run->cluster, kGroup, kSets, key.substr(bar + 1));
  if (!set || set->at({"metadata", "deletionTimestamp"}) != nullptr) {
    finished(true);
    return;
  }
  run->set = std::move(*set);
  run->finished = std::move(finished);
  run->plan = plan_partition_set(run->set, shards_(), partitions_near(run->cluster, run->set));
  write_next(run);
}

/// The Partition that was to be made last is there, marked as deleted: only its finalizers can
/// help.
bool PartitionController::held(const Run& run) const {
  const auto there = objects_.get(run.cluster, kGroup, kPartitions, run.creating);
  return there && there->at({"metadata", "deletionTimestamp"}) != nullptr;
}

void PartitionController::write_next(const std::shared_ptr<Run>& run) {
  const auto then = [this, run](std::uint64_t WriteCounts::*kind, std::string_view failure) {
    return [this, run, kind, failure](Expected<Json> result) {
      ++stats_.writes;
      stats_.partitions.count(kind, result);
      const Errc code = result ? Errc::kOk : result.error().code();
      if (code == Errc::kConflict || (code == Errc::kAlreadyExists && !held(*run))) {
        run->raced = true;
      } else if (code != Errc::kOk && code != Errc::kNotFound && run->failure.empty()) {
        run->failure = failure;
        log_warn("partition write failed", {{"cluster", run->cluster},
                                            {"set", run->set.text({"metadata", "name"})},
                                            {"errc", result.error().to_string()}});
      }
      write_next(run);
    };
  };
  PartitionSetPlan& plan = run->plan;
  if (run->removed < plan.remove.size()) {
    const Json& gone = plan.remove[run->removed++];
    objects_.remove(run->cluster, kGroup, kPartitions, gone.text({"metadata", "name"}),
                    gone.text({"metadata", "uid"}),
                    then(&WriteCounts::deleted, "old partition could not get deleted"));
  } else if (run->updated < plan.update.size()) {
    objects_.update(run->cluster, kGroup, kPartitions, "", std::move(plan.update[run->updated++]),
                    then(&WriteCounts::updated, "partition could not get created"));
  } else if (run->created < plan.create.size()) {
    run->creating = plan.create[run->created].text({"metadata", "name"});
    objects_.create(run->cluster, kGroup, kPartitions, std::move(plan.create[run->created++]),
                    then(&WriteCounts::created, "partition could not get created"));
  } else {
    write_status(run);
  }
}

void PartitionController::write_status(const std::shared_ptr<Run>& run) {
  if (run->raced && run->failure.empty()) {
    run->finished(false);  // again, from what is stored now
    return;
  }
  const bool ok = run->failure.empty();
  stats_.failures += ok ? 0U : 1U;
  Json status = partition_set_status(run->set, run->plan, run->failure, rfc3339(unix_seconds()));
  const Json* old = run->set.find("status");
  if (old != nullptr && same_but_times(*old, status)) {
    run->finished(ok);
    return;
  }
  run->set["status"] = std::move(status);
  objects_.update(run->cluster, kGroup, kSets, "status", run->set,
                  [this, run, ok](Expected<Json> result) {
                    ++stats_.writes;
                    stats_.sets.count(&WriteCounts::updated, result);
                    run->finished(ok && (result || result.error().code() == Errc::kNotFound));
                  });
}

}  // namespace kintsugi::topology
