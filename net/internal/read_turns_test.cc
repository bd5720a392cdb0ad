#include "net/internal/read_turns.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace kintsugi::net {
namespace {

constexpr std::size_t kRequests = ReadTurns::kRequests;

class ReadTurnsTest : public ::testing::Test {
 protected:
  struct Connection : ReadTurns::Reader {
    explicit Connection(std::string name) : payer(std::move(name)) {}
    std::string payer;
    std::size_t reads = 0;
  };
  Connection& connect(const std::string& payer) {
    Connection& made = connections_.emplace_back(payer);
    turns_.join(made, payer);
    return made;
  }
  /// Bytes have come on all of them, each with so many requests.
  void turn(std::size_t requests, std::size_t bytes = 0) {
    now_ += milliseconds(1);
    for (Connection& one : connections_) {
      if (turns_.may_read(one, now_)) {
        read(one, requests, bytes);
      }
    }
    for (ReadTurns::Reader* one = nullptr; (one = turns_.next(now_)) != nullptr;) {
      read(static_cast<Connection&>(*one), requests, bytes);
    }
  }
  void read(Connection& one, std::size_t requests, std::size_t bytes) {
    ++one.reads;
    begun_[one.payer] += requests;
    ReadTurns::count(one, requests, bytes);
  }
  std::size_t begun(const std::string& payer) { return std::exchange(begun_[payer], 0); }

  ReadTurns turns_;
  std::deque<Connection> connections_;
  TimePoint now_ = TimePoint() + seconds(1'000);
  std::map<std::string, std::size_t> begun_;
};

TEST_F(ReadTurnsTest, SE083_APayersConnectionsTakeTurnsAndOthersDoNotWaitForThem) {
  for (int i = 0; i < 50; ++i) {
    connect("heavy");
  }
  connect("light");
  for (int i = 0; i < 100; ++i) {
    turn(20);
    EXPECT_EQ(begun("heavy"), 80U) << "the one that passes the bound is the last";
    EXPECT_EQ(begun("light"), 20U) << i;
  }
  for (const Connection& one : connections_) {
    EXPECT_GE(one.reads, 7U);
    EXPECT_LE(one.reads, one.payer == "heavy" ? 9U : 100U);
  }
  EXPECT_TRUE(turns_.has_waiting());
}

TEST_F(ReadTurnsTest, SE083_BytesCountAsRequests) {
  connect("heavy");
  connect("heavy");
  turn(0, 64 * ReadTurns::kBytes);
  EXPECT_EQ(connections_[0].reads + connections_[1].reads, 1U);
  turn(0, 64 * ReadTurns::kBytes);
  EXPECT_EQ(connections_[0].reads, 1U);
  EXPECT_EQ(connections_[1].reads, 1U);
}

TEST_F(ReadTurnsTest, WhoHasBytesLeftComesBeforeThePayersOthers) {
  Connection half("a"), next("a");
  turns_.join(half, "a");
  turns_.join(next, "a");
  ASSERT_TRUE(turns_.may_read(half, now_));
  ReadTurns::count(half, kRequests, 0);
  ASSERT_FALSE(turns_.may_read(next, now_));
  ASSERT_FALSE(turns_.may_read(half, now_, true));
  ASSERT_FALSE(turns_.may_read(half, now_, true)) << "once in the line";
  now_ += milliseconds(1);
  ASSERT_FALSE(turns_.may_read(half, now_, true)) << "next() gives it, whoever else asks";
  EXPECT_EQ(turns_.next(now_), &half);
  ASSERT_TRUE(turns_.may_read(half, now_, true)) << "there is room left";
  EXPECT_EQ(turns_.next(now_), &next);
  EXPECT_EQ(turns_.next(now_), nullptr);
}

TEST_F(ReadTurnsTest, WhoHasNotJoinedNeverWaits) {
  connections_.emplace_back("system");
  for (int i = 0; i < 3; ++i) {
    now_ += milliseconds(1);
    for (int j = 0; j < 10; ++j) {
      ASSERT_TRUE(turns_.may_read(connections_.front(), now_));
      ReadTurns::count(connections_.front(), kRequests, 0);
    }
  }
}

TEST_F(ReadTurnsTest, WhoLeavesIsForgottenWhetherItWaitsOrNot) {
  auto one = std::make_unique<Connection>("a"), two = std::make_unique<Connection>("a"),
       three = std::make_unique<Connection>("a");
  for (auto* each : {one.get(), two.get(), three.get()}) {
    turns_.join(*each, "a");
  }
  ASSERT_TRUE(turns_.may_read(*one, now_));
  ReadTurns::count(*one, kRequests, 0);
  ASSERT_FALSE(turns_.may_read(*two, now_));
  ASSERT_FALSE(turns_.may_read(*two, now_)) << "twice announced, once in the line";
  ASSERT_FALSE(turns_.may_read(*three, now_));
  EXPECT_EQ(turns_.next(now_), nullptr);
  two.reset();
  now_ += milliseconds(1);
  EXPECT_EQ(turns_.next(now_), three.get());
  EXPECT_EQ(turns_.next(now_), nullptr);
  EXPECT_FALSE(turns_.has_waiting());
  one.reset();
  three.reset();
  Connection again("a");
  turns_.join(again, "a");
  EXPECT_TRUE(turns_.may_read(again, now_)) << "a new one has its own turn";
}

TEST_F(ReadTurnsTest, AConnectionMayOutliveItsTurns) {
  Connection late("a");
  {
    ReadTurns turns;
    turns.join(late, "a");
    turns.leave(late);
  }
}

}  // namespace
}  // namespace kintsugi::net
