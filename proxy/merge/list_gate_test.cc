#include "proxy/merge/list_gate.h"

#include <gtest/gtest.h>

#include <vector>

namespace kintsugi::proxy {
namespace {

/// A loop that does what was posted to it.
struct Turns {
  net::Loop loop{"test"};
  void run() {
    loop.post([this] { loop.stop(); });
    loop.run();
  }
};

TEST(ListGate, WhenFull_AGG601_WholeListsWaitInOrder) {
  Turns turns;
  ListGate gate(4);
  std::vector<int> ran;
  auto first = gate.enter(turns.loop, 3, [] {});
  ASSERT_TRUE(first->may_run());
  auto second = gate.enter(turns.loop, 3, [&] { ran.push_back(2); });
  auto third = gate.enter(turns.loop, 1, [&] { ran.push_back(3); });
  EXPECT_FALSE(second->may_run());
  EXPECT_FALSE(third->may_run());  // it would fit, but others were here before
  turns.run();
  EXPECT_TRUE(ran.empty());
  first.reset();
  EXPECT_TRUE(ran.empty());  // not inside of somebody else's call
  turns.run();
  EXPECT_EQ(ran, (std::vector<int>{2, 3}));
  second.reset();
  third.reset();
  EXPECT_TRUE(gate.enter(turns.loop, 4, [] {})->may_run());
}

TEST(ListGate, WhenAListGoesWhileItWaitsOrIsToldToRun_NothingIsLost) {
  Turns turns;
  ListGate gate(2);
  bool ran = false;
  auto first = gate.enter(turns.loop, 2, [] {});
  auto second = gate.enter(turns.loop, 2, [&] { ran = true; });
  auto third = gate.enter(turns.loop, 2, [&] { ran = true; });
  third.reset();
  first.reset();
  second.reset();  // granted, not yet told
  turns.run();
  EXPECT_FALSE(ran);
  EXPECT_TRUE(gate.enter(turns.loop, 2, [] {})->may_run());
}

TEST(ListGate, WhenAListNeedsMoreThanThereIs_RunsAlone) {
  Turns turns;
  ListGate gate(2);
  auto large = gate.enter(turns.loop, 5, [] {});
  EXPECT_TRUE(large->may_run());
  EXPECT_FALSE(gate.enter(turns.loop, 1, [] {})->may_run());
}

TEST(ListGate, WhenTooManyWait_TheNextIsRefused) {
  Turns turns;
  ListGate gate(1);
  std::vector<std::unique_ptr<ListGate::Ticket>> tickets;
  for (std::size_t i = 0; i < 1 + ListGate::kMaxWaiting; ++i) {
    tickets.push_back(gate.enter(turns.loop, 1, [] {}));
    ASSERT_NE(tickets.back(), nullptr);
  }
  EXPECT_EQ(gate.enter(turns.loop, 1, [] {}), nullptr);
}

}  // namespace
}  // namespace kintsugi::proxy
