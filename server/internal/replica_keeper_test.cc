#include "server/internal/replica_keeper.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/memory/memory_store.h"

namespace kintsugi::server {
namespace {

using Times = ReplicaKeeper::Times;

class ReplicaKeeperTest : public ::testing::Test {
 protected:
  [[nodiscard]] bool until(const std::function<bool()>& condition) {
    bool met = false;
    net::Timer pace(loop_), limit(loop_);
    const std::function<void()> check = [&] {
      met = condition();
      if (met) {
        loop_.stop();
      } else {
        pace.start(milliseconds(1), check);
      }
    };
    pace.start(milliseconds(1), check);
    limit.start(seconds(20), [this] { loop_.stop(); });
    loop_.run();
    return met;
  }
  [[nodiscard]] std::unique_ptr<ReplicaKeeper> keeper(const std::string& id, Times times) {
    return std::make_unique<ReplicaKeeper>(
        loop_, store_, Replica{.id = id, .version = version_}, [this] { ++settled_; }, times);
  }
  [[nodiscard]] bool has(const std::string& id) const {
    return store_.get(std::string(kReplicaRecords) + id).has_value();
  }
  std::string version_ = "0.1.0";  // of the next one
  int settled_ = 0;                // how often one has said so
  net::Loop loop_{"test"};
  store::MemoryStore store_;
};

constexpr Times kQuick{milliseconds(20), milliseconds(200), milliseconds(2)};

TEST_F(ReplicaKeeperTest, GR211_EachKnowsTheOthers) {
  const auto one = keeper("one", kQuick);
  auto two = keeper("two", kQuick);
  two->tell(true, 500);
  ASSERT_TRUE(until([&] { return one->others().size() == 1 && one->others()[0].ready; }));
  EXPECT_EQ(one->others()[0],
            (Replica{.id = "two", .version = "0.1.0", .ready = true, .watches = 500}));
  two.reset();
  EXPECT_TRUE(until([&] { return one->others().empty(); }));
  EXPECT_FALSE(has("two")) << "who leaves takes its record along";
  EXPECT_TRUE(has("one"));
}

TEST_F(ReplicaKeeperTest, GR211_WhoDoesNotWriteIsGoneByTheClockOfWhoLooks) {
  const auto one = keeper("one", kQuick);
  const auto silent = keeper("silent", {seconds(1'000), seconds(1'000), seconds(1'000)});
  ASSERT_TRUE(until([&] { return one->others().size() == 1; }));
  const TimePoint begin = Clock::now();
  ASSERT_TRUE(until([&] { return one->others().empty(); }));
  EXPECT_GE(Clock::now() - begin, milliseconds(150));
  EXPECT_TRUE(until([&] { return !has("silent"); })) << "and is removed";
  EXPECT_TRUE(has("one")) << "who writes lives";
}

TEST_F(ReplicaKeeperTest, GR213_ManyMoreWatchesAreToldAtOnce) {
  const auto one = keeper("one", kQuick);
  const auto two = keeper("two", {seconds(1'000), seconds(1'000), seconds(1'000)});
  const auto told = [&] {
    return one->others().empty() ? std::size_t{0} : one->others()[0].watches;
  };
  two->tell(false, 1'000);
  EXPECT_TRUE(until([&] { return told() == 1'000; }));
  two->tell(false, 1'010);
  two->tell(false, 1'100);
  EXPECT_TRUE(until([&] { return told() == 1'100; }));
}

TEST_F(ReplicaKeeperTest, GR211_AnUpgradeIsSettledWhenTheLastOfAnotherReleaseIsLongGone) {
  Times times = kQuick;
  times.settled = milliseconds(100);
  auto earlier = keeper("earlier", kQuick);
  version_ = "0.2.0";
  const TimePoint begin = Clock::now();
  const auto one = keeper("one", times);
  const auto two = keeper("two", kQuick);  // of its own release
  ASSERT_TRUE(until([&] { return Clock::now() - begin > milliseconds(300); }));
  EXPECT_EQ(settled_, 0);
  const TimePoint gone = Clock::now();
  earlier.reset();
  ASSERT_TRUE(until([&] { return settled_ == 1; }));
  EXPECT_GE(Clock::now() - gone, milliseconds(100));
  EXPECT_TRUE(until([&] { return settled_ == 2; })) << "again, where it could not be done";
}

TEST_F(ReplicaKeeperTest, GR301_WhoHasWrittenLatelyAnswers) {
  Times often = kQuick;
  often.write_beside = milliseconds(5);
  often.fresh = milliseconds(100);
  const auto keeper_at = [&](const std::string& id, Times times) {
    return std::make_unique<ReplicaKeeper>(
        loop_, store_, Replica{.id = id, .version = version_, .address = "at-" + id, .ready = true},
        nullptr, times);
  };
  Times never = often;
  never.write = never.write_beside = seconds(1'000);
  const auto hung = keeper_at("hung", never);
  auto one = keeper_at("one", often);
  std::vector<std::string> answering = {"none yet"};
  one->on_answering([&](const std::vector<std::string>& urls) { answering = urls; });
  EXPECT_TRUE(answering.empty()) << "what was there may be of one that is gone";
  auto two = keeper_at("two", often);
  ASSERT_TRUE(until([&] { return answering == std::vector<std::string>{"at-two"}; }));
  version_ = "0.2.0";
  const auto later = keeper_at("later", often);
  ASSERT_TRUE(until([&] { return one->others().size() == 3; }));
  EXPECT_EQ(answering.size(), 1U) << "one of another release writes as that does";
  two.reset();
  EXPECT_TRUE(until([&] { return answering.empty(); })) << "who has ended in order";
  version_ = "0.1.0";
  const auto stops = keeper_at("stops", never);  // as one that hangs after its first word
  ASSERT_TRUE(until([&] { return answering == std::vector<std::string>{"at-stops"}; }));
  EXPECT_TRUE(until([&] { return answering.empty(); }));
  EXPECT_TRUE(has("stops"));
}

TEST_F(ReplicaKeeperTest, GR211_WhatOthersSayThatIsNotKnownIsLeftAlone) {
  const std::string text = R"({"version":"9.0.0","ready":true,"watches":7,"moons":{"of":"mars"}})";
  ASSERT_TRUE(store_.commit_wait(
      {{store::EventType::kPut, std::string(kReplicaRecords) + "later", text, std::nullopt}}));
  const auto one = keeper("one", kQuick);
  ASSERT_TRUE(until([&] { return one->others().size() == 1; }));
  EXPECT_EQ(one->others()[0].version, "9.0.0");
  EXPECT_EQ(one->others()[0].watches, 7U);
  EXPECT_EQ(store_.get(std::string(kReplicaRecords) + "later")->value.view(), text);
}

}  // namespace
}  // namespace kintsugi::server
