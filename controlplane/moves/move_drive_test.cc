#include "controlplane/moves/move_drive.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "controlplane/testing/moves.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using testing::cluster_row;
using testing::map_row;
using testing::MoveShard;

using Does = MoveDrive::Does;

/// What a LogicalClusterMigration keeps of a move.
struct Stored {
  MovePhase phase = MovePhase::kPreparing;
  std::int64_t attempt = 0;
  bool over = false;
  std::string failure;
};

/// A move as its driver drives it, in a time of its own.
class DriveTest : public testing::MoveTest {
 protected:
  void forget_drive() { drive_ = std::make_unique<MoveDrive>("uid", stored_.attempt); }
  MoveDrive::Action next() {
    if (drive_ == nullptr || drive_->attempt() != stored_.attempt) {
      forget_drive();
    }
    return drive_->next(stored_.phase, cancelled_, now_);
  }
  Expected<Json> send(const MoveDrive::Action& action) {
    sent_.emplace_back(action.step);
    return run(action.at_origin ? from_ : to_, action.step, action.more, action.migration);
  }
  /// @returns whether the move goes on
  bool store(const MoveDrive::Action& action) {
    if (action.does == Does::kPause) {
      now_ += action.pause;
    } else if (action.does == Does::kEnter) {
      stored_.phase = action.phase;
      stored_.attempt = std::max(stored_.attempt, action.attempt);
    } else if (action.does == Does::kDone) {
      stored_.over = true;
      stored_.failure = action.failure;
    }
    return !stored_.over;
  }
  /// One step, undisturbed.
  bool step() {
    const MoveDrive::Action action = next();
    if (action.does == Does::kAsk) {
      drive_->answered(send(action), now_);
      now_ += milliseconds(1);
      return true;
    }
    return store(action);
  }
  void finish() {
    for (int i = 0; i < 2'000 && step(); ++i) {
    }
    EXPECT_TRUE(stored_.over);
  }
  /// Until the step that is asked for next is this one.
  MoveDrive::Action until(std::string_view step_name) {
    for (int i = 0; i < 500; ++i) {
      MoveDrive::Action action = next();
      if (action.does == Does::kAsk && action.step == step_name) {
        return action;
      }
      if (action.does == Does::kAsk) {
        drive_->answered(send(action), now_);
        now_ += milliseconds(1);
      } else if (!store(action)) {
        break;
      }
    }
    ADD_FAILURE() << step_name << " is never asked for";
    return {};
  }

  TimePoint now_ = loop_.now();
  std::unique_ptr<MoveDrive> drive_;
  Stored stored_;
  bool cancelled_ = false;
  std::vector<std::string> sent_;
};

TEST_F(DriveTest, GR601_AsksInItsOrder) {
  finish();
  EXPECT_EQ(stored_.failure, "");
  EXPECT_EQ(sent_,
            (std::vector<std::string>{"begin", "page", "take", "past", "follow", "fence", "follow",
                                      "ready", "switch", "arrive", "leave", "settle"}));
  EXPECT_TRUE(to_.write(map_row("new"), "{}"));
  EXPECT_FALSE(from_.kept->store.get(cluster_row()));
}

TEST_F(DriveTest, GR604_CopiesNoFasterThanItMay) {
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(from_.write(map_row("m" + std::to_string(i)),
                            "{\"data\":{\"a\":\"" + std::string(200'000, 'x') + "\"}}"));
  }
  const TimePoint start = now_;
  until("fence");
  EXPECT_GE(now_ - start, milliseconds(300));  // 6 MB at 20 MB/s
}

TEST_F(DriveTest, GR604_WritesStopForLessThanAHundredRows) {
  const auto write_many = [&](int count, const std::string& name) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(from_.write(map_row(name), "{\"metadata\":{\"name\":\"" + name + "\"}}"));
      ASSERT_TRUE(from_.write(map_row(name + std::to_string(i % 5)), "{}"));
    }
  };
  MoveDrive::Action action = until("follow");
  write_many(1'500, "many");
  drive_->answered(send(action), now_);
  action = until("take");
  drive_->answered(send(action), now_);
  EXPECT_EQ(next().step, "follow");  // there is more: 2,000 at a time
  until("fence");
  finish();
  EXPECT_EQ(stored_.failure, "");
  EXPECT_TRUE(to_.kept->store.get(map_row("many4")));
}

TEST_F(DriveTest, GR604_AStopThatLastsIsEnded_AndTriedAgainThreeTimes) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    until("ready");
    EXPECT_FALSE(from_.write(map_row("late"), "{}")) << attempt;
    const TimePoint start = now_;
    while (next().step == "ready") {  // the destination does not answer
      drive_->answered(fail(Errc::kUnreachable, "cut"), now_);
      now_ += milliseconds(51);
    }
    EXPECT_LE(now_ - start, milliseconds(5'200)) << attempt;
    const MoveDrive::Action action = next();
    EXPECT_EQ(action.step, "release");
    drive_->answered(send(action), now_);
    EXPECT_TRUE(from_.write(map_row("late"), "{}")) << attempt;
  }
  finish();
  EXPECT_EQ(stored_.failure, "writes would have been refused for more than 5 s: cut");
  EXPECT_EQ(stored_.attempt, 3);
  EXPECT_TRUE(to_.keys("c1").empty());
}

TEST_F(DriveTest, GR604_WhatIsCancelledBeforeItIsGivenAway_Stays) {
  for (const char* where : {"page", "take", "past", "follow", "fence", "ready"}) {
    stored_ = Stored();
    cancelled_ = false;
    drive_ = std::make_unique<MoveDrive>(std::string("uid-") + where, 0);
    until(where);
    cancelled_ = true;
    finish();
    EXPECT_EQ(stored_.failure, "the LogicalClusterMigration was deleted") << where;
    EXPECT_TRUE(from_.write(map_row("after"), "{}")) << where;
    EXPECT_TRUE(to_.keys("c1").empty()) << where;
  }
}

TEST_F(DriveTest, GR604_WhatIsCancelledLater_Moves) {
  until("arrive");
  cancelled_ = true;
  finish();
  EXPECT_EQ(stored_.failure, "");
  EXPECT_TRUE(to_.write(map_row("after"), "{}"));
}

TEST_F(DriveTest, GR601_HistoryThatIsGone_IsCopiedAnew) {
  const MoveDrive::Action action = until("follow");
  ASSERT_TRUE(from_.write(map_row("more"), "{}"));
  ASSERT_TRUE(from_.write(map_row("more"), "{}"));
  from_.kept->store.compact(from_.kept->store.current());
  drive_->answered(send(action), now_);
  EXPECT_EQ(next().step, "begin");
  finish();
  EXPECT_EQ(stored_.failure, "");
  EXPECT_TRUE(to_.kept->store.get(map_row("more")));
}

TEST_F(DriveTest, GR601_ACopyThatIsReady_StaysUntilTheOriginSaysWhoseTheClusterIs) {
  until("switch");
  stored_ = Stored();
  sent_.clear();
  drive_ = std::make_unique<MoveDrive>("second", 0);
  until("page");
  EXPECT_EQ(sent_, (std::vector<std::string>{"begin", "release", "abandon", "begin"}));
  finish();
  EXPECT_EQ(stored_.failure, "");
  EXPECT_TRUE(to_.write(map_row("after"), "{}"));
}

TEST_F(DriveTest, GR601_ALaterMoveDoesNotTakeTheCopyOfOneThatWasGivenAway) {
  until("arrive");
  const Stored first = stored_;
  std::unique_ptr<MoveDrive> driver = std::move(drive_);
  stored_ = Stored();
  drive_ = std::make_unique<MoveDrive>("second", 0);
  finish();
  EXPECT_EQ(stored_.failure, "another migration has moved the logical cluster");
  stored_ = first;
  drive_ = std::move(driver);
  finish();
  EXPECT_EQ(stored_.failure, "");
  EXPECT_TRUE(to_.write(map_row("after"), "{}"));
}

TEST_F(DriveTest, GR601_AMoveThatAnOlderReleaseHasBegun_EndsWhereItIs) {
  stored_.phase = MovePhase::kMigrating;
  from_.put(testing::row_key("facts", "fences", kMovesCluster, "", "c1"),
            R"({"metadata":{"name":"c1"},"migration":"uid","to":"b"})", from_.kept->store);
  for (int i = 0; i < 3; ++i) {  // release, abandon, release
    ASSERT_TRUE(step());
  }
  EXPECT_EQ(sent_, (std::vector<std::string>{"release", "abandon", "release"}));
  EXPECT_TRUE(from_.write(map_row("after"), "{}"));
  finish();  // and then it is moved as it is now
  EXPECT_EQ(stored_.failure, "");
  EXPECT_TRUE(to_.kept->store.get(map_row("after")));
}

/// GR-T601 without processes: whatever is lost, late, twice or forgotten, and whenever.
class Disturbed : public DriveTest {
 protected:
  struct Late {
    bool at_origin;
    std::string step, migration;
    Json more;
  };

  void write() {
    const std::string key = map_row("w" + std::to_string(pick(8)));
    const std::string text = "{\"n\":" + std::to_string(++number_) + "}";
    const bool erases = pick(4) == 0;
    const bool here = erases ? from_.erase(key) : from_.write(key, text);
    const bool there = erases ? to_.erase(key) : to_.write(key, text);
    ASSERT_FALSE(here && there) << "two owners";
    ASSERT_FALSE(here && has_been_there_) << "it has come back";
    has_been_there_ = has_been_there_ || there;
    if (here || there) {
      if (erases) {
        rows_.erase(key);
      } else {
        rows_[key] = text;
      }
    }
  }
  void disturb() {
    switch (pick(40)) {
      case 0:
        forget_drive();
        break;
      case 1:
        from_.restart();
        break;
      case 2:
        to_.restart();
        break;
      case 3:
        now_ += milliseconds(pick(4'000));
        break;
      case 4:
        from_.steps->release_overdue(now_);
        settle();
        break;
      case 5:
        if (!late_.empty()) {
          const Late one = late_[pick(late_.size())];
          static_cast<void>(run(one.at_origin ? from_ : to_, one.step, one.more, one.migration));
        }
        break;
      case 6:
        from_.kept->store.compact(from_.kept->store.current() - pick(3));
        break;
      case 7:
        cancelled_ = cancelled_ || pick(8) == 0;
        break;
      case 8:
        if (to_.kept->store.is_shared()) {
          to_.kept->store.fail_after(pick(8));
          break;
        }
        [[fallthrough]];
      default:
        write();
    }
  }
  void disturbed_step() {
    const MoveDrive::Action action = next();
    now_ += milliseconds(1);
    if (action.does != Does::kAsk) {
      if (pick(10) == 0) {
        forget_drive();  // before it is stored
      } else {
        store(action);
      }
      return;
    }
    late_.push_back({action.at_origin, std::string(action.step), action.migration, action.more});
    const std::size_t fate = pick(20);
    if (fate == 0) {  // never comes there, or late
      drive_->answered(fail(Errc::kUnreachable, "lost"), now_);
      return;
    }
    Expected<Json> answer = send(action);
    if (fate == 1) {  // the answer does not come
      answer = fail(Errc::kDeadline, "lost");
    } else if (fate == 2) {
      answer = send(action);
    } else if (fate == 3) {
      forget_drive();
      return;
    }
    write();
    drive_->answered(answer, now_);
  }
  std::size_t pick(std::size_t below) { return random_() % below; }
  void move_disturbed(unsigned seed);

  std::mt19937 random_;
  std::map<std::string, std::string> rows_;
  std::deque<Late> late_;
  std::int64_t number_ = 0;
  bool has_been_there_ = false;
};

void Disturbed::move_disturbed(unsigned seed) {
  random_.seed(seed);
  for (int i = 0; i < 600 && !stored_.over; ++i) {
    disturb();
    disturbed_step();
    if (HasFatalFailure()) {
      return;
    }
  }
  for (int i = 0; i < 2'000 && step(); ++i) {
  }
  to_.kept->store.fail_no_more();
  std::string last;
  for (std::size_t i = sent_.size() < 12 ? 0 : sent_.size() - 12; i < sent_.size(); ++i) {
    last += sent_[i] + " ";
  }
  ASSERT_TRUE(stored_.over) << last << stored_.attempt;
  // What a late step has fenced ends by itself.
  from_.steps->release_overdue(now_);
  from_.steps->release_overdue(now_ + seconds(6));
  settle();
  const bool moved = stored_.failure.empty();
  MoveShard& owner = moved ? to_ : from_;
  EXPECT_EQ(owner.write(map_row("end"), "{}"), true) << stored_.failure;
  EXPECT_EQ((moved ? from_ : to_).write(map_row("end"), "{}"), false);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::string key = map_row("w" + std::to_string(i));
    const auto row = owner.kept->store.get(key);
    const auto wanted = rows_.find(key);
    ASSERT_EQ(row.has_value(), wanted != rows_.end()) << i;
    if (row) {
      const auto json = apiserver::decode_stored(row->value.view(), "", "", row->modified);
      EXPECT_EQ(integer_of(*json, "n"), integer_of(*Json::parse(wanted->second), "n")) << i;
    }
  }
  for (const Late& one : late_) {  // and nothing that comes late changes it
    static_cast<void>(run(one.at_origin ? from_ : to_, one.step, one.more, one.migration));
  }
  from_.steps->release_overdue(now_ + seconds(7));
  from_.steps->release_overdue(now_ + seconds(14));
  settle();
  EXPECT_EQ(owner.write(map_row("end"), "{}"), true) << stored_.failure;
  EXPECT_EQ((moved ? from_ : to_).write(map_row("end"), "{}"), false);
}

class DisturbedMove : public Disturbed, public ::testing::WithParamInterface<unsigned> {};

TEST_P(DisturbedMove, GR601_HasOneOwnerAlwaysAndAllThatWasAcknowledged) {
  move_disturbed(GetParam());
}

/// To a store of small transactions, where rows arrive in parts.
TEST_P(DisturbedMove, GR604_InPartsToo) {
  to_.kept->store.share(2'000'000'000);
  move_disturbed(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seeds, DisturbedMove, ::testing::Range(0U, 1'000U));

}  // namespace
}  // namespace kintsugi::controlplane
