#include "workers/runtime/reflector/object_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "net/task.h"

// Event by event: the bytes of a watch go through the informer's machine into the cache.
namespace kintsugi::workers {
namespace {

using shards::InformerFsm;
using shards::ObjectKey;
using Log = std::vector<std::string>;

struct Thing {
  std::string color;
  std::vector<std::string> owners;
};

Projection<Thing> projection() {
  Projection<Thing> result;
  result.make = [](const ObjectKey&, const krm::Json& object) {
    Thing thing;
    thing.color = object.text({"spec", "color"});
    if (const krm::Json* owners = object.at({"spec", "owners"})) {
      for (const krm::Json& one : owners->items()) {
        thing.owners.emplace_back(one.as_string());
      }
    }
    return thing;
  };
  result.indexes.push_back(
      {"color", [](const ObjectKey& key, const Thing& thing, IndexValues& values) {
         values.add(std::string(key.cluster) + "|" + thing.color);
       }});
  result.indexes.push_back({"owner", [](const ObjectKey&, const Thing& thing, IndexValues& values) {
                              for (const std::string& one : thing.owners) {
                                values.add(one);
                              }
                            }});
  return result;
}

std::string object(const std::string& name, int revision, const std::string& color,
                   const std::string& owners = "", const std::string& uid = "u",
                   const std::string& cluster = "one") {
  return R"({"kind":"Thing","metadata":{"name":")" + name + R"(","namespace":"ns","uid":")" + uid +
         R"(","resourceVersion":")" + std::to_string(revision) +
         R"(","annotations":{"kcp.io/cluster":")" + cluster + R"("}},"spec":{"color":")" + color +
         R"(","owners":[)" + owners + "]}}";
}
std::string event(const std::string& type, const std::string& what) {
  return R"({"type":")" + type + R"(","object":)" + what + "}\n";
}
const std::string kEnd = R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"10",)"
                         R"("annotations":{"k8s.io/initial-events-end":"true"}}}})"
                         "\n";

class Cached {
 public:
  explicit Cached(Projection<Thing> kept = projection())
      : cache(std::move(kept), "root"), fsm(shards::reflector_params("/t", "Thing"), cache) {
    cache.attach(fsm.keys());
    cache.add_handler([this](const CacheChange& change) { note(change); });
    (void)fsm.start(now);
    (void)fsm.on_head(200, 0, now);
  }
  void note(const CacheChange& change) {
    const char* const kinds = "+~-";
    log.push_back(kinds[static_cast<int>(change.kind)] + std::string(change.key.cluster) + "/" +
                  std::string(change.key.name) + (change.initial ? " initial" : "") +
                  (change.echo    ? " echo"
                   : change.minor ? " minor"
                                  : ""));
  }
  void data(const std::string& bytes) { (void)fsm.on_data(bytes, now); }
  void lay(const std::string& text) { cache.lay(*krm::Json::parse(text), now); }
  /// "" : none, "?" : unknown.
  [[nodiscard]] std::string color(const std::string& name, const std::string& cluster = "one") {
    const auto at = cache.find({cluster, "ns", name});
    return !at ? "?" : *at == nullptr ? "" : (*at)->color;
  }
  [[nodiscard]] std::multiset<std::string> by(std::size_t index, const std::string& value) {
    std::multiset<std::string> names;
    EXPECT_TRUE(cache.lookup(index, value, [&](const ObjectKey& key, const Thing&) {
      names.insert(std::string(key.cluster) + "/" + std::string(key.name));
    }));
    return names;
  }
  void tick() {
    for (const auto& call : cache.due(now)) {
      call();
    }
  }

  Log log;
  TimePoint now{};
  ObjectCache<Thing> cache;
  InformerFsm fsm;
};
using Names = std::multiset<std::string>;

TEST(ObjectCache, RT30_KeepsTheProjectionOnly) {
  Cached c;
  c.data(event("ADDED", object("a", 3, "red", R"("x","y")")) + kEnd);
  const auto found = c.cache.find({"one", "ns", "a"});
  ASSERT_TRUE(found && *found != nullptr);
  EXPECT_EQ((*found)->color, "red");
  EXPECT_EQ((*found)->owners, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(c.cache.size(), 1U);
}

TEST(ObjectCache, RT31_RT_T014_EqualNamesInTwoClustersAreTwoObjects) {
  Cached c;
  c.data(event("ADDED", object("a", 3, "red")) +
         event("ADDED", object("a", 4, "blue", "", "u2", "two")) + kEnd);
  EXPECT_EQ(c.color("a", "one"), "red");
  EXPECT_EQ(c.color("a", "two"), "blue");
  c.data(event("DELETED", object("a", 11, "red")));
  EXPECT_EQ(c.color("a", "one"), "");
  EXPECT_EQ(c.color("a", "two"), "blue");
}

TEST(ObjectCache, RT14_AnObjectOfAClusterIsFoundAndItsRevision) {
  Cached c;
  EXPECT_FALSE(c.cache.any_of("one"));
  c.data(event("ADDED", object("a", 3, "red")) +
         event("ADDED", object("b", 4, "blue", "", "u2", "two")) + kEnd);
  const auto found = c.cache.any_of("two");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, "b");
  EXPECT_EQ(c.cache.revision(*found), 4U);
  EXPECT_EQ(c.cache.revision({"one", "ns", "b"}), std::nullopt);
  c.lay(object("b", 9, "green", "", "u2", "two"));
  EXPECT_EQ(c.cache.revision({"two", "ns", "b"}), 4U) << "what the watch has";
  c.data(event("DELETED", object("b", 11, "blue", "", "u2", "two")));
  EXPECT_FALSE(c.cache.any_of("two"));
}

TEST(ObjectCache, RT14_ADeletionSaysWhetherItWasAnnouncedAndOfWhom) {
  Cached c;
  std::vector<CacheChange> gone;
  c.cache.add_handler([&](const CacheChange& change) {
    if (change.kind == CacheChange::Kind::kDeleted) {
      gone.push_back(change);
    }
  });
  std::string leaving = object("b", 12, "red", "", "u2");
  leaving.insert(leaving.find(R"("name")"), R"("deletionTimestamp":"2026-01-01T00:00:00Z",)");
  c.data(event("ADDED", object("a", 3, "red")) + event("ADDED", object("b", 4, "red", "", "u2")) +
         kEnd + event("MODIFIED", leaving) + event("DELETED", object("a", 13, "red")) +
         event("DELETED", leaving));
  ASSERT_EQ(gone.size(), 2U);
  EXPECT_FALSE(gone[0].announced);
  EXPECT_EQ(gone[0].uid, uid_hash("u"));
  EXPECT_TRUE(gone[1].announced);
  EXPECT_EQ(gone[1].uid, uid_hash("u2"));
}

TEST(ObjectCache, ManagedFieldsAreNotRead) {
  Projection<Thing> kept = projection();
  std::string seen;
  kept.make = [&seen](const ObjectKey&, const krm::Json& object) {
    seen = object.dump();
    return Thing{};
  };
  Cached c(std::move(kept));
  std::string managed = object("a", 3, "red");
  managed.insert(managed.find(R"("name")"),
                 R"("managedFields":[{"manager":"m","fieldsV1":{"f:spec":{"f:color":{}}}}],)");
  c.data(event("ADDED", managed));
  EXPECT_EQ(seen, krm::Json::parse(object("a", 3, "red"))->dump());
}

TEST(ObjectCache, RT32_BeforeTheFirstListIsComplete_NothingIsSaidToBeAbsent) {
  Cached c;
  c.data(event("ADDED", object("a", 3, "red")));
  EXPECT_EQ(c.color("a"), "red");
  EXPECT_EQ(c.color("b"), "?");
  EXPECT_EQ(c.cache.find({"one", "ns", "b"}).error().code(), Errc::kUnavailable);
  EXPECT_FALSE(c.cache.lookup(0, "one|red", [](const ObjectKey&, const Thing&) { FAIL(); }));
  EXPECT_FALSE(c.cache.each([](const ObjectKey&, const Thing&) { FAIL(); }));
  c.data(kEnd);
  EXPECT_EQ(c.color("b"), "");
}

TEST(ObjectCache, RT32_BeforeTheFirstListIsComplete_WhatIsKnownIsVisited) {
  Cached c;
  c.data(event("ADDED", object("a", 3, "red")));
  c.data(event("ADDED", object("b", 4, "red")));
  std::vector<std::string> names;
  c.cache.each_known([&](const ObjectKey& key, const Thing&) { names.emplace_back(key.name); });
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
}

net::Task<> wait_for(CacheCore* cache, TimePoint deadline, std::string* outcome) {
  net::Answer<Expected<void>> answer;
  cache->when_synced(answer.callback(), deadline);
  const Expected<void> synced = co_await answer;
  *outcome = synced ? "synced" : std::string(errc_name(synced.error().code()));
}

TEST(ObjectCache, RT32_ReadsWaitWithTheirDeadline) {
  Cached c;
  int moved = 0;
  c.cache.on_deadline([&] { ++moved; });
  EXPECT_EQ(c.cache.deadline(), TimePoint::max());
  std::string first, second, third;
  const net::Job a(wait_for(&c.cache, c.now + seconds(9), &first));
  EXPECT_EQ(c.cache.deadline(), c.now + seconds(9));
  const net::Job b(wait_for(&c.cache, c.now + seconds(5), &second));
  EXPECT_EQ(c.cache.deadline(), c.now + seconds(5));
  EXPECT_EQ(moved, 2);
  c.now += seconds(5);
  c.tick();
  EXPECT_EQ(second, "Deadline");
  EXPECT_EQ(first, "");
  c.data(kEnd);
  EXPECT_EQ(first, "") << "not inside the informer's call";
  EXPECT_EQ(moved, 3);
  EXPECT_LE(c.cache.deadline(), c.now);
  c.tick();
  EXPECT_EQ(first, "synced");
  EXPECT_EQ(c.cache.deadline(), TimePoint::max());
  const net::Job d(wait_for(&c.cache, c.now, &third));
  EXPECT_EQ(third, "synced");
}

TEST(ObjectCache, RT33_HandlersGetKindsInOrderAndKnowWhatIsInitial) {
  Cached c;
  c.data(event("ADDED", object("a", 3, "red")) + event("ADDED", object("b", 4, "red")) + kEnd);
  c.data(event("MODIFIED", object("a", 11, "blue")) + event("DELETED", object("b", 12, "red")) +
         event("ADDED", object("b", 13, "red")) + event("MODIFIED", object("a", 11, "blue")));
  EXPECT_EQ(c.log, (Log{"+one/a initial", "+one/b initial", "~one/a", "-one/b", "+one/b"}))
      << "a revision that was told is not told again";
  c.log.clear();
  const auto late = c.cache.add_handler([&](const CacheChange& change) { c.note(change); });
  EXPECT_EQ(c.log, (Log{"+one/a initial", "+one/b initial"}));
  c.cache.remove_handler(late);
  c.data(event("MODIFIED", object("a", 14, "blue")));
  EXPECT_EQ(c.log.size(), 3U);
}

TEST(ObjectCache, RT26_RT33_ARelistTellsTheDifference) {
  Cached c;
  c.data(event("ADDED", object("a", 3, "red")) + event("ADDED", object("b", 4, "red")) + kEnd +
         event("ERROR", R"({"kind":"Status","code":410})"));
  c.log.clear();
  (void)c.fsm.on_page(200, 0,
                      R"({"items":[)" + object("b", 4, "red") + "," + object("c", 15, "red") +
                          R"(],"metadata":{"resourceVersion":"20"}})",
                      c.now);
  EXPECT_EQ(c.log, (Log{"+one/c", "-one/a"})) << "live changes, not initial ones";
  EXPECT_EQ(c.by(0, "one|red"), (Names{"one/b", "one/c"}));
}

TEST(ObjectCache, RT34_AnOwnWriteIsReadUntilTheWatchBringsIt) {
  Cached c;
  c.data(event("ADDED", object("a", 3, "red")) + kEnd);
  c.log.clear();
  c.lay(object("a", 20, "green", R"("x")"));
  c.lay(object("n", 21, "green", "", "u-n"));
  EXPECT_EQ(c.log, Log{});
  EXPECT_EQ(c.color("a"), "green");
  EXPECT_EQ(c.color("n"), "green");
  EXPECT_EQ(c.by(0, "one|green"), (Names{"one/a", "one/n"}));
  EXPECT_EQ(c.by(0, "one|red"), Names{});
  EXPECT_EQ(c.by(1, "x"), (Names{"one/a"}));
  EXPECT_EQ(c.cache.deadline(), c.now + seconds(5));
  c.data(event("MODIFIED", object("a", 19, "blue")));
  EXPECT_EQ(c.color("a"), "green") << "an older event that was on its way";
  EXPECT_EQ(c.by(0, "one|blue"), Names{});
  c.data(event("MODIFIED", object("a", 20, "green", R"("x")")));
  c.data(event("ADDED", object("n", 21, "green", "", "u-n")));
  EXPECT_EQ(c.cache.overlays(), 0U);
  EXPECT_EQ(c.by(0, "one|green"), (Names{"one/a", "one/n"}));
  EXPECT_EQ(c.log, (Log{"~one/a", "~one/a", "+one/n"}));
  c.data(event("MODIFIED", object("a", 22, "black")));
  EXPECT_EQ(c.color("a"), "black");
  EXPECT_EQ(c.by(1, "x"), Names{});
}

TEST(ObjectCache, RT34_TheEchoOfAnOwnWriteIsToldAsOne) {
  Projection<Thing> kept = projection();
  kept.same = [](const Thing& before, const Thing& after) { return before.owners == after.owners; };
  Cached c(std::move(kept));
  c.data(event("ADDED", object("a", 3, "red")) + event("ADDED", object("b", 4, "red")) + kEnd);
  c.log.clear();
  c.lay(object("a", 20, "green"));
  c.lay(object("a", 21, "blue"));
  c.data(event("MODIFIED", object("a", 20, "green")));
  c.data(event("MODIFIED", object("a", 21, "blue")));
  EXPECT_EQ(c.log, (Log{"~one/a echo", "~one/a echo"}));
  c.data(event("MODIFIED", object("a", 22, "blue")));
  EXPECT_EQ(c.log.back(), "~one/a minor") << "somebody else's";
  c.lay(object("b", 30, "green", R"("x")"));
  c.data(event("MODIFIED", object("b", 29, "red", R"("x")")));
  EXPECT_EQ(c.log.back(), "~one/b");
  c.data(event("MODIFIED", object("b", 30, "green", R"("x")")));
  EXPECT_EQ(c.log.back(), "~one/b minor") << "it brought what somebody else wrote before it";
  c.lay(object("n", 40, "green"));
  c.data(event("ADDED", object("n", 40, "green")));
  EXPECT_EQ(c.log.back(), "+one/n") << "nothing is known of what it was";
}

TEST(ObjectCache, RT34_AfterFiveSecondsTheWatchIsRight) {
  Cached c;
  c.data(event("ADDED", object("a", 3, "red")) + kEnd);
  c.lay(object("a", 20, "green"));
  c.lay(object("n", 21, "green"));
  c.data(event("MODIFIED", object("a", 30, "blue")));  // 20 was never seen
  c.log.clear();
  c.now += seconds(5) - milliseconds(1);
  c.tick();
  EXPECT_EQ(c.color("a"), "green");
  c.now += milliseconds(1);
  c.tick();
  EXPECT_EQ(c.color("a"), "blue");
  EXPECT_EQ(c.color("n"), "");
  EXPECT_EQ(c.by(0, "one|green"), Names{});
  EXPECT_EQ(c.by(0, "one|blue"), (Names{"one/a"}));
  EXPECT_EQ(c.log, (Log{"~one/a", "-one/n"})) << "the last state is told";
  EXPECT_EQ(c.cache.deadline(), TimePoint::max());
}

TEST(ObjectCache, RT34_WhenTheWatchIsFasterThanTheAnswer_NothingIsHidden) {
  Cached c;
  c.data(kEnd + event("ADDED", object("a", 20, "green")));
  c.lay(object("a", 20, "green"));
  EXPECT_EQ(c.cache.overlays(), 0U);
  c.data(event("MODIFIED", object("a", 21, "blue")));
  c.lay(object("a", 20, "green"));
  EXPECT_EQ(c.color("a"), "blue");
  c.data(event("DELETED", object("a", 22, "blue")));
  c.lay(object("a", 20, "green"));
  EXPECT_EQ(c.color("a"), "") << "created and deleted before the answer to the create";
}

TEST(ObjectCache, RT34_WhenTheWatchHadItsDeletion_AnAnswerBringsNothingBack) {
  Cached c;
  c.data(event("ADDED", object("a", 20, "green")) + kEnd);
  c.data(event("DELETED", object("a", 21, "green")));
  c.log.clear();
  c.lay(object("a", 21, "green"));  // of the write that took the last finalizer
  EXPECT_EQ(c.color("a"), "");
  EXPECT_EQ(c.cache.overlays(), 0U);
  c.now += seconds(6);
  c.tick();
  EXPECT_EQ(c.log, Log{}) << "it is not deleted twice";
  c.lay(object("a", 30, "blue", "", "another"));
  EXPECT_EQ(c.color("a"), "blue") << "what is created has its name and another uid";
  c.data(event("ADDED", object("a", 30, "blue", "", "another")));
  c.data(event("DELETED", object("a", 31, "blue", "", "another")));
  c.data(event("ADDED", object("a", 32, "blue", "", "another")));
  c.lay(object("a", 33, "white", "", "another"));
  EXPECT_EQ(c.color("a"), "white") << "it is here again, as with its cluster";
}

TEST(ObjectCache, RT34_ADeletionCountsIfItIsOfTheSameObject) {
  Cached c;
  c.data(event("ADDED", object("a", 3, "red", "", "old")) + kEnd);
  c.lay(object("a", 20, "green", "", "new"));
  c.data(event("DELETED", object("a", 19, "red", "", "old")));
  EXPECT_EQ(c.color("a"), "green") << "so it is not created once more";
  c.data(event("ADDED", object("a", 20, "green", "", "new")));
  c.lay(object("a", 25, "white", "", "new"));
  c.data(event("DELETED", object("a", 26, "white", "", "new")));
  EXPECT_EQ(c.color("a"), "");
  EXPECT_EQ(c.cache.overlays(), 0U);
}

TEST(ObjectCache, RT34_ALaterOwnWriteReplacesTheFormer) {
  Cached c;
  c.data(kEnd);
  c.lay(object("a", 20, "green"));
  c.now += seconds(3);
  c.lay(object("a", 21, "white"));
  EXPECT_EQ(c.cache.overlays(), 1U);
  EXPECT_EQ(c.by(0, "one|green"), Names{});
  c.data(event("ADDED", object("a", 20, "green")));
  EXPECT_EQ(c.color("a"), "white");
  c.now += seconds(3);
  c.tick();
  EXPECT_EQ(c.color("a"), "white") << "5 s from the later one";
  c.data(event("MODIFIED", object("a", 21, "white")));
  EXPECT_EQ(c.cache.overlays(), 0U);
  EXPECT_EQ(c.by(0, "one|white"), (Names{"one/a"}));
}

TEST(ObjectCache, RT35_IndexesChangeInTheStepOfTheObject) {
  Cached c;
  c.data(kEnd);
  std::vector<Names> seen;
  c.cache.add_handler([&](const CacheChange&) { seen.push_back(c.by(1, "x")); });
  c.data(event("ADDED", object("a", 11, "red", R"("x","y","x")")));
  c.data(event("MODIFIED", object("a", 12, "red", R"("y")")));
  c.data(event("MODIFIED", object("a", 13, "red", R"("x")")));
  c.data(event("DELETED", object("a", 14, "red", R"("x")")));
  EXPECT_EQ(seen, (std::vector<Names>{{"one/a"}, {}, {"one/a"}, {}}));
}

TEST(ObjectCache, RT35_NumbersOfDeletedObjectsAreUsedAgain) {
  Cached c;
  c.data(kEnd);
  for (int i = 0; i < 1'000; ++i) {
    const std::string name = "n" + std::to_string(i);
    c.data(event("ADDED", object(name, 11 + 2 * i, "red")));
    ASSERT_EQ(c.by(0, "one|red"), (Names{"one/" + name}));
    c.data(event("DELETED", object(name, 12 + 2 * i, "red")));
  }
  EXPECT_EQ(c.by(0, "one|red"), Names{});
  EXPECT_EQ(c.fsm.keys().end_id(), 1U);
  std::size_t left = 0;
  EXPECT_TRUE(c.cache.each([&](const ObjectKey&, const Thing&) { ++left; }));
  EXPECT_EQ(left, 0U);
}

}  // namespace
}  // namespace kintsugi::workers
