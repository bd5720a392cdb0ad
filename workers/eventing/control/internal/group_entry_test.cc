#include "workers/eventing/control/internal/group_entry.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace kintsugi::workers {
namespace {

using krm::Json;

Json group_object(const std::string& spec_members) {
  auto parsed = Json::parse(R"({"metadata":{"uid":"u-1","name":"orders","namespace":"shop"},)"
                            R"("spec":{"template":{"spec":{"topics":["orders"],)"
                            R"("configs":{"group.id":"shop-orders","bootstrap.servers":"k:9092"},)"
                            R"("subscriber":{"uri":"http://sink:8000/in"})" +
                            spec_members + "}}}}");
  EXPECT_TRUE(parsed);
  return parsed ? std::move(*parsed) : Json();
}

GroupEntry entry_of_spec(const std::string& spec_members = "") {
  return group_entry("shop", "orders", group_object(spec_members), ContractFormat::kJson);
}

TEST(GroupEntry, KN_7_WhatTheTemplateSaysIsInTheEntry) {
  const GroupEntry out = entry_of_spec(
      R"(,"delivery":{"ordering":"ordered","initialOffset":"earliest","retry":3,)"
      R"("backoffPolicy":"linear","backoffDelay":"PT0.2S","timeout":"PT5S",)"
      R"("deadLetterSink":{"uri":"https://dead/","CACerts":"pem"}},)"
      R"("filters":{"filter":{"attributes":{"type":"a"}},)"
      R"("filters":[{"not":{"prefix":{"type":"b"}}},{"any":[{"exact":{"source":"c"}}]}]},)"
      R"("ceOverrides":{"extensions":{"x":"y"}},"reply":{"topicReply":{"enabled":true}})");
  EXPECT_EQ(out.trouble, GroupTrouble::kNone) << out.message;
  EXPECT_FALSE(out.latest);
  EXPECT_EQ(out.group_id, "shop-orders");
  EXPECT_EQ(out.bootstrap, "k:9092");
  EXPECT_EQ(out.resource.uid, "u-1");
  EXPECT_EQ(out.resource.topics, std::vector<std::string>{"orders"});
  ASSERT_EQ(out.resource.egresses.size(), 1U);
  const Egress& egress = out.resource.egresses.front();
  EXPECT_EQ(egress.uid, "u-1");
  EXPECT_EQ(egress.consumer_group, "shop-orders");
  EXPECT_EQ(egress.destination, "http://sink:8000/in");
  EXPECT_EQ(egress.delivery_order, DeliveryOrder::kOrdered);
  EXPECT_EQ(egress.reply_strategy, ReplyStrategy::kOriginalTopic);
  ASSERT_TRUE(egress.egress_config);
  EXPECT_EQ(egress.egress_config->retry, 3U);
  EXPECT_EQ(egress.egress_config->backoff_delay, 200U);
  EXPECT_EQ(egress.egress_config->timeout, 5'000U);
  EXPECT_EQ(egress.egress_config->dead_letter, "https://dead/");
  EXPECT_EQ(egress.egress_config->dead_letter_ca_certs, "pem");
  ASSERT_EQ(egress.dialected_filter.size(), 2U);
  EXPECT_EQ(egress.dialected_filter[0].kind, DialectedFilter::Kind::kNot);
  EXPECT_EQ(egress.dialected_filter[1].filters.front().attributes.at("source"), "c");
  EXPECT_EQ(egress.filter->at("type"), "a");
  EXPECT_EQ(out.resource.cloud_event_overrides->at("x"), "y");
  EXPECT_EQ(out.resource.reference->ns, "shop");
}

TEST(GroupEntry, SettingsMayStandInAMap_AndDefaultsAreKnatives) {
  Json object = group_object("");
  object.make({"spec", "template", "spec", "configs"}) =
      Json::object({{"Configs", Json::object({{"group.id", "g"}, {"bootstrap.servers", "b:1"}})}});
  const GroupEntry out = group_entry("shop", "orders", object, ContractFormat::kJson);
  EXPECT_EQ(out.group_id, "g");
  EXPECT_EQ(out.bootstrap, "b:1");
  EXPECT_TRUE(out.latest);
  EXPECT_EQ(out.resource.egresses.front().delivery_order, DeliveryOrder::kUnordered);
  EXPECT_EQ(out.resource.egresses.front().reply_strategy, ReplyStrategy::kDiscard);
  EXPECT_FALSE(out.resource.egresses.front().egress_config);
}

TEST(GroupEntry, DP_6_WhatCannotBeDeliveredNamesItsReason) {
  const auto trouble = [](const std::string& members) {
    const GroupEntry out = entry_of_spec(members);
    EXPECT_FALSE(out.message.empty()) << members;
    return std::string(group_trouble_text(out.trouble));
  };
  EXPECT_EQ(trouble(R"(,"filters":{"filters":[{"cesql":"a = 1"}]})"), "ReconcileConsumer");
  EXPECT_EQ(trouble(R"(,"delivery":{"timeout":"5 seconds"})"), "ReconcileConsumer");
  EXPECT_EQ(trouble(R"(,"auth":{"SecretSpec":{"ref":{"name":"s"}}})"), "AuthSecret");
  EXPECT_EQ(trouble(R"(,"delivery":{"deadLetterSink":{"ref":{"name":"s"}}})"),
            "PropagateDeadLetterSinkURI");
  for (const char* uri : {"", "/in", "ftp://sink/", "sink"}) {
    EXPECT_EQ(trouble(R"(,"subscriber":{"uri":")" + std::string(uri) + R"("})"),
              "PropagateSubscriberURI")
        << uri;
  }
}

TEST(GroupEntry, ItsBytesAreEnoughForAnyNumberOfUnits) {
  GroupEntry out = entry_of_spec();
  out.resource.egresses.front().vreplicas = 1'000;
  EXPECT_GE(out.bytes,
            static_cast<std::int64_t>(encoded_size(out.resource, ContractFormat::kJson)));
}

TEST(GroupEntry, TheKindThatItWasMadeForSaysItsPool) {
  Json object = group_object("");
  EXPECT_EQ(pool_of_group(object), "kafka-source-dispatcher");
  for (const auto& [kind, pool] : {std::pair("Trigger", "kafka-broker-dispatcher"),
                                   std::pair("KafkaChannel", "kafka-channel-dispatcher"),
                                   std::pair("KafkaSource", "kafka-source-dispatcher")}) {
    object.make({"spec", "topLevelResourceRef", "kind"}) = kind;
    EXPECT_EQ(pool_of_group(object), pool);
  }
}

}  // namespace
}  // namespace kintsugi::workers
