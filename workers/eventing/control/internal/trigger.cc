#include "workers/eventing/control/internal/trigger.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "workers/eventing/model/group_id.h"
#include "workers/eventing/model/placeable.h"
#include "workers/eventing/model/replicas.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {

const Resource kTriggers{"eventing.knative.dev", "v1", "triggers", "Trigger"};
const Resource kBrokers{"eventing.knative.dev", "v1", "brokers", "Broker"};

namespace {

using krm::Json;

constexpr std::string_view kBrokerClass = "eventing.knative.dev/broker.class",
                           kDependency = "knative.dev/dependency", kTopic = "default.topic",
                           kBootstrap = "bootstrap.servers", kSecret = "auth.secret.ref.name";
constexpr std::string_view kOurClasses[] = {"Kafka", "KafkaNamespaced"};
constexpr std::string_view kOrders[] = {"ordered", "unordered"};
constexpr std::size_t kMostTopic = 249, kMostBootstrap = 2'048;

std::string quoted(std::string_view name) { return std::string("\"").append(name).append("\""); }

std::string text_at(const Json& object, std::initializer_list<std::string_view> path) {
  return std::string(object.text(path));
}

/// As a ConsumerGroup takes it.
bool is_topic(std::string_view name) {
  return !name.empty() && name.size() <= kMostTopic &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

GroupIdDemand id_demand(const shards::ObjectKey& key, const CachedOwner& trigger) {
  GroupIdDemand out;
  out.ns = key.ns;
  out.name = key.name;
  out.uid = trigger.uid;
  out.stored = trigger.group_id;
  return out;
}

/// What is not said of a Trigger that is well.
struct Verdict {
  ConditionStatus status = ConditionStatus::kTrue;
  std::string_view reason = "Ready";
  std::string message;
  void add(const Condition& one) {
    const bool worse = one.status == ConditionStatus::kFalse ? status != ConditionStatus::kFalse
                                                             : status == ConditionStatus::kTrue;
    if (one.status != ConditionStatus::kTrue && worse) {
      status = one.status;
      reason = one.reason;
      message = one.message;
    }
  }
};

void set_annotations(Json& status, const TriggerReport& report, const Json& of) {
  const Json* const found = status.find("annotations");
  Json annotations = found == nullptr ? Json::object() : *found;
  write_annotation_placeable(annotations, read_status_placeable(of).placeable);
  if (!report.group_id.empty()) {
    annotations[kGroupIdAnnotation] = report.group_id;
  }
  if (annotations.size() == 0) {
    status.erase("annotations");
  } else {
    status["annotations"] = std::move(annotations);
  }
}

Condition dependency_condition(const TriggerReport& report) {
  if (!report.has_dependency) {
    return {"DependencyReady", ConditionStatus::kTrue, "NoDependency", "", report.generation};
  }
  return {"DependencyReady", ConditionStatus::kUnknown, "DependencyNotFollowed",
          std::string(kDependency) + ": nothing here looks whether that is ready",
          report.generation};
}

}  // namespace

Projection<CachedOwner> trigger_projection() {
  Projection<CachedOwner> out = owner_projection(kTriggerFinalizer);
  out.make = [make = std::move(out.make)](const shards::ObjectKey& key, const Json& object) {
    CachedOwner trigger = make(key, object);
    trigger.broker = object.text({"spec", "broker"});
    trigger.group_id = object.text({"status", "annotations", kGroupIdAnnotation});
    return trigger;
  };
  out.indexes.push_back(
      {"broker", [](const shards::ObjectKey& key, const CachedOwner& one, IndexValues& values) {
         values.add(seen_key(key.cluster, key.ns, one.broker));
       }});
  out.indexes.push_back(
      {"group", [](const shards::ObjectKey& key, const CachedOwner& one, IndexValues& values) {
         const auto free = [](std::string_view) { return false; };
         values.add(choose_group_id(id_demand(key, one), free).id);
       }});
  return out;
}

Projection<CachedBroker> broker_projection() {
  Projection<CachedBroker> out;
  out.make = [](const shards::ObjectKey&, const Json& object) {
    CachedBroker broker;
    broker.of_class = text_at(object, {"metadata", "annotations", kBrokerClass});
    broker.topic = text_at(object, {"status", "annotations", kTopic});
    broker.bootstrap = text_at(object, {"status", "annotations", kBootstrap});
    broker.secret = text_at(object, {"status", "annotations", kSecret});
    broker.deleting = !object.text({"metadata", "deletionTimestamp"}).empty();
    const Json* const status = object.find("status");
    if (const Json* const ready = status == nullptr ? nullptr : find_condition(*status, "Ready")) {
      broker.ready = ready->text({"status"});
      broker.reason = ready->text({"reason"});
      broker.message = ready->text({"message"});
    }
    const Json* const delivery = object.at({"spec", "delivery"});
    broker.delivery = KeptJson(delivery == nullptr ? Json() : *delivery);
    return broker;
  };
  return out;
}

BrokerOwner broker_owner(const CachedBroker* broker) noexcept {
  if (broker == nullptr) {
    return BrokerOwner::kMissing;
  }
  if (broker->of_class.empty()) {
    return BrokerOwner::kUnclassed;
  }
  const bool ours = std::find(std::begin(kOurClasses), std::end(kOurClasses), broker->of_class) !=
                    std::end(kOurClasses);
  return ours ? BrokerOwner::kOurs : BrokerOwner::kOthers;
}

Condition broker_condition(const CachedBroker* broker, std::string_view name,
                           std::int64_t generation) {
  Condition out{"BrokerReady", ConditionStatus::kFalse, "", "Broker " + quoted(name), generation};
  if (broker == nullptr) {
    out.reason = "BrokerDoesNotExist";
    out.message += " does not exist";
  } else if (broker->deleting) {
    out.reason = "BrokerDeleting";
    out.message += " is being deleted";
  } else if (broker->of_class.empty()) {
    out.reason = "BrokerNotConfigured";
    out.message.append(" has no annotation ").append(kBrokerClass);
  } else if (broker->ready != "True") {
    out.reason = "BrokerNotReady";
    out.message.append(" is not ready");
    for (const std::string* const more : {&broker->reason, &broker->message}) {
      out.message.append(more->empty() ? "" : ": ").append(*more);
    }
  } else if (!is_topic(broker->topic)) {
    out.reason = "BrokerNotConfigured";
    out.message.append(" has no name of a topic in status.annotations, ").append(kTopic);
  } else if (broker->bootstrap.empty() || broker->bootstrap.size() > kMostBootstrap) {
    out.reason = "BrokerNotConfigured";
    out.message.append(" has no addresses in status.annotations, ").append(kBootstrap);
  } else {
    out.status = ConditionStatus::kTrue;
    out.reason = "BrokerReady";
    out.message.clear();
  }
  return out;
}

TriggerWish trigger_wish(const Json& trigger, const Json* group) {
  const Json none = Json::object();
  const Json* const found = trigger.at({"metadata", "annotations"});
  const Json& annotations = found == nullptr ? none : *found;
  const Json& had = group == nullptr ? none : *group;
  const ReplicasWish wish = read_replicas_annotation(annotations);
  TriggerWish out;
  out.replicas = wish.requested;
  out.policy = annotations.text({kReplicasPolicyAnnotation});
  if (!wish.invalid.empty()) {
    const Json* const replicas = had.at({"spec", "replicas"});
    out.replicas = replicas == nullptr ? 1 : replicas->as_integer();
    out.policy = had.text({"metadata", "annotations", kReplicasPolicyAnnotation});
    out.reason = "InvalidReplicas";
    out.message = wish.invalid;
  }
  const Json* const order = annotations.find(kDeliveryOrderAnnotation);
  out.ordering = order == nullptr ? "unordered" : to_lower(order->as_string());
  if (std::find(std::begin(kOrders), std::end(kOrders), out.ordering) == std::end(kOrders)) {
    const std::string_view was = had.text({"spec", "template", "spec", "delivery", "ordering"});
    out.ordering = was.empty() ? std::string_view("unordered") : was;
    if (out.reason.empty()) {
      out.reason = "InvalidDeliveryOrder";
      out.message = std::string(kDeliveryOrderAnnotation) + ": is neither ordered nor unordered";
    }
  }
  return out;
}

Json delivery_of_trigger(const Json& trigger, const CachedBroker* broker) {
  const Json* const own = trigger.at({"spec", "delivery"});
  if (own != nullptr && own->is_object()) {
    return *own;
  }
  return broker == nullptr ? Json() : broker->delivery.value();
}

Json group_of_trigger(std::string_view ns, std::string_view name, const Json& trigger,
                      const CachedBroker& broker, const TriggerWish& wish,
                      std::string_view group_id) {
  Json consumers = Json::object();
  consumers["topics"] = Json::array({Json(broker.topic)});
  consumers["configs"] =
      Json::object({{"group.id", group_id}, {"bootstrap.servers", broker.bootstrap}});
  Json delivery = delivery_of_trigger(trigger, &broker);
  delivery["ordering"] = wish.ordering;
  delivery["initialOffset"] = "latest";
  consumers["delivery"] = std::move(delivery);
  Json filters = Json::object();
  for (const std::string_view key : {"filter", "filters"}) {
    if (const Json* const value = trigger.at({"spec", key})) {
      filters[key] = *value;
    }
  }
  if (filters.size() > 0) {
    consumers["filters"] = std::move(filters);
  }
  if (const Json* const subscriber = trigger.at({"spec", "subscriber"})) {
    consumers["subscriber"] = *subscriber;
  }
  consumers["reply"] = Json::object({{"topicReply", Json::object({{"enabled", true}})}});
  if (!broker.secret.empty()) {
    consumers["auth"] = Json::object(
        {{"secretSpec", Json::object({{"ref", Json::object({{"name", broker.secret}})}})}});
  }
  return owned_group(kTriggers, ns, name, trigger.text({"metadata", "uid"}),
                     {wish.replicas, wish.policy, std::move(consumers)});
}

bool has_dependency(const Json& trigger) noexcept {
  return !trigger.text({"metadata", "annotations", kDependency}).empty();
}

void set_trigger_status(Json& status, const TriggerReport& report, std::string_view now) {
  const Json of = status_of_group(report.group);
  set_annotations(status, report, of);
  status["observedGeneration"] = report.generation;
  for (const std::string_view key :
       {"subscriberUri", "subscriberCACerts", "deadLetterSinkUri", "deadLetterSinkCACerts"}) {
    set_or_erase(status, key, of.text({key}));
  }
  const ConditionRules rules{{"BrokerReady", "SubscriberResolved", "DeadLetterSinkResolved",
                              "DependencyReady", "SubscriptionReady", "Ready"},
                             nullptr};
  const Condition group = group_condition("SubscriptionReady", report.group, of, report.generation);
  Condition subscription = group;
  if (!report.fault.empty()) {
    subscription.status = ConditionStatus::kFalse;
    subscription.reason = report.fault;
    subscription.message = report.fault_message;
  }
  const Condition subscriber = sink_condition("SubscriberResolved", of.text({"subscriberUri"}),
                                              "PropagateSubscriberURI", group);
  const Condition dead = sink_condition("DeadLetterSinkResolved", of.text({"deadLetterSinkUri"}),
                                        "PropagateDeadLetterSinkURI", group);
  const Condition dependency = dependency_condition(report);
  std::vector<const Condition*> all{&report.broker, &subscription, &subscriber};
  if (report.has_dead_letter_sink) {
    all.push_back(&dead);
  } else {
    drop_condition(status, "DeadLetterSinkResolved");
  }
  all.push_back(&dependency);
  Verdict verdict;
  for (const Condition* const one : all) {
    verdict.add(*one);
    set_condition(status, rules, *one, now);
  }
  const Condition ready{"Ready", verdict.status, verdict.reason, verdict.message,
                        report.generation};
  set_condition(status, rules, ready, now);
}

}  // namespace kintsugi::workers
