// The Consumers of a group: one for each pod of its placements, and what their statuses say.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "workers/eventing/control/group_control.h"
#include "workers/eventing/model/consumer_report.h"
#include "workers/eventing/model/placeable.h"
#include "workers/runtime/status/finalizers.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

/// Before a Consumer says that its pod has not the placement yet.
constexpr Duration kPassing = seconds(10);

void lay_consumer(EventingSite& site, const ApiAnswer& answer) {
  if (answer.ok() && answer.body.text({"kind"}) == kConsumers.kind) {
    site.lay_consumer(answer.body);
  }
}

GroupWrite sooner(GroupWrite end, Duration time) {
  if (end.outcome.kind == Outcome::Kind::kDone || end.outcome.delay > time) {
    end.outcome = Outcome::requeue_after(time);
  }
  return end;
}

}  // namespace

/// One Consumer for each pod of the status' placements; what is more goes.
std::optional<GroupWrite> GroupControl::next_consumer(const GroupTurn& turn) {
  const Key& key = turn.key;
  std::map<std::string, const Placed*> missing;
  for (const Placed& placed : turn.stored.placements) {
    missing.emplace(consumer_name(key.name, placed.host), &placed);
  }
  const auto lay = [this](const ApiAnswer& answer) { lay_consumer(site_, answer); };
  std::optional<GroupWrite> out;
  const auto read = site_.consumers().lookup(
      0, turn.text, [&](const shards::ObjectKey& at, const CachedConsumer& one) {
        const auto wanted = missing.find(std::string(at.name));
        const std::string path = consumers_path(key).append("/").append(at.name);
        if (out) {
          return;
        }
        if (one.deleting) {
          if (auto patch = remove_finalizer_patch(one.object.value(), kConsumerFinalizer)) {
            out.emplace();
            out->write = patch_of(path, std::move(*patch), kJsonPatch, WriteKind::kObject);
            out->then = lay;
          } else if (wanted != missing.end()) {
            missing.erase(wanted);  // others hold it: it is made again when it is gone
          }
          return;
        }
        if (wanted == missing.end()) {
          out.emplace();
          out->write.emplace();
          out->write->method = "DELETE";
          out->write->path = path;
          out->kind = RequestKind::kDelete;
          out->then = lay;
          return;
        }
        const Json want =
            consumer_of(key, turn.object, *wanted->second, site_.config().pool_namespace);
        const Json had = one.object.value();
        if (const auto patch = status_patch(Json::object({{"spec", *had.find("spec")}}),
                                            Json::object({{"spec", *want.find("spec")}}))) {
          out.emplace();
          out->write = patch_of(path, Json::object({{"spec", *want.find("spec")}}).dump(),
                                kMergePatch, WriteKind::kObject);
          out->then = lay;
        }
        missing.erase(wanted);
      });
  if (!read) {
    return ended(Outcome::requeue_after(milliseconds(50)));
  }
  if (out || missing.empty()) {
    return out;
  }
  out.emplace();
  out->write.emplace();
  out->write->method = "POST";
  out->write->path = consumers_path(key);
  out->write->body =
      consumer_of(key, turn.object, *missing.begin()->second, site_.config().pool_namespace).dump();
  out->kind = RequestKind::kCreate;
  out->then = lay;
  return out;
}

/// Statuses of Consumers come after the group's own, and not for what passes: one write of each
/// where all goes well.
GroupWrite GroupControl::next_consumer_status(const GroupTurn& turn, GroupWrite end) {
  const TimePoint now = site_.unit().loop().now();
  PooledGroup& group = *turn.group;
  if (!turn.passing) {
    group.passing_since.reset();
  } else if (const TimePoint since = group.passing_since.value_or(now); now - since < kPassing) {
    group.passing_since = since;
    return sooner(std::move(end), kPassing - (now - since));
  }
  const std::vector<std::string> digests =
      turn.place && !turn.place->digests.empty()
          ? turn.place->digests
          : std::vector<std::string>{placements_digest(turn.stored.placements)};
  std::optional<GroupWrite> out;
  std::ignore = site_.consumers().lookup(
      0, turn.text, [&](const shards::ObjectKey& at, const CachedConsumer& one) {
        const auto gone = turn.pool->gone_since.find(one.pod);
        const CachedPod* const pod = site_.pod(one.pod);
        if (out || one.deleting ||
            (pod == nullptr && gone != turn.pool->gone_since.end() &&
             now - gone->second < MissingPodTimes().keeps_ready)) {
          return;
        }
        ConsumerFacts facts;
        facts.generation = one.generation;
        facts.pod = one.pod;
        if (group.entry.trouble != GroupTrouble::kNone) {
          facts.fault = group.entry.message;
          facts.filter_unsupported = group.entry.filter_unsupported;
        }
        facts.pod_exists = pod != nullptr;
        if (pod != nullptr) {
          const auto seen = pod->seen.find(turn.text);
          facts.in_contract = seen != pod->seen.end();
          facts.bound = facts.in_contract && seen->second.generation >= group.generation &&
                        (!seen->second.digest || std::find(digests.begin(), digests.end(),
                                                           *seen->second.digest) != digests.end());
        }
        facts.subscriber = group.entry.subscriber;
        facts.subscriber_ca_certs = group.entry.subscriber_ca_certs;
        facts.dead_letter = group.entry.dead_letter;
        facts.dead_letter_ca_certs = group.entry.dead_letter_ca_certs;
        const Json object = one.object.value();
        const Json* const status = object.find("status");
        const Json had = status == nullptr ? Json::object() : *status;
        Json want = had;
        set_consumer_status(want, facts, site_.now());
        if (auto body = status_patch(had, want)) {
          out.emplace();
          out->write = patch_of(consumers_path(turn.key).append("/").append(at.name) + "/status",
                                std::move(*body), kMergePatch, WriteKind::kStatus);
          out->then = [this](const ApiAnswer& answer) {
            ++site_.counts.consumers;
            lay_consumer(site_, answer);
          };
        }
      });
  return out ? std::move(*out) : std::move(end);
}

}  // namespace kintsugi::workers
