#include "workers/eventing/control/trigger_control.h"

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::size_t kByBroker = 1, kByGroup = 2;  ///< indexes of trigger_projection()

/// A Broker that is not there may become anybody's: once is enough.
bool is_missing_told(const Json& status, std::int64_t generation) {
  const Json* const said = find_condition(status, "BrokerReady");
  const Json* const observed = status.find("observedGeneration");
  return said != nullptr && said->text({"reason"}) == "BrokerDoesNotExist" && observed != nullptr &&
         observed->as_integer() == generation;
}

bool has_dead_letter_sink(const Json& trigger, const CachedBroker* broker) {
  return delivery_of_trigger(trigger, broker).find("deadLetterSink") != nullptr;
}

}  // namespace

TriggerControl::TriggerControl(EventingSite& site)
    : OwnerControl(site, kTriggers, kTriggerFinalizer, trigger_projection()),
      brokers_(site.unit().follow<CachedBroker>(kBrokers, broker_projection())) {
  brokers_->add_handler([this](const CacheChange& change) { broker_changed(change); });
}

void TriggerControl::broker_changed(const CacheChange& change) {
  if (change.initial || controller() == nullptr) {
    return;  // Triggers that are loaded look at their Brokers
  }
  std::ignore =
      owners()->lookup(kByBroker, seen_key(change.key.cluster, change.key.ns, change.key.name),
                       [&](const shards::ObjectKey& at, const CachedOwner&) {
                         controller()->add({at.cluster, at.ns, at.name}, Priority::kLive);
                       });
}

const CachedBroker* TriggerControl::broker_of(std::string_view cluster, std::string_view ns,
                                              const CachedOwner& trigger) const {
  return find_in(*brokers_, cluster, ns, trigger.broker);
}

GroupWrite TriggerControl::next(const Turn& turn) {
  if (!brokers_->synced() || !owners()->synced()) {  // ids are chosen among all Triggers
    return ended(Outcome::requeue_after(milliseconds(100)));
  }
  const CachedBroker* const broker = broker_of(turn.key.cluster, turn.key.ns, turn.owner);
  const BrokerOwner whose = broker_owner(broker);
  const bool is_known = turn.owner.has_finalizer || turn.group != nullptr;
  if (whose == BrokerOwner::kOthers) {
    return farewell(turn);  // of what is left of a Broker before
  }
  if (!is_known &&
      (whose == BrokerOwner::kUnclassed ||
       (whose == BrokerOwner::kMissing && is_missing_told(turn.status, turn.owner.generation)))) {
    return ended(Outcome::done());
  }
  const std::optional<Json> had =
      turn.group == nullptr ? std::nullopt : std::optional(turn.group->object.value());
  const TriggerWish wish = trigger_wish(turn.object, had ? &*had : nullptr);
  TriggerReport report;
  report.generation = turn.owner.generation;
  report.broker = broker_condition(broker, turn.owner.broker, report.generation);
  report.fault = wish.reason;
  report.fault_message = wish.message;
  report.has_dead_letter_sink = has_dead_letter_sink(turn.object, broker);
  report.has_dependency = has_dependency(turn.object);
  report.group = turn.group;
  Json want = turn.status;
  const bool may = report.broker.status == ConditionStatus::kTrue;
  if (may && (wish.reason.empty() || turn.group != nullptr)) {
    if (auto finalizer = need_finalizer(turn)) {
      return std::move(*finalizer);
    }
    const GroupId id = choose_id(turn, *broker);
    if (id.id != turn.owner.group_id) {
      report.group_id = id.id;
      set_trigger_status(want, report, site().now());
      return store_id(turn, want, id.collided);
    }
    if (auto group = keep_group(turn, group_of_trigger(turn.key.ns, turn.key.name, turn.object,
                                                       *broker, wish, id.id))) {
      return std::move(*group);
    }
    const auto wait = passes(turn);
    if (wait && wish.reason.empty()) {
      return ended(Outcome::requeue_after(*wait));
    }
  }
  set_trigger_status(want, report, site().now());
  return write_status(turn, want);
}

GroupWrite TriggerControl::store_id(const Turn& turn, const Json& want, bool collided) const {
  GroupWrite out = write_status(turn, want, true);
  if (collided) {
    const std::string id(want.text({"annotations", kGroupIdAnnotation}));
    out.then = [this, key = turn.key, uid = turn.owner.uid, id](const ApiAnswer& answer) {
      if (answer.ok()) {
        site().announce(kTriggers, *controller(), key, uid,
                        {true, "GroupIdTaken",
                         "an older Trigger has its group of Kafka; it consumes as " + id});
      }
    };
  }
  return out;
}

/// Once stored it stays; a status that has lost it has that of the group.
GroupId TriggerControl::choose_id(const Turn& turn, const CachedBroker& broker) const {
  const Json group = turn.group == nullptr ? Json() : turn.group->object.value();
  GroupIdDemand demand;
  demand.ns = turn.key.ns;
  demand.name = turn.key.name;
  demand.uid = turn.owner.uid;
  demand.stored = turn.owner.group_id;
  if (demand.stored.empty()) {
    demand.stored = group.text({"spec", "template", "spec", "configs", "group.id"});
  }
  return choose_group_id(
      demand, [&](std::string_view id) { return is_taken(turn, broker, demand.stored, id); });
}

/// By another Trigger of this shard, in whatever workspace. An id that is not stored yet yields to
/// who has stored it, and to who is older and is about to: so it does not matter whose turn is
/// first, nor whether a write of another worker has been seen yet. One that is stored yields to who
/// is older and has the same brokers.
bool TriggerControl::is_taken(const Turn& turn, const CachedBroker& broker, std::string_view stored,
                              std::string_view id) const {
  bool taken = false;
  std::ignore =
      owners()->lookup(kByGroup, id, [&](const shards::ObjectKey& at, const CachedOwner& other) {
        if (taken || other.uid == turn.owner.uid) {
          return;
        }
        const CachedBroker* const its = broker_of(at.cluster, at.ns, other);
        const bool older =
            std::tie(other.created, other.uid) < std::tie(turn.owner.created, turn.owner.uid);
        if (stored.empty()) {
          taken = !other.group_id.empty() || (older && broker_owner(its) == BrokerOwner::kOurs);
        } else {
          taken = older && !other.group_id.empty() && its != nullptr &&
                  its->bootstrap == broker.bootstrap;
        }
      });
  return taken;
}

}  // namespace kintsugi::workers
