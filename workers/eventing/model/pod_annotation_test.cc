#include "workers/eventing/model/pod_annotation.h"

#include <gtest/gtest.h>

#include "krm/names.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

const std::string kSeen(kSeenAnnotation);

TEST(PodAnnotation, KN_T051_KD_1_ItsKeyIsOneThatAnApiServerTakes) {
  EXPECT_TRUE(krm::check_qualified_name(kSeenAnnotation).empty());
  EXPECT_TRUE(krm::check_qualified_name(kVolumeGenerationAnnotation).empty());
  // What the seed has instead is none.
  EXPECT_FALSE(krm::check_qualified_name(kSeen + ".ns/name").empty());
}

TEST(PodAnnotation, KN_T051_ItIsJson_WithSortedKeys) {
  const SeenDecisions seen{{"c2|b/x", {1, "00000000"}}, {"c1|b/x", {12, "0123abcd"}}};
  EXPECT_EQ(write_seen(seen), R"({"c1|b/x":"12.0123abcd","c2|b/x":"1.00000000"})");
  EXPECT_EQ(write_seen({}), "{}");
  EXPECT_EQ(read_seen(Json::object({{kSeen, write_seen(seen)}}), "c9"), seen);
}

TEST(PodAnnotation, KN_T051_TheFormOfTheSeedIsRead) {
  const Json annotations = Json::object({{kSeen + ".ns/a", "5"},
                                         {kSeen + ".ns/b", "6.0123abcd"},
                                         {kSeen + ".ns/c", "seven"},
                                         {kSeen + ".ns", "8"},
                                         {kSeen + "./d", "8"},
                                         {kSeen + ".ns/", "8"}});
  const SeenDecisions expected{{"c1|ns/a", {5, std::nullopt}}, {"c1|ns/b", {6, "0123abcd"}}};
  EXPECT_EQ(read_seen(annotations, "c1"), expected);
}

TEST(PodAnnotation, OfBothFormsTheJsonCounts) {
  const Json annotations = Json::object(
      {{kSeen + ".ns/a", "9"}, {kSeen + ".ns/b", "9"}, {kSeen, R"({"c1|ns/a":"5.0123abcd"})"}});
  EXPECT_EQ(read_seen(annotations, "c1"),
            (SeenDecisions{{"c1|ns/a", {5, "0123abcd"}}, {"c1|ns/b", {9, std::nullopt}}}));
}

TEST(PodAnnotation, WhatCannotBeReadIsNotThere) {
  for (const char* bad :
       {"", "{", "[]", "7", "null", R"({"c1|ns/a":5})", R"({"c1|ns/a":"5"})", R"({"c1|ns/a":"5."})",
        R"({"c1|ns/a":"5.0123ABCD"})", R"({"c1|ns/a":"5.0123abc"})", R"({"c1|ns/a":"-5.0123abcd"})",
        R"({"c1|ns/a":"x.0123abcd"})", R"({"c1|ns/a":"9223372036854775808.0123abcd"})"}) {
    EXPECT_EQ(read_seen(Json::object({{kSeen, bad}}), "c1"), SeenDecisions()) << bad;
  }
  EXPECT_EQ(read_seen(Json::object({{kSeen, 7}}), "c1"), SeenDecisions());
  EXPECT_EQ(read_seen(Json(), "c1"), SeenDecisions());
  // One bad entry takes no other with it.
  EXPECT_EQ(
      read_seen(Json::object({{kSeen, R"({"c|n/a":"1.0123abcd","c|n/b":true})"}}), "c").size(), 1U);
}

TEST(PodAnnotation, KP_4_KP_5_OnePatchSaysBoth_AndNoneWhatIsThere) {
  const SeenDecisions seen{{"c1|ns/a", {5, "0123abcd"}}};
  const auto patch = seen_patch(Json::object({{kSeen + ".ns/a", "4"}, {"other", "x"}}), seen, 7);
  ASSERT_TRUE(patch);
  EXPECT_EQ(patch->dump(), R"({"metadata":{"annotations":{"kafka.eventing.knative.dev/)"
                           R"(scheduler.placeable.Placements":"{\"c1|ns/a\":\"5.0123abcd\"}",)"
                           R"("kafka.eventing.knative.dev/scheduler.placeable.Placements.ns/a":)"
                           R"(null,"volumeGeneration":"7"}}})");
  const Json there =
      Json::object({{kSeen, write_seen(seen)}, {kVolumeGenerationAnnotation, "7"}, {"other", "x"}});
  EXPECT_FALSE(seen_patch(there, seen, 7));
  const auto later = seen_patch(there, seen, 8);
  ASSERT_TRUE(later);
  EXPECT_EQ(later->dump(), R"({"metadata":{"annotations":{"volumeGeneration":"8"}}})");
}

}  // namespace
}  // namespace kintsugi::workers
