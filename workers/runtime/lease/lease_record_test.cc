#include "workers/runtime/lease/lease_record.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

constexpr std::string_view kText =
    R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"annotations":{"a":"b"},)"
    R"("name":"x","resourceVersion":"7","uid":"u"},"spec":{"acquireTime":"2026-01-01T00:00:00.)"
    R"(000000Z","holderIdentity":"me","leaseDurationSeconds":15,"leaseTransitions":3,)"
    R"("renewTime":"2026-01-01T00:00:01.000000Z"}})";

TEST(LeaseRecord, RT50_ReadsAndWritesTheObject) {
  const Expected<LeaseRecord> lease = parse_lease(kText);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->holder, "me");
  EXPECT_EQ(lease->duration_s, 15);
  EXPECT_EQ(lease->transitions, 3);
  EXPECT_EQ(lease->annotation("a"), "b");
  EXPECT_EQ(lease->annotation("c"), "");
  LeaseWrite write;
  write.name = "x";
  write.rv = "7";
  write.uid = "u";
  write.holder = "me";
  write.duration_s = 15;
  write.transitions = 4;
  write.acquire_time = lease->acquire_time;
  write.annotations = lease->annotations;
  EXPECT_EQ(lease_body(write, 1'767'225'602'000'005).dump(),
            R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"annotations":)"
            R"({"a":"b"},"name":"x","namespace":"kintsugi-system","resourceVersion":"7",)"
            R"("uid":"u"},"spec":{"acquireTime":"2026-01-01T00:00:00.000000Z",)"
            R"("holderIdentity":"me","leaseDurationSeconds":15,"leaseTransitions":4,)"
            R"("renewTime":"2026-01-01T00:00:02.000005Z"}})");
}

TEST(LeaseRecord, Section18_BadInputIsRefusedOrCountsAsTheConfiguredDuration) {
  for (const std::string_view text :
       {std::string_view("{"), std::string_view("[]"), std::string_view(R"({"kind":"Lease"})"),
        std::string_view(R"({"kind":"Pod","metadata":{"name":"x","uid":"u",)"
                         R"("resourceVersion":"1"}})"),
        std::string_view(R"({"kind":"Lease","metadata":{"name":"x","uid":"u",)"
                         R"("resourceVersion":"1"},"spec":{"leaseTransitions":"3"}})"),
        std::string_view(R"({"kind":"Lease","metadata":{"name":"x","uid":"u",)"
                         R"("resourceVersion":"1"},"spec":{"holderIdentity":3}})")}) {
    EXPECT_FALSE(parse_lease(text)) << text;
  }
  LeaseRecord lease;
  lease.duration_s = 20;
  EXPECT_EQ(lease.patience(seconds(15)), seconds(20));
  lease.duration_s = 0;
  EXPECT_EQ(lease.patience(seconds(15)), seconds(15));
  lease.duration_s = 20;
  lease.transitions = -1;
  EXPECT_EQ(lease.patience(seconds(15)), seconds(15));
  lease.transitions = 0;
  lease.duration_s = INT64_MAX;
  EXPECT_EQ(lease.patience(seconds(15)), kMaxLeaseDuration);
}

TEST(LeaseRecord, RT53_IdentityIsAValidPartOfAName) {
  const std::string random(16, '\xAB');
  EXPECT_EQ(lease_identity("Node_1.example", 42, random).value_or(""),
            "node-1-example-42-abababababababababababababababab");
  EXPECT_EQ(lease_identity("", 1, random).value_or("").substr(0, 3), "h-1");
  EXPECT_FALSE(lease_identity("a", 1, "short"));
}

}  // namespace
}  // namespace kintsugi::workers
