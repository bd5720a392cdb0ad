#include "net/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "base/last_resort.h"
#include "net/loop.h"

namespace kintsugi::net {
namespace {

/// Long enough for a loop that waits for a busy machine.
WatchdogParams quick(unsigned tells_after) {
  return {.every = milliseconds(5), .tells_after = tells_after, .aborts_after = 1'000'000};
}

/// Polls, as nothing else runs.
template <class Condition>
bool eventually(Condition&& condition) {
  const TimePoint limit = Clock::now() + seconds(30);
  while (!condition() && Clock::now() < limit) {
    std::this_thread::yield();
  }
  return condition();
}

[[gnu::noinline]] void stand_still(const std::atomic<bool>& until) {
  while (!until.load()) {
    std::this_thread::yield();
  }
}

TEST(Watchdog, WhenALoopIsSilent_OP_205_NoSignOfLifeIsGivenUntilItTurnsAgain) {
  Loop loop("held");
  std::thread thread([&loop] { loop.run(); });
  std::atomic<bool> free{false};
  std::atomic<unsigned> signs{0};
  WatchdogParams params = quick(40);
  params.alive = [&signs] { ++signs; };
  params.alive_every = milliseconds(1);
  const std::uint64_t before = silent_loops();
  {
    const Watchdog watchdog(params);
    EXPECT_TRUE(eventually([&] { return signs.load() >= 3; }));
    loop.post([&free] { stand_still(free); });
    EXPECT_TRUE(eventually([&] { return silent_loops() == before + 1; }));
    // The one of the turn that found it silent, at most.
    const unsigned then = signs.load();
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_LE(signs.load(), then + 1);
    free = true;
    EXPECT_TRUE(eventually([&] { return signs.load() > then + 3; }));
  }
  loop.stop();
  thread.join();
}

TEST(Watchdog, WhenALoopIsSilent_SE183_ItsStackIsLoggedOnce) {
  Loop loop("stuck");
  std::thread thread([&loop] { loop.run(); });
  std::atomic<bool> free{false}, again{false};
  const std::uint64_t before = silent_loops();
  ::testing::internal::CaptureStderr();
  {
    const Watchdog watchdog(quick(40));
    loop.post([&free] { stand_still(free); });
    EXPECT_TRUE(eventually([&] { return silent_loops() == before + 1; }));
    free = true;
    loop.post([&again] { again = true; });
    EXPECT_TRUE(eventually([&] { return again.load(); }));
  }
  loop.stop();
  thread.join();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(silent_loops(), before + 1);
  EXPECT_NE(said.find("a loop is silent"), std::string::npos);
  EXPECT_NE(said.find("stuck"), std::string::npos);
  EXPECT_NE(said.find("kintsugi_net_test+0x"), std::string::npos) << said;
}

TEST(Watchdog, WhenLoopsSleepOrEnd_SE183_NobodyIsSilent) {
  const std::uint64_t before = silent_loops();
  const Watchdog watchdog(quick(4'000));
  std::atomic<int> turns{0};
  for (int i = 0; i < 3; ++i) {
    Loop loop("idle");
    Timer timer(loop);
    std::function<void()> tick = [&] {
      if (++turns % 10 == 0) {
        loop.stop();
      } else {
        timer.start(milliseconds(5), tick);
      }
    };
    timer.start(milliseconds(5), tick);
    loop.run();
  }
  EXPECT_EQ(turns.load(), 30);
  EXPECT_EQ(silent_loops(), before);
}

TEST(WatchdogDeathTest, WhenALoopStaysSilent_SE183_TheProcessEnds) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        const Watchdog watchdog({.every = milliseconds(5), .tells_after = 2, .aborts_after = 6});
        Loop loop("stuck");
        loop.post([] { stand_still(false); });
        loop.run();
      },
      ::testing::KilledBySignal(SIGABRT), "stays silent");
}

}  // namespace
}  // namespace kintsugi::net
