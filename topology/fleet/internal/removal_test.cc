#include "topology/fleet/internal/removal.h"

#include <gtest/gtest.h>

namespace kintsugi::topology {
namespace {

using Keys = std::vector<std::string>;

struct RemovalTest : ::testing::Test {
  Keys list_without(std::size_t from, std::size_t to, std::size_t known) {
    for (std::size_t i = from; i < to; ++i) {
      guard.lacks("k" + std::to_string(i));
    }
    return guard.listed(known, at);
  }
  RemovalGuard guard;
  TimePoint at = TimePoint() + seconds(1'000);
};

TEST_F(RemovalTest, GR_704_Few_AreGoneAtOnce) {
  EXPECT_EQ(list_without(0, 3, 3), (Keys{"k0", "k1", "k2"}));  // three of three
  EXPECT_EQ(list_without(0, 4, 14).size(), 4U);                // less than 30 %
  EXPECT_EQ(guard.due(), TimePoint::max());
}

TEST_F(RemovalTest, GR_704_Many_AreGoneWhenASecondListLacksThem) {
  EXPECT_TRUE(list_without(0, 4, 10).empty());
  EXPECT_EQ(guard.due(), at + seconds(30));
  EXPECT_TRUE(guard.doubts("k0"));
  guard.has("k1");
  EXPECT_TRUE(guard.listed(10, at).empty());  // another one that nobody asked for decides nothing
  guard.confirming();
  EXPECT_EQ(guard.due(), TimePoint::max());
  guard.has("k3");
  EXPECT_EQ(guard.listed(10, at), (Keys{"k0", "k2"}));
  EXPECT_EQ(guard.doubted(), 0U);
}

TEST_F(RemovalTest, GR_704_WhenAllAreBack_NothingIsAsked) {
  EXPECT_TRUE(list_without(0, 5, 5).empty());
  for (int i = 0; i < 5; ++i) {
    guard.has("k" + std::to_string(i));
  }
  EXPECT_EQ(guard.due(), TimePoint::max());
}

/// A list that was asked for and lacks many others doubts those anew.
TEST_F(RemovalTest, GR_704_TheSecondList_MayRaiseDoubtsOfItsOwn) {
  EXPECT_TRUE(list_without(0, 4, 10).empty());
  guard.confirming();
  EXPECT_EQ(list_without(4, 10, 10).size(), 4U);
  EXPECT_EQ(guard.doubted(), 6U);
  EXPECT_EQ(guard.due(), at + seconds(30));
}

}  // namespace
}  // namespace kintsugi::topology
