#include "workers/eventing/model/replicas.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using krm::Json;

Json asks(const char* replicas, const char* policy = nullptr) {
  Json out = Json::object({{kReplicasAnnotation, replicas}});
  if (policy != nullptr) {
    out[kReplicasPolicyAnnotation] = policy;
  }
  return out;
}

TEST(Replicas, KN_3_WithoutAnAnnotationItIsOne) {
  EXPECT_EQ(read_replicas_annotation(Json()).requested, 1);
  EXPECT_EQ(read_replicas_annotation(asks("4")).requested, 4);
  EXPECT_EQ(read_replicas_annotation(asks("0")).requested, 0);
  EXPECT_EQ(read_replicas_annotation(asks("2147483647")).requested, 2147483647);
}

TEST(Replicas, KN_T024_KD_6_WhatIsNoNumberNamesItsKey) {
  for (const char* bad :
       {"abc", "-1", "2147483648", "", " 4", "4.0", "1e3", "+4", "99999999999999999999999"}) {
    const ReplicasWish wish = read_replicas_annotation(asks(bad));
    EXPECT_EQ(wish.invalid, "kafka.eventing.knative.dev/replicas: is no number of 0 to 2147483647")
        << bad;
  }
  EXPECT_NE(read_replicas_annotation(Json::object({{kReplicasAnnotation, 4}})).invalid, "");
}

TEST(Replicas, KN_T021_KD_5_PartitionsBoundThem) {
  const auto three = effective_replicas(read_replicas_annotation(asks("10")), 3);
  ASSERT_TRUE(three);
  EXPECT_EQ(three->wanted, 3);
  EXPECT_EQ(three->max_allowed, 3);
  EXPECT_TRUE(three->capped);
  // KN-T022: more partitions, more units, without another wish.
  const auto six = effective_replicas(read_replicas_annotation(asks("10")), 6);
  EXPECT_EQ(six->wanted, 6);
  const auto all = effective_replicas(read_replicas_annotation(asks("10")), 12);
  EXPECT_EQ(all->wanted, 10);
  EXPECT_EQ(all->max_allowed, 12);
  EXPECT_FALSE(all->capped);
}

TEST(Replicas, KD_5_UnlessThePolicySaysOtherwise) {
  const ReplicasWish wish = read_replicas_annotation(asks("10", "Unbounded"));
  for (const std::optional<std::int64_t> partitions :
       {std::optional<std::int64_t>(3), std::optional<std::int64_t>()}) {
    const auto effective = effective_replicas(wish, partitions);
    ASSERT_TRUE(effective);
    EXPECT_EQ(effective->wanted, 10);
    EXPECT_FALSE(effective->max_allowed);
    EXPECT_FALSE(effective->capped);
  }
  EXPECT_EQ(read_replicas_annotation(asks("1000", "Unbounded")).invalid, "");
  EXPECT_EQ(read_replicas_annotation(asks("1001", "Unbounded")).invalid,
            "kafka.eventing.knative.dev/replicas: 1001 is more than 1000, the most without a bound "
            "by partitions");
  EXPECT_EQ(read_replicas_annotation(asks("1001")).invalid, "");
  EXPECT_FALSE(read_replicas_annotation(asks("2", "unbounded")).unbounded);
}

TEST(Replicas, WhatIsBoundedWaitsForThePartitions) {
  EXPECT_FALSE(effective_replicas(read_replicas_annotation(asks("10")), std::nullopt));
}

TEST(Replicas, KN_T025_FieldsAreNumbers) {
  const Json five = 5, text = "5", big = std::int64_t{2147483648}, none;
  EXPECT_EQ(read_replicas_field(&five, "spec.consumers", Json()).requested, 5);
  EXPECT_EQ(read_replicas_field(nullptr, "spec.consumers", Json()).requested, 1);
  EXPECT_EQ(read_replicas_field(&none, "spec.consumers", Json()).requested, 1);
  for (const Json* bad : {&text, &big}) {
    EXPECT_EQ(read_replicas_field(bad, "spec.consumers", Json()).invalid,
              "spec.consumers: is no number of 0 to 2147483647");
  }
}

}  // namespace
}  // namespace kintsugi::workers
