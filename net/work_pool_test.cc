#include "net/work_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/loop.h"
#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::run_until;

/// Work that stays where it is until it is let go.
struct Gate {
  std::atomic<int> inside = 0;
  std::atomic<bool> open = false;
  void pass() {
    ++inside;
    while (!open) {
      std::this_thread::yield();
    }
  }
};

TEST(WorkPool, WorkIsDoneElsewhereAndToldOnTheLoop) {
  Loop loop("test");
  static WorkPool& pool =
      WorkPool::make({.thread_name = "kin-test", .threads = 1, .of_one = 1, .waiting = 4});
  std::thread::id worked, told;
  const auto kept = pool.run(
      loop, "a", [&] { worked = std::this_thread::get_id(); },
      [&] { told = std::this_thread::get_id(); });
  ASSERT_TRUE(run_until(loop, [&] { return told != std::thread::id(); }));
  EXPECT_EQ(told, std::this_thread::get_id());
  EXPECT_NE(worked, told);
}

TEST(WorkPool, SE102_WhoHasMuchOfItKeepsNoThreadFromOthers) {
  Loop loop("test");
  static WorkPool& pool =
      WorkPool::make({.thread_name = "kin-test", .threads = 2, .of_one = 1, .waiting = 3});
  Gate gate;
  std::vector<std::shared_ptr<void>> kept;
  std::vector<std::string> told;
  const auto ask = [&](const std::string& owner, bool stays) {
    kept.push_back(pool.run(
        loop, owner, [&gate, stays] { stays ? gate.pass() : void(); },
        [&told, owner] { told.push_back(owner); }));
    return kept.back() != nullptr;
  };
  EXPECT_TRUE(ask("heavy", true));
  EXPECT_TRUE(ask("heavy", true));
  EXPECT_TRUE(ask("heavy", true));
  EXPECT_TRUE(ask("light", false));
  ASSERT_TRUE(run_until(loop, [&] { return told.size() == 1 && gate.inside > 0; }));
  EXPECT_EQ(told.front(), "light");
  EXPECT_EQ(gate.inside, 1) << "one of them at a time";
  EXPECT_TRUE(ask("heavy", true));
  EXPECT_FALSE(ask("heavy", true)) << "three wait";
  gate.open = true;
  ASSERT_TRUE(run_until(loop, [&] { return told.size() == 5; }));
}

TEST(WorkPool, WhenNobodyWaitsAnyMore_ItIsNotBegunAndNotTold) {
  Loop loop("test");
  static WorkPool& pool =
      WorkPool::make({.thread_name = "kin-test", .threads = 1, .of_one = 1, .waiting = 4});
  Gate gate;
  std::atomic<bool> begun = false;
  bool told = false, last = false;
  auto first = pool.run(
      loop, "a", [&] { gate.pass(); }, [&] { told = true; });
  auto second = pool.run(
      loop, "a", [&] { begun = true; }, [&] { told = true; });
  const auto third = pool.run(
      loop, "a", [] {}, [&] { last = true; });
  ASSERT_TRUE(run_until(loop, [&] { return gate.inside == 1; }));
  first.reset();
  second.reset();
  gate.open = true;
  ASSERT_TRUE(run_until(loop, [&] { return last; }));
  EXPECT_FALSE(told);
  EXPECT_FALSE(begun);
}

}  // namespace
}  // namespace kintsugi::net
