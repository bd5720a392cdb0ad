#include "workers/eventing/control/group_control.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "workers/eventing/model/group_tales.h"
#include "workers/eventing/model/placeable.h"
#include "workers/runtime/control/outcome_of.h"
#include "workers/runtime/status/finalizers.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr int kMostGroupWrites = 16;  ///< of one turn
constexpr std::string_view kDeleting = "Deleting";

bool was_ready(const Json& status, std::int64_t generation) {
  const Json* const ready = find_condition(status, "Ready");
  const Json* const observed = status.find("observedGeneration");
  return ready != nullptr && ready->text({"status"}) == "True" && observed != nullptr &&
         observed->as_integer() == generation;
}

GroupTrouble trouble_of(KafkaFacts::Fault fault) {
  switch (fault) {
    case KafkaFacts::Fault::kTopicMissing:
      return GroupTrouble::kTopicMissing;
    case KafkaFacts::Fault::kOffsets:
      return GroupTrouble::kInitializeOffset;
    case KafkaFacts::Fault::kUnreachable:
      return GroupTrouble::kKafkaClient;
    case KafkaFacts::Fault::kNone:
      break;
  }
  return GroupTrouble::kNone;
}

std::string selector_of(const Json& object) {
  std::string out;
  if (const Json* const selector = object.at({"spec", "selector"})) {
    for (const krm::JsonMember& one : selector->members()) {
      out.append(out.empty() ? "" : ",").append(one.key).append("=").append(one.value.as_string());
    }
  }
  return out;
}

}  // namespace

net::Task<Outcome> GroupControl::reconcile(Key key) {
  const Step step = site_.unit().step(*controller_, key.view());
  for (int i = 0; i < kMostGroupWrites; ++i) {
    GroupWrite what = next(key);
    if (!what.write) {
      co_return what.outcome;
    }
    net::Task<ApiAnswer> writing = site_.unit().write(step, std::move(*what.write));
    const ApiAnswer answer = co_await writing;
    if (what.then) {
      what.then(answer);
    }
    if (!answer.ok()) {
      const Outcome outcome = outcome_of(answer, what.kind);
      // What is gone is told by the watch.
      co_return outcome.kind == Outcome::Kind::kDone ? Outcome::error() : outcome;
    }
  }
  co_return Outcome::requeue_after({});
}

void GroupControl::forget(const Key& key) {
  const std::string text = seen_key(key.cluster, key.ns, key.name);
  phases_.erase(text);
  for (const std::string_view name : kEventingPools) {
    if (DispatcherPool* const pool = site_.pool(name); pool != nullptr) {
      if (pool->groups.contains(text)) {
        site_.forget(*pool, text);
      }
    }
  }
}

GroupWrite GroupControl::next(const Key& key) {
  const auto found = site_.groups().find({key.cluster, key.ns, key.name});
  if (!found) {
    return ended(Outcome::error());  // not everything is read yet
  }
  if (*found == nullptr) {
    forget(key);
    return ended(Outcome::done());
  }
  const CachedGroup& cached = **found;
  GroupTurn turn;
  turn.key = key;
  turn.text = seen_key(key.cluster, key.ns, key.name);
  turn.pool = site_.pool(cached.pool);
  if (turn.pool == nullptr) {
    return ended(Outcome::done());  // it looks at its groups when it begins
  }
  turn.resource_version = cached.resource_version;
  turn.generation = cached.generation;
  turn.created = cached.created;
  turn.deleting = cached.deleting;
  turn.object = cached.object.value();
  if (const Json* const status = turn.object.find("status")) {
    turn.status = *status;
  }
  turn.stored = read_status_placeable(turn.status).placeable;
  turn.group = &turn.pool->groups[turn.text];
  turn.group->key = key;
  if (!turn.deleting && !cached.has_finalizer) {
    if (auto patch = add_finalizer_patch(turn.object, kGroupFinalizer)) {
      GroupWrite out;
      out.write = patch_of(group_path(key), std::move(*patch), kJsonPatch, WriteKind::kObject);
      out.then = [this](const ApiAnswer& answer) {
        if (answer.ok()) {
          site_.lay_group(answer.body);
        }
      };
      return out;
    }
  }
  read_entry(turn);
  ask_kafka(turn);
  place(turn);
  if (turn.place && turn.place->write) {
    return write_placement(turn);
  }
  if (auto consumer = next_consumer(turn)) {
    return std::move(*consumer);
  }
  if (turn.deleting) {
    return farewell(turn);
  }
  GroupWrite status = write_status(turn);
  return status.write ? std::move(status) : next_consumer_status(turn, std::move(status));
}

/// What the template says, and whether contracts say the same.
void GroupControl::read_entry(GroupTurn& turn) {
  PooledGroup& group = *turn.group;
  const std::string_view uid = turn.object.text({"metadata", "uid"});
  if (group.generation == turn.generation && group.uid == uid) {
    return;
  }
  group.entry =
      group_entry(turn.key.ns, turn.key.name, turn.object, site_.config().contract_format);
  group.generation = turn.generation;
  group.uid = uid;
  site_.look_at_pods_of(*turn.pool, turn.text);
}

/// How many units are to be placed, as far as it is known.
void GroupControl::ask_kafka(GroupTurn& turn) {
  const Json none = Json::object();
  const Json* const annotations = turn.object.at({"metadata", "annotations"});
  const ReplicasWish wish =
      read_replicas_field(turn.object.at({"spec", "replicas"}), "spec.replicas",
                          annotations == nullptr ? none : *annotations);
  turn.invalid = wish.invalid;
  const GroupEntry& entry = turn.group->entry;
  const bool placed = !turn.stored.placements.empty();
  std::optional<std::int64_t> partitions = turn.stored.max_allowed;
  if (entry.trouble == GroupTrouble::kNone && !turn.deleting) {
    KafkaQuestion question;
    question.bootstrap_servers = entry.bootstrap;
    question.group = entry.group_id;
    question.topics = entry.resource.topics;
    question.begin_at_end = entry.latest && !placed;
    question.timeout = site_.config().kafka_timeout;
    turn.facts = site_.kafka().facts(turn.text, question);
    turn.look_again = site_.kafka().due(turn.text);
    if (turn.facts != nullptr && turn.facts->fault == KafkaFacts::Fault::kNone) {
      partitions = turn.facts->partitions;
    } else {
      turn.waits_for_kafka = !placed;
    }
  }
  if (turn.invalid.empty()) {
    turn.effective = effective_replicas(wish, partitions);
  }
}

void GroupControl::place(GroupTurn& turn) {
  PooledGroup& group = *turn.group;
  PoolScheduler& scheduler = turn.pool->scheduler;
  const bool placed = !turn.stored.placements.empty();
  PoolGroup fresh;
  fresh.key = turn.text;
  fresh.uid = group.uid;
  fresh.created = turn.created;
  fresh.entry_bytes = group.entry.bytes;
  fresh.status = turn.stored.placements;
  const bool may = group.entry.trouble == GroupTrouble::kNone && !turn.waits_for_kafka;
  if (turn.deleting) {
    fresh.wanted = 0;
  } else if (turn.effective && may) {
    fresh.wanted = turn.effective->wanted;
    fresh.partitions = turn.effective->max_allowed;
  } else if (placed) {  // it stays as it is until that can be said
    fresh.wanted = sum_of_placements(turn.stored.placements);
    fresh.partitions = turn.stored.max_allowed;
  } else {
    return;
  }
  if (std::exchange(group.writing, false)) {  // a turn before was cut
    --turn.pool->writing;
    EventingSite::tell(*turn.pool, group, fresh);
    scheduler.not_written(turn.text);
  }
  if (EventingSite::tell(*turn.pool, group, fresh)) {
    site_.decide(*turn.pool);
  }
  turn.place = scheduler.place(turn.text);
}

GroupWrite GroupControl::write_placement(GroupTurn& turn) {
  GroupWrite out;
  const std::vector<Placed> placements = turn.pool->scheduler.begin_write(turn.text);
  turn.group->writing = true;
  ++turn.pool->writing;
  const Json wanted = status_of(turn, placements);
  auto body = status_patch(turn.status, wanted, turn.resource_version);
  out.write = patch_of(group_path(turn.key) + "/status", body.value_or("{}"), kMergePatch,
                       WriteKind::kStatus);
  out.then = [this, pool_name = turn.pool->name, text = turn.text, placements,
              tell = telling(turn, wanted)](const ApiAnswer& answer) {
    if (answer.ok()) {
      site_.lay_group(answer.body);
      tell();
    }
    DispatcherPool* const pool = site_.pool(pool_name);
    const auto at = pool == nullptr ? decltype(pool->groups.begin())() : pool->groups.find(text);
    if (pool == nullptr || at == pool->groups.end()) {
      return;
    }
    if (std::exchange(at->second.writing, false)) {
      --pool->writing;
    }
    if (answer.ok()) {
      if (at->second.told) {
        at->second.told->status = placements;
      }
      pool->scheduler.written(text, placements);
    } else {
      pool->scheduler.not_written(text);
    }
    site_.decide(*pool);
  };
  return out;
}

GroupWrite GroupControl::write_status(GroupTurn& turn) {
  if (turn.waits_for_kafka && turn.facts == nullptr &&
      turn.group->entry.trouble == GroupTrouble::kNone) {
    // The answer brings the next turn.
    return ended(turn.look_again ? Outcome::requeue_after(*turn.look_again) : Outcome::done());
  }
  Json wanted = status_of(turn, turn.stored.placements);
  (void)summarize_status(wanted);
  if (auto body = status_patch(turn.status, wanted)) {
    GroupWrite out;
    out.write = patch_of(group_path(turn.key) + "/status", std::move(*body), kMergePatch,
                         WriteKind::kStatus);
    out.then = [this, tell = telling(turn, wanted)](const ApiAnswer& answer) {
      if (answer.ok()) {
        site_.lay_group(answer.body);
        tell();
      }
    };
    return out;
  }
  return ended(turn.look_again ? Outcome::requeue_after(*turn.look_again) : Outcome::done());
}

/// By the status' placements alone: what is there of the pods, and of who has seen what.
void GroupControl::judge(GroupTurn& turn, const std::vector<Placed>& placements,
                         GroupReport& report) {
  std::vector<PodSight> pods;
  std::vector<std::string> digests = turn.place ? turn.place->digests : std::vector<std::string>();
  digests.push_back(placements_digest(placements));
  const TimePoint now = site_.unit().loop().now();
  for (const Placed& placed : placements) {
    PodSight sight;
    if (const CachedPod* const pod = site_.pod(placed.host)) {
      sight.exists = true;
      sight.seen = pod->has_seen ? &pod->seen : nullptr;
    } else {
      sight.missing_for = now - turn.pool->gone_since.emplace(placed.host, now).first->second;
      const auto ordinal = pod_ordinal(turn.pool->name, placed.host);
      sight.beyond = turn.pool->replicas && ordinal && *ordinal >= *turn.pool->replicas;
    }
    pods.push_back(sight);
  }
  ReadinessFacts facts;
  facts.key = turn.text;
  facts.generation = turn.generation;
  facts.observed_generation = turn.group->generation;
  facts.wanted = turn.effective ? turn.effective->wanted : sum_of_placements(placements);
  facts.placements = placements;
  facts.pods = pods;
  facts.digests = digests;
  facts.sinks_resolved = turn.group->entry.trouble == GroupTrouble::kNone;
  facts.offsets_initialised = !turn.waits_for_kafka;
  facts.was_ready = was_ready(turn.status, turn.generation);
  report.readiness = judge_readiness(facts);
  if (const auto again = report.readiness.look_again) {
    turn.look_again = std::min(*again, turn.look_again.value_or(*again));
  }
}

/// What is told once that status is written.
std::function<void()> GroupControl::telling(const GroupTurn& turn, const Json& wanted) {
  std::vector<Tale> tales = group_tales(turn.status, wanted);
  std::string uid(turn.object.text({"metadata", "uid"}));
  return [this, key = turn.key, uid = std::move(uid), tales = std::move(tales)] {
    for (const Tale& tale : tales) {
      site_.announce(key, uid, tale);
    }
  };
}

Json GroupControl::status_of(GroupTurn& turn, const std::vector<Placed>& placements) {
  const PooledGroup& group = *turn.group;
  GroupReport report;
  report.observed_generation = group.generation;
  judge(turn, placements, report);
  if (!turn.invalid.empty()) {
    report.scheduling = GroupScheduling::kInvalidReplicas;
    report.scheduling_message = turn.invalid;
  } else if (turn.place && turn.place->too_large) {
    report.scheduling = GroupScheduling::kContractTooLarge;
    report.scheduling_message = turn.place->message;
  } else if (turn.place && turn.place->pending > 0) {
    report.scheduling = GroupScheduling::kNotEnoughPods;
    report.scheduling_message = turn.place->message;
  } else if (turn.place && !turn.place->message.empty()) {
    report.scheduling = GroupScheduling::kSchedule;
    report.scheduling_message = turn.place->message;
  } else if (!turn.place) {
    report.scheduling = GroupScheduling::kSchedule;
    report.scheduling_message = "it is placed when what the other conditions name is right";
  } else if (turn.effective && turn.effective->capped) {
    report.scheduling = GroupScheduling::kCappedByPartitions;
    report.scheduling_message =
        "there are " + std::to_string(turn.effective->wanted) + " partitions";
  }
  if (group.entry.trouble != GroupTrouble::kNone) {
    report.trouble = group.entry.trouble;
    report.trouble_message = group.entry.message;
  } else if (turn.waits_for_kafka && turn.facts != nullptr) {
    report.trouble = trouble_of(turn.facts->fault);
    report.trouble_message = turn.facts->text;
  }
  turn.passing = report.trouble == GroupTrouble::kNone && !report.readiness.ready &&
                 (report.readiness.reason == ReadyReason::kBindInProgress ||
                  report.readiness.reason == ReadyReason::kGenerationBehind);
  Json status = turn.status;
  Placeable placeable{turn.effective ? turn.effective->max_allowed : turn.stored.max_allowed,
                      placements};
  write_status_placeable(status, placeable);
  std::int64_t ready = 0;
  for (const Placed& placed : placements) {
    const CachedPod* const pod = site_.pod(placed.host);
    const auto seen = pod == nullptr ? SeenDecisions::const_iterator() : pod->seen.find(turn.text);
    ready += pod != nullptr && seen != pod->seen.end() ? placed.n : 0;
  }
  status["replicas"] = ready;
  status["observedGeneration"] = group.generation;
  set_or_erase(status, "selector", selector_of(turn.object));
  set_or_erase(status, "subscriberUri", group.entry.subscriber);
  set_or_erase(status, "subscriberCACerts", group.entry.subscriber_ca_certs);
  set_or_erase(status, "deadLetterSinkUri", group.entry.dead_letter);
  set_or_erase(status, "deadLetterSinkCACerts", group.entry.dead_letter_ca_certs);
  set_group_conditions(status, report, nullptr, site_.now());
  GroupProgress progress;
  progress.offsets_ready = !turn.waits_for_kafka;
  progress.placed_any = turn.place.has_value() && (turn.place->pending == 0 || !placements.empty());
  progress.placed_all = turn.place.has_value() && turn.place->pending == 0;
  progress.bound = report.readiness.bound;
  progress.ready = is_group_ready(report);
  progress.was_ready = was_ready(turn.status, turn.generation);
  phases_[turn.text] = group_phase_text(group_phase(progress));
  return status;
}

/// Kafka's group goes with its ConsumerGroup, where Kafka offers that and nobody else here has it.
void GroupControl::ask_to_delete(GroupTurn& turn, FarewellFacts& facts) {
  KafkaQuestion of;
  of.bootstrap_servers = turn.group->entry.bootstrap;
  of.group = turn.group->entry.group_id;
  of.timeout = site_.config().kafka_timeout;
  bool shared = false;
  site_.each_pool([&](const DispatcherPool& pool) {
    for (const auto& [key, other] : pool.groups) {
      shared = shared || (key != turn.text && other.entry.group_id == of.group &&
                          other.entry.bootstrap == of.bootstrap_servers);
    }
  });
  // Of partitions Kafka said something once: else it never had a member.
  if (shared || !turn.stored.max_allowed || of.group.empty()) {
    facts.can_delete = false;
    return;
  }
  const KafkaBook::Farewell& how = site_.kafka().farewell(turn.text, of);
  facts.can_delete = how.can_delete;
  facts.deleted = how.deleted;
  facts.tries = how.tries;
  turn.look_again = site_.kafka().farewell_due(turn.text);
}

/// What is left of a group that is being deleted and has no placement, and no Consumers, any more.
GroupWrite GroupControl::farewell(GroupTurn& turn) {
  phases_[turn.text] = kDeleting;
  FarewellFacts facts;
  facts.placed = !turn.stored.placements.empty();
  for (const auto& [name, pod] : turn.pool->pods) {
    const CachedPod* const cached = site_.pod(name);
    facts.consumers += cached != nullptr && cached->seen.contains(turn.text) ? 1U : 0U;
  }
  if (!facts.placed && facts.consumers == 0) {
    ask_to_delete(turn, facts);
  }
  if (group_farewell(facts) != GroupFarewell::kRemoveFinalizer) {
    // A pod that changes, and an answer of Kafka, bring a turn, too.
    return ended(Outcome::requeue_after(turn.look_again.value_or(seconds(1))));
  }
  auto patch = remove_finalizer_patch(turn.object, kGroupFinalizer);
  if (!patch) {
    return ended(Outcome::done());
  }
  GroupWrite out;
  out.write = patch_of(group_path(turn.key), std::move(*patch), kJsonPatch, WriteKind::kObject);
  out.then = [this, key = turn.key](const ApiAnswer& answer) {
    if (answer.ok()) {
      log_info("a group is gone", {{"cluster", key.cluster}, {"ns", key.ns}, {"name", key.name}});
      site_.lay_group(answer.body);  // until the watch tells that it is
    }
  };
  return out;
}

}  // namespace kintsugi::workers
