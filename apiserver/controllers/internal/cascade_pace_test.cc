#include "apiserver/controllers/internal/cascade_pace.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::apiserver {
namespace {

class CascadePaceTest : public ::testing::Test {
 protected:
  /// @returns how many of them went at once
  int ask(const std::string& cluster, int count) {
    int at_once = 0;
    for (int i = 0; i < count; ++i) {
      at_once += pace_.enter(cluster, now_,
                             [this, cluster, i] { gone_.push_back(cluster + std::to_string(i)); });
    }
    return at_once;
  }
  std::size_t after(Duration time) {
    now_ += time;
    gone_.clear();
    next_ = pace_.release(now_);
    return gone_.size();
  }
  CascadePace pace_;
  TimePoint now_{seconds(1'000)};
  TimePoint next_{};
  std::vector<std::string> gone_;
};

TEST_F(CascadePaceTest, SE100_TwoHundredGoAtOnceAndThenSoManyASecond) {
  EXPECT_EQ(ask("a", 1'000), 200);
  EXPECT_EQ(pace_.waiting(), 800U);
  EXPECT_EQ(after({}), 0U);
  EXPECT_EQ(next_, now_ + milliseconds(5));
  EXPECT_EQ(after(milliseconds(5)), 1U);
  EXPECT_EQ(gone_, std::vector<std::string>{"a200"}) << "in their order";
  std::size_t gone = 1;
  for (int i = 0; i < 199; ++i) {
    gone += after(milliseconds(5));
  }
  EXPECT_EQ(gone, 200U);
  EXPECT_EQ(after(seconds(1)), 200U) << "also when the loop comes late";
  EXPECT_EQ(after(seconds(9)), 200U) << "never more than a burst";
  EXPECT_EQ(after(seconds(1)), 200U) << "all that are left";
  EXPECT_EQ(next_, TimePoint::max());
  EXPECT_EQ(ask("a", 1), 0);
  EXPECT_EQ(after(milliseconds(5)), 1U);
  now_ += seconds(2);
  EXPECT_EQ(ask("a", 201), 200);
}

TEST_F(CascadePaceTest, SE100_WhoComesLaterWaitsBehindWhoWaits) {
  EXPECT_EQ(ask("a", 201), 200);
  now_ += seconds(1);
  EXPECT_EQ(ask("a", 1), 0) << "the loop has not come by yet";
  EXPECT_EQ(after({}), 2U);
  EXPECT_EQ(gone_, (std::vector<std::string>{"a200", "a0"}));
}

TEST_F(CascadePaceTest, SE100_NoClusterWaitsForAnother) {
  EXPECT_EQ(ask("large", 100'000), 200);
  EXPECT_EQ(ask("small", 150), 150);
  EXPECT_EQ(ask("other", 300), 200);
  EXPECT_EQ(after(milliseconds(500)), 200U);
  std::size_t others = 0;
  for (const std::string& one : gone_) {
    others += one.starts_with("other") ? 1U : 0U;
  }
  EXPECT_EQ(others, 100U);
  EXPECT_EQ(ask("small", 150), 150) << "it has a burst of its own";
}

TEST_F(CascadePaceTest, SE100_ClustersThatRestAreForgotten) {
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_EQ(ask("c" + std::to_string(i), 1), 1);
    now_ += milliseconds(5);
  }
  EXPECT_LE(pace_.clusters(), 64U);
}

}  // namespace
}  // namespace kintsugi::apiserver
