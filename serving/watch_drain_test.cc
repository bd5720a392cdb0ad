#include "serving/watch_drain.h"

#include <gtest/gtest.h>

#include <functional>
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

/// One that says only whether it has ended.
struct Tunnel final : WatchDrain::Watch {
  explicit Tunnel(bool watches = true) : Watch(nullptr), watches_(watches) {}
  ~Tunnel() { leave(); }
  [[nodiscard]] bool is_watch() const noexcept override { return watches_; }
  void release_connection() noexcept override { released = true; }
  void end_in_order() noexcept override { ended = true; }
  void end_at_once() noexcept override {}
  void carry() noexcept { touch(); }
  bool ended = false, released = false;

 private:
  bool watches_;
};

TEST_F(WatchDrainTest, GR213_TheOldestWatchesAreSentAwayWithTheirConnections) {
  Tunnel tunnel(false), first, second, third;
  for (Tunnel* one : {&tunnel, &first, &second, &third}) {
    drain_.add(*one);
  }
  EXPECT_EQ(drain_.send_away(2), 0U) << "clients take a watch that short for an error";
  std::size_t sent = 0;
  const TimePoint begin = Clock::now();
  const std::function<void()> send = [&] {
    sent = drain_.send_away(2);
    if (sent != 0 || Clock::now() - begin > seconds(10)) {
      loop_.stop();
    } else {
      loop_.after(milliseconds(10), send);
    }
  };
  loop_.post(send);
  loop_.run();
  EXPECT_GE(Clock::now() - begin, milliseconds(900));
  EXPECT_EQ(sent, 2U);
  EXPECT_TRUE(first.ended && first.released && second.ended && second.released);
  EXPECT_FALSE(third.ended || third.released);
  EXPECT_FALSE(tunnel.ended || tunnel.released) << "it is no watch";
  EXPECT_EQ(drain_.size(), 2U);
}

TEST_F(WatchDrainTest, SE088_WhatIsNotTouchedForLongEndsInOrder) {
  Tunnel silent, busy;
  drain_.add(silent);
  drain_.add(busy);
  drain_.end_when_idle(milliseconds(80));
  const TimePoint begin = Clock::now();
  const std::function<void()> carry = [&] {
    busy.carry();
    if (silent.ended || Clock::now() - begin > seconds(10)) {
      loop_.stop();
    } else {
      loop_.after(milliseconds(1), carry);
    }
  };
  loop_.post(carry);
  loop_.run();
  EXPECT_TRUE(silent.ended);
  EXPECT_GE(Clock::now() - begin, milliseconds(80)) << "not before its time";
  EXPECT_FALSE(busy.ended);
  EXPECT_EQ(drain_.size(), 1U);
}

}  // namespace
}  // namespace kintsugi::serving
