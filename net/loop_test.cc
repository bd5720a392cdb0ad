#include "net/loop.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::run_until;

TEST(Loop, WhenFourThreadsPost_EachKeepsItsOrder) {
  constexpr int kThreads = 4, kPosts = 2'000;
  Loop loop("test");
  std::array<int, kThreads> next{};
  bool ordered = true;
  int done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) {
        loop.post([&, t, i] {
          ordered = ordered && next[static_cast<std::size_t>(t)]++ == i && loop.in_loop_thread();
          if (++done == kThreads * kPosts) {
            loop.stop();
          }
        });
      }
    });
  }
  loop.run();
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(ordered);
  EXPECT_EQ(done, kThreads * kPosts);
  EXPECT_EQ(loop.stats().posts, static_cast<std::uint64_t>(kThreads * kPosts));
}

TEST(Loop, WhenPostedFromTheLoopItself_RunsInALaterTurn) {
  Loop loop("test");
  std::string order;
  loop.post([&] {
    loop.post([&] {
      order += 'b';
      loop.stop();
    });
    order += 'a';
  });
  loop.run();
  EXPECT_EQ(order, "ab");
}

TEST(Loop, WhenStoppedBeforeRun_ReturnsAfterNoMoreThanOneTurn) {
  Loop loop("test");
  loop.stop();
  loop.run();
  EXPECT_EQ(loop.stats().turns, 0U);
}

TEST(Loop, WhenTimersAreDue_FireInOrderAndNotEarly) {
  Loop loop("test");
  std::string order;
  const TimePoint start = Clock::now();
  loop.after(milliseconds(20), [&] {
    order += 'b';
    EXPECT_GE(Clock::now() - start, milliseconds(20));
    loop.stop();
  });
  const auto cancelled = loop.after(milliseconds(10), [&] { order += 'x'; });
  loop.after(milliseconds(5), [&] {
    order += 'a';
    loop.cancel(cancelled);
  });
  loop.run();
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(loop.stats().timers, 0U);
}

struct Item final : Loop::Flushable {
  Item(std::string& the_log, char the_name) : log(the_log), name(the_name) {}
  void flush() noexcept override {
    log += name;
    if (then) {
      then();
    }
  }
  std::string& log;
  char name;
  std::function<void()> then;
};

TEST(Loop, WhenItemsAreDirty_PERF102_FlushesOnceInOrderThenDefers) {
  Loop loop("test");
  std::string log;
  Item a(log, 'a'), b(log, 'b'), c(log, 'c');
  a.then = [&] { loop.mark_dirty(c); };  // second pass of the same turn
  loop.post([&] {
    loop.defer([&] {
      log += '!';
      loop.stop();
    });
    loop.mark_dirty(b);
    loop.mark_dirty(a);
    loop.mark_dirty(b);
    log += '-';
  });
  loop.run();
  EXPECT_EQ(log, "-bac!");
}

struct Reader final : FdHandler {
  Reader(Loop& the_loop, int the_fd) : loop(the_loop), fd(the_fd) {}
  void on_ready(bool readable, bool /*writable*/) noexcept override {
    if (!readable) {
      return;
    }
    ++calls;
    std::array<char, 1024> buffer{};
    const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (count > 0) {
      total += static_cast<std::size_t>(count);
      loop.read_again(fd);
      loop.read_again(fd);  // asking twice is asking once
    }
    ended = ended || count == 0;
    if (on_read) {
      on_read();
    }
  }
  Loop& loop;
  int fd;
  int calls = 0;
  std::size_t total = 0;
  bool ended = false;
  std::function<void()> on_read;
};

struct SocketPair {
  SocketPair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0); }
  ~SocketPair() {
    for (const int fd : fds) {
      ::close(fd);
    }
  }
  std::array<int, 2> fds{};
};

/// Turns that took `time` or longer, by the histogram.
std::uint64_t turns_from(const Loop::Stats& stats, std::chrono::microseconds time) {
  std::uint64_t turns = 0;
  for (std::size_t i = std::bit_width(static_cast<std::uint64_t>(time.count()));
       i < stats.turns_below.size(); ++i) {
    turns += stats.turns_below[i];
  }
  return turns;
}

void spin() {
  const TimePoint begin = Clock::now();
  while (Clock::now() - begin < milliseconds(40)) {
  }
}

TEST(Loop, WhenTurnsAreSlow_PERF104_TheyAreCountedByTheirLargestPart) {
  using Part = Loop::Part;
  Loop loop("test");
  const SocketPair pair;
  Reader reader(loop, pair.fds[0]);
  reader.on_read = spin;
  std::string log;
  Item item(log, 'a');
  item.then = spin;
  const auto slow_by = [&](Part part) {
    return loop.stats().slow_turns_by[static_cast<std::size_t>(part)];
  };
  loop.watch(pair.fds[0], reader);
  EXPECT_EQ(loop.stats().slow_turns, 0U);
  // Each in a turn of its own, which has something small of the other parts.
  const std::vector<std::pair<Part, std::function<void()>>> causes = {
      {Part::kReading, [&] { EXPECT_EQ(::send(pair.fds[1], "x", 1, 0), 1); }},
      {Part::kPosts, [&] { loop.post(spin); }},
      {Part::kTimers, [&] { loop.after(milliseconds(1), spin); }},
      {Part::kWriting, [&] { loop.mark_dirty(item); }},
      {Part::kDeferred, [&] { loop.defer(spin); }}};
  for (const auto& [part, cause] : causes) {
    loop.post(cause);
    EXPECT_TRUE(run_until(loop, [&, which = part] { return slow_by(which) > 0; }))
        << Loop::part_name(part);
  }
  const Loop::Stats stats = loop.stats();
  const auto sum = [](const auto& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  };
  EXPECT_EQ(sum(stats.slow_turns_by), stats.slow_turns);
  EXPECT_EQ(sum(stats.turns_below), stats.turns);
  EXPECT_GE(turns_from(stats, std::chrono::microseconds(1 << 15)), causes.size());
  EXPECT_LE(turns_from(stats, std::chrono::microseconds(1 << 14)), stats.slow_turns);
  EXPECT_GT(stats.turns, stats.slow_turns);
  EXPECT_GE(stats.longest_turn_us, 40'000U);
  loop.forget(pair.fds[0]);
}

TEST(Loop, WhenAnItemIsUnmarkedDuringTheFlush_ItIsSkipped) {
  Loop loop("test");
  std::string log;
  Item a(log, 'a'), b(log, 'b');
  a.then = [&] { loop.unmark_dirty(b); };
  loop.post([&] {
    loop.mark_dirty(a);
    loop.mark_dirty(b);
    loop.defer([&] { loop.stop(); });
  });
  loop.run();
  EXPECT_EQ(log, "a");
}

TEST(Loop, WhenMoreIsThereThanOneReadTakes_PERF103_NothingIsLostWithoutNewEdges) {
  Loop loop("test");
  const SocketPair pair;
  Reader reader(loop, pair.fds[0]);
  const std::string bytes(50'000, 'x');
  ASSERT_EQ(::send(pair.fds[1], bytes.data(), bytes.size(), 0), 50'000);
  ASSERT_EQ(::shutdown(pair.fds[1], SHUT_WR), 0);
  loop.watch(pair.fds[0], reader);
  EXPECT_TRUE(run_until(loop, [&] { return reader.ended; }));
  EXPECT_EQ(reader.total, bytes.size());
  EXPECT_LE(reader.calls, 60);
  loop.forget(pair.fds[0]);
  EXPECT_EQ(loop.stats().descriptors, 0U);
}

TEST(Loop, WhenADescriptorIsForgottenInTheSameTurn_GetsNoCallAnyMore) {
  Loop loop("test");
  const SocketPair first, second;
  Reader a(loop, first.fds[0]), b(loop, second.fds[0]);
  ASSERT_EQ(::send(first.fds[1], "x", 1, 0), 1);
  ASSERT_EQ(::send(second.fds[1], "x", 1, 0), 1);
  loop.watch(first.fds[0], a);
  loop.watch(second.fds[0], b);
  a.on_read = [&] { loop.forget(second.fds[0]); };
  b.on_read = [&] { loop.forget(first.fds[0]); };
  EXPECT_TRUE(run_until(loop, [&] { return a.calls + b.calls > 0; }));
  EXPECT_TRUE((a.calls == 0) != (b.calls == 0));
  loop.forget(first.fds[0]);
  loop.forget(second.fds[0]);
}

// Asio returns from run_one() for a descriptor that nobody waits for: what Loop stands on. Writes
// come from another thread and one by one, so that the loop is asleep for most of them.
TEST(Loop, WhenItSleeps_EveryEdgeOfADescriptorWakesIt) {
  Loop loop("test");
  const SocketPair pair;
  Reader reader(loop, pair.fds[0]);
  loop.watch(pair.fds[0], reader);
  constexpr std::size_t kWrites = 200;
  std::atomic<std::size_t> seen{0};
  reader.on_read = [&] { seen.store(reader.total); };
  bool in_time = true;
  std::thread writer([&] {
    for (std::size_t i = 1; i <= kWrites && in_time; ++i) {
      in_time = ::send(pair.fds[1], "x", 1, 0) == 1;
      const TimePoint limit = Clock::now() + seconds(10);
      while (in_time && seen.load() < i) {
        in_time = Clock::now() < limit;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  writer.join();
  EXPECT_TRUE(in_time);
  EXPECT_EQ(reader.total, kWrites);
  loop.forget(pair.fds[0]);
}

TEST(Loop, WhenMoreDescriptorsAreReadyThanATurnTakes_PERF103_AllGetTheirCallWithoutAnotherEdge) {
  Loop loop("test");
  constexpr std::size_t kPairs = 300;  // a turn takes 256
  std::vector<std::unique_ptr<SocketPair>> pairs;
  std::vector<std::unique_ptr<Reader>> readers;
  for (std::size_t i = 0; i < kPairs; ++i) {
    pairs.push_back(std::make_unique<SocketPair>());
    readers.push_back(std::make_unique<Reader>(loop, pairs.back()->fds[0]));
    ASSERT_EQ(::send(pairs.back()->fds[1], "x", 1, 0), 1);
    loop.watch(pairs.back()->fds[0], *readers.back());
  }
  EXPECT_TRUE(run_until(loop, [&] {
    return std::all_of(readers.begin(), readers.end(), [](const auto& r) { return r->total == 1; });
  }));
  for (const auto& pair : pairs) {
    loop.forget(pair->fds[0]);
  }
}

TEST(Loop, WhenTimersAreArmedEarlierAndCancelled_TheOthersStillFireInTime) {
  Loop loop("test");
  const TimePoint start = Clock::now();
  std::string order;
  const auto late = loop.after(seconds(20), [&] { order += 'x'; });
  loop.after(milliseconds(40), [&] {
    order += 'c';
    EXPECT_GE(Clock::now() - start, milliseconds(40));
    EXPECT_LT(Clock::now() - start, seconds(10));
    loop.stop();
  });
  loop.post([&] {
    // The loop has slept for the timer above already, or will: an earlier one moves the deadline.
    const auto gone = loop.after(milliseconds(5), [&] { order += 'x'; });
    loop.after(milliseconds(10), [&] { order += 'b'; });
    loop.cancel(gone);
    order += 'a';
  });
  loop.run();
  loop.cancel(late);
  EXPECT_EQ(order, "abc");
}

}  // namespace
}  // namespace kintsugi::net
