#include "net/task.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "net/internal/dialer.h"
#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::run_until;

/// Tells that its frame died.
struct Witness {
  explicit Witness(int& the_count) : count(&the_count) {}
  Witness(Witness&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;
  Witness& operator=(Witness&&) = delete;
  ~Witness() {
    if (count != nullptr) {
      ++*count;
    }
  }
  int* count;
};

Task<std::string> twice(Loop& loop, std::string text) {
  co_await sleep(loop, milliseconds(1));
  std::string result = text + text;
  co_return result;
}

Task<> four_times(Loop& loop, std::string text, std::string& out) {
  std::string half = co_await twice(loop, std::move(text));
  std::string whole = co_await twice(loop, std::move(half));
  out = std::move(whole);
}

TEST(Task, WhenOneAwaitsAnother_ItGetsItsResultAndTheJobEnds) {
  Loop loop("test");
  std::string out;
  Job job(four_times(loop, "ab", out));
  EXPECT_TRUE(job.active());
  EXPECT_TRUE(run_until(loop, [&] { return !job.active(); }));
  EXPECT_EQ(out, "abababab");
}

Task<> count_up(int& count, int until) {
  while (count < until) {
    Answer<int> answer;
    const auto callback = answer.callback();
    callback(1);
    const int step = co_await answer;
    count += step;
  }
}

TEST(Task, WhenWhatItAwaitsIsThereAlready_RunsToItsEndAtOnce) {
  int count = 0;
  const Job job(count_up(count, 1'000));
  EXPECT_EQ(count, 1'000);
  EXPECT_FALSE(job.active());
}

TEST(Task, WhenItIsNeverAwaited_NothingRunsAndItsArgumentsDie) {
  int count = 0, dead = 0;
  {
    const auto make = [](int& c, Witness witness) -> Task<> {
      ++c;
      (void)witness;
      co_return;
    };
    const Task<> task = make(count, Witness(dead));
    EXPECT_EQ(dead, 0);
  }
  EXPECT_EQ(count, 0);
  EXPECT_EQ(dead, 1);
}

Task<> inner_wait(Answer<int>& answer, int& dead, int& got) {
  const Witness witness(dead);
  got = co_await answer;
}

Task<> outer_wait(Answer<int>& answer, int& dead, int& got) {
  const Witness witness(dead);
  co_await inner_wait(answer, dead, got);
}

TEST(Job, WhenItEndsWhileWaiting_AllFramesDieAtOnceAndTheAnswerIsIgnored) {
  int dead = 0, got = 0;
  Answer<int> answer;
  const auto callback = answer.callback();
  {
    const Job job(outer_wait(answer, dead, got));
    EXPECT_EQ(dead, 0);
  }
  EXPECT_EQ(dead, 2);
}

Task<> wait_for_own(std::function<void(int)>& callback, int& dead, int& got) {
  const Witness witness(dead);
  Answer<int> answer;
  callback = answer.callback();
  got = co_await answer;
}

TEST(Job, WhenItIsDead_LateCallbacksDoNothing) {
  int dead = 0, got = 0;
  std::function<void(int)> callback;
  { const Job job(wait_for_own(callback, dead, got)); }
  EXPECT_EQ(dead, 1);
  callback(7);
  EXPECT_EQ(got, 0);
}

TEST(Answer, WhenCalledTwice_TheFirstCounts) {
  int dead = 0, got = 0;
  std::function<void(int)> callback;
  const Job job(wait_for_own(callback, dead, got));
  callback(1);
  EXPECT_EQ(got, 1);
  EXPECT_FALSE(job.active());
  EXPECT_EQ(dead, 1);
  callback(2);
  EXPECT_EQ(got, 1);
}

struct Owner {
  Job job;
  std::function<void(int)> callback;
  int dead = 0;
  int steps = 0;

  Task<> end_itself() {
    const Witness witness(dead);
    Answer<int> first;
    callback = first.callback();
    const int got = co_await first;
    steps += got;
    job = Job();  // as an owner does that is told to stop by what the coroutine calls
    EXPECT_EQ(dead, 0);
    ++steps;
    Answer<int> second;
    callback = second.callback();
    const int never = co_await second;
    steps += never;
  }
};

TEST(Job, WhenItsOwnCoroutineEndsIt_TheFrameDiesAtTheNextWait) {
  Owner owner;
  owner.job = Job(owner.end_itself());
  owner.callback(1);
  EXPECT_EQ(owner.steps, 2);
  EXPECT_EQ(owner.dead, 1);
  owner.callback(1);
  EXPECT_EQ(owner.steps, 2);
}

Task<int> fails(Loop& loop) {
  co_await sleep(loop, milliseconds(1));
  throw std::runtime_error("no");
}

Task<> catches(Loop& loop, std::string& what) {
  try {
    const int never = co_await fails(loop);
    what = std::to_string(never);
  } catch (const std::runtime_error& error) {
    what = error.what();
  }
}

Task<> lets_through(Loop& loop) { co_await fails(loop); }

TEST(Task, WhenItThrows_TheOneThatAwaitsGetsIt) {
  Loop loop("test");
  std::string what;
  const Job job(catches(loop, what));
  EXPECT_TRUE(run_until(loop, [&] { return !job.active(); }));
  EXPECT_EQ(what, "no");
}

TEST(Job, WhenAnExceptionLeavesTheCoroutine_ItIsCountedAndTheLoopGoesOn) {
  const std::uint64_t before = caught_exceptions();
  Loop loop("test");
  const Job job(lets_through(loop));
  EXPECT_TRUE(run_until(loop, [&] { return !job.active(); }));
  EXPECT_EQ(caught_exceptions(), before + 1);
}

TEST(Job, WhenItIsMoved_TheCoroutineStaysWhereItIs) {
  Loop loop("test");
  std::string out;
  Job first(four_times(loop, "x", out));
  Job second(std::move(first));
  EXPECT_FALSE(first.active());
  Job third;
  third = std::move(second);
  EXPECT_TRUE(run_until(loop, [&] { return !third.active(); }));
  EXPECT_EQ(out, "xxxx");
}

TEST(Job, WhenItEnds_ItsTimerDoesNotFire) {
  Loop loop("test");
  std::string out;
  Job job(four_times(loop, "x", out));
  EXPECT_EQ(loop.stats().timers, 1U);
  job.end();
  EXPECT_EQ(loop.stats().timers, 0U);
  EXPECT_FALSE(job.active());
}

Task<> look_up_both(Loop& loop, std::vector<std::string>& out) {
  for (const std::string host : {"127.0.0.1", ""}) {
    Answer<Expected<std::vector<SocketAddress>>> answer;
    const Lookup lookup(loop, host, 80, answer.callback());
    const auto found = co_await answer;
    out.push_back(found ? std::to_string(found->size()) : std::string(found.error().message()));
  }
}

// What callbacks of this module bring across threads can be awaited; ending the job withdraws it.
TEST(Task, WhenItAwaitsLookups_GetsAddressesAndErrors) {
  Loop loop("test");
  std::vector<std::string> out;
  const Job job(look_up_both(loop, out));
  EXPECT_TRUE(run_until(loop, [&] { return !job.active(); }));
  EXPECT_EQ(out, (std::vector<std::string>{"1", "no name"}));
  for (int i = 0; i < 20; ++i) {
    std::vector<std::string> none;
    const Job given_up(look_up_both(loop, none));
  }
}

}  // namespace
}  // namespace kintsugi::net
