#include "controlplane/moves/move_steps.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "base/strings.h"
#include "base/time.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/fenced_store.h"
#include "controlplane/moves/internal/move_rows.h"
#include "controlplane/moves/move_book.h"
#include "controlplane/testing/moves.h"
#include "krm/annotations.h"
#include "store/memory/memory_store.h"
#include "store/raise.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

using testing::cluster_row;
using testing::map_row;
using testing::MoveShard;
using testing::row_key;

class MoveStepsTest : public testing::MoveTest {
 protected:
  /// Until the destination has all; what it is asked for then.
  Json copy(std::string_view migration = "mig") {
    EXPECT_TRUE(run(to_, "begin", Json::object(), migration));
    std::int64_t pages = 0, at = 0;
    const auto take = [&](const Json& answer) {
      EXPECT_TRUE(run(to_, "take",
                      Json::object({{"number", pages++}, {"entries", *answer.find("entries")}}),
                      migration));
    };
    std::string next;
    do {
      const auto page =
          run(from_, "page", Json::object({{"continue", next}, {"at", at}}), migration);
      EXPECT_TRUE(page);
      next = page->text({"continue"});
      at = integer_of(*page, "at");
      take(*page);
    } while (!next.empty());
    const auto past = run(from_, "past", Json::object({{"until", at}}), migration);
    EXPECT_TRUE(past);
    if (meanwhile_) {
      meanwhile_();
    }
    const auto fence = run(from_, "fence", Json::object(), migration);
    EXPECT_TRUE(fence);
    const auto last = run(from_, "follow", Json::object({{"after", at}}), migration);
    EXPECT_TRUE(last);
    take(*last);
    Deletions deleted;
    merge(deleted, past->find("deleted"));
    merge(deleted, last->find("deleted"));
    fence_at_ = integer_of(*fence, "at");
    return Json::object({{"pages", pages},
                         {"rows", integer_of(*last, "rows")},
                         {"digest", last->text({"digest"})},
                         {"revision", integer_of(*fence, "revision")},
                         {"floor", integer_of(*past, "floor")},
                         {"deleted", to_json(deleted)}});
  }
  Json fence_at() const { return Json::object({{"at", fence_at_}}); }
  void move(std::string_view migration = "mig") {
    EXPECT_EQ(error(to_, "ready", copy(migration), migration), "");
    EXPECT_EQ(error(from_, "switch", fence_at(), migration), "");
    EXPECT_EQ(error(to_, "arrive", Json::object(), migration), "");
  }

  std::function<void()> meanwhile_;
  std::int64_t fence_at_ = 0;
};

TEST_F(MoveStepsTest, GR601_AllRowsArriveAtOnce_WithTheirContents) {
  meanwhile_ = [&] {  // while it is copied
    EXPECT_TRUE(from_.write(map_row("new"), R"({"metadata":{"name":"new"}})"));
    EXPECT_TRUE(
        from_.write(map_row("m"), R"({"metadata":{"name":"m","uid":"u2"},"data":{"a":"b"}})"));
  };
  const Json all = copy();
  EXPECT_EQ(error(to_, "ready", all), "");
  EXPECT_TRUE(to_.keys("c1").empty());  // nothing is seen before
  EXPECT_EQ(error(from_, "switch", fence_at()), "");
  const auto arrived = run(to_, "arrive");
  ASSERT_TRUE(arrived) << arrived.error().message();
  EXPECT_GT(integer_of(*arrived, "revision"), integer_of(all, "revision"));  // GR-603
  std::set<std::string> wanted = from_.keys("c1");
  wanted.erase(row_key(kinds::kReplicaGroup, kApiExports, "c1", "", "x"));
  EXPECT_EQ(to_.keys("c1"), wanted);
  EXPECT_EQ(to_.get("c1", "", "configmaps", "default", "m")->text({"data", "a"}), "b");
  EXPECT_EQ(to_.get("c1", kCoreGroup, kLogicalClusters, "", kClusterName)
                ->text({"metadata", "annotations", krm::kShardAnnotation}),
            "b");
  EXPECT_TRUE(to_.get(kBoundCluster, kBoundGroup, kApiResourceSchemas, "", "s1"));
  EXPECT_TRUE(to_.keys("c2").empty());
  EXPECT_TRUE(to_.write(map_row("late"), "{}"));
  EXPECT_FALSE(from_.write(map_row("late"), "{}"));
  ASSERT_TRUE(run(from_, "leave"));
  EXPECT_FALSE(from_.get("c1", kCoreGroup, kLogicalClusters, "", kClusterName));
  EXPECT_TRUE(from_.get("c2", "", "configmaps", "default", "other"));
}

TEST_F(MoveStepsTest, GR601_EveryStepCanBeRepeated) {
  ASSERT_TRUE(run(from_, "fence"));
  copy();
  const Json all = copy();  // begins anew: pages of before are gone
  for (int repeated = 0; repeated < 2; ++repeated) {
    EXPECT_EQ(error(to_, "ready", all), "");
    to_.restart();  // and what it has forgotten is in its store
  }
  EXPECT_EQ(error(to_, "begin"), "the copy is ready");
  for (int repeated = 0; repeated < 2; ++repeated) {
    EXPECT_EQ(error(from_, "switch", fence_at()), "");
    EXPECT_TRUE(run(from_, "release")->find("moved")->as_bool());
  }
  for (int repeated = 0; repeated < 2; ++repeated) {
    EXPECT_EQ(error(to_, "arrive"), "");
    EXPECT_TRUE(run(to_, "begin")->find("arrived")->as_bool());
    EXPECT_TRUE(run(to_, "abandon")->find("arrived")->as_bool());
  }
  for (int repeated = 0; repeated < 2; ++repeated) {
    EXPECT_EQ(error(from_, "leave"), "");
    EXPECT_TRUE(run(from_, "release")->find("moved")->as_bool());
  }
}

TEST_F(MoveStepsTest, GR601_WhatTheOriginHasTakenBackIsNotGivenAway) {
  EXPECT_EQ(error(to_, "ready", copy()), "");
  EXPECT_FALSE(run(from_, "release")->find("moved")->as_bool());
  EXPECT_TRUE(from_.write(map_row("after"), "{}"));
  EXPECT_EQ(error(from_, "switch", fence_at()), "the logical cluster takes writes");
  ASSERT_TRUE(run(from_, "fence"));  // of the same try, later than all else
  EXPECT_EQ(error(from_, "switch", fence_at()), "the logical cluster took writes meanwhile");
  EXPECT_EQ(error(from_, "leave"), "the logical cluster was not to leave");
  EXPECT_FALSE(run(to_, "abandon")->find("arrived")->as_bool());
  EXPECT_EQ(error(to_, "arrive"), "the copy is not complete");
  EXPECT_EQ(error(to_, "begin"), "the move was abandoned");
  EXPECT_TRUE(to_.keys("c1").empty());
  EXPECT_TRUE(run(to_, "begin", Json::object(), "second"));
}

TEST_F(MoveStepsTest, GR601_ACopyThatIsNotTheOriginsIsRefused) {
  Json all = copy();
  const std::string right(all.text({"digest"}));
  all["digest"] = "1";
  EXPECT_EQ(error(to_, "ready", all), "the copy is not what the origin has");
  all["digest"] = right;
  all["pages"] = integer_of(all, "pages") + 1;
  EXPECT_EQ(error(to_, "ready", all), "the copy is not what the origin has");
  all["pages"] = integer_of(all, "pages") - 1;
  EXPECT_EQ(error(to_, "ready", all), "");
}

TEST_F(MoveStepsTest, GR604_AFenceEndsByItselfAfterFiveSeconds) {
  const TimePoint start = loop_.now();
  EXPECT_EQ(error(to_, "ready", copy()), "");
  from_.steps->release_overdue(start);
  from_.steps->release_overdue(start + milliseconds(4'900));
  settle();
  EXPECT_FALSE(from_.write(map_row("late"), "{}"));
  from_.restart();  // counts anew
  from_.steps->release_overdue(start + milliseconds(5'000));
  settle();
  EXPECT_FALSE(from_.write(map_row("late"), "{}"));
  from_.steps->release_overdue(start + milliseconds(10'000));
  settle();
  EXPECT_TRUE(from_.write(map_row("late"), "{}"));
  EXPECT_EQ(error(from_, "switch", fence_at()), "the logical cluster takes writes");

  ASSERT_TRUE(run(to_, "abandon"));
  EXPECT_EQ(error(to_, "ready", copy("second"), "second"), "");
  ASSERT_TRUE(run(from_, "switch", fence_at(), "second"));
  from_.steps->release_overdue(start + milliseconds(11'000));
  from_.steps->release_overdue(start + milliseconds(60'000));
  settle();
  EXPECT_FALSE(from_.write(map_row("late"), "{}"));  // that one is not its own any more
}

TEST_F(MoveStepsTest, GR601_AFenceOfAnOlderReleaseIsTheDestinationsToEnd) {
  from_.put(row_key("facts", "fences", kMovesCluster, "", "c1"),
            R"({"metadata":{"name":"c1"},"migration":"mig","to":"b"})", from_.kept->store);
  from_.steps->release_overdue(loop_.now());
  from_.steps->release_overdue(loop_.now() + seconds(60));
  settle();
  EXPECT_FALSE(from_.write(map_row("late"), "{}"));
  EXPECT_TRUE(run(from_, "release")->find("ask")->as_bool());
  EXPECT_FALSE(from_.write(map_row("late"), "{}"));
  EXPECT_FALSE(run(to_, "abandon")->find("arrived")->as_bool());
  EXPECT_EQ(error(from_, "release", Json::object({{"abandoned", true}})), "");
  EXPECT_TRUE(from_.write(map_row("late"), "{}"));
}

TEST_F(MoveStepsTest, GR603_SaysFromWhereWatchesGoOn) {
  ASSERT_TRUE(from_.write(map_row("gone"), "{}"));
  const store::Revision before = from_.kept->store.current();
  ASSERT_TRUE(from_.erase(map_row("gone")));
  const store::Revision deleted = from_.kept->store.current();
  meanwhile_ = [&] { EXPECT_TRUE(from_.write(map_row("later"), "{}")); };
  move();
  const auto arrival = read_arrival(*to_.get(kMovesCluster, "facts", "arrivals", "", "c1"));
  EXPECT_GT(arrival.revision, from_.kept->store.current() + 1'000'000 - 1);
  ASSERT_TRUE(arrival.resume.contains("configmaps"));
  EXPECT_GT(arrival.resume.at("configmaps"), before);
  EXPECT_EQ(arrival.resume.at("configmaps"), deleted);
  EXPECT_EQ(arrival.resume.at("apibindings.apis.kcp.io"), 1U);
  EXPECT_FALSE(arrival.resume.contains("secrets"));  // nothing of it was copied
  ASSERT_TRUE(run(to_, "settle"));
  EXPECT_EQ(read_arrival(*to_.get(kMovesCluster, "facts", "arrivals", "", "c1")).resume,
            arrival.resume);
}

TEST_F(MoveStepsTest, GR601_WhatIsOverIsForgottenAfterADay) {
  const auto rows = [](const MoveShard& shard) { return shard.keys(kMovesCluster).size(); };
  const auto drop = [&](MoveShard& shard, std::int64_t hours) {
    shard.steps->drop_ended(unix_seconds() + hours * 3600);
    settle();
  };
  move();
  EXPECT_EQ(error(from_, "settle"), "");
  EXPECT_EQ(error(to_, "settle", Json::object(), "second"), "");
  drop(to_, 25);
  EXPECT_EQ(rows(to_), 1U);  // whoever drives the move may not know yet
  const auto arrived = read_arrival(*to_.get(kMovesCluster, "facts", "arrivals", "", "c1"));
  for (int repeated = 0; repeated < 2; ++repeated) {
    ASSERT_TRUE(run(to_, "settle"));
    const auto row = read_arrival(*to_.get(kMovesCluster, "facts", "arrivals", "", "c1"));
    EXPECT_TRUE(row.settled);
    EXPECT_EQ(row.revision, arrived.revision);
  }
  drop(to_, 25);
  EXPECT_EQ(rows(to_), 1U);  // its store can still be asked for what was before
  to_.kept->store.compact(to_.kept->store.current());
  drop(to_, 23);
  EXPECT_EQ(rows(to_), 1U);
  drop(to_, 25);
  EXPECT_EQ(rows(to_), 0U);
  EXPECT_FALSE(to_.keys("c1").empty());
  EXPECT_EQ(error(to_, "settle"), "");

  drop(from_, 25);
  EXPECT_EQ(rows(from_), 1U);  // not left
  ASSERT_TRUE(run(from_, "leave"));
  drop(from_, 25);
  EXPECT_EQ(rows(from_), 1U);  // not swept
  for (const std::string& key : from_.keys("c1")) {
    if (key == row_key(kinds::kReplicaGroup, kApiExports, "c1", "", "x")) {
      continue;  // of a cluster that lives elsewhere
    }
    store::Op op;
    op.type = store::EventType::kDelete;
    op.key = key;
    ASSERT_TRUE(from_.kept->store.commit_wait({op}));
  }
  drop(from_, 23);
  EXPECT_EQ(rows(from_), 1U);
  drop(from_, 25);
  EXPECT_EQ(rows(from_), 0U);
  EXPECT_EQ(error(from_, "leave"), "");

  ASSERT_TRUE(run(from_, "begin", Json::object(), "back"));
  drop(from_, 25);
  EXPECT_EQ(rows(from_), 1U);
  EXPECT_EQ(error(from_, "settle", Json::object(), "back"), "the logical cluster has not arrived");
  ASSERT_TRUE(run(from_, "abandon", Json::object(), "back"));
  drop(from_, 23);
  EXPECT_EQ(rows(from_), 1U);
  drop(from_, 25);
  EXPECT_EQ(rows(from_), 0U);
}

TEST_F(MoveStepsTest, GR602_NothingIsWrittenBehindTheFence) {
  EXPECT_TRUE(from_.write(map_row("before"), "{}"));
  ASSERT_TRUE(run(from_, "fence"));
  store::Op op;
  op.key = map_row("late");
  op.value = apiserver::encode_stored(Json::object());
  const auto refused = from_.kept->fenced.commit_wait({op});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnavailable);
  EXPECT_EQ(refused.error().message(), "logical cluster is being migrated");
  EXPECT_GT(from_.put(row_key("", "configmaps", "c2", "default", "late"), "{}", from_.kept->fenced),
            0U);
  op.expected = 77;  // its own expectation is told first
  const auto conflict = from_.kept->fenced.commit_wait({op});
  ASSERT_TRUE(conflict);
  EXPECT_TRUE(conflict->conflict);
}

TEST_F(MoveStepsTest, KK211_WhatMayNotMove) {
  for (const char* cluster : {"root", "system:admin", "*", ""}) {
    EXPECT_FALSE(can_move(cluster)) << cluster;
    EXPECT_FALSE(run(from_, "fence", Json::object(), "mig", cluster));
  }
  EXPECT_EQ(error(to_, "fence"), "the logical cluster is not here");
  from_.put(cluster_row(), R"({"metadata":{"name":"cluster"},"status":{"phase":"Initializing"}})",
            from_.kept->store);
  EXPECT_EQ(error(from_, "fence"), "the logical cluster is not Ready");
  EXPECT_EQ(error(from_, "begin"), "the destination has a logical cluster of this name");
  EXPECT_EQ(error(from_, "switch"), "the logical cluster takes writes");
  EXPECT_EQ(error(to_, "page"), "the logical cluster is not here, or is being deleted");
  EXPECT_EQ(error(to_, "take", Json::object({{"number", 0}, {"entries", Json::array()}})),
            "the logical cluster is not expected");
  EXPECT_EQ(error(to_, "ready"), "the logical cluster is not expected");
  EXPECT_EQ(error(from_, "leave"), "the logical cluster was not to leave");
}

TEST_F(MoveStepsTest, GR601_OnlyOneMoveAtATime) {
  ASSERT_TRUE(run(from_, "fence"));
  EXPECT_EQ(error(from_, "fence", Json::object(), "second"),
            "the logical cluster is being moved by another migration");
  EXPECT_TRUE(run(from_, "release", Json::object(), "second"));
  EXPECT_FALSE(from_.write(map_row("late"), "{}"));
  EXPECT_EQ(error(from_, "switch", Json::object(), "second"), "the logical cluster takes writes");
}

TEST_F(MoveStepsTest, GR601_APageBringsNobodyElsesRows) {
  const auto take = [&](const std::string& key) {
    EXPECT_TRUE(run(to_, "begin"));
    const Json entry = Json::object({{"key", base64_encode(key)}, {"value", base64_encode("x")}});
    EXPECT_TRUE(run(to_, "take", Json::object({{"number", 0}, {"entries", Json::array({entry})}})));
    return error(to_, "ready", Json::object({{"pages", 1}, {"rows", 0}, {"digest", "0"}}));
  };
  for (const std::string& key :
       {row_key("", "configmaps", "c2", "default", "m"),
        row_key(kinds::kReplicaGroup, kApiExports, "c1", "", "x"), std::string("nothing"),
        row_key("facts", "fences", kMovesCluster, "", "c2")}) {
    EXPECT_EQ(take(key), "the copy is not what the origin has");
  }
  EXPECT_TRUE(to_.keys("c2").empty());
}

TEST_F(MoveStepsTest, GR601_WhatIsTooMuchForTheDestinationIsSaidBeforeItIsGivenAway) {
  for (int i = 0; i < 120; ++i) {  // its transactions have at most 100
    ASSERT_TRUE(from_.write(map_row("m" + std::to_string(i)), "{}"));
  }
  EXPECT_EQ(error(to_, "ready", copy()),
            "the logical cluster is too large to be moved to this shard");
}

/// On etcd, where a transaction takes few rows.
class MoveInParts : public MoveStepsTest {
 protected:
  static constexpr std::size_t kRows = 64;
  void SetUp() override {
    to_.kept->store.share(2'000'000);
    for (int i = 0; i < 60; ++i) {
      EXPECT_TRUE(from_.write(map_row("m" + std::to_string(i)), R"({"metadata":{"name":"m"}})"));
    }
  }
  Arrival arrival() const {
    return read_arrival(*to_.get(kMovesCluster, "facts", "arrivals", "", "c1"));
  }
  std::vector<store::Revision> revisions() const {
    std::vector<store::Revision> out;
    for (const std::string& key : to_.keys("c1")) {
      out.push_back(to_.kept->store.get(key)->modified);
    }
    return out;
  }
};

TEST_F(MoveInParts, GR604_AllRowsArrive_BehindTheRevisionWhereWatchesGoOn) {
  move();
  EXPECT_EQ(to_.keys("c1").size(), kRows);
  EXPECT_TRUE(to_.get("c1", kCoreGroup, kLogicalClusters, "", kClusterName));
  const Arrival came = arrival();
  EXPECT_GT(came.begins, 2'000'000U);
  for (const store::Revision revision : revisions()) {
    EXPECT_GT(revision, came.begins);
    EXPECT_LE(revision, came.revision);
  }
  EXPECT_TRUE(to_.write(map_row("m1"), R"({"metadata":{"name":"m"},"n":1})"));
  EXPECT_FALSE(to_.kept->store.get(move_key(kFences, "c1")));
  ASSERT_TRUE(run(to_, "settle"));
  EXPECT_TRUE(to_.keys(kMovesCluster) == std::set<std::string>{move_key(kArrivals, "c1")});
  EXPECT_EQ(arrival().begins, came.begins);
  EXPECT_EQ(arrival().revision, came.revision);
}

TEST_F(MoveInParts, GR601_WhatIsHalfThereIsNobodysToWrite_AndGoesOnWhereItWas) {
  EXPECT_EQ(error(to_, "ready", copy()), "");
  EXPECT_EQ(error(from_, "switch", fence_at()), "");
  to_.kept->store.fail_after(6);
  EXPECT_EQ(error(to_, "arrive"), "it is away");
  const auto half = to_.keys("c1");
  ASSERT_GT(half.size(), 10U);
  ASSERT_LT(half.size(), 60U);
  EXPECT_FALSE(to_.kept->store.get(cluster_row()));
  // As the controllers of the shard that it comes to.
  EXPECT_EQ(to_.put(*half.begin(), R"({"metadata":{"name":"m"},"n":1})", to_.kept->fenced), 0U);
  const store::Revision before = to_.kept->store.current();
  to_.restart();
  EXPECT_EQ(error(to_, "arrive"), "");
  EXPECT_EQ(to_.keys("c1").size(), kRows);
  for (const std::string& key : half) {
    EXPECT_LE(to_.kept->store.get(key)->modified, before) << "written once";
  }
  EXPECT_TRUE(to_.write(map_row("m1"), R"({"metadata":{"name":"m"},"n":1})"));
  EXPECT_EQ(error(to_, "arrive"), "") << "late, and again";
  EXPECT_TRUE(to_.get("c1", "", "configmaps", "default", "m1")->find("n"));
}

TEST_F(MoveInParts, GR601_WhatWasLeftFromAnEarlierStayGoesFirst) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_NE(to_.put(map_row("old" + std::to_string(i)), "{}", to_.kept->store), 0U);
  }
  move();
  EXPECT_EQ(to_.keys("c1").size(), kRows);
  const auto changes = to_.kept->store.changes("", arrival().begins, 1'000);
  ASSERT_TRUE(changes);
  for (const store::Event& event : changes->events) {
    EXPECT_TRUE(event.type == store::EventType::kPut || event.key == move_key(kFences, "c1"))
        << event.key;
  }
}

TEST_F(MoveInParts, GR604_TooManyRowsAreSaidBeforeItIsGivenAway) {
  const auto begun = run(to_, "begin");
  ASSERT_TRUE(begun);
  EXPECT_EQ(integer_of(*begun, "most"), 20'000);
}

TEST_F(MoveStepsTest, GR601_WhenItComesBack_WhatWasLeftThereIsReplaced) {
  move();
  ASSERT_TRUE(run(from_, "leave"));  // and the rest is not swept yet
  ASSERT_TRUE(
      to_.write(row_key("", "secrets", "c1", "default", "s"), R"({"metadata":{"name":"s"}})"));
  ASSERT_TRUE(to_.erase(map_row("m")));
  from_.swap(to_);
  move("back");
  EXPECT_TRUE(to_.get("c1", "", "secrets", "default", "s"));
  EXPECT_FALSE(to_.get("c1", "", "configmaps", "default", "m"));
  EXPECT_TRUE(to_.write(map_row("n"), "{}"));
}

TEST(RaisedRevision, GR603_TheNextTransactionIsBehindTheNumber) {
  store::MemoryStore store;
  store::Op op;
  op.key = "k";
  const store::Revision first = store.commit_wait({op})->revision;
  const store::Revision raised = store.commit_wait({op, store::raise_to(first + 1'000)})->revision;
  EXPECT_EQ(raised, first + 1'001);
  EXPECT_EQ(store.commit_wait({op, store::raise_to(5)})->revision, raised + 1);
  EXPECT_EQ(store.current(), raised + 1);
  EXPECT_FALSE(store.get(store::kRaiseKey));
}

}  // namespace
}  // namespace kintsugi::controlplane
