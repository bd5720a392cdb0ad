#include "workers/runtime/unit/internal/shown_clusters.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

class ShownClustersTest : public ::testing::Test {
 protected:
  std::string settle() {
    std::string told;
    clusters_.settle([this](std::string_view) { return runs_; },
                     [&](const std::string& cluster) { told += "parked " + cluster + " "; },
                     [&](const std::string& cluster) { told += "gone " + cluster + " "; });
    return told;
  }

  ShownClusters clusters_;
  bool runs_ = false;
};

TEST_F(ShownClustersTest, RT14_AClusterIsShownByItsFirstObjectAndGoneWithItsLast) {
  EXPECT_TRUE(clusters_.add("c"));
  EXPECT_FALSE(clusters_.add("c"));
  EXPECT_TRUE(clusters_.add("d"));
  EXPECT_FALSE(clusters_.remove("c"));
  EXPECT_EQ(settle(), "");
  EXPECT_TRUE(clusters_.remove("c"));
  runs_ = true;
  EXPECT_EQ(settle(), "") << "a reconcile of it still runs";
  EXPECT_TRUE(clusters_.waits());
  runs_ = false;
  EXPECT_EQ(settle(), "gone c ");
  EXPECT_FALSE(clusters_.waits());
  EXPECT_TRUE(clusters_.add("c")) << "it is back";
  EXPECT_EQ(clusters_.size(), 2U);
}

TEST_F(ShownClustersTest, RT14_OneThatComesBackBeforeItIsGoneWasNeverGone) {
  (void)clusters_.add("c");
  EXPECT_TRUE(clusters_.remove("c"));
  EXPECT_FALSE(clusters_.add("c"));
  EXPECT_EQ(settle(), "");
}

TEST_F(ShownClustersTest, RT14_ParkedIsToldWhenNothingRunsAndOnce) {
  (void)clusters_.add("c");
  clusters_.park("c");
  runs_ = true;
  EXPECT_EQ(settle(), "");
  runs_ = false;
  EXPECT_EQ(settle(), "parked c ");
  EXPECT_EQ(settle(), "");
  EXPECT_TRUE(clusters_.act("c"));
  EXPECT_FALSE(clusters_.act("c"));
  EXPECT_FALSE(clusters_.act("d"));
}

TEST_F(ShownClustersTest, RT14_OneThatActsAgainBeforeItHasParkedTellsNothing) {
  (void)clusters_.add("c");
  clusters_.park("c");
  EXPECT_TRUE(clusters_.act("c"));
  EXPECT_EQ(settle(), "");
}

TEST_F(ShownClustersTest, RT14_AParkedOneThatLosesItsLastObjectIsParkedThenGone) {
  (void)clusters_.add("c");
  clusters_.park("c");
  (void)clusters_.remove("c");
  EXPECT_EQ(settle(), "parked c gone c ");
  (void)clusters_.remove("c");
  EXPECT_EQ(settle(), "") << "what was not shown cannot go";
}

}  // namespace
}  // namespace kintsugi::workers
