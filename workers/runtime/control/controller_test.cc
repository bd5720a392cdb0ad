#include "workers/runtime/control/controller.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <stdexcept>

#include "net/testing/support.h"

namespace kintsugi::workers {
namespace {

using net::testing::run_until;

class ControllerTest : public ::testing::Test {
 protected:
  Controller::Params params() {
    Controller::Params out;
    out.name = "test";
    out.most = 4;
    out.deadline = milliseconds(50);
    return out;
  }
  Controller& make(Controller::Params made, Controller::Reconcile reconcile,
                   std::function<bool(const QueueKey&)> ours = {}) {
    controller =
        std::make_unique<Controller>(loop, std::move(made), std::move(reconcile), std::move(ours));
    return *controller;
  }
  static QueueKey key(std::string_view name) { return {"c", "ns", name}; }

  net::Loop loop{"test"};
  std::map<std::string, int> runs;
  std::unique_ptr<Controller> controller;
};

TEST_F(ControllerTest, RT5_UnderPressureInitialKeysWaitAndComeWhenItEnds) {
  Controller& tested = make(params(), [&](Key of) -> net::Task<Outcome> {
    ++runs[of.name];
    co_return Outcome::done();
  });
  tested.set_pressure(true);
  tested.add(key("first"), Priority::kInitial);
  tested.add(key("live"), Priority::kLive);
  ASSERT_TRUE(run_until(loop, [&] { return runs["live"] == 1; }));
  tested.add(key("live"), Priority::kLive);
  ASSERT_TRUE(run_until(loop, [&] { return runs["live"] == 2; }));
  EXPECT_EQ(runs["first"], 0);
  tested.set_pressure(false);
  ASSERT_TRUE(run_until(loop, [&] { return runs["first"] == 1; }));
}

TEST_F(ControllerTest, RT32_WhileNothingIsReadNoKeyHasItsTurn_AndAllComeAfterwards) {
  Controller& tested = make(params(), [&](Key of) -> net::Task<Outcome> {
    ++runs[of.name];
    co_return Outcome::done();
  });
  tested.set_waiting(true);
  tested.add(key("first"), Priority::kInitial);
  tested.add(key("live"), Priority::kLive);
  bool passed = false;
  loop.post([&] { loop.post([&] { passed = true; }); });
  ASSERT_TRUE(run_until(loop, [&] { return passed; }));
  EXPECT_TRUE(runs.empty());
  tested.set_waiting(false);
  ASSERT_TRUE(run_until(loop, [&] { return runs.size() == 2; }));
  tested.set_waiting(true);
  bool idle = false;
  tested.drain([&] { idle = true; });
  EXPECT_TRUE(run_until(loop, [&] { return idle; }));
}

TEST_F(ControllerTest, RT_T040_AKeyThatChangesWhileItRunsRunsOnceMoreAndNeverTwiceAtATime) {
  int running = 0, most = 0;
  std::vector<std::function<void(int)>> waiting;
  Controller& tested = make(params(), [&](Key) -> net::Task<Outcome> {
    most = std::max(most, ++running);
    net::Answer<int> answer;
    waiting.push_back(answer.callback());
    (void)co_await answer;
    --running;
    ++runs["a"];
    co_return Outcome::done();
  });
  tested.add(key("a"), Priority::kLive);
  ASSERT_TRUE(run_until(loop, [&] { return waiting.size() == 1; }));
  for (int i = 0; i < 1'000; ++i) {
    tested.add(key("a"), Priority::kLive);
  }
  waiting[0](1);
  ASSERT_TRUE(run_until(loop, [&] { return waiting.size() == 2; }));
  waiting[1](1);
  ASSERT_TRUE(run_until(loop, [&] { return runs["a"] == 2 && tested.queue().size() == 0; }));
  EXPECT_EQ(most, 1);
  EXPECT_EQ(tested.counts().success, 2U);
}

TEST_F(ControllerTest, RT_T043_AReconcileThatNeverReturnsIsEndedAndOthersGoOn) {
  const auto destroyed = std::make_shared<bool>(false);  // the second try outlives this
  Controller& tested = make(params(), [&](Key one) -> net::Task<Outcome> {
    ++runs[one.name];
    if (one.name == "stuck") {
      const std::shared_ptr<void> noticed(nullptr, [destroyed](void*) { *destroyed = true; });
      net::Answer<int> never;
      (void)co_await never;
    }
    co_return Outcome::done();
  });
  tested.add(key("stuck"), Priority::kLive);
  for (int i = 0; i < 10; ++i) {
    tested.add(key("k" + std::to_string(i)), Priority::kLive);
  }
  ASSERT_TRUE(run_until(loop, [&] { return runs.size() == 11; }));
  ASSERT_TRUE(run_until(loop, [&] { return runs["stuck"] >= 2; })) << "it is tried again";
  EXPECT_TRUE(*destroyed);
  EXPECT_GE(tested.counts().timeouts, 1U);
  EXPECT_EQ(tested.counts().success, 10U);
}

TEST_F(ControllerTest, RT_T044_AReconcileThatThrowsIsCountedAndTriedAgain) {
  Controller& tested = make(params(), [&](Key one) -> net::Task<Outcome> {
    if (++runs[one.name] < 3) {
      throw std::runtime_error("no");
    }
    co_return Outcome::done();
  });
  tested.add(key("a"), Priority::kLive);
  ASSERT_TRUE(run_until(loop, [&] { return tested.counts().success == 1; }));
  EXPECT_EQ(tested.counts().panics, 2U);
  EXPECT_EQ(tested.counts().error, 2U);
}

TEST_F(ControllerTest, RT66_WhatIsNotOursIsNotWorkedOnAndForgotten) {
  Controller& tested = make(
      params(),
      [&](Key one) -> net::Task<Outcome> {
        ++runs[one.name];
        co_return Outcome::done();
      },
      [](const QueueKey& one) { return one.name == "ours"; });
  tested.add(key("theirs"), Priority::kLive);
  tested.add(key("ours"), Priority::kLive);
  ASSERT_TRUE(run_until(loop, [&] { return tested.queue().size() == 0 && runs["ours"] == 1; }));
  EXPECT_EQ(runs.count("theirs"), 0U);
  EXPECT_EQ(tested.counts().not_ours, 1U);
}

TEST_F(ControllerTest, SoManyRunAtATimeAndTheRestFollows) {
  std::deque<std::function<void(int)>> waiting;
  Controller& tested = make(params(), [&](Key one) -> net::Task<Outcome> {
    net::Answer<int> answer;
    waiting.push_back(answer.callback());
    (void)co_await answer;
    ++runs[one.name];
    co_return Outcome::done();
  });
  for (int i = 0; i < 20; ++i) {
    tested.add(key(std::to_string(i)), Priority::kLive);
  }
  while (runs.size() < 20) {
    ASSERT_TRUE(run_until(loop, [&] { return !waiting.empty(); }));
    EXPECT_LE(tested.running(), 4U);
    const auto next = std::move(waiting.front());
    waiting.pop_front();
    next(0);
  }
}

TEST_F(ControllerTest, RT47_DrainingEndsWhatRunsAndDropsTheRest) {
  std::vector<std::function<void(int)>> waiting;
  Controller::Params made = params();
  made.most = 1;
  made.deadline = seconds(30);
  Controller& tested = make(std::move(made), [&](Key one) -> net::Task<Outcome> {
    net::Answer<int> answer;
    waiting.push_back(answer.callback());
    (void)co_await answer;
    ++runs[one.name];
    co_return Outcome::done();
  });
  tested.add(key("a"), Priority::kLive);
  tested.add(key("b"), Priority::kLive);
  ASSERT_TRUE(run_until(loop, [&] { return waiting.size() == 1; }));
  bool idle = false;
  tested.drain([&] { idle = true; });
  tested.add(key("c"), Priority::kLive);
  int looks = 0;
  ASSERT_TRUE(run_until(loop, [&] { return ++looks == 10; }));
  EXPECT_FALSE(idle);
  waiting[0](1);
  ASSERT_TRUE(run_until(loop, [&] { return idle; }));
  EXPECT_EQ(runs, (std::map<std::string, int>{{"a", 1}}));
}

TEST_F(ControllerTest, RT65_CuttingEndsTheRunsOfAPartition) {
  std::vector<std::function<void(int)>> waiting;
  Controller& tested = make(params(), [&](Key one) -> net::Task<Outcome> {
    net::Answer<int> answer;
    waiting.push_back(answer.callback());
    (void)co_await answer;
    ++runs[one.name];
    co_return Outcome::done();
  });
  tested.add(key("a"), Priority::kLive);
  tested.add(key("b"), Priority::kLive);
  ASSERT_TRUE(run_until(loop, [&] { return waiting.size() == 2; }));
  tested.cut([](const QueueKey& one) { return one.name == "a"; });
  EXPECT_EQ(tested.running(), 1U);
  for (const auto& each : waiting) {
    each(1);
  }
  ASSERT_TRUE(run_until(loop, [&] { return tested.queue().size() == 0; }));
  EXPECT_EQ(runs, (std::map<std::string, int>{{"b", 1}}));
}

}  // namespace
}  // namespace kintsugi::workers
