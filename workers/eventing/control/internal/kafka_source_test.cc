#include "workers/eventing/control/internal/kafka_source.h"

#include <gtest/gtest.h>

#include <string>

#include "workers/eventing/control/internal/group_entry.h"
#include "workers/eventing/model/placeable.h"
#include "workers/eventing/model/replicas.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

Json parsed(const std::string& text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : Json();
}

Json source_object(const std::string& spec = "", const std::string& metadata = "") {
  return parsed(R"({"metadata":{"uid":"u-7")" + metadata +
                R"(},"spec":{"topics":["orders","more"],"bootstrapServers":["k0:9092","k1:9092"],)"
                R"("sink":{"uri":"http://sink/"})" +
                spec + "}}");
}

Json group_of(const Json& source) { return group_of_source("shop", "orders", source); }

CachedGroup cached_group(const std::string& status, std::int64_t generation = 1) {
  CachedGroup group;
  group.generation = generation;
  group.object = KeptJson(parsed(R"({"status":)" + status + "}"));
  return group;
}

TEST(KafkaSource, KN_T025_ItsGroupHasAsManyConsumersAsItAsksFor) {
  const Json group = group_of(source_object(R"(,"consumers":5)"));
  EXPECT_EQ(group.at({"spec", "replicas"})->as_integer(), 5);
  EXPECT_EQ(group_of(source_object()).at({"spec", "replicas"})->as_integer(), 1);
  EXPECT_EQ(group.text({"metadata", "name"}), "u-7");
  EXPECT_EQ(group.text({"metadata", "namespace"}), "shop");
  const Json& owner = group.at({"metadata", "ownerReferences"})->items().front();
  EXPECT_EQ(owner.text({"kind"}), "KafkaSource");
  EXPECT_EQ(owner.text({"apiVersion"}), "sources.knative.dev/v1");
  EXPECT_EQ(owner.text({"name"}), "orders");
  EXPECT_EQ(owner.text({"uid"}), "u-7");
  EXPECT_EQ(pool_of_group(group), "kafka-source-dispatcher");
}

TEST(KafkaSource, KN_7_ItsSpecIsTheGroupsTemplate) {
  const Json group = group_of(source_object(
      R"(,"consumerGroup":"mine","ordering":"ordered","initialOffset":"earliest",)"
      R"("delivery":{"retry":4,"backoffDelay":"PT1S","deadLetterSink":{"uri":"http://dead/"}},)"
      R"("ceOverrides":{"extensions":{"a":"b"}},"filters":[{"exact":{"type":"t"}}])",
      R"(,"labels":{"kafkasources.sources.knative.dev/key-type":"int"})"));
  Json whole = group;
  whole["metadata"]["uid"] = "g-1";
  const GroupEntry entry = group_entry("shop", "u-7", whole, ContractFormat::kJson);
  EXPECT_EQ(entry.trouble, GroupTrouble::kNone) << entry.message;
  EXPECT_EQ(entry.group_id, "mine");
  EXPECT_EQ(entry.bootstrap, "k0:9092,k1:9092");
  EXPECT_FALSE(entry.latest);
  EXPECT_EQ(entry.resource.topics, (std::vector<std::string>{"orders", "more"}));
  EXPECT_EQ(entry.resource.reference->name, "orders");
  EXPECT_EQ(entry.resource.reference->kind, "KafkaSource");
  const Egress& egress = entry.resource.egresses.front();
  EXPECT_EQ(egress.delivery_order, DeliveryOrder::kOrdered);
  EXPECT_EQ(egress.egress_config->retry, 4U);
  EXPECT_EQ(egress.egress_config->dead_letter, "http://dead/");
  EXPECT_EQ(egress.key_type, KeyType::kInteger);
  EXPECT_EQ(egress.dialected_filter.size(), 1U);
  EXPECT_EQ(egress.reply_strategy, ReplyStrategy::kDiscard);
  EXPECT_EQ(entry.resource.cloud_event_overrides->at("a"), "b");
}

TEST(KafkaSource, WithoutAWishItsKafkaGroupHasItsUid) {
  const Json group = group_of(source_object());
  EXPECT_EQ(group.text({"spec", "template", "spec", "configs", "group.id"}),
            "knative-kafka-source-u-7");
  const Json odd = group_of(
      source_object("", R"(,"labels":{"kafkasources.sources.knative.dev/key-type":"long"})"));
  EXPECT_EQ(odd.at({"spec", "template", "spec", "configs", "keyType"}), nullptr);
}

TEST(KafkaSource, CredentialsAreNotLeftOutInSilence) {
  Json group = group_of(source_object(R"(,"net":{"tls":{"enable":true}})"));
  group["metadata"]["uid"] = "g-1";
  EXPECT_EQ(group_entry("shop", "u-7", group, ContractFormat::kJson).trouble,
            GroupTrouble::kAuthSecret);
  group = group_of(source_object(R"(,"net":{"tls":{"enable":false}})"));
  group["metadata"]["uid"] = "g-1";
  EXPECT_EQ(group_entry("shop", "u-7", group, ContractFormat::kJson).trouble, GroupTrouble::kNone);
}

TEST(KafkaSource, AGroupThatIsAsItShouldBeIsLeftAlone) {
  const Json source = source_object(R"(,"consumers":2,"ceOverrides":{"extensions":{"a":"b"}})");
  const Json wish = group_of(source);
  Json had = wish;  // as the server has it, with defaults
  had["spec"]["template"]["spec"]["delivery"] =
      Json::object({{"ordering", "unordered"}, {"initialOffset", "latest"}});
  EXPECT_EQ(group_patch(had, wish), std::nullopt);
  const Json less = group_of(source_object(R"(,"consumers":3)"));
  EXPECT_EQ(parsed(group_patch(had, less).value_or("")),
            parsed(R"({"spec":{"replicas":3,"template":{"spec":{"ceOverrides":null}}}})"));
  const Json unbounded = group_of(source_object(
      R"(,"consumers":2,"ceOverrides":{"extensions":{"a":"b"}})",
      R"(,"annotations":{"kafka.eventing.knative.dev/replicas-policy":"Unbounded"})"));
  EXPECT_EQ(parsed(group_patch(had, unbounded).value_or(""))
                .text({"metadata", "annotations", kReplicasPolicyAnnotation}),
            "Unbounded");
  Json other = had;
  other["metadata"]["annotations"] = *unbounded.at({"metadata", "annotations"});
  EXPECT_EQ(
      parsed(group_patch(other, wish).value_or("")),
      parsed(
          R"({"metadata":{"annotations":{"kafka.eventing.knative.dev/replicas-policy":null}}})"));
}

TEST(KafkaSource, KN_2_ItsStatusIsAPlaceable) {
  const CachedGroup group = cached_group(
      R"({"observedGeneration":1,"replicas":5,"maxAllowedVReplicas":12,"selector":"a=b",)"
      R"("subscriberUri":"http://sink/","placements":[{"podName":"p0","vreplicas":3},)"
      R"({"podName":"p1","vreplicas":2}],)"
      R"("conditions":[{"type":"Ready","status":"True","reason":"Ready"}]})");
  Json status = Json::object();
  set_source_status(status, 4, &group, "2026-11-28T19:00:00Z");
  const Placeable placeable = read_status_placeable(status).placeable;
  EXPECT_EQ(placeable.max_allowed, 12);
  EXPECT_EQ(placeable.placements, (std::vector<Placed>{{"p0", 3}, {"p1", 2}}));
  EXPECT_EQ(status.find("consumers")->as_integer(), 5);
  EXPECT_EQ(status.find("observedGeneration")->as_integer(), 4);
  EXPECT_EQ(status.text({"sinkUri"}), "http://sink/");
  EXPECT_EQ(find_condition(status, "Ready")->text({"status"}), "True");
  EXPECT_EQ(find_condition(status, "SinkProvided")->text({"status"}), "True");
  EXPECT_FALSE(is_group_passing(group));
}

TEST(KafkaSource, WhatKeepsItsGroupFromReadyKeepsIt) {
  const CachedGroup group =
      cached_group(R"({"observedGeneration":2,"conditions":[{"type":"Ready","status":"False",)"
                   R"("reason":"PropagateSubscriberURI","message":"subscriber: no"}]})",
                   2);
  Json status = parsed(R"({"sinkUri":"http://old/"})");
  set_source_status(status, 4, &group, "2026-11-28T19:00:00Z");
  for (const char* type : {"SinkProvided", "ConsumerGroup", "Ready"}) {
    EXPECT_EQ(find_condition(status, type)->text({"status"}), "False") << type;
    EXPECT_EQ(find_condition(status, type)->text({"reason"}), "PropagateSubscriberURI") << type;
    EXPECT_EQ(find_condition(status, type)->text({"message"}), "subscriber: no") << type;
  }
  EXPECT_EQ(status.find("sinkUri"), nullptr);
  EXPECT_FALSE(is_group_passing(group));
}

TEST(KafkaSource, AGroupThatWasChangedSaysNothingYet) {
  const CachedGroup group = cached_group(
      R"({"observedGeneration":1,"conditions":[{"type":"Ready","status":"True","reason":"Ready"}]})",
      2);
  EXPECT_TRUE(is_group_passing(group));
  Json status = Json::object();
  set_source_status(status, 4, &group, "2026-11-28T19:00:00Z");
  EXPECT_EQ(find_condition(status, "Ready")->text({"status"}), "Unknown");
  set_source_status(status, 4, nullptr, "2026-11-28T19:00:00Z");
  EXPECT_EQ(find_condition(status, "Ready")->text({"reason"}), "NoConsumerGroup");
}

}  // namespace
}  // namespace kintsugi::workers
