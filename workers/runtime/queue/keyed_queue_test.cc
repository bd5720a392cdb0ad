#include "workers/runtime/queue/keyed_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::workers {
namespace {

using Item = KeyedQueue::Item;

struct Bench {
  TimePoint now{seconds(1'000)};
  KeyedQueue queue;

  explicit Bench(KeyedQueue::Params params = {}, std::uint64_t seed = 7)
      : queue(params, seed, now) {}

  static QueueKey key(std::string_view name) { return {"root:org", "default", name}; }
  bool add(std::string_view name, Priority priority = Priority::kLive) {
    return queue.add(key(name), priority, now);
  }
  bool add_after(std::string_view name, Duration delay, Priority priority = Priority::kLive) {
    return queue.add_after(key(name), delay, priority, now);
  }
  Item pop() {
    const std::optional<Item> item = queue.pop(now);
    EXPECT_TRUE(item);
    return item.value_or(Item{});
  }
  std::string pop_name() { return std::string(pop().key.name); }
  bool empty() { return !queue.pop(now); }
  void done(const Item& item, const Outcome& outcome = Outcome::done()) {
    EXPECT_TRUE(queue.done(item, outcome, now));
  }
  /// Sleeps from timer to timer until a key is ready; how long that took.
  Duration sleep_until_ready() {
    const TimePoint start = now;
    while (!queue.advance(now)) {
      const std::optional<TimePoint> next = queue.next_timer();
      if (!next || *next <= now) {
        ADD_FAILURE() << "no timer ahead";
        break;
      }
      now = *next;
    }
    return now - start;
  }
  /// One run that ends so.
  void run(const Outcome& outcome) { done(pop(), outcome); }
};

TEST(KeyedQueue, RT40_WhenAddedTwice_IsQueuedOnce) {
  Bench b;
  EXPECT_TRUE(b.add("a"));
  EXPECT_TRUE(b.add("a"));
  b.done(b.pop());
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(b.queue.size(), 0U);
  EXPECT_EQ(b.queue.counts().adds, 1U);
}

TEST(KeyedQueue, RT40_WhenAddedWhileItRuns_FollowsOnceAfterwards) {
  Bench b;
  b.add("a");
  const Item first = b.pop();
  b.add("a");
  b.add("a");
  EXPECT_TRUE(b.empty());
  b.done(first);
  const Item second = b.pop();
  EXPECT_EQ(second.key, Bench::key("a"));
  EXPECT_TRUE(b.empty());
  b.done(second);
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(b.queue.counts().adds, 2U);
}

TEST(KeyedQueue, RT40_WhenARunHasEnded_EndsNoOtherOne) {
  Bench b;
  b.add("a");
  const Item first = b.pop();
  b.done(first);
  EXPECT_FALSE(b.queue.done(first, Outcome::done(), b.now));
  b.add("b");
  const Item second = b.pop();
  EXPECT_EQ(second.run, first.run);
  EXPECT_FALSE(b.queue.done(first, Outcome::done(), b.now));
  EXPECT_EQ(b.queue.counts().running, 1U);
  b.done(second);
}

TEST(KeyedQueue, RT31_WhenClustersDiffer_KeysDo) {
  Bench b;
  b.queue.add({"a", "ns", "x"}, Priority::kLive, b.now);
  b.queue.add({"b", "ns", "x"}, Priority::kLive, b.now);
  b.queue.add({"an", "s", "x"}, Priority::kLive, b.now);
  b.queue.add({"a", "", "nsx"}, Priority::kLive, b.now);
  EXPECT_EQ(b.pop().key, (QueueKey{"a", "ns", "x"}));
  EXPECT_EQ(b.pop().key, (QueueKey{"b", "ns", "x"}));
  EXPECT_EQ(b.pop().key, (QueueKey{"an", "s", "x"}));
  EXPECT_EQ(b.pop().key, (QueueKey{"a", "", "nsx"}));
}

TEST(KeyedQueue, RT40_WhenAPartIsTooLong_IsRefusedAndCounted) {
  Bench b;
  const std::string longest(255, 'x');
  const std::string longer(256, 'x');
  EXPECT_TRUE(b.queue.add({longest, longest, longest}, Priority::kLive, b.now));
  EXPECT_FALSE(b.queue.add({"c", "n", longer}, Priority::kLive, b.now));
  EXPECT_FALSE(b.queue.add({"c", longer, "n"}, Priority::kLive, b.now));
  EXPECT_FALSE(b.queue.add_after({longer, "n", "n"}, seconds(1), Priority::kLive, b.now));
  EXPECT_EQ(b.queue.counts().refused, 3U);
  EXPECT_EQ(b.pop().key, (QueueKey{longest, longest, longest}));
}

TEST(KeyedQueue, RT41_LevelsComeInOrder_AndEachIsFirstInFirstOut) {
  Bench b;
  b.add("i1", Priority::kInitial);
  b.add("r1", Priority::kRetry);
  b.add("l1");
  b.add("i2", Priority::kInitial);
  b.add("r2", Priority::kRetry);
  b.add("l2");
  EXPECT_EQ(b.queue.counts().depth, (std::array<std::uint64_t, 3>{2, 2, 2}));
  for (const char* name : {"l1", "l2", "r1", "r2", "i1", "i2"}) {
    EXPECT_EQ(b.pop_name(), name);
  }
}

TEST(KeyedQueue, RT41_EveryTenthPopTakesTheLowestLevel) {
  Bench b;
  for (int i = 0; i < 40; ++i) {
    b.add("live" + std::to_string(i));
  }
  for (int i = 0; i < 3; ++i) {
    b.add("initial" + std::to_string(i), Priority::kInitial);
  }
  b.add("retry", Priority::kRetry);
  std::string seen;
  for (int i = 0; i < 40; ++i) {
    const Priority priority = b.pop().priority;
    seen += priority == Priority::kLive ? 'l' : priority == Priority::kRetry ? 'r' : 'i';
  }
  EXPECT_EQ(seen,
            "llllllllli"
            "llllllllli"
            "llllllllli"
            "lllllllllr");
}

TEST(KeyedQueue, RT41_AddingRaisesAndNeverLowers) {
  Bench b;
  b.add("a", Priority::kInitial);
  b.add("b", Priority::kRetry);
  b.add("a");                      // to the end of the live level
  b.add("b", Priority::kInitial);  // stays
  EXPECT_EQ(b.queue.counts().depth, (std::array<std::uint64_t, 3>{0, 1, 1}));
  const Item a = b.pop();
  EXPECT_EQ(a.key.name, "a");
  EXPECT_EQ(a.priority, Priority::kLive);
  const Item other = b.pop();
  EXPECT_EQ(other.priority, Priority::kRetry);
  // While it runs: the highest level of what was added then counts, not that of the run.
  b.add("a", Priority::kInitial);
  b.done(a);
  EXPECT_EQ(b.pop().priority, Priority::kInitial);
  b.add("b", Priority::kInitial);
  b.add("b");
  b.add("b", Priority::kRetry);
  b.done(other);
  EXPECT_EQ(b.pop().priority, Priority::kLive);
}

TEST(KeyedQueue, RT42_DelaysDoubleFrom5msTo300sWithJitter) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Bench b({}, seed);
    b.add("a");
    double expected = 0.005;
    for (int i = 0; i < 25; ++i) {
      b.done(b.pop(), Outcome::error());
      EXPECT_EQ(b.queue.counts().delayed, 1U);
      const double waited = std::chrono::duration<double>(b.sleep_until_ready()).count();
      EXPECT_GE(waited, expected * 0.8 - 1e-9);
      EXPECT_LE(waited, std::min(expected * 1.2, 300.0) + 0.010);  // the wheel rounds up
      expected = std::min(expected * 2, 300.0);
    }
    EXPECT_EQ(b.pop().failures, 25U);
  }
}

TEST(KeyedQueue, RT42_JitterSpreadsTheDelays) {
  Bench b({.retry_base = seconds(100)}, 3);
  double least = 1e9;
  double most = 0;
  for (int i = 0; i < 200; ++i) {
    b.add("a");
    b.done(b.pop(), Outcome::error());
    const double waited = std::chrono::duration<double>(b.sleep_until_ready()).count();
    least = std::min(least, waited);
    most = std::max(most, waited);
    b.done(b.pop());
  }
  EXPECT_LT(least, 84);
  EXPECT_GT(most, 116);
  EXPECT_GE(least, 80);
  EXPECT_LE(most, 120.01);
}

TEST(KeyedQueue, RT42_SuccessOrALiveChangeEndsTheRowOfErrors) {
  for (const Outcome& good : {Outcome::done(), Outcome::requeue_after(seconds(1)),
                              Outcome::periodic(seconds(1)), Outcome::terminal()}) {
    Bench b;
    b.add("a");
    for (int i = 0; i < 5; ++i) {
      b.run(Outcome::error());
      b.sleep_until_ready();
    }
    b.run(good);
    b.add("a", Priority::kInitial);
    EXPECT_EQ(b.pop().failures, 0U);
  }
  Bench b;
  b.add("a");
  for (int i = 0; i < 5; ++i) {
    b.run(Outcome::error());
    b.sleep_until_ready();
  }
  b.run(Outcome::error());
  b.add("a");
  const Item item = b.pop();
  EXPECT_EQ(item.failures, 0U);
  b.done(item, Outcome::error());
  EXPECT_LE(b.sleep_until_ready(), milliseconds(20));
}

TEST(KeyedQueue, RT42_WhenItBacksOff_OnlyALiveChangePullsItForward) {
  Bench b;
  b.add("a");
  b.run(Outcome::error());
  b.add("a", Priority::kInitial);
  b.add("a", Priority::kRetry);
  b.add_after("a", milliseconds(1), Priority::kRetry);
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(b.queue.counts().delayed, 1U);
  b.add("a");
  EXPECT_EQ(b.pop().priority, Priority::kLive);
  EXPECT_EQ(b.queue.counts().delayed, 0U);
}

TEST(KeyedQueue, RT42_WhenItFailsAfterAnAdd_OnlyALiveOneComesAtOnce) {
  Bench b;
  b.add("a");
  Item item = b.pop();
  b.add("a", Priority::kInitial);
  b.done(item, Outcome::error());
  EXPECT_TRUE(b.empty());
  b.sleep_until_ready();
  item = b.pop();
  EXPECT_EQ(item.priority, Priority::kRetry);
  EXPECT_EQ(item.failures, 1U);
  b.add("a");
  b.done(item, Outcome::error());
  item = b.pop();
  EXPECT_EQ(item.priority, Priority::kLive);
  EXPECT_EQ(item.failures, 0U);
}

TEST(KeyedQueue, RT43_ErrorRetriesShareABucket_FirstAddsDoNot) {
  Bench b;
  constexpr int kKeys = 1'000;
  for (int i = 0; i < kKeys; ++i) {
    b.add("k" + std::to_string(i));
  }
  int first_runs = 0;
  while (const std::optional<Item> item = b.queue.pop(b.now)) {
    b.done(*item, Outcome::error());
    ++first_runs;
  }
  EXPECT_EQ(first_runs, kKeys);  // at once, all of them
  b.now += milliseconds(20);     // 5 ms + 20 % + a tick of the wheel: all are due
  int retries = 0;
  while (const std::optional<Item> item = b.queue.pop(b.now)) {
    b.done(*item, Outcome::done());
    ++retries;
  }
  EXPECT_EQ(retries, 500);
  EXPECT_EQ(b.queue.counts().throttled, 500U);
  EXPECT_EQ(b.queue.counts().delayed, 0U);
  for (int second = 0; second < 10; ++second) {
    retries = 0;
    const TimePoint end = b.now + seconds(1);
    while (b.queue.next_timer() && *b.queue.next_timer() <= end) {
      b.now = *b.queue.next_timer();
      while (const std::optional<Item> item = b.queue.pop(b.now)) {
        b.done(*item);
        ++retries;
      }
    }
    b.now = end;
    EXPECT_EQ(retries, 50) << "second " << second;
  }
  EXPECT_EQ(b.queue.size(), 0U);
  EXPECT_FALSE(b.queue.next_timer());
}

TEST(KeyedQueue, RT43_WhenItWaitsForAToken_ALiveChangeTakesNone) {
  Bench b({.retry_burst = 1});
  for (const char* name : {"a", "b", "c"}) {
    b.add(name);
    b.run(Outcome::error());
  }
  b.now += milliseconds(20);
  EXPECT_EQ(b.pop_name(), "a");
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(b.queue.counts().throttled, 2U);
  b.add("b", Priority::kRetry);
  EXPECT_TRUE(b.empty());
  b.add("b");
  EXPECT_EQ(b.pop_name(), "b");
  EXPECT_LE(b.sleep_until_ready(), milliseconds(20));
  EXPECT_EQ(b.pop_name(), "c");
}

TEST(KeyedQueue, RT44_DelaysAreExactTo10ms_NeverEarly) {
  for (const std::int64_t ms :
       {1, 9, 10, 11, 639, 640, 641, 5'000, 40'960, 300'000, 3'600'000, 86'400'000}) {
    Bench b;
    b.now += std::chrono::microseconds(1'234);
    b.add_after("a", milliseconds(ms));
    EXPECT_TRUE(b.empty());
    EXPECT_EQ(b.queue.counts().delayed, 1U);
    const Duration waited = b.sleep_until_ready();
    EXPECT_GE(waited, milliseconds(ms));
    EXPECT_LT(waited, milliseconds(ms + 10));
    EXPECT_EQ(b.queue.counts().delayed, 0U);
    EXPECT_EQ(b.pop_name(), "a");
  }
}

TEST(KeyedQueue, RT44_OfSeveralTimesTheFirstHolds_AndAnAddPullsForward) {
  Bench b;
  b.add_after("a", seconds(10), Priority::kInitial);
  b.add_after("a", seconds(5), Priority::kInitial);
  b.add_after("a", seconds(20), Priority::kRetry);
  EXPECT_EQ(b.queue.counts().delayed, 1U);
  EXPECT_EQ(b.sleep_until_ready(), seconds(5));
  EXPECT_EQ(b.pop().priority, Priority::kRetry);
  b.add_after("b", seconds(10), Priority::kInitial);
  b.add("b");
  EXPECT_EQ(b.queue.counts().delayed, 0U);
  EXPECT_EQ(b.pop_name(), "b");
  b.now += seconds(20);
  EXPECT_TRUE(b.empty());
  b.add_after("c", Duration::zero());
  EXPECT_EQ(b.pop_name(), "c");
}

TEST(KeyedQueue, RT44_WhenItRuns_ADelayedAddFollowsLater) {
  Bench b;
  b.add("a");
  Item item = b.pop();
  b.add_after("a", seconds(5));
  b.done(item);
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(b.sleep_until_ready(), seconds(5));
  item = b.pop();
  b.add_after("a", seconds(1));  // its time comes while it still runs
  b.now += seconds(2);
  EXPECT_TRUE(b.empty());
  b.done(item);
  item = b.pop();
  b.add_after("a", seconds(5));
  b.done(item, Outcome::requeue_after(seconds(9)));
  EXPECT_EQ(b.sleep_until_ready(), seconds(5));
  item = b.pop();
  b.add_after("a", seconds(5));
  b.add("a");
  b.done(item);
  b.run(Outcome::done());
  EXPECT_EQ(b.queue.size(), 0U);
}

TEST(KeyedQueue, RT45_AKeyCostsAtMost64BytesBeyondItsText) {
  Bench b;
  const std::size_t keys = 100'000;
  std::size_t text = 0;
  for (std::size_t i = 0; i < keys; ++i) {
    const std::string name = "object-" + std::to_string(i);
    text += name.size();
    b.add(name, Priority::kInitial);
  }
  EXPECT_EQ(b.queue.size(), keys);
  EXPECT_LE(b.queue.memory_bytes() - text, 64 * keys);
  while (const std::optional<Item> item = b.queue.pop(b.now)) {
    b.done(*item);
  }
  EXPECT_EQ(b.queue.memory_bytes(), 0U);  // and gives it back
}

TEST(KeyedQueue, RT46_FirstRunsAreSpreadOverTheInterval_LaterOnesByTenPercent) {
  Bench b({}, 11);
  const TimePoint start = b.now;
  std::array<int, 10> first{};
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_TRUE(b.queue.add_periodic(Bench::key("k" + std::to_string(i)), seconds(600), b.now));
  }
  EXPECT_EQ(b.queue.counts().retries, 0U);
  double least = 1e9;
  double most = 0;
  std::vector<double> ran(10'000, -1);
  int runs = 0;
  while (runs < 20'000) {
    b.sleep_until_ready();
    const Item item = b.pop();
    EXPECT_EQ(item.priority, Priority::kInitial);
    const double at = std::chrono::duration<double>(b.now - start).count();
    double& before = ran[static_cast<std::size_t>(std::stoi(std::string(item.key.name.substr(1))))];
    if (before < 0) {
      ++first[std::min<std::size_t>(9, static_cast<std::size_t>(at / 60))];
    } else {
      least = std::min(least, at - before);
      most = std::max(most, at - before);
    }
    before = at;
    ++runs;
    b.done(item, Outcome::periodic(seconds(600)));
  }
  for (const int count : first) {
    EXPECT_GT(count, 850);
    EXPECT_LT(count, 1'150);
  }
  EXPECT_GE(least, 540);
  EXPECT_LE(most, 660.01);
  EXPECT_LT(least, 550);
  EXPECT_GT(most, 650);
}

TEST(KeyedQueue, RT47_WhenShutDown_HandsOutAndTakesNothing) {
  Bench b;
  b.add("running");
  b.add("dirty");
  const Item running = b.pop();
  const Item dirty = b.pop();
  b.add("dirty");
  b.add_after("running", seconds(1));
  b.add("ready", Priority::kInitial);
  b.add_after("delayed", seconds(1));
  b.queue.shut_down();
  EXPECT_TRUE(b.queue.is_shut_down());
  EXPECT_EQ(b.queue.size(), 2U);
  EXPECT_TRUE(b.empty());
  EXPECT_FALSE(b.add("late"));
  EXPECT_FALSE(b.add_after("late", seconds(1)));
  EXPECT_FALSE(b.queue.next_timer());
  b.now += seconds(5);
  EXPECT_TRUE(b.empty());
  b.done(running, Outcome::error());
  b.done(dirty, Outcome::requeue_after(seconds(1)));
  EXPECT_EQ(b.queue.size(), 0U);
  EXPECT_FALSE(b.queue.next_timer());
  EXPECT_EQ(b.queue.counts().depth, (std::array<std::uint64_t, 3>{}));
  EXPECT_EQ(b.queue.counts().delayed, 0U);
}

TEST(KeyedQueue, Section12_CountsAndTimes) {
  Bench b;
  b.add("a");
  b.add("b", Priority::kInitial);
  b.now += milliseconds(3);
  const Item a = b.pop();
  b.now += milliseconds(2);
  const Item other = b.pop();
  EXPECT_EQ(b.queue.unfinished(b.now + seconds(1)).sum, milliseconds(2'002));
  EXPECT_EQ(b.queue.unfinished(b.now + seconds(1)).longest, milliseconds(1'002));
  b.now += seconds(2'000);
  b.done(a, Outcome::error());
  b.now += Duration(1);
  b.done(other, Outcome::requeue_after(seconds(1)));
  const KeyedQueue::Counts& counts = b.queue.counts();
  EXPECT_EQ(counts.adds, 2U);
  EXPECT_EQ(counts.retries, 2U);
  EXPECT_EQ(counts.running, 0U);
  EXPECT_EQ(counts.queue_duration.count, 2U);
  EXPECT_EQ(counts.queue_duration.counts[6], 2U);  // above 1 ms, up to 10 ms
  EXPECT_EQ(counts.queue_duration.sum, milliseconds(8));
  EXPECT_EQ(counts.work_duration.counts[12], 2U);  // above 1,000 s
  EXPECT_EQ(b.queue.unfinished(b.now).sum, Duration::zero());
}

TEST(DurationHistogram, Section12_TwelveBucketsFrom10ns) {
  EXPECT_EQ(DurationHistogram::bound_ns(0), 10U);
  EXPECT_EQ(DurationHistogram::bound_ns(11), 1'000'000'000'000U);
  DurationHistogram histogram;
  for (std::size_t i = 0; i < DurationHistogram::kBounds; ++i) {
    const auto bound = static_cast<Duration::rep>(DurationHistogram::bound_ns(i));
    histogram.add(Duration(bound));
    histogram.add(Duration(bound + 1));
  }
  histogram.add(Duration(-5));
  EXPECT_EQ(histogram.counts[0], 2U);
  for (std::size_t i = 1; i < DurationHistogram::kBounds; ++i) {
    EXPECT_EQ(histogram.counts[i], 2U);
  }
  EXPECT_EQ(histogram.counts[12], 1U);
  EXPECT_EQ(histogram.count, 25U);
}

TEST(KeyedQueue, RT_T040_TenThousandUpdatesOfOneKey_NeverRunTwiceAtOnce_LastStateWins) {
  Bench b;
  int state = 0;
  int applied = -1;
  int runs = 0;
  std::optional<Item> running;
  int seen = 0;
  for (int i = 0; i < 10'000; ++i) {  // one each 100 µs; a reconcile takes 3 ms
    state = i;
    b.add("a");
    b.now += std::chrono::microseconds(100);
    if (const std::optional<Item> item = b.queue.pop(b.now)) {
      ASSERT_FALSE(running) << "update " << i;
      running = item;
      seen = state;
    } else if (running && i % 30 == 29) {
      applied = seen;
      b.done(*running);
      running.reset();
      ++runs;
    }
  }
  while (running || b.queue.ready()) {
    if (!running) {
      running = b.pop();
      seen = state;
    }
    applied = seen;
    b.done(*running);
    running.reset();
    ++runs;
  }
  EXPECT_EQ(applied, 9'999);
  EXPECT_LE(runs, 335);
  EXPECT_EQ(b.queue.size(), 0U);
}

TEST(KeyedQueue, RT_T041_AFailingKeyDelaysNoGoodOnes) {
  Bench b;
  const TimePoint start = b.now;
  b.add("bad");
  for (int i = 0; i < 1'000; ++i) {
    b.add("good" + std::to_string(i));
  }
  int good = 0;
  std::vector<double> bad;
  while (bad.size() < 22) {
    b.sleep_until_ready();
    const Item item = b.pop();
    b.now += std::chrono::microseconds(500);  // what a reconcile takes
    if (item.key.name == "bad") {
      bad.push_back(std::chrono::duration<double>(b.now - start).count());
      b.done(item, Outcome::error());
      continue;
    }
    b.done(item);
    EXPECT_LE(b.now - start, seconds(1));
    ++good;
  }
  EXPECT_EQ(good, 1'000);
  EXPECT_GE(bad[19] - bad[18], 240);
  EXPECT_LE(bad[21] - bad[20], 300.02);
}

TEST(KeyedQueue, RT41_RT_T042_WhenTheInitialListIsLong_ALiveChangeComesFirst) {
  Bench b;
  for (int i = 0; i < 50'000; ++i) {
    b.add("k" + std::to_string(i), Priority::kInitial);
  }
  b.run(Outcome::done());
  b.add("k49999");
  b.add("new");
  EXPECT_EQ(b.pop_name(), "k49999");
  EXPECT_EQ(b.pop_name(), "new");
}

}  // namespace
}  // namespace kintsugi::workers
