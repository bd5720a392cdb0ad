#include "workers/eventing/control/internal/kafka_source.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "krm/merge_patch.h"
#include "workers/eventing/control/internal/group_entry.h"
#include "workers/eventing/model/group_id.h"
#include "workers/eventing/model/placeable.h"
#include "workers/eventing/model/replicas.h"
#include "workers/runtime/status/conditions.h"
#include "workers/runtime/status/finalizers.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {

const Resource kKafkaSources{"sources.knative.dev", "v1", "kafkasources", "KafkaSource"};

namespace {

using krm::Json;

constexpr std::string_view kUidLabel = "kafka.eventing.knative.dev/metadata.uid",
                           kKindOfOwnerLabel = "kafka.eventing.knative.dev/metadata.kind",
                           kKeyTypeLabel = "kafkasources.sources.knative.dev/key-type";

/// What the group's schema takes; another one is as none.
constexpr std::string_view kKeyTypes[] = {"string", "int", "float", "byte-array"};

const Json* member(const Json* of, std::string_view key) {
  return of == nullptr ? nullptr : of->find(key);
}

void copy(const Json* from, std::string_view key, Json& to, std::string_view as = {}) {
  if (const Json* const value = member(from, key)) {
    to[as.empty() ? key : as] = *value;
  }
}

std::string joined(const Json* list, std::string_view between) {
  std::string out;
  if (list != nullptr) {
    for (const Json& one : list->items()) {
      out.append(out.empty() ? "" : between).append(one.as_string());
    }
  }
  return out;
}

bool is_enabled(const Json* of, std::string_view key) {
  const Json* const enable = member(member(of, key), "enable");
  return enable != nullptr && enable->as_bool();
}

Json template_of(std::string_view ns, std::string_view name, const Json& source) {
  const Json* const spec = source.find("spec");
  Json out = Json::object();
  copy(spec, "topics", out);
  GroupIdDemand demand;
  demand.kind = GroupKind::kKafkaSource;
  demand.ns = ns;
  demand.name = name;
  demand.uid = source.text({"metadata", "uid"});
  demand.asked = source.text({"spec", "consumerGroup"});
  // It is unique by the uid, or wished for to be shared.
  const GroupId id = choose_group_id(demand, [](std::string_view) { return false; });
  Json configs = Json::object();
  configs["group.id"] = id.id;
  configs["bootstrap.servers"] = joined(member(spec, "bootstrapServers"), ",");
  if (const std::string_view type = source.text({"metadata", "labels", kKeyTypeLabel});
      std::find(std::begin(kKeyTypes), std::end(kKeyTypes), type) != std::end(kKeyTypes)) {
    configs["keyType"] = type;
  }
  out["configs"] = std::move(configs);
  const Json* const given = member(spec, "delivery");
  Json delivery = given == nullptr ? Json::object() : *given;
  copy(spec, "ordering", delivery);
  copy(spec, "initialOffset", delivery);
  out["delivery"] = std::move(delivery);
  copy(spec, "sink", out, "subscriber");
  copy(spec, "ceOverrides", out);
  if (const Json* const filters = member(spec, "filters")) {
    out["filters"] = Json::object({{"filters", *filters}});
  }
  out["reply"] = Json::object({{"noReply", Json::object({{"enabled", true}})}});
  const Json* const net = member(spec, "net");
  if (is_enabled(net, "sasl") || is_enabled(net, "tls")) {
    out["auth"] = Json::object({{"netSpec", *net}});
  }
  return out;
}

/// What the condition ConsumerGroup says of a group. Its reason is a text of `status`.
Condition condition_of(const CachedGroup* group, const Json& status, std::int64_t generation) {
  Condition out{"ConsumerGroup", ConditionStatus::kUnknown, "BindInProgress", "", generation};
  if (group == nullptr) {
    out.reason = "NoConsumerGroup";
    out.message = "its ConsumerGroup is not there yet";
    return out;
  }
  const Json* const observed = status.find("observedGeneration");
  const Json* const ready = find_condition(status, "Ready");
  if (ready == nullptr || observed == nullptr || observed->as_integer() != group->generation) {
    out.message = "its ConsumerGroup has not been looked at since it was changed";
    return out;
  }
  out.status = ready->text({"status"}) == "True" ? ConditionStatus::kTrue : ConditionStatus::kFalse;
  out.reason = ready->text({"reason"});
  out.message = ready->text({"message"});
  return out;
}

}  // namespace

Projection<CachedSource> source_projection() {
  Projection<CachedSource> out;
  out.make = [](const shards::ObjectKey&, const Json& object) {
    CachedSource source;
    source.uid = object.text({"metadata", "uid"});
    const Json* const generation = object.at({"metadata", "generation"});
    source.generation = generation == nullptr ? 0 : generation->as_integer();
    source.deleting = !object.text({"metadata", "deletionTimestamp"}).empty();
    source.has_finalizer = has_finalizer(object, kSourceFinalizer);
    source.object = KeptJson(small_object(object, {"spec", "status"}, {"labels"}));
    return source;
  };
  out.indexes.push_back({"uid", [](const shards::ObjectKey&, const CachedSource& one,
                                   IndexValues& values) { values.add(one.uid); }});
  return out;
}

Json group_of_source(std::string_view ns, std::string_view name, const Json& source) {
  const std::string_view uid = source.text({"metadata", "uid"});
  const std::string version = kKafkaSources.group + "/" + kKafkaSources.version;
  const Json labels = Json::object({{kUidLabel, uid}, {kKindOfOwnerLabel, "kafkasource"}});
  Json metadata = Json::object();
  metadata["name"] = uid;
  metadata["namespace"] = ns;
  metadata["labels"] = labels;
  if (const std::string_view policy =
          source.text({"metadata", "annotations", kReplicasPolicyAnnotation});
      !policy.empty()) {
    metadata["annotations"] = Json::object({{kReplicasPolicyAnnotation, policy}});
  }
  metadata["finalizers"] = Json::array({Json(kGroupFinalizer)});
  metadata["ownerReferences"] = Json::array({Json::object({{"apiVersion", version},
                                                           {"kind", kKafkaSources.kind},
                                                           {"name", name},
                                                           {"uid", uid},
                                                           {"controller", true},
                                                           {"blockOwnerDeletion", true}})});
  const Json* const consumers = source.at({"spec", "consumers"});
  Json spec = Json::object();
  spec["replicas"] = consumers == nullptr ? 1 : consumers->as_integer();
  spec["selector"] = labels;
  spec["topLevelResourceRef"] = Json::object({{"apiVersion", version},
                                              {"kind", kKafkaSources.kind},
                                              {"namespace", ns},
                                              {"name", name},
                                              {"uid", uid}});
  spec["template"] = Json::object(
      {{"metadata", Json::object({{"labels", labels}})}, {"spec", template_of(ns, name, source)}});
  return Json::object({{"apiVersion", kConsumerGroups.group + "/" + kConsumerGroups.version},
                       {"kind", kConsumerGroups.kind},
                       {"metadata", std::move(metadata)},
                       {"spec", std::move(spec)}});
}

std::optional<std::string> group_patch(const Json& had, const Json& wish) {
  const Json* const found = had.find("spec");
  const Json before = found == nullptr ? Json::object() : *found;
  Json after = *wish.find("spec");
  // Defaults of the group's schema.
  Json& delivery = after["template"]["spec"]["delivery"];
  for (const auto& [key, value] :
       {std::pair("ordering", "unordered"), std::pair("initialOffset", "latest")}) {
    if (delivery.find(key) == nullptr) {
      delivery[key] = value;
    }
  }
  const auto policy_of = [](const Json& object) {
    return object.text({"metadata", "annotations", kReplicasPolicyAnnotation});
  };
  Json patch = Json::object();
  if (!same_status(before, after)) {
    patch["spec"] = krm::make_merge_patch(before, after);
  }
  if (const std::string_view policy = policy_of(wish); policy != policy_of(had)) {
    const Json value = policy.empty() ? Json() : Json(policy);
    patch["metadata"] =
        Json::object({{"annotations", Json::object({{kReplicasPolicyAnnotation, value}})}});
  }
  return patch.size() == 0 ? std::nullopt : std::optional(patch.dump());
}

bool is_group_passing(const CachedGroup& group) {
  const Json object = group.object.value();
  const Json none = Json::object();
  const Json* const status = object.find("status");
  const Condition said = condition_of(&group, status == nullptr ? none : *status, 0);
  return said.status != ConditionStatus::kTrue && said.reason == "BindInProgress";
}

void set_source_status(Json& status, std::int64_t generation, const CachedGroup* group,
                       std::string_view now) {
  const Json none = Json::object();
  const Json object = group == nullptr ? none : group->object.value();
  const Json* const found = object.find("status");
  const Json& of = found == nullptr ? none : *found;
  const Placeable placeable = read_status_placeable(of).placeable;
  write_status_placeable(status, placeable);
  const Json* const replicas = of.find("replicas");
  status["consumers"] = replicas == nullptr ? 0 : replicas->as_integer();
  status["observedGeneration"] = generation;
  for (const auto& [from, to] :
       {std::pair("selector", "selector"), std::pair("subscriberUri", "sinkUri"),
        std::pair("subscriberCACerts", "sinkCACerts")}) {
    set_or_erase(status, to, of.text({from}));
  }
  const ConditionRules rules{{"SinkProvided", "ConsumerGroup", "Ready"}, nullptr};
  const Condition consumers = condition_of(group, of, generation);
  const bool has_sink = !status.text({"sinkUri"}).empty();
  const Condition sink{"SinkProvided",
                       has_sink                                       ? ConditionStatus::kTrue
                       : consumers.reason == "PropagateSubscriberURI" ? ConditionStatus::kFalse
                                                                      : ConditionStatus::kUnknown,
                       has_sink ? std::string_view("SinkProvided") : consumers.reason,
                       has_sink ? std::string() : consumers.message, generation};
  const Condition ready{"Ready", consumers.status, consumers.reason, consumers.message, generation};
  for (const Condition* const one : {&sink, &consumers, &ready}) {
    set_condition(status, rules, *one, now);
  }
}

}  // namespace kintsugi::workers
