#include "serving/watch_drain.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kintsugi::serving {
namespace {

class WatchDrainTest : public ::testing::Test {
 protected:
  struct One final : WatchDrain::Watch {
    One(WatchDrainTest& test, std::string payer, std::size_t waits)
        : Watch(nullptr), test_(test), payer_(std::move(payer)), waits_(waits) {}
    ~One() { leave(); }
    void end_in_order() noexcept override { ADD_FAILURE() << payer_; }
    void end_at_once() noexcept override {
      test_.ended_.push_back(payer_ + " " + std::to_string(waits_));
    }
    [[nodiscard]] std::size_t backlog() const noexcept override { return waits_; }
    [[nodiscard]] std::string payer() const override { return payer_; }
    [[nodiscard]] Level level() const override {
      return payer_ == "server" ? Level::kSystem : Level::kTenant;
    }
    WatchDrainTest& test_;
    std::string payer_;
    std::size_t waits_;
  };
  void add(const std::string& payer, std::size_t waits) {
    watches_.push_back(std::make_unique<One>(*this, payer, waits));
    drain_.add(*watches_.back());
  }
  net::Loop loop_{"test"};
  WatchDrain drain_{loop_};
  std::vector<std::string> ended_;
  std::vector<std::unique_ptr<One>> watches_;
};

TEST_F(WatchDrainTest, SE091_TheLargestPayersFarthestBehindEndFirst) {
  add("small", 90);
  add("large", 30);
  add("reads", 0);
  add("large", 70);
  add("large", 0);
  EXPECT_EQ(drain_.shed(2), 2U);
  EXPECT_EQ(ended_, (std::vector<std::string>{"large 70", "large 30"}));
  EXPECT_EQ(drain_.size(), 3U);
  EXPECT_EQ(drain_.shed(9), 1U) << "who reads what comes stays";
  EXPECT_EQ(ended_.back(), "small 90");
  EXPECT_EQ(drain_.size(), 2U);
}

TEST_F(WatchDrainTest, SE091_ServersAreSparedUntilTheLastStep) {
  add("server", 900);
  add("tenant", 10);
  EXPECT_EQ(drain_.shed(9), 1U);
  EXPECT_EQ(ended_, (std::vector<std::string>{"tenant 10"}));
  EXPECT_EQ(drain_.shed(9, true), 1U);
  EXPECT_EQ(ended_.back(), "server 900");
}

}  // namespace
}  // namespace kintsugi::serving
