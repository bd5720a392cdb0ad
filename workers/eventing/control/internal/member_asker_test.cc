#include "workers/eventing/control/internal/member_asker.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

TEST(MemberAsker, DP_1_AStatusSaysHowManyMembersThereAre) {
  const auto members =
      members_of_status(R"({"pod":"p0","generation":3,"egresses":{"a":{"members":2,"vReplicas":3},)"
                        R"("b":{"members":0},"c":{"refused":"cesql is not supported"}}})",
                        "p0");
  ASSERT_TRUE(members);
  EXPECT_EQ(*members, (DispatcherMembers{{"a", 2}, {"b", 0}}));
  EXPECT_EQ(members_of_status(R"({"pod":"p0"})", "p0"), DispatcherMembers{});
}

TEST(MemberAsker, WhatIsNoStatusOfThatPodSaysNothing) {
  for (const char* other : {"", "x", "[]", "{}", R"({"pod":"p1","egresses":{"a":{"members":2}}})",
                            R"({"pod":"p0","egresses":{"a":{"members":2})"}) {
    EXPECT_FALSE(members_of_status(other, "p0")) << other;
  }
  EXPECT_EQ(members_of_status(R"({"pod":"p0","egresses":[1],"more":{"a":1}})", "p0"),
            DispatcherMembers{});
  EXPECT_EQ(members_of_status(R"({"pod":"p0","egresses":{"a":7,"b":{"members":"x"}}})", "p0"),
            (DispatcherMembers{{"b", 0}}));
}

}  // namespace
}  // namespace kintsugi::workers
