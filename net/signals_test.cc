#include "net/signals.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <vector>

#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::run_until;

struct sigaction action_of(int number) {
  struct sigaction action {};
  ::sigaction(number, nullptr, &action);
  return action;
}

TEST(Signals, WhenSignalsCome_EachIsACallOnTheLoopAndNobodyIsInterrupted) {
  Loop loop("test");
  std::vector<int> got;
  Signals signals(loop, {SIGUSR1, SIGUSR2}, [&](int number) {
    EXPECT_TRUE(loop.in_loop_thread());
    got.push_back(number);
  });
  EXPECT_NE(action_of(SIGUSR1).sa_flags & SA_RESTART, 0);
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  EXPECT_TRUE(run_until(loop, [&] { return got.size() == 1; }));
  ASSERT_EQ(::kill(::getpid(), SIGUSR2), 0);
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  EXPECT_TRUE(run_until(loop, [&] { return got.size() == 3; }));
  EXPECT_EQ(got[0], SIGUSR1);
}

TEST(Signals, WhenManyComeDuringACall_EachNumberIsOneCallMore) {
  Loop loop("test");
  std::vector<int> got;
  const Signals signals(loop, {SIGUSR1, SIGUSR2}, [&](int number) {
    got.push_back(number);
    if (got.size() == 1) {  // as a reload that takes long
      for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(::kill(::getpid(), SIGUSR1), 0);
      }
      EXPECT_EQ(::kill(::getpid(), SIGUSR2), 0);
    }
  });
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  EXPECT_TRUE(run_until(loop, [&] { return !got.empty() && got.back() == SIGUSR2; }));
  EXPECT_EQ(got, (std::vector<int>{SIGUSR1, SIGUSR1, SIGUSR2}));
}

TEST(Signals, WhenTheyWereBlockedAtStart_TheyComeNevertheless) {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR1);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &mask, nullptr), 0);
  Loop loop("test");
  int got = 0;
  const Signals signals(loop, {SIGUSR1}, [&](int number) { got = number; });
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  EXPECT_TRUE(run_until(loop, [&] { return got == SIGUSR1; }));
}

TEST(Signals, WhenItsHandlerDestroysIt_NoOtherCallComesAndTheDefaultIsBack) {
  Loop loop("test");
  int calls = 0;
  std::unique_ptr<Signals> signals;
  signals = std::make_unique<Signals>(loop, std::initializer_list<int>{SIGUSR1, SIGUSR2}, [&](int) {
    ++calls;
    signals.reset();
  });
  // Both are there before the loop looks for the first time.
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);
  ASSERT_EQ(::kill(::getpid(), SIGUSR2), 0);
  bool later = false;
  Timer timer(loop);
  timer.start(milliseconds(20), [&] { later = true; });
  EXPECT_TRUE(run_until(loop, [&] { return later; }));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(action_of(SIGUSR1).sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace kintsugi::net
