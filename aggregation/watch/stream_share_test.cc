#include "aggregation/watch/stream_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"

namespace kintsugi::aggregation {
namespace {

using Role = StreamShare::Role;

/// What a loop knows of one shard. Events are numbers, a line each.
class Stream final : public StreamShare::Stream {
 public:
  Stream(std::shared_ptr<StreamHomes> homes, net::Loop& loop, std::uint64_t position,
         const std::string& key = "k")
      : position_(position), loop_(loop), share_(std::move(homes), loop, key, *this) {}

  [[nodiscard]] std::uint64_t position() const noexcept override { return position_; }
  void on_joined() noexcept override { own_ = false; }
  void on_relayed(std::string_view events) noexcept override {
    turns_.push_back(loop_.now());
    for (const std::string_view line : split(events, '\n')) {
      if (!line.empty()) {
        take(std::stoull(std::string(line)));
      }
    }
  }
  void on_home_lost(bool away) noexcept override {
    away_ = away;
    ++lost_;
  }

  /// The shard has sent this on the own stream.
  void hear(std::uint64_t revision) {
    take(revision);
    share_.add(std::to_string(revision), "\n", revision);
  }
  void hear_batch(const std::vector<std::uint64_t>& revisions) {
    for (const std::uint64_t one : revisions) {
      hear(one);
    }
    share_.end_batch();
  }
  void hear_bookmark(std::uint64_t revision) {
    position_ = revision;
    share_.add("", "", 0);
    share_.end_batch();
  }

  std::uint64_t position_;
  bool own_ = true, away_ = false;
  int lost_ = 0;
  std::vector<std::uint64_t> taken_;
  std::vector<TimePoint> turns_;  ///< of the loop, by batch
  net::Loop& loop_;
  StreamShare share_;

 private:
  void take(std::uint64_t revision) {
    if (revision > position_) {
      position_ = revision;
      taken_.push_back(revision);
    }
  }
};

using Taken = std::vector<std::uint64_t>;

class StreamShares : public ::testing::Test {
 protected:
  /// Until nothing is posted any more, and timers without a delay have come.
  void settle() {
    for (int i = 0; i < 4; ++i) {
      loop_.after(Duration{}, [this] { loop_.stop(); });
      loop_.run();
    }
  }
  net::Loop loop_{"test"};
  std::shared_ptr<StreamHomes> homes_ = std::make_shared<StreamHomes>();
  Stream home_{homes_, loop_, 10};
  Stream other_{homes_, loop_, 10};
};

TEST_F(StreamShares, WhenBothHaveTheSame_AGG902_OneStreamServesBoth) {
  home_.share_.be_live("json");
  EXPECT_EQ(home_.share_.role(), Role::kHome);
  other_.share_.be_live("json");
  EXPECT_EQ(other_.share_.role(), Role::kBehind);
  settle();
  EXPECT_EQ(other_.share_.role(), Role::kReader);
  EXPECT_FALSE(other_.own_);
  home_.hear_batch({11, 12});
  home_.hear_batch({13});
  settle();
  EXPECT_EQ(other_.taken_, (Taken{11, 12, 13}));
  EXPECT_EQ(homes_->stats().relays, 1U);
  EXPECT_EQ(homes_->stats().queue_bytes, 0U);
}

TEST_F(StreamShares, WhenMuchComesBeforeTheReaderLooks_PERF202_OneWakeUpTellsIt) {
  home_.share_.be_live("json");
  other_.share_.be_live("json");
  settle();
  const std::uint64_t before = homes_->stats().wakes;
  for (std::uint64_t revision = 11; revision <= 210; ++revision) {
    home_.hear_batch({revision});
  }
  EXPECT_EQ(homes_->stats().wakes - before, 1U);
  settle();
  settle();
  EXPECT_EQ(other_.taken_.size(), 200U);
  home_.hear_batch({211});  // however it was found before, it is told again
  settle();
  settle();
  EXPECT_EQ(other_.taken_.size(), 201U);
}

TEST_F(StreamShares, WhenMuchWaits_AGG1203_TheReaderTakesItInSeveralTurns) {
  home_.share_.be_live("json");
  other_.share_.be_live("json");
  settle();
  constexpr std::uint64_t kBatches = 100;
  const std::string padding(StreamHomes::kMostPerTurn / 8, ' ');
  for (std::uint64_t i = 1; i <= kBatches; ++i) {
    home_.share_.add(std::to_string(10 + i) + padding, "\n", 10 + i);
    home_.share_.end_batch();
  }
  const TimePoint give_up = Clock::now() + seconds(30);
  while (other_.taken_.size() < kBatches && Clock::now() < give_up) {
    settle();
  }
  ASSERT_EQ(other_.taken_.size(), kBatches);
  for (const TimePoint turn : other_.turns_) {
    EXPECT_LE(std::count(other_.turns_.begin(), other_.turns_.end(), turn), 8);
  }
  home_.hear_batch({200});  // and is told of what comes after that
  home_.share_.be_lost(false);
  while (other_.lost_ == 0 && Clock::now() < give_up) {
    settle();
  }
  EXPECT_EQ(other_.taken_.back(), 200U);
  EXPECT_EQ(other_.lost_, 1);
}

TEST_F(StreamShares, WhenTheReaderIsBehind_ItsOwnStreamBringsItUp) {
  home_.share_.be_live("json");
  home_.hear_batch({11, 12});
  other_.share_.be_live("json");
  settle();
  EXPECT_EQ(other_.share_.role(), Role::kBehind);
  home_.hear_batch({13});
  settle();
  other_.hear_batch({11});
  EXPECT_TRUE(other_.own_);
  other_.hear_batch({12});
  EXPECT_EQ(other_.share_.role(), Role::kReader);
  EXPECT_EQ(other_.taken_, (Taken{11, 12, 13}));
}

TEST_F(StreamShares, WhenTheReaderIsAhead_NothingComesTwice) {
  other_.position_ = 12;
  home_.share_.be_live("json");
  other_.share_.be_live("json");
  settle();
  EXPECT_EQ(other_.share_.role(), Role::kReader);
  home_.hear_batch({11, 12, 13});
  settle();
  EXPECT_EQ(other_.taken_, (Taken{13}));
}

TEST_F(StreamShares, WhenOnlyBookmarksMovedTheHome_AReaderBeforeThemMayJoin) {
  home_.share_.be_live("json");
  home_.hear_bookmark(90);
  other_.share_.be_live("json");
  settle();
  EXPECT_EQ(other_.share_.role(), Role::kReader);
}

TEST_F(StreamShares, WhenTheHomeGoes_ReadersGetTheRestAndAreTold) {
  home_.share_.be_live("json");
  other_.share_.be_live("json");
  settle();
  home_.hear_batch({11});
  home_.share_.be_lost(true);
  EXPECT_EQ(other_.lost_, 0);
  settle();
  EXPECT_EQ(other_.taken_, (Taken{11}));
  EXPECT_EQ(other_.lost_, 1);
  EXPECT_TRUE(other_.away_);
  EXPECT_EQ(other_.share_.role(), Role::kAlone);
  other_.share_.be_live("json");
  EXPECT_EQ(other_.share_.role(), Role::kHome);
  EXPECT_EQ(homes_->stats().relays, 0U);
}

TEST_F(StreamShares, WhenTheHomeGoesBeforeItAnswers_TheOtherIsHome) {
  home_.share_.be_live("json");
  other_.share_.be_live("json");
  home_.share_.be_lost(false);
  settle();
  EXPECT_EQ(other_.share_.role(), Role::kHome);
  EXPECT_TRUE(other_.own_);
  EXPECT_EQ(other_.lost_, 0);
}

TEST_F(StreamShares, WhenAReaderLeaves_NothingWaitsForIt) {
  home_.share_.be_live("json");
  other_.share_.be_live("json");
  settle();
  home_.hear_batch({11});
  other_.share_.be_lost(false);
  home_.hear_batch({12});
  settle();
  EXPECT_EQ(other_.taken_, Taken{});
  EXPECT_EQ(homes_->stats().relays, 0U);
  EXPECT_EQ(homes_->stats().queue_bytes, 0U);
  EXPECT_EQ(home_.share_.role(), Role::kHome);
}

TEST_F(StreamShares, WhenAReaderIsTooFarBehind_ItsRelayIsCutAndTheHomeGoesOn) {
  home_.share_.be_live("json");
  other_.share_.be_live("json");
  settle();
  std::uint64_t revision = 10;
  while (homes_->stats().cut == 0) {
    home_.hear_batch({++revision});
    ASSERT_LE(revision, 11 + StreamHomes::kMostBatches);
  }
  settle();
  EXPECT_EQ(other_.lost_, 1);
  EXPECT_FALSE(other_.away_);
  ASSERT_FALSE(other_.taken_.empty());
  EXPECT_EQ(other_.taken_.back() + 1, revision);  // without a gap
  EXPECT_EQ(other_.taken_.size(), StreamHomes::kMostBatches);
  EXPECT_EQ(homes_->stats().queue_bytes, 0U);
}

TEST_F(StreamShares, WhenAReaderNeverCatchesUp_WhatWaitsForItIsBounded) {
  home_.share_.be_live("json");
  home_.hear_batch({11});
  other_.share_.be_live("json");
  settle();
  ASSERT_EQ(other_.share_.role(), Role::kBehind);
  const std::string large(StreamHomes::kMostBytes / 8, 'x');
  for (std::uint64_t i = 12; homes_->stats().cut == 0; ++i) {
    home_.share_.add(large, "\n", i);
    home_.share_.end_batch();
    ASSERT_LE(homes_->stats().queue_bytes, StreamHomes::kMostBytes);
  }
  settle();
  EXPECT_EQ(other_.lost_, 0);  // it has its own stream
  EXPECT_TRUE(other_.own_);
  EXPECT_EQ(homes_->stats().relays, 0U);
}

TEST_F(StreamShares, WhenKeysOrEncodingsDiffer_NobodyShares) {
  Stream third(homes_, loop_, 10, "another");
  home_.share_.be_live("json");
  third.share_.be_live("json");
  EXPECT_EQ(third.share_.role(), Role::kHome);
  other_.share_.be_live("protobuf");
  EXPECT_EQ(other_.share_.role(), Role::kHome);
}

/// A home that comes and goes on one thread, readers on others: each has every event, once and in
/// order.
class StreamShareThreads : public ::testing::TestWithParam<bool> {};

TEST_P(StreamShareThreads, WhenHomesComeAndGo_AGG902_EveryLoopHasEveryEventOnce) {
  constexpr std::size_t kLoops = 3;
  const bool stalls = GetParam();  // relays are cut
  const std::uint64_t kEvents = stalls ? 12'000 : 5'000;
  const auto homes = std::make_shared<StreamHomes>();

  /// A loop whose shard has everything up to a number that grows, and gives some of it each turn.
  struct Side {
    net::Loop loop{"side"};
    std::unique_ptr<Stream> stream;
    std::uint64_t heard = 0;  // of the own stream
    int seen_lost = 0, turns = 0;
    std::uint64_t all = 0;
    bool stalls = false;
    int stalled = 0;
    const StreamHomes* homes = nullptr;
    std::atomic<bool>* busy = nullptr;
    std::atomic<std::uint64_t>* exists = nullptr;
    std::atomic<std::size_t>* idle = nullptr;  ///< sides that have everything, or are stalled
    std::atomic<std::size_t>* finished = nullptr;
    std::thread thread;

    void turn() {
      Stream& s = *stream;
      if (s.lost_ != seen_lost) {
        seen_lost = s.lost_;
        s.own_ = true;
        heard = s.position_;
        s.share_.be_live("json");
      }
      if (s.own_) {
        for (int batches = stalls ? 64 : 1; batches > 0 && s.own_; --batches) {
          Taken batch;
          const std::size_t most = stalls ? 1 : 7;
          for (const std::uint64_t until = exists->load(); heard < until && batch.size() < most;) {
            batch.push_back(++heard);
          }
          s.hear_batch(batch);
        }
      } else if (stalls && stalled < 3) {
        // It is busy until some relay is cut, or nobody is left who could cut one.
        ++stalled;
        const std::uint64_t before = homes->stats().cut;
        busy->store(true);
        idle->fetch_add(1);
        while (homes->stats().cut == before && idle->load() < kLoops) {
          std::this_thread::yield();
        }
        idle->fetch_sub(1);
      }
      // Now and then a stream ends, as streams do.
      if (++turns % 50 == 0 && s.own_ && !stalls) {
        s.share_.be_lost(false);
        heard = s.position_;
        s.share_.be_live("json");
      }
      if (s.position_ == all) {
        idle->fetch_add(1);
        finished->fetch_add(1);
        return;  // it stays, for the others
      }
      loop.after(turns % 3 == 0 ? milliseconds(1) : Duration{}, [this] { turn(); });
    }
  };
  std::atomic<std::uint64_t> exists = 1;
  std::atomic<std::size_t> finished = 0, idle = 0;
  std::atomic<bool> busy = false;
  std::deque<Side> sides(kLoops);
  for (Side& side : sides) {
    side.all = kEvents;
    side.stalls = stalls;
    side.busy = &busy;
    side.homes = homes.get();
    side.idle = &idle;
    side.exists = &exists;
    side.finished = &finished;
    side.stream = std::make_unique<Stream>(homes, side.loop, 0);
    side.thread = std::thread([&side] {
      side.loop.post([&side] {
        side.stream->share_.be_live("json");
        side.turn();
      });
      side.loop.run();
    });
  }
  const TimePoint give_up = Clock::now() + seconds(60);
  while (finished.load() < kLoops && Clock::now() < give_up) {
    EXPECT_LE(homes->stats().queue_bytes, kLoops * StreamHomes::kMostBytes);
    const std::uint64_t until = stalls && !busy.load() ? 500 : kEvents;
    exists.store(std::min(until, exists.load() + 5));
    std::this_thread::yield();
  }
  for (Side& side : sides) {
    side.loop.stop();
  }
  for (Side& side : sides) {
    side.thread.join();
  }
  for (Side& side : sides) {
    ASSERT_EQ(side.stream->taken_.size(), kEvents);
    for (std::uint64_t i = 0; i < kEvents; ++i) {
      ASSERT_EQ(side.stream->taken_[i], i + 1);
    }
    side.stream.reset();
  }
  EXPECT_TRUE(homes->stats().cut > 0 || !stalls);
  sides.clear();  // what is posted and never ran goes with them
  EXPECT_EQ(homes->stats().relays, 0U);
  EXPECT_EQ(homes->stats().queue_bytes, 0U);
}

INSTANTIATE_TEST_SUITE_P(Stalls, StreamShareThreads, ::testing::Bool());

}  // namespace
}  // namespace kintsugi::aggregation
