#include "workers/eventing/model/placeable.h"

#include <gtest/gtest.h>

#include "base/digest.h"
#include "krm/names.h"

namespace kintsugi::workers {
namespace {

using krm::Json;
using Pods = std::vector<Placed>;

Json parsed(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : Json();
}

TEST(Placeable, KN_1_KN_2_StatusesSayItAsTheDuckTypeDoes) {
  const Placeable placeable{12, {{"d-0", 8}, {"d-1", 7}}};
  Json status = Json::object({{"observedGeneration", 3}});
  write_status_placeable(status, placeable);
  EXPECT_EQ(status.dump(), R"({"maxAllowedVReplicas":12,"observedGeneration":3,)"
                           R"("placements":[{"podName":"d-0","vreplicas":8},)"
                           R"({"podName":"d-1","vreplicas":7}]})");
  EXPECT_EQ(read_status_placeable(status).placeable, placeable);
  EXPECT_EQ(read_status_placeable(status).problem, "");
  write_status_placeable(status, {});
  EXPECT_EQ(status.dump(), R"({"observedGeneration":3})");
  EXPECT_EQ(read_status_placeable(status).placeable, Placeable());
}

TEST(Placeable, KN_T023_KN_4_AnnotationsOfATriggerHaveTheKeysOfTheSeed) {
  Json annotations = Json::object({{"group.id", "g"}});
  write_annotation_placeable(annotations, {12, {{"d-0", 8}, {"d-1", 7}}});
  const std::string prefix = "kafka.eventing.knative.dev/scheduler.placeable.";
  EXPECT_EQ(annotations, Json::object({{"group.id", "g"},
                                       {prefix + "MaxAllowedVReplicas", "12"},
                                       {prefix + "Placements.0.PodName", "d-0"},
                                       {prefix + "Placements.0.VReplicas", "8"},
                                       {prefix + "Placements.1.PodName", "d-1"},
                                       {prefix + "Placements.1.VReplicas", "7"}}));
  for (const auto& [key, value] : annotations.members()) {
    EXPECT_TRUE(krm::check_qualified_name(key).empty()) << key;
  }
  EXPECT_EQ(read_annotation_placeable(annotations).placeable,
            (Placeable{12, {{"d-0", 8}, {"d-1", 7}}}));
}

TEST(Placeable, KN_5_IndexesBeginAtZero_AndOldOnesGo) {
  Json annotations = Json::object();
  write_annotation_placeable(annotations, {3, {{"a", 1}, {"b", 1}, {"c", 1}}});
  write_annotation_placeable(annotations, {std::nullopt, {{"c", 2}}});
  EXPECT_EQ(annotations.size(), 2U);
  EXPECT_EQ(read_annotation_placeable(annotations).placeable,
            (Placeable{std::nullopt, {{"c", 2}}}));
  write_annotation_placeable(annotations, {});
  EXPECT_EQ(annotations.size(), 0U);
}

TEST(Placeable, IndexesAreReadAsNumbers_AlsoWithGaps) {
  Json annotations = Json::object();
  const std::string at = std::string(kPlaceablePrefix) + "Placements.";
  for (const int i : {2, 10, 7}) {
    annotations[at + std::to_string(i) + ".PodName"] = "d-" + std::to_string(i);
    annotations[at + std::to_string(i) + ".VReplicas"] = std::to_string(i);
  }
  EXPECT_EQ(read_annotation_placeable(annotations).placeable.placements,
            (Pods{{"d-2", 2}, {"d-7", 7}, {"d-10", 10}}));
}

TEST(Placeable, BadStatusesArePutRight) {
  const auto problem = [](std::string_view text) {
    return read_status_placeable(parsed(text)).problem;
  };
  const Json bad = parsed(R"({"placements":[{"podName":"a","vreplicas":2},{"podName":"a",
    "vreplicas":3},{"podName":"b","vreplicas":-1},{"vreplicas":4},{"podName":"c"},7,
    {"podName":"d","vreplicas":"9"},{"podName":"e","vreplicas":1}]})");
  EXPECT_EQ(read_status_placeable(bad).placeable.placements, (Pods{{"a", 5}, {"e", 1}}));
  EXPECT_EQ(read_status_placeable(bad).problem, "a: named twice");
  EXPECT_EQ(problem(R"({"placements":[{"podName":"b","vreplicas":-1}]})"), "b: -1 vreplicas");
  EXPECT_EQ(problem(R"({"placements":{"podName":"b"}})"), "placements is no list");
  EXPECT_EQ(problem(R"({"maxAllowedVReplicas":-1})"),
            "maxAllowedVReplicas is no number of 0 to 2147483647");
  const ReadPlaceable many =
      read_status_placeable(parsed(R"({"placements":[{"podName":"a","vreplicas":2147483647},
                 {"podName":"b","vreplicas":9223372036854775807}]})"));
  EXPECT_EQ(many.placeable.placements, (Pods{{"a", 2147483647}}));
  EXPECT_EQ(many.problem, "b: more than 2147483647 vreplicas in all");
}

TEST(Placeable, BadAnnotationsArePutRight) {
  const std::string p(kPlaceablePrefix);
  const Json bad = Json::object({{p + "MaxAllowedVReplicas", "-4"},
                                 {p + "Placements.0.PodName", "a"},
                                 {p + "Placements.0.VReplicas", "x"},
                                 {p + "Placements.1.VReplicas", "3"},
                                 {p + "Placements.2.PodName", "c"},
                                 {p + "Placements.2.VReplicas", "1"},
                                 {p + "Placements.-1.PodName", "d"},
                                 {p + "Placements.99999999999999.PodName", "e"},
                                 {p + "Placements.3", "f"},
                                 {p + "Placements.4.PodName", 7}});
  const ReadPlaceable read = read_annotation_placeable(bad);
  EXPECT_EQ(read.placeable, (Placeable{std::nullopt, {{"c", 1}}}));
  EXPECT_EQ(read.problem, p + "MaxAllowedVReplicas: is no number of 0 to 2147483647");
}

TEST(Placeable, KD_2_TheDigestIsThatOfTheSortedList) {
  const Pods one{{"d-1", 7}, {"d-0", 8}}, same{{"d-0", 8}, {"d-1", 7}};
  EXPECT_EQ(canonical_placements(one), "d-0=8,d-1=7");
  EXPECT_EQ(placements_digest(one), sha256_hex("d-0=8,d-1=7").substr(0, 8));
  EXPECT_EQ(placements_digest(one), placements_digest(same));
  EXPECT_NE(placements_digest(one), placements_digest(Pods{{"d-0", 7}, {"d-1", 8}}));
  EXPECT_NE(placements_digest(one), placements_digest(Pods{{"d-0", 15}}));
  EXPECT_EQ(placements_digest({}).size(), 8U);
}

}  // namespace
}  // namespace kintsugi::workers
