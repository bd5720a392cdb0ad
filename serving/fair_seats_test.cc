#include "serving/fair_seats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "krm/status.h"

namespace kintsugi::serving {
namespace {

class FairSeatsTest : public ::testing::Test {
 protected:
  struct Asked {
    Seat seat;
    int answers = 0;
    bool got = false;
    int retry_after = 0;
  };
  void make(const FairLimits& limits) { seats_ = std::make_unique<FairSeats>(loop_, limits); }
  std::unique_ptr<Asked> ask(std::string_view payer, Level level = Level::kTenant) {
    auto asked = std::make_unique<Asked>();
    Asked& one = *asked;
    if (seats_->enter(one.seat, {level, payer, "lc"}, {}, [&one](Expected<void> room) {
          ++one.answers;
          one.got = room.has_value();
          one.retry_after = room ? 0 : krm::retry_after_seconds(room.error());
        })) {
      one.got = true;
    }
    return asked;
  }
  /// Turns until `done`; false after five seconds.
  bool run_until(const std::function<bool()>& done) {
    const TimePoint end = Clock::now() + seconds(5);
    bool late = false;
    const std::function<void()> look = [&] {
      late = Clock::now() > end;
      if (done() || late) {
        loop_.stop();
      } else {
        loop_.after(milliseconds(1), look);
      }
    };
    loop_.post(look);
    loop_.run();
    return !late;
  }
  net::Loop loop_{"test"};
  std::unique_ptr<FairSeats> seats_;
};

TEST_F(FairSeatsTest, WhoWaitsGetsTheSeatThatBecomesFree) {
  make({.seats = 2});
  auto one = ask("a"), two = ask("b"), three = ask("c");
  EXPECT_TRUE(one->got);
  EXPECT_TRUE(two->got);
  EXPECT_FALSE(three->got);
  one.reset();
  EXPECT_FALSE(three->got) << "not inside the other's end";
  ASSERT_TRUE(run_until([&] { return three->got; }));
  EXPECT_EQ(three->answers, 1);
  EXPECT_TRUE(three->seat.runs());
}

TEST_F(FairSeatsTest, SE094_WhoRunsAndWaitsHasAName) {
  make({.seats = 2});
  const auto early = ask("early");
  const auto a = ask("a"), b = ask("b"), more = ask("b"), system = ask("s", Level::kSystem);
  const std::vector<FairSeats::PayerUse> all = seats_->payers(10);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].name, "b");
  EXPECT_EQ(all[0].running, 0U);
  EXPECT_EQ(all[0].waiting, 2U);
  std::size_t running = 0;
  for (const FairSeats::PayerUse& use : all) {
    running += use.running;
    EXPECT_EQ(use.level == Level::kSystem, use.name == "s");
    EXPECT_EQ(use.name.empty(), use.running == 1 && use.name != "a");
  }
  EXPECT_EQ(running, 2U);
  EXPECT_EQ(seats_->payers(1).size(), 1U);
}

TEST_F(FairSeatsTest, SE094_NamesOfThoseWhoWaitAreKeptWhenManyCome) {
  make({.seats = 2});
  const auto one = ask("x"), two = ask("y"), waits = ask("waits");
  for (int i = 0; i < 20'000; ++i) {
    (void)ask("payer " + std::to_string(i));  // and goes
  }
  const std::vector<FairSeats::PayerUse> all = seats_->payers(10);
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const FairSeats::PayerUse& use) { return use.name == "waits"; }),
            1);
}

TEST_F(FairSeatsTest, SE074_WhoWaitsTooLongIsTold) {
  make({.seats = 1, .wait = milliseconds(20)});
  const auto one = ask("a");
  const auto two = ask("b");
  ASSERT_TRUE(run_until([&] { return two->answers == 1; }));
  EXPECT_FALSE(two->got);
  EXPECT_GE(two->retry_after, 1);
  EXPECT_EQ(seats_->queues().totals(Level::kTenant).late, 1U);
}

TEST_F(FairSeatsTest, SE074_WhoFindsNoPlaceIsToldAtOnce) {
  make({.seats = 1, .queues = 1, .hand = 1, .queue_length = 1});
  const auto one = ask("a"), two = ask("a"), three = ask("a");
  EXPECT_EQ(two->answers, 0);
  EXPECT_EQ(three->answers, 1);
  EXPECT_FALSE(three->got);
  EXPECT_EQ(three->retry_after, 1);
}

TEST_F(FairSeatsTest, SE074_WhoLeavesIsNotCalled) {
  make({.seats = 1});
  const auto one = ask("a");
  auto two = ask("b");
  const auto three = ask("c");
  two->seat.leave();
  one->seat.leave();
  ASSERT_TRUE(run_until([&] { return three->got; }));
  EXPECT_EQ(two->answers, 0);
}

TEST_F(FairSeatsTest, WhenTheSeatsGoFirst_NothingIsCalled) {
  make({.seats = 1});
  const auto one = ask("a"), two = ask("b");
  seats_.reset();
  one->seat.leave();
  bool turned = false;
  loop_.post([&] { loop_.post([&] { turned = true; }); });
  ASSERT_TRUE(run_until([&] { return turned; }));
  EXPECT_EQ(two->answers, 0);
}

TEST_F(FairSeatsTest, SE070_TheLevelFollowsFromTheIdentity) {
  EXPECT_EQ(level_of(auth::anonymous_user()), Level::kUnknown);
  EXPECT_EQ(level_of({}), Level::kUnknown);
  auth::UserInfo user;
  user.name = "a";
  EXPECT_EQ(level_of(user), Level::kTenant);
  user.groups = {std::string(auth::kGroupKcpAdmin)};
  EXPECT_EQ(level_of(user), Level::kOperator);
  user.groups = {std::string(auth::kGroupMasters)};
  EXPECT_EQ(level_of(user), Level::kOperator);
  user.groups = {std::string(auth::kGroupExternalLogicalClusterAdmin)};
  EXPECT_EQ(level_of(user), Level::kSystem);
}

TEST_F(FairSeatsTest, SE080_SeatsAreDividedOverTheLoops) {
  EXPECT_EQ(FairSeats::share_of({.seats = 400}, 2).seats, 200U);
  EXPECT_EQ(FairSeats::share_of({.seats = 1}, 2).seats, 1U);
  EXPECT_EQ(FairSeats::share_of({.seats = 0}, 2).seats, 0U) << "no limit stays none";
  EXPECT_EQ(FairSeats::share_of({.seats = 2'048, .total = 4'096}, 2).total, 2'048U);
}

TEST_F(FairSeatsTest, SE080_AllShardsTogetherHaveATotalAndTakeTurnsWhenItIsUsedUp) {
  SharedSeats shared(6);
  std::vector<std::unique_ptr<FairSeats>> shards;
  for (int i = 0; i < 3; ++i) {
    shards.push_back(std::make_unique<FairSeats>(loop_, FairLimits{.seats = 4}, nullptr, &shared));
  }
  std::vector<std::unique_ptr<Asked>> all;
  const auto ask_of = [&](std::size_t shard, std::string_view payer,
                          Level level = Level::kTenant) -> Asked& {
    Asked& one = *all.emplace_back(std::make_unique<Asked>());
    one.got = shards[shard]->enter(one.seat, {level, payer, "lc"}, {}, [&one](Expected<void> room) {
      ++one.answers;
      one.got = room.has_value();
    });
    return one;
  };
  for (int i = 0; i < 8; ++i) {
    (void)ask_of(0, "heavy");
  }
  EXPECT_EQ(shared.total().taken, 4U) << "no more than a shard's own";
  for (int i = 0; i < 8; ++i) {
    (void)ask_of(1, "heavy");
  }
  EXPECT_EQ(shared.total().taken, 6U);
  Asked& light = ask_of(2, "light");
  EXPECT_FALSE(light.got) << "its shard has nothing to do, the process has";
  std::size_t turns = 0;
  ASSERT_TRUE(run_until([&] {
    EXPECT_LE(shared.total().taken, 6U);
    for (const auto& one : all) {  // the oldest ends
      if (one->got && one->seat.runs()) {
        one->seat.leave();
        ++turns;
        break;
      }
    }
    return light.got;
  }));
  EXPECT_LE(turns, 4U) << "of 16 that came earlier";
  shards[0].reset();
  EXPECT_LE(shared.total().taken, 6U) << "what ran there runs no more";
  all.clear();
  EXPECT_EQ(shared.total().taken, 0U);
  shards.clear();
}

TEST_F(FairSeatsTest, SE080_OfTheTotalSomeAreKeptForOperators) {
  SharedSeats shared(40);
  FairSeats one(loop_, {.seats = 100}, nullptr, &shared),
      two(loop_, {.seats = 100}, nullptr, &shared);
  std::deque<Seat> seats;
  std::size_t got = 0;
  for (int i = 0; i < 60; ++i) {
    got += one.enter(seats.emplace_back(), {Level::kTenant, "a", "lc"}, {}, [](Expected<void>) {})
               ? 1U
               : 0U;
  }
  EXPECT_EQ(got, 38U);
  EXPECT_TRUE(
      two.enter(seats.emplace_back(), {Level::kOperator, "o", "lc"}, {}, [](Expected<void>) {}));
  EXPECT_TRUE(
      two.enter(seats.emplace_back(), {Level::kOperator, "o", "lc"}, {}, [](Expected<void>) {}));
  EXPECT_FALSE(
      two.enter(seats.emplace_back(), {Level::kOperator, "o", "lc"}, {}, [](Expected<void>) {}));
}

TEST_F(FairSeatsTest, SE083_ATurnBeginsOnlySoMany_AndWhoComesThenIsNotBehindAll) {
  make({.seats = 1'000, .per_turn = 4});
  std::vector<std::unique_ptr<Asked>> heavy;
  std::unique_ptr<Asked> other;
  std::size_t at_once = 0, begun_before = 0;
  loop_.post([&] {
    for (int i = 0; i < 400; ++i) {
      heavy.push_back(ask("heavy"));
      at_once += heavy.back()->got ? 1U : 0U;
    }
    other = ask("other");
  });
  ASSERT_TRUE(run_until([&] {
    if (other == nullptr || !other->got) {
      begun_before = 0;
      for (const auto& one : heavy) {
        begun_before += one->got ? 1U : 0U;
      }
      return false;
    }
    return true;
  }));
  EXPECT_EQ(at_once, 4U);
  EXPECT_LE(begun_before, 16U) << "of 400 that came earlier";
  ASSERT_TRUE(run_until([&] {
    return std::all_of(heavy.begin(), heavy.end(), [](const auto& one) { return one->got; });
  })) << "nobody is refused while there are seats";
}

TEST_F(FairSeatsTest, SE005_AServerHasFewAtOnceUntilTheyAreOfUse_AndNobodyIsRefused) {
  make({.seats = 100, .least = 2});
  EXPECT_EQ(seats_->queues().open_seats(), 8U);
  std::vector<std::unique_ptr<Asked>> all;
  std::size_t got = 0, answers = 0;
  for (int i = 0; i < 100; ++i) {
    all.push_back(ask("a"));
    got += all.back()->got ? 1U : 0U;
    answers += static_cast<std::size_t>(all.back()->answers);
  }
  EXPECT_EQ(got, 8U);
  EXPECT_EQ(answers, 0U) << "they wait, as many as there are seats by the limits";
  // Each is answered as soon as it runs, in whatever order they come: on a slow machine the window
  // becomes smaller meanwhile, and who has been answered must not keep others from their turn.
  ASSERT_TRUE(run_until([&] {
    std::size_t had = 0;
    for (const auto& one : all) {
      if (one->got && one->seat.runs()) {
        one->seat.answered(false);
        one->seat.leave();
      }
      had += one->got ? 1U : 0U;
    }
    return had == all.size();
  }));
}

}  // namespace
}  // namespace kintsugi::serving
