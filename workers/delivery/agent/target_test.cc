#include "workers/delivery/agent/target.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

krm::Json object(std::string_view text) { return *krm::Json::parse(text); }

TEST(DeliveryTarget, CM_31_WhoseAnObjectIs) {
  Target foreign;
  Target labelled;
  labelled.labelled = true;
  Target other;
  other.server_uid = "other";
  other.labelled = true;
  Target own;
  own.server_uid = "u";
  for (const auto adopt :
       {DeliveryAdoption::kNever, DeliveryAdoption::kLabelled, DeliveryAdoption::kAlways}) {
    EXPECT_TRUE(may_own(own, "u", adopt));
    EXPECT_FALSE(may_own(other, "u", adopt));
    EXPECT_EQ(may_own(labelled, "u", adopt), adopt != DeliveryAdoption::kNever);
    EXPECT_EQ(may_own(foreign, "u", adopt), adopt == DeliveryAdoption::kAlways);
  }
}

TEST(DeliveryTarget, CM_49_TheLabelIsOurs) {
  ManifestRecord record;
  record.generation = 5;
  EXPECT_EQ(
      apply_body(object(R"({"kind":"X","metadata":{"name":"n","namespace":"d",)"
                        R"("labels":{"concertmaster-cache":"False","a":"b"}}})"),
                 record, "u", false),
      R"({"kind":"X","metadata":{"annotations":{"concertmaster/generation":"5",)"
      R"("concertmaster/server-uid":"u"},"labels":{"a":"b","concertmaster-cache":"True"},"name":"n"}})");
}

TEST(DeliveryTarget, CM_18_WhatIsReadOfAnObject) {
  const Target out = make_target(object(
      R"({"metadata":{"uid":"t","resourceVersion":"5","generation":3,"creationTimestamp":"c",)"
      R"("finalizers":["a/b"],"annotations":{"concertmaster/server-uid":"u"},)"
      R"("labels":{"concertmaster-cache":"True"},"deletionTimestamp":"d"},"status":{"a":1}})"));
  EXPECT_EQ(out.uid, "t");
  EXPECT_EQ(out.server_uid, "u");
  EXPECT_EQ(out.generation, 3);
  EXPECT_TRUE(out.labelled && out.deleting);
  EXPECT_EQ(out.finalizers, std::vector<std::string>{"a/b"});
  EXPECT_EQ(out.status.value().dump(), R"({"a":1})");
}

TEST(DeliveryTarget, CM_32_ContentIsWithoutStatusAndServersFields) {
  const auto hash = [](std::string_view text) { return make_target(object(text)).content_hash; };
  const std::string one = hash(R"({"metadata":{"name":"n","resourceVersion":"1"},"spec":1})");
  EXPECT_EQ(one, hash(R"({"metadata":{"name":"n","resourceVersion":"2"},"spec":1,"status":2})"));
  EXPECT_NE(one, hash(R"({"metadata":{"name":"n"},"spec":2})"));
}

TEST(RevertPacer, CM_T054_RareAndRarer) {
  RevertPacer pacer;
  TimePoint now = TimePoint{} + seconds(1'000);
  EXPECT_EQ(pacer.wait(now), Duration::zero());
  for (int i = 0; i < 9; ++i) {
    pacer.reverted(now);
    EXPECT_EQ(pacer.wait(now), seconds(10));
    EXPECT_FALSE(pacer.contended(now));
    now += seconds(10);
    EXPECT_EQ(pacer.wait(now), Duration::zero());
  }
  pacer.reverted(now);
  EXPECT_TRUE(pacer.contended(now));
  EXPECT_EQ(pacer.wait(now), seconds(300));
  now += std::chrono::minutes(11);
  EXPECT_FALSE(pacer.contended(now));
  EXPECT_EQ(pacer.wait(now), Duration::zero());
}

}  // namespace
}  // namespace kintsugi::workers
