#include "topology/partition_controller.h"

#include "base/log.h"
#include "base/time.h"
#include "topology/conditions.h"

namespace kintsugi::topology {
namespace {

using krm::Json;

constexpr std::string_view kGroup = "topology.kcp.io";
constexpr std::string_view kSets = "partitionsets";
constexpr std::string_view kPartitions = "partitions";

std::string key_of(std::string_view cluster, std::string_view name) {
  return std::string(cluster) + "|" + std::string(name);
}

}  // namespace

/// One pass over one set: the writes left to do, and the first thing that failed.
struct PartitionController::Run {
  std::string cluster;
  Json set;
  PartitionSetPlan plan;
  std::size_t removed = 0, updated = 0, created = 0;
  std::string failure;
  net::WorkQueue::Finished finished;
};

PartitionController::PartitionController(net::Loop& loop, Objects& objects,
                                         std::function<std::vector<ShardFacts>()> shards)
    : objects_(objects),
      shards_(std::move(shards)),
      queue_(loop, [this](const std::string& key, net::WorkQueue::Finished finished) {
        reconcile(key, std::move(finished));
      }) {
  subscriptions_.push_back(objects_.on_change(kGroup, kSets, [this](const Objects::Change& change) {
    if (change.object != nullptr) {
      queue_.add(key_of(change.cluster, change.name));
    }
  }));
  subscriptions_.push_back(
      objects_.on_change(kGroup, kPartitions, [this](const Objects::Change& change) {
        for (const Json* object : {change.object, change.previous}) {
          const Json* owners =
              object != nullptr ? object->at({"metadata", "ownerReferences"}) : nullptr;
          if (owners == nullptr) {
            continue;
          }
          for (const Json& owner : owners->items()) {
            if (owner.text({"kind"}) == "PartitionSet") {
              queue_.add(key_of(change.cluster, owner.text({"name"})));
            }
          }
        }
      }));
  shards_changed();
}

void PartitionController::shards_changed() {
  objects_.list("*", kGroup, kSets, [this](const Json& set) {
    queue_.add(key_of(set.text({"metadata", "annotations", "kcp.io/cluster"}),
                      set.text({"metadata", "name"})));
    return true;
  });
}

void PartitionController::reconcile(const std::string& key, net::WorkQueue::Finished finished) {
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
  std::vector<Json> partitions;
  objects_.list(run->cluster, kGroup, kPartitions, [&](const Json& partition) {
    partitions.push_back(partition);
    return true;
  });
  run->plan = plan_partition_set(run->set, shards_(), partitions);
  write_next(run);
}

void PartitionController::write_next(const std::shared_ptr<Run>& run) {
  const auto then = [this, run](std::string_view failure) {
    return [this, run, failure](Expected<Json> result) {
      ++stats_.writes;
      const bool harmless = !result && (result.error().code() == Errc::kNotFound);
      if (!result && !harmless && run->failure.empty()) {
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
                    gone.text({"metadata", "uid"}), then("old partition could not get deleted"));
  } else if (run->updated < plan.update.size()) {
    objects_.update(run->cluster, kGroup, kPartitions, "", std::move(plan.update[run->updated++]),
                    then("partition could not get created"));
  } else if (run->created < plan.create.size()) {
    objects_.create(run->cluster, kGroup, kPartitions, std::move(plan.create[run->created++]),
                    then("partition could not get created"));
  } else {
    write_status(run);
  }
}

void PartitionController::write_status(const std::shared_ptr<Run>& run) {
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
                    run->finished(ok && (result || result.error().code() == Errc::kNotFound));
                  });
}

}  // namespace kintsugi::topology
