#include "controlplane/moves/move_steps.h"

#include <gtest/gtest.h>

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
#include "controlplane/moves/move_book.h"
#include "krm/annotations.h"
#include "store/memory/memory_store.h"
#include "store/raise.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

std::string row_key(std::string_view group, std::string_view plural, std::string_view cluster,
                    std::string_view ns, std::string_view name) {
  return *apiserver::object_key(apiserver::stored_resource(group, plural), cluster, ns, name);
}

/// One shard: its store, and the steps over it.
struct Shard final : apiserver::ObjectReader {
  Shard(net::Loop& loop, std::string name)
      : steps(loop, {std::move(name), store, [this]() -> const ObjectReader& { return *this; }}) {}

  std::optional<Json> get(std::string_view cluster, std::string_view group,
                          std::string_view resource, std::string_view ns,
                          std::string_view name) const override {
    const auto entry = store.get(row_key(group, resource, cluster, ns, name));
    return entry ? std::optional<Json>(
                       *apiserver::decode_stored(entry->value.view(), "v1", "K", entry->modified))
                 : std::nullopt;
  }
  void list(std::string_view cluster, std::string_view group, std::string_view resource,
            std::string_view ns, const std::function<bool(const Json&)>& visit) const override {
    store::RangeQuery query;
    query.prefix =
        apiserver::collection_prefix(apiserver::stored_resource(group, resource), cluster, ns);
    static_cast<void>(store.range(query, [&](const store::EntryView& entry) {
      return visit(*apiserver::decode_stored(entry.value, "v1", "K", entry.modified));
    }));
  }
  store::Revision put(const std::string& key, std::string_view text, store::Store& through) {
    store::Op op;
    op.key = key;
    op.value = apiserver::encode_stored(*Json::parse(text));
    const auto result = through.commit_wait({op});
    return result ? result->revision : 0;
  }
  [[nodiscard]] std::set<std::string> keys(std::string_view cluster) const {
    std::set<std::string> out;
    static_cast<void>(store.range({}, [&](const store::EntryView& entry) {
      if (const auto parts = apiserver::parse_key(entry.key); parts && parts->cluster == cluster) {
        out.emplace(entry.key);
      }
      return true;
    }));
    return out;
  }

  store::MemoryStore store;
  MoveSteps steps;
};

class MoveStepsTest : public ::testing::Test {
 protected:
  MoveStepsTest() {
    from_.put(lc_key(),
              R"({"metadata":{"name":"cluster","uid":"u1","annotations":{"core.kcp.io/shard":"a"}},
                            "status":{"phase":"Ready"}})",
              from_.store);
    from_.put(row_key("", "configmaps", "c1", "default", "m"),
              R"({"metadata":{"name":"m","uid":"u2"}})", from_.store);
    from_.put(row_key("", "configmaps", "c2", "default", "other"),
              R"({"metadata":{"name":"other"}})", from_.store);
    from_.put(row_key(kinds::kReplicaGroup, kApiExports, "c1", "", "x"),
              R"({"metadata":{"name":"x"}})", from_.store);
    from_.put(row_key("facts", "workspaces", "c1", "", "w"),
              R"({"metadata":{"name":"w"},"shard":"a"})", from_.store);
    from_.put(row_key(kApisGroup, kApiBindings, "c1", "", "b"),
              R"({"metadata":{"name":"b"},"status":{"boundResources":[{"schema":{"UID":"s1"}}]}})",
              from_.store);
    from_.put(row_key(kBoundGroup, kApiResourceSchemas, kBoundCluster, "", "s1"),
              R"({"metadata":{"name":"v1.a.b"}})", from_.store);
  }
  static std::string lc_key() {
    return row_key(kCoreGroup, kLogicalClusters, "c1", "", kClusterName);
  }
  Expected<Json> run(Shard& shard, std::string_view step, Json more = Json::object(),
                     std::string_view migration = "mig", const std::string& cluster = "c1") {
    more["step"] = step;
    more["migration"] = migration;
    more["from"] = "a";
    more["to"] = "b";
    std::optional<Expected<Json>> out;
    bool waits = false;
    shard.steps.run(cluster, more, [&](Expected<Json> answer) {
      out = std::move(answer);
      if (waits) {
        loop_.stop();
      }
    });
    if (!out) {
      waits = true;
      loop_.run();
    }
    return out ? std::move(*out) : Expected<Json>(fail(Errc::kInternal, "no answer"));
  }
  std::string error(Shard& shard, std::string_view step, Json more = Json::object(),
                    std::string_view migration = "mig") {
    const Expected<Json> out = run(shard, step, std::move(more), migration);
    return out ? "" : std::string(out.error().message());
  }
  std::int64_t copy() {
    EXPECT_TRUE(run(to_, "begin"));
    const Expected<Json> fence = run(from_, "fence");
    EXPECT_TRUE(fence);
    std::int64_t pages = 0;
    std::string next;
    do {
      const Expected<Json> page = run(from_, "page", Json::object({{"continue", next}}));
      EXPECT_TRUE(page);
      next = page->text({"continue"});
      EXPECT_TRUE(run(to_, "take",
                      Json::object({{"number", pages++}, {"entries", *page->find("entries")}})));
    } while (!next.empty());
    pages_ = pages;
    return fence->find("revision")->as_integer();
  }
  Json arrival_of(std::int64_t revision) const {
    return Json::object({{"pages", pages_}, {"revision", revision}});
  }

  net::Loop loop_{"moves"};
  Shard from_{loop_, "a"}, to_{loop_, "b"};
  std::int64_t pages_ = 0;
};

TEST_F(MoveStepsTest, GR601_AllRowsArriveAtOnce_WithTheirContents) {
  const std::int64_t revision = copy();
  EXPECT_TRUE(to_.keys("c1").empty());  // nothing is seen before
  const auto arrived = run(to_, "arrive", arrival_of(revision));
  ASSERT_TRUE(arrived) << arrived.error().message();
  EXPECT_GT(arrived->find("revision")->as_integer(), revision);  // GR-603
  std::set<std::string> wanted = from_.keys("c1");
  wanted.erase(row_key(kinds::kReplicaGroup, kApiExports, "c1", "", "x"));
  EXPECT_EQ(to_.keys("c1"), wanted);
  EXPECT_EQ(to_.get("c1", "", "configmaps", "default", "m")->text({"metadata", "uid"}), "u2");
  EXPECT_EQ(to_.get("c1", kCoreGroup, kLogicalClusters, "", kClusterName)
                ->text({"metadata", "annotations", krm::kShardAnnotation}),
            "b");
  EXPECT_TRUE(to_.get(kBoundCluster, kBoundGroup, kApiResourceSchemas, "", "s1"));
  EXPECT_TRUE(to_.keys("c2").empty());
  ASSERT_TRUE(run(from_, "leave"));
  EXPECT_FALSE(from_.get("c1", kCoreGroup, kLogicalClusters, "", kClusterName));
  EXPECT_TRUE(from_.get("c2", "", "configmaps", "default", "other"));
}

TEST_F(MoveStepsTest, GR601_EveryStepCanBeRepeated) {
  ASSERT_TRUE(run(to_, "begin"));
  ASSERT_TRUE(run(from_, "fence"));
  ASSERT_TRUE(run(from_, "fence"));
  const std::int64_t revision = copy();  // begins anew: pages of before are gone
  ASSERT_TRUE(run(to_, "arrive", arrival_of(revision)));
  const auto again = run(to_, "arrive", arrival_of(revision));
  ASSERT_TRUE(again);
  const auto begun = run(to_, "begin");
  ASSERT_TRUE(begun);
  EXPECT_TRUE(begun->find("arrived")->as_bool());
  ASSERT_TRUE(run(from_, "leave"));
  ASSERT_TRUE(run(from_, "leave"));
  EXPECT_EQ(error(from_, "release"), "the logical cluster has left");
  const auto abandoned = run(to_, "abandon");
  ASSERT_TRUE(abandoned);
  EXPECT_TRUE(abandoned->find("arrived")->as_bool());
}

TEST_F(MoveStepsTest, GR601_WhatIsAbandonedNeverArrives) {
  const std::int64_t revision = copy();
  const auto abandoned = run(to_, "abandon");
  ASSERT_TRUE(abandoned);
  EXPECT_FALSE(abandoned->find("arrived")->as_bool());
  EXPECT_EQ(error(to_, "arrive", arrival_of(revision)), "the move was abandoned");
  EXPECT_EQ(error(to_, "begin"), "the move was abandoned");
  EXPECT_TRUE(to_.keys("c1").empty());
  ASSERT_TRUE(run(from_, "release"));
  FencedStore fenced(from_.store);
  EXPECT_GT(from_.put(row_key("", "configmaps", "c1", "default", "after"), "{}", fenced), 0U);
  // Another try is another migration.
  EXPECT_TRUE(run(to_, "begin", Json::object(), "second"));
}

TEST_F(MoveStepsTest, GR601_WhatIsOverIsForgottenAfterADay) {
  const auto rows = [](const Shard& shard) { return shard.keys(kMovesCluster).size(); };
  const auto drop = [&](Shard& shard, std::int64_t hours) {
    shard.steps.drop_ended(unix_seconds() + hours * 3600);
    loop_.after(milliseconds(0), [&] { loop_.post([&] { loop_.stop(); }); });
    loop_.run();
  };
  ASSERT_TRUE(run(to_, "arrive", arrival_of(copy())));
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
  to_.store.compact(to_.store.current());
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
    ASSERT_TRUE(from_.store.commit_wait({op}));
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
  FencedStore fenced(from_.store);
  EXPECT_GT(from_.put(row_key("", "configmaps", "c1", "default", "before"), "{}", fenced), 0U);
  ASSERT_TRUE(run(from_, "fence"));
  store::Op op;
  op.key = row_key("", "configmaps", "c1", "default", "late");
  op.value = apiserver::encode_stored(Json::object());
  const auto refused = fenced.commit_wait({op});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnavailable);
  EXPECT_EQ(refused.error().message(), "logical cluster is being migrated");
  EXPECT_GT(from_.put(row_key("", "configmaps", "c2", "default", "late"), "{}", fenced), 0U);
  op.expected = 77;  // its own expectation is told first
  const auto conflict = fenced.commit_wait({op});
  ASSERT_TRUE(conflict);
  EXPECT_TRUE(conflict->conflict);
}

TEST_F(MoveStepsTest, KK211_WhatMayNotMove) {
  for (const char* cluster : {"root", "system:admin", "*", ""}) {
    EXPECT_FALSE(can_move(cluster)) << cluster;
    EXPECT_FALSE(run(from_, "fence", Json::object(), "mig", cluster));
  }
  EXPECT_EQ(error(to_, "fence"), "the logical cluster is not here");
  from_.put(lc_key(), R"({"metadata":{"name":"cluster"},"status":{"phase":"Initializing"}})",
            from_.store);
  EXPECT_EQ(error(from_, "fence"), "the logical cluster is not Ready");
  EXPECT_EQ(error(from_, "begin"), "the destination has a logical cluster of this name");
  EXPECT_EQ(error(from_, "page"), "the logical cluster takes writes");
  EXPECT_EQ(error(to_, "take", Json::object({{"number", 0}, {"entries", Json::array()}})),
            "the logical cluster is not expected");
  EXPECT_EQ(error(from_, "leave"), "the logical cluster was not to leave");
}

TEST_F(MoveStepsTest, GR601_OnlyOneMoveAtATime) {
  ASSERT_TRUE(run(from_, "fence"));
  EXPECT_EQ(error(from_, "fence", Json::object(), "second"),
            "the logical cluster is being moved by another migration");
  EXPECT_TRUE(run(from_, "release", Json::object(), "second"));
  EXPECT_EQ(error(from_, "page", Json::object(), "second"), "the logical cluster takes writes");
  EXPECT_TRUE(run(from_, "page"));
}

TEST_F(MoveStepsTest, GR601_APageBringsNobodyElsesRows) {
  const auto take = [&](const std::string& key) {
    EXPECT_TRUE(run(to_, "begin"));
    const Json entry = Json::object({{"key", base64_encode(key)}, {"value", base64_encode("x")}});
    EXPECT_TRUE(run(to_, "take", Json::object({{"number", 0}, {"entries", Json::array({entry})}})));
    return error(to_, "arrive", Json::object({{"pages", 1}, {"revision", 5}}));
  };
  for (const std::string& key :
       {row_key("", "configmaps", "c2", "default", "m"),
        row_key(kinds::kReplicaGroup, kApiExports, "c1", "", "x"), std::string("nothing"),
        row_key("facts", "fences", kMovesCluster, "", "c2")}) {
    EXPECT_EQ(take(key), "the copy is not complete");
  }
  EXPECT_TRUE(to_.keys("c2").empty());
}

TEST_F(MoveStepsTest, GR601_WhenItComesBack_WhatWasLeftThereIsReplaced) {
  ASSERT_TRUE(run(to_, "arrive", arrival_of(copy())));
  ASSERT_TRUE(run(from_, "leave"));  // and the rest is not swept yet
  FencedStore fenced(to_.store);
  ASSERT_GT(
      to_.put(row_key("", "secrets", "c1", "default", "s"), R"({"metadata":{"name":"s"}})", fenced),
      0U);
  store::Op gone;
  gone.type = store::EventType::kDelete;
  gone.key = row_key("", "configmaps", "c1", "default", "m");
  ASSERT_TRUE(fenced.commit_wait({gone}));
  ASSERT_TRUE(run(from_, "begin", Json::object(), "back"));
  const Expected<Json> fence = run(to_, "fence", Json::object(), "back");
  ASSERT_TRUE(fence);
  const Expected<Json> page = run(to_, "page", Json::object(), "back");
  ASSERT_TRUE(page);
  ASSERT_TRUE(run(from_, "take", Json::object({{"number", 0}, {"entries", *page->find("entries")}}),
                  "back"));
  ASSERT_TRUE(run(from_, "arrive",
                  Json::object({{"pages", 1}, {"revision", *fence->find("revision")}}), "back"));
  EXPECT_TRUE(from_.get("c1", "", "secrets", "default", "s"));
  EXPECT_FALSE(from_.get("c1", "", "configmaps", "default", "m"));
  FencedStore open(from_.store);
  EXPECT_GT(from_.put(row_key("", "configmaps", "c1", "default", "n"), "{}", open), 0U);
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
