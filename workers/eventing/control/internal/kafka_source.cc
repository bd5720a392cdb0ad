#include "workers/eventing/control/internal/kafka_source.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "workers/eventing/model/group_id.h"
#include "workers/eventing/model/placeable.h"
#include "workers/eventing/model/replicas.h"
#include "workers/runtime/status/conditions.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {

const Resource kKafkaSources{"sources.knative.dev", "v1", "kafkasources", "KafkaSource"};

namespace {

using krm::Json;

constexpr std::string_view kKeyTypeLabel = "kafkasources.sources.knative.dev/key-type";

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

}  // namespace

Json group_of_source(std::string_view ns, std::string_view name, const Json& source) {
  const Json* const consumers = source.at({"spec", "consumers"});
  GroupWish wish;
  wish.replicas = consumers == nullptr ? 1 : consumers->as_integer();
  wish.policy = source.text({"metadata", "annotations", kReplicasPolicyAnnotation});
  wish.consumers = template_of(ns, name, source);
  return owned_group(kKafkaSources, ns, name, source.text({"metadata", "uid"}), std::move(wish));
}

void set_source_status(Json& status, std::int64_t generation, const CachedGroup* group,
                       std::string_view now) {
  const Json of = status_of_group(group);
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
  const Condition consumers = group_condition("ConsumerGroup", group, of, generation);
  const Condition sink =
      sink_condition("SinkProvided", status.text({"sinkUri"}), "PropagateSubscriberURI", consumers);
  const Condition ready{"Ready", consumers.status, consumers.reason, consumers.message, generation};
  for (const Condition* const one : {&sink, &consumers, &ready}) {
    set_condition(status, rules, *one, now);
  }
}

}  // namespace kintsugi::workers
