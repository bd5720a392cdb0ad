#include "workers/eventing/control/internal/trigger.h"

#include <gtest/gtest.h>

#include <string>

#include "workers/eventing/control/internal/group_entry.h"
#include "workers/eventing/model/placeable.h"
#include "workers/eventing/model/replicas.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr const char* kNow = "2026-11-29T10:00:00Z";

Json parsed(const std::string& text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : Json();
}

Json trigger_object(const std::string& spec = "", const std::string& annotations = "") {
  return parsed(R"({"metadata":{"uid":"u-7","annotations":{)" + annotations +
                R"(}},"spec":{"broker":"main","subscriber":{"uri":"http://sink/"})" + spec + "}}");
}

Json broker_object(const std::string& of_class = "Kafka", const std::string& ready = "True",
                   const std::string& spec = "{}") {
  return parsed(R"({"metadata":{"annotations":{"eventing.knative.dev/broker.class":")" + of_class +
                R"("}},"spec":)" + spec +
                R"(,"status":{"annotations":{"default.topic":"events","bootstrap.servers":)"
                R"("k0:9092,k1:9092"},"conditions":[{"type":"Ready","status":")" +
                ready + R"(","reason":"Why","message":"so"}]}})");
}

CachedBroker broker_of(const Json& object) {
  return broker_projection().make({"c", "shop", "main"}, object);
}

CachedOwner owner_of(const Json& object, std::string_view name = "orders") {
  return trigger_projection().make({"c", "shop", name}, object);
}

Json group_of(const Json& trigger, const CachedBroker& broker = broker_of(broker_object()),
              const Json* had = nullptr) {
  return group_of_trigger("shop", "orders", trigger, broker, trigger_wish(trigger, had), "id-1");
}

GroupEntry entry_of(Json group) {
  group["metadata"]["uid"] = "g-1";
  return group_entry("shop", "u-7", group, ContractFormat::kJson);
}

CachedGroup cached_group(const std::string& status) {
  CachedGroup group;
  group.generation = 1;
  group.object = KeptJson(parsed(R"({"status":)" + status + "}"));
  return group;
}

TriggerReport report_of(const CachedGroup* group, const Json& broker = broker_object()) {
  TriggerReport out;
  out.generation = 3;
  const CachedBroker cached = broker_of(broker);
  out.broker = broker_condition(&cached, "main", 3);
  out.group = group;
  return out;
}

std::string said(const Json& status, std::string_view type) {
  const Json* const one = find_condition(status, type);
  return one == nullptr
             ? "none"
             : std::string(one->text({"status"})).append("/").append(one->text({"reason"}));
}

std::string annotation(const char* key, const char* value) {
  return std::string("\"kafka.eventing.knative.dev/") + key + R"(":")" + value + "\"";
}

constexpr const char* kReadyStatus =
    R"({"observedGeneration":1,"maxAllowedVReplicas":12,"subscriberUri":"http://sink/",)"
    R"("deadLetterSinkUri":"http://dead/",)"
    R"("placements":[{"podName":"p0","vreplicas":3},{"podName":"p1","vreplicas":1}],)"
    R"("conditions":[{"type":"Ready","status":"True","reason":"Ready"}]})";

TEST(Trigger, KN_T023_ItsGroupHasAsManyConsumersAsItAsksFor) {
  const Json group = group_of(trigger_object(
      "", annotation("replicas", "4") + "," + annotation("replicas-policy", "Unbounded")));
  EXPECT_EQ(group.at({"spec", "replicas"})->as_integer(), 4);
  EXPECT_EQ(group.text({"metadata", "annotations", kReplicasPolicyAnnotation}), "Unbounded");
  EXPECT_EQ(group_of(trigger_object()).at({"spec", "replicas"})->as_integer(), 1);
  EXPECT_EQ(group.text({"metadata", "name"}), "u-7");
  EXPECT_EQ(group.text({"metadata", "namespace"}), "shop");
  EXPECT_EQ(group.text({"metadata", "labels", "kafka.eventing.knative.dev/metadata.kind"}),
            "trigger");
  EXPECT_EQ(group.text({"metadata", "labels", "kafka.eventing.knative.dev/metadata.uid"}), "u-7");
  EXPECT_EQ(group.at({"metadata", "finalizers"})->items().front().as_string(), kGroupFinalizer);
  const Json& owner = group.at({"metadata", "ownerReferences"})->items().front();
  EXPECT_EQ(owner.text({"kind"}), "Trigger");
  EXPECT_EQ(owner.text({"apiVersion"}), "eventing.knative.dev/v1");
  EXPECT_EQ(pool_of_group(group), "kafka-broker-dispatcher");
}

TEST(Trigger, KN_7_ItsConsumersAreThoseOfItsBrokersTopic) {
  const GroupEntry entry = entry_of(group_of(
      trigger_object(R"(,"filter":{"attributes":{"type":"t"}},"filters":[{"prefix":{"type":"o"}}],)"
                     R"("delivery":{"retry":4,"deadLetterSink":{"uri":"http://dead/"}})",
                     annotation("delivery.order", "Ordered"))));
  EXPECT_EQ(entry.trouble, GroupTrouble::kNone) << entry.message;
  EXPECT_EQ(entry.group_id, "id-1");
  EXPECT_EQ(entry.bootstrap, "k0:9092,k1:9092");
  EXPECT_TRUE(entry.latest);
  EXPECT_EQ(entry.resource.topics, std::vector<std::string>{"events"});
  EXPECT_EQ(entry.resource.reference->kind, "Trigger");
  EXPECT_EQ(entry.resource.reference->name, "orders");
  const Egress& egress = entry.resource.egresses.front();
  EXPECT_EQ(egress.delivery_order, DeliveryOrder::kOrdered);
  EXPECT_EQ(egress.destination, "http://sink/");
  EXPECT_EQ(egress.reply_strategy, ReplyStrategy::kOriginalTopic);
  EXPECT_EQ(egress.egress_config->retry, 4U);
  EXPECT_EQ(egress.egress_config->dead_letter, "http://dead/");
  EXPECT_EQ(egress.filter->at("type"), "t");
  EXPECT_EQ(egress.dialected_filter.size(), 1U);
  EXPECT_EQ(entry_of(group_of(trigger_object())).resource.egresses.front().delivery_order,
            DeliveryOrder::kUnordered);
}

TEST(Trigger, WithoutADeliveryItHasItsBrokers) {
  const CachedBroker broker = broker_of(broker_object(
      "KafkaNamespaced", "True", R"({"delivery":{"retry":7,"backoffPolicy":"linear"}})"));
  EXPECT_EQ(broker_owner(&broker), BrokerOwner::kOurs);
  const Json theirs = group_of(trigger_object(), broker);
  EXPECT_EQ(theirs.at({"spec", "template", "spec", "delivery"})->dump(),
            R"({"backoffPolicy":"linear","initialOffset":"latest","ordering":"unordered",)"
            R"("retry":7})");
  const Json own = group_of(trigger_object(R"(,"delivery":{"retry":1})"), broker);
  EXPECT_EQ(own.at({"spec", "template", "spec", "delivery"})->dump(),
            R"({"initialOffset":"latest","ordering":"unordered","retry":1})");
}

TEST(Trigger, CredentialsOfItsBrokerAreNotLeftOutInSilence) {
  Json object = broker_object();
  object["status"]["annotations"]["auth.secret.ref.name"] = "secret";
  EXPECT_EQ(entry_of(group_of(trigger_object(), broker_of(object))).trouble,
            GroupTrouble::kAuthSecret);
}

TEST(Trigger, KN_T060_WhatItsBrokerLacksIsSaid) {
  const auto of = [](const Json& object) {
    const CachedBroker broker = broker_of(object);
    const Condition out = broker_condition(&broker, "main", 1);
    return std::string(condition_text(out.status)).append("/").append(out.reason);
  };
  EXPECT_EQ(broker_condition(nullptr, "main", 1).reason, "BrokerDoesNotExist");
  EXPECT_EQ(broker_condition(nullptr, "main", 1).message, R"(Broker "main" does not exist)");
  EXPECT_EQ(of(broker_object()), "True/BrokerReady");
  EXPECT_EQ(of(broker_object("Kafka", "False")), "False/BrokerNotReady");
  const CachedBroker not_ready = broker_of(broker_object("Kafka", "Unknown"));
  EXPECT_EQ(broker_condition(&not_ready, "main", 1).message,
            R"(Broker "main" is not ready: Why: so)");
  Json object = broker_object();
  object.make({"metadata", "deletionTimestamp"}) = kNow;
  EXPECT_EQ(of(object), "False/BrokerDeleting");
  for (const auto& [key, value] :
       {std::pair("default.topic", ""), std::pair("default.topic", "a b"),
        std::pair("bootstrap.servers", "")}) {
    object = broker_object();
    object["status"]["annotations"][key] = value;
    EXPECT_EQ(of(object), "False/BrokerNotConfigured") << key;
  }
  object = broker_object();
  object.erase("status");
  EXPECT_EQ(of(object), "False/BrokerNotReady");
}

TEST(Trigger, ABrokerOfAnotherClassIsAnotherControllers) {
  const CachedBroker other = broker_of(broker_object("MTChannelBasedBroker"));
  EXPECT_EQ(broker_owner(&other), BrokerOwner::kOthers);
  const CachedBroker none = broker_of(broker_object(""));
  EXPECT_EQ(broker_owner(&none), BrokerOwner::kUnclassed);
  EXPECT_EQ(broker_condition(&none, "main", 1).reason, "BrokerNotConfigured");
  EXPECT_EQ(broker_owner(nullptr), BrokerOwner::kMissing);
}

TEST(Trigger, KN_T024_AWishThatCannotBeReadNamesItsKeyAndChangesNothing) {
  const Json had = group_of(trigger_object(
      "", annotation("replicas", "4") + "," + annotation("delivery.order", "ordered")));
  for (const char* bad : {"abc", "-1", "2147483648", ""}) {
    const Json trigger = trigger_object("", annotation("replicas", bad));
    const TriggerWish wish = trigger_wish(trigger, &had);
    EXPECT_EQ(wish.reason, "InvalidReplicas") << bad;
    EXPECT_TRUE(wish.message.starts_with("kafka.eventing.knative.dev/replicas: ")) << wish.message;
    EXPECT_EQ(wish.replicas, 4) << bad;
  }
  const TriggerWish order =
      trigger_wish(trigger_object("", annotation("delivery.order", "any")), &had);
  EXPECT_EQ(order.reason, "InvalidDeliveryOrder");
  EXPECT_TRUE(order.message.starts_with("kafka.eventing.knative.dev/delivery.order: "));
  EXPECT_EQ(order.ordering, "ordered");
  EXPECT_EQ(trigger_wish(trigger_object("", annotation("delivery.order", "any")), nullptr).ordering,
            "unordered");
  // It is told though the group is well.
  const CachedGroup group = cached_group(kReadyStatus);
  TriggerReport report = report_of(&group);
  report.fault = "InvalidReplicas";
  report.fault_message = "kafka.eventing.knative.dev/replicas: is no number";
  Json status = Json::object();
  set_trigger_status(status, report, kNow);
  EXPECT_EQ(said(status, "SubscriptionReady"), "False/InvalidReplicas");
  EXPECT_EQ(said(status, "Ready"), "False/InvalidReplicas");
  EXPECT_EQ(find_condition(status, "Ready")->text({"message"}), report.fault_message);
  EXPECT_EQ(read_annotation_placeable(*status.find("annotations")).placeable.placements.size(), 2U);
}

TEST(Trigger, KN_4_KN_5_ItsStatusHasThePlaceableInAnnotations) {
  const CachedGroup group = cached_group(kReadyStatus);
  TriggerReport report = report_of(&group);
  report.group_id = "knative-trigger-shop-orders";
  report.has_dead_letter_sink = true;
  const std::string prefix = "kafka.eventing.knative.dev/scheduler.placeable.";
  Json status = Json::object();
  status["annotations"] =
      Json::object({{"other", "stays"}, {prefix + "Placements.2.PodName", "old"}});
  set_trigger_status(status, report, kNow);
  EXPECT_EQ(*status.find("annotations"), Json::object({{"group.id", "knative-trigger-shop-orders"},
                                                       {"other", "stays"},
                                                       {prefix + "MaxAllowedVReplicas", "12"},
                                                       {prefix + "Placements.0.PodName", "p0"},
                                                       {prefix + "Placements.0.VReplicas", "3"},
                                                       {prefix + "Placements.1.PodName", "p1"},
                                                       {prefix + "Placements.1.VReplicas", "1"}}));
  EXPECT_EQ(status.text({"subscriberUri"}), "http://sink/");
  EXPECT_EQ(status.text({"deadLetterSinkUri"}), "http://dead/");
  EXPECT_EQ(status.find("observedGeneration")->as_integer(), 3);
  for (const char* type : {"BrokerReady", "SubscriberResolved", "DeadLetterSinkResolved",
                           "DependencyReady", "SubscriptionReady", "Ready"}) {
    EXPECT_EQ(find_condition(status, type)->text({"status"}), "True") << type;
  }
  // The same once more is no change, and an id that is not said stays.
  const Json before = status;
  report.group_id = {};
  set_trigger_status(status, report, "2026-11-29T11:00:00Z");
  EXPECT_EQ(status, before);
  report.has_dead_letter_sink = false;
  set_trigger_status(status, report, kNow);
  EXPECT_EQ(said(status, "DeadLetterSinkResolved"), "none");
}

TEST(Trigger, TheWorstConditionIsItsReady) {
  const CachedGroup group = cached_group(kReadyStatus);
  Json status = Json::object();
  set_trigger_status(status, report_of(&group, broker_object("Kafka", "False")), kNow);
  EXPECT_EQ(said(status, "Ready"), "False/BrokerNotReady");
  EXPECT_EQ(said(status, "SubscriptionReady"), "True/Ready");
  set_trigger_status(status, report_of(nullptr), kNow);
  EXPECT_EQ(said(status, "Ready"), "Unknown/NoConsumerGroup");
  EXPECT_EQ(status.find("annotations"), nullptr);
  const CachedGroup failed =
      cached_group(R"({"observedGeneration":1,"conditions":[{"type":"Ready","status":"False",)"
                   R"("reason":"PropagateSubscriberURI","message":"subscriber: no"}]})");
  set_trigger_status(status, report_of(&failed), kNow);
  EXPECT_EQ(said(status, "SubscriberResolved"), "False/PropagateSubscriberURI");
  EXPECT_EQ(said(status, "Ready"), "False/PropagateSubscriberURI");
  TriggerReport depends = report_of(&group);
  depends.has_dependency = has_dependency(trigger_object("", R"("knative.dev/dependency":"{}")"));
  set_trigger_status(status, depends, kNow);
  EXPECT_EQ(said(status, "Ready"), "Unknown/DependencyNotFollowed");
}

TEST(Trigger, ItIsFoundByItsBrokerAndByTheGroupThatItHasOrWouldHave) {
  const Projection<CachedOwner> projection = trigger_projection();
  const auto value = [&](std::size_t index, const CachedOwner& one) {
    IndexValues values;
    projection.indexes[index].values({"c", "shop", "orders"}, one, values);
    return std::string(values[0]);
  };
  Json object = trigger_object();
  EXPECT_EQ(value(0, owner_of(object)), "u-7");
  EXPECT_EQ(value(1, owner_of(object)), "c|shop/main");
  EXPECT_EQ(value(2, owner_of(object)), "knative-trigger-shop-orders");
  object.make({"status", "annotations", "group.id"}) = "stored";
  EXPECT_EQ(value(2, owner_of(object)), "stored");
  EXPECT_EQ(owner_of(object).group_id, "stored");
}

TEST(Trigger, AGroupThatIsAsItShouldBeIsLeftAlone) {
  const Json wish = group_of(trigger_object(R"(,"filter":{"attributes":{}})"));
  EXPECT_EQ(group_patch(wish, wish), std::nullopt);
  const Json less = group_of(trigger_object());
  EXPECT_EQ(group_patch(wish, less), std::nullopt);  // no attributes are no filter
  EXPECT_NE(group_patch(wish, group_of(trigger_object("", annotation("replicas", "2")))),
            std::nullopt);
}

}  // namespace
}  // namespace kintsugi::workers
