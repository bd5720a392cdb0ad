#include <gtest/gtest.h>

#include "apiserver/internal/watcher.h"
#include "apiserver/keys.h"
#include "apiserver/testing/fake_server.h"
#include "base/reading_counts.h"
#include "kinds/builtin_kinds.h"

namespace kintsugi::apiserver {
namespace {

using testing::config_map;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";

class Watch : public ::testing::Test {
 protected:
  Watch() : server(kinds::builtin_kinds(), "lc") {
    krm::Json ns = krm::Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
  }
  void create(const char* name,
              std::initializer_list<std::pair<std::string_view, krm::Json>> labels = {}) {
    ASSERT_EQ(server.send("POST", kMaps, config_map(name, {{"x", "1"}}, labels)).status(), 201);
  }
  void create_big(std::initializer_list<const char*> names, std::size_t size) {
    for (const char* name : names) {
      ASSERT_EQ(
          server.send("POST", kMaps, config_map(name, {{"f", std::string(size, 'x')}})).status(),
          201);
    }
  }
  void merge(const char* name, std::string_view body) {
    ASSERT_EQ(server
                  .send("PATCH", std::string(kMaps) + "/" + name, body,
                        {{"content-type", "application/merge-patch+json"}})
                  .status(),
              200);
  }
  void remove(const char* name) {
    ASSERT_EQ(server.send("DELETE", std::string(kMaps) + "/" + name).status(), 200);
  }
  Exchange watch(const std::string& query, const testing::Fields& fields = {}) {
    return server.send("GET", std::string(kMaps) + "?watch=1" + query, std::string_view(), fields);
  }
  std::string now() { return "&resourceVersion=" + std::to_string(server.store().current()); }
  static std::string shown(const Exchange& exchange) {
    std::string out;
    for (const krm::Json& event : exchange.events()) {
      out += event.text({"type"});
      const std::string_view name = event.text({"object", "metadata", "name"});
      (out += name.empty() ? "" : ":") += name;
      out += ' ';
    }
    return out;
  }

  FakeServer server;
};

TEST_F(Watch, WhenATokenCameWithIt_SE020_ItIsTakenApartOnce) {
  // {"alg":"none"} . {"sub":"ann"} . "s"
  const testing::Fields fields = {
      {"authorization", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.cw"}};
  const ReadingCounts before = reading_counts;
  const Exchange exchange = watch("", fields);
  EXPECT_EQ(exchange.status(), 200);
  EXPECT_EQ(server.proved_by(), "ann");
  EXPECT_EQ(reading_counts.tokens, before.tokens + 1);
}

TEST_F(Watch, WhenAM285StartsWithoutVersion_SendsStateThenChanges) {
  create("b");
  create("a");
  for (const char* start : {"", "&resourceVersion=0"}) {
    Exchange stream = watch(start);
    EXPECT_EQ(stream.status(), 200);
    EXPECT_EQ(stream.header("content-type"), "application/json");
    EXPECT_EQ(shown(stream), "ADDED:a ADDED:b ");
    merge("a", R"({"data":{"x":"2"}})");
    EXPECT_EQ(shown(stream), "ADDED:a ADDED:b MODIFIED:a ");
    EXPECT_FALSE(stream.stream().ended);
    merge("a", R"({"data":{"x":"1"}})");
  }
}

TEST_F(Watch, WhenAM286StartsAtAList_MissesNothingInBetween) {
  const std::string start = now();
  create("a");
  remove("a");
  create("a");
  Exchange stream = watch(start);
  EXPECT_EQ(shown(stream), "ADDED:a DELETED:a ADDED:a ");
  const std::vector<krm::Json> events = stream.events();
  EXPECT_NE(events[0].text({"object", "metadata", "uid"}),
            events[2].text({"object", "metadata", "uid"}));
  EXPECT_EQ(events[1].text({"object", "data", "x"}), "1");
  EXPECT_GT(events[1].text({"object", "metadata", "resourceVersion"}),
            events[0].text({"object", "metadata", "resourceVersion"}));
}

TEST_F(Watch, WhenAM287HistoryIsGone_SendsOneErrorAndEnds) {
  const std::string start = now();
  create("a");
  create("b");
  server.store().compact(server.store().current());
  Exchange stream = watch(start);
  EXPECT_EQ(stream.status(), 200);
  EXPECT_TRUE(stream.stream().ended);
  ASSERT_EQ(stream.events().size(), 1U);
  const krm::Json error = stream.events()[0];
  EXPECT_EQ(error.text({"type"}), "ERROR");
  EXPECT_EQ(error.at({"object", "code"})->as_integer(), 410);
  EXPECT_TRUE(error.text({"object", "message"}).starts_with("too old resource version: "));
}

TEST_F(Watch, WhenWhatIsGoneWasNotEvenTold_AM287_SendsOneErrorAndEnds) {
  const store::Revision told = server.store().current();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(server.store().commit_wait(
        {{store::EventType::kPut, "k", std::to_string(i), std::nullopt, {}}}));
  }
  server.store().compact(server.store().current());
  Exchange stream = watch("&resourceVersion=" + std::to_string(told + 1));
  EXPECT_TRUE(stream.stream().ended);
  ASSERT_EQ(stream.events().size(), 1U);
  EXPECT_EQ(stream.events()[0].at({"object", "code"})->as_integer(), 410);
}

// One that was told could go on elsewhere from there, and would miss what came before in truth.
TEST_F(Watch, WhenNobodyKnowsWhenSomethingWasDeleted_GR115_WhoWouldSeeItListsAgain) {
  create("a", {{"l", "1"}});
  create("b");
  Exchange all = watch(now());
  Exchange labelled = watch(now() + "&labelSelector=l%3D1");
  const auto key = object_key(stored_resource("", "configmaps"), "lc", "t1", "b");
  ASSERT_TRUE(key);
  store::Op gone{store::EventType::kDelete, *key, "", std::nullopt};
  gone.created = store::kUndated;
  ASSERT_NE(server.store().commit_wait({gone})->revision, 0U);
  server.settle();
  EXPECT_TRUE(all.stream().ended);
  ASSERT_EQ(all.events().size(), 1U);
  EXPECT_EQ(all.events()[0].at({"object", "code"})->as_integer(), 410);
  EXPECT_FALSE(labelled.stream().ended) << "nothing of it is gone";
  merge("a", R"({"data":{"x":"2"}})");
  EXPECT_EQ(shown(labelled), "MODIFIED:a ");
}

// It would begin behind what the store is told of the time before (GR-115).
TEST_F(Watch, WhenTheStoreDoesNotTellWhatIsNewest_GR119_NoneBeginsAheadOfIt) {
  const std::string here = now();
  const std::string ahead = "&resourceVersion=" + std::to_string(server.store().current() + 1);
  server.lose_store();
  EXPECT_EQ(watch(ahead).status(), 503);
  EXPECT_EQ(watch("").status(), 503);
  EXPECT_EQ(watch(here).status(), 200);
  EXPECT_EQ(watch("&resourceVersion=0").status(), 200);
}

TEST_F(Watch, WhenTheStoreDoesNotTellWhatIsNewest_GR120_NoBookmarkSaysThatNothingHappened) {
  const std::string short_one = now() + "&allowWatchBookmarks=true&timeoutSeconds=3";
  Exchange before = watch(short_one);
  ASSERT_TRUE(server.run_until([&] { return shown(before) == "BOOKMARK "; }));
  server.lose_store();
  Exchange meanwhile = watch(short_one);
  ASSERT_TRUE(server.run_until([&] { return meanwhile.stream().ended; }));
  EXPECT_EQ(shown(meanwhile), "");
}

TEST_F(Watch, WhenAM288VersionIsNoNumber_IsRefusedAsRecorded) {
  Exchange refused = watch("&resourceVersion=abc");
  EXPECT_EQ(refused.status(), 500);
  EXPECT_EQ(refused.json().text({"message"}),
            "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid "
            "syntax");
  EXPECT_EQ(refused.json().find("reason"), nullptr);
  EXPECT_EQ(watch("&labelSelector=a%20b").status(), 400);
  EXPECT_EQ(watch("", {{"accept", "application/yaml"}}).status(), 406);
}

TEST_F(Watch, WhenVersionLiesInTheFuture_StaysSilentUntilItIsPassed) {
  Exchange stream = watch("&resourceVersion=" + std::to_string(server.store().current() + 2));
  create("a");
  create("b");
  EXPECT_EQ(shown(stream), "");
  create("c");
  EXPECT_EQ(shown(stream), "ADDED:c ");
}

TEST_F(Watch, WhenAM289TimeIsOver_EndsCleanly) {
  Exchange stream = watch("&timeoutSeconds=1");
  ASSERT_TRUE(server.run_until([&] { return stream.stream().ended; }));
  EXPECT_FALSE(stream.stream().was_reset);
}

TEST_F(Watch, WhenAM292InitialEventsAreAsked_OneBookmarkEndsThem) {
  create("a");
  const std::string query =
      "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
  Exchange stream = watch(query);
  EXPECT_EQ(shown(stream), "ADDED:a BOOKMARK ");
  const krm::Json mark = *stream.events()[1].find("object");
  EXPECT_EQ(mark.text({"metadata", "annotations", "k8s.io/initial-events-end"}), "true");
  EXPECT_EQ(mark.text({"metadata", "resourceVersion"}), std::to_string(server.store().current()));
  EXPECT_EQ(mark.text({"kind"}), "ConfigMap");
  merge("a", R"({"data":{"x":"2"}})");
  EXPECT_EQ(shown(stream), "ADDED:a BOOKMARK MODIFIED:a ");
  Exchange empty = watch(query + "&labelSelector=none");
  EXPECT_EQ(shown(empty), "BOOKMARK ");
  Exchange unmarked = watch("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
  EXPECT_EQ(shown(unmarked), "ADDED:a ");
  Exchange none = watch("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan");
  EXPECT_EQ(shown(none), "");
}

TEST_F(Watch, WhenAM296InitialEventsOfTheFutureAreAsked_SendsATimeoutError) {
  Exchange stream =
      watch("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999999");
  EXPECT_EQ(stream.status(), 200);
  ASSERT_EQ(stream.events().size(), 1U);
  EXPECT_EQ(stream.events()[0].at({"object", "code"})->as_integer(), 504);
}

TEST_F(Watch, WhenAM299ATableEndsItsInitialEvents_TheBookmarkHasItsMetadata) {
  for (const char* include : {"None", "Metadata"}) {
    Exchange stream = watch(
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        "&includeObject=" +
            std::string(include),
        {{"accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}});
    const std::vector<krm::Json> events = stream.events();
    ASSERT_FALSE(events.empty());
    const krm::Json& mark = events.back();
    EXPECT_EQ(mark.text({"type"}), "BOOKMARK");
    const krm::Json* rows = mark.at({"object", "rows"});
    ASSERT_NE(rows, nullptr);
    const krm::Json& row = rows->items().front();
    EXPECT_EQ(row.text({"object", "kind"}), "PartialObjectMetadata") << include;
    EXPECT_EQ(row.text({"object", "metadata", "annotations", "k8s.io/initial-events-end"}), "true");
    EXPECT_EQ(row.at({"cells"})->items().front(), krm::Json(""));
  }
}

TEST_F(Watch, WhenAM299TablesAreWatched_ColumnsComeOnce) {
  create("a");
  Exchange stream =
      watch("&resourceVersion=0", {{"accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}});
  merge("a", R"({"data":{"y":"2"}})");
  const std::vector<krm::Json> events = stream.events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].text({"object", "kind"}), "Table");
  EXPECT_EQ(events[0].at({"object", "columnDefinitions"})->size(), 3U);
  EXPECT_TRUE(events[1].at({"object", "columnDefinitions"})->is_null());
  EXPECT_EQ(events[1].at({"object", "rows"})->items()[0].find("cells")->items()[1].as_integer(), 2);
}

TEST_F(Watch, WhenAM300MetadataIsWatched_NothingElseComes) {
  Exchange stream =
      watch(now(), {{"accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}});
  create("a");
  ASSERT_EQ(stream.events().size(), 1U);
  EXPECT_EQ(stream.events()[0].text({"object", "kind"}), "PartialObjectMetadata");
  EXPECT_EQ(stream.events()[0].at({"object", "data"}), nullptr);
}

TEST_F(Watch, WhenAM302LabelsCome_AndGo_TransitionsAreSeen) {
  Exchange stream = watch(now() + "&labelSelector=sel%3Dyes");
  create("a");
  merge("a", R"({"metadata":{"labels":{"sel":"yes"}}})");
  merge("a", R"({"data":{"x":"2"}})");
  merge("a", R"({"data":{"x":"3"},"metadata":{"labels":{"sel":"no"}}})");
  const std::string left = std::to_string(server.store().current());
  merge("a", R"({"metadata":{"labels":{"sel":"yes"}}})");
  remove("a");
  EXPECT_EQ(shown(stream), "ADDED:a MODIFIED:a DELETED:a ADDED:a DELETED:a ");
  const krm::Json gone = stream.events()[2];
  EXPECT_EQ(gone.text({"object", "data", "x"}), "2");
  EXPECT_EQ(gone.text({"object", "metadata", "resourceVersion"}), left);
}

TEST_F(Watch, WhenAM303NameIsSelected_OnlyThatObjectIsSeen) {
  Exchange stream = watch(now() + "&fieldSelector=metadata.name%3Db");
  Exchange item = server.send("GET", "/api/v1/watch/namespaces/t1/configmaps/b");
  Exchange all = server.send("GET", "/api/v1/watch/configmaps?fieldSelector=metadata.name%3Db");
  create("a");
  create("b");
  create("bb");
  EXPECT_EQ(shown(stream), "ADDED:b ");
  EXPECT_EQ(shown(item), "ADDED:b ");
  EXPECT_EQ(shown(all), "ADDED:b ");
}

TEST_F(Watch, WhenAM305NothingChanges_NothingIsSent) {
  create("a");
  Exchange stream = watch(now());
  merge("a", R"({"data":{"x":"1"}})");
  EXPECT_EQ(server.send("DELETE", std::string(kMaps) + "/a?dryRun=All").status(), 200);
  EXPECT_EQ(shown(stream), "");
}

TEST_F(Watch, WhenManyWatchTheSame_EventsAreEncodedOnce) {
  Exchange one = watch(now());
  Exchange two = watch(now());
  Exchange all = server.send("GET", "/api/v1/configmaps?watch=1" + now());
  create("a");
  ASSERT_EQ(one.stream().shared_payloads.size(), 1U);
  EXPECT_EQ(one.stream().shared_payloads, two.stream().shared_payloads);
  EXPECT_EQ(one.stream().shared_payloads, all.stream().shared_payloads);
  EXPECT_EQ(server.server().stats().watches, 3U);
  one.close();
  EXPECT_EQ(server.server().stats().watches, 2U);
  create("b");
  EXPECT_EQ(shown(two), "ADDED:a ADDED:b ");
}

TEST_F(Watch, WhenAReaderStaysSlow_ItsStreamEndsAfterAWholeEvent) {
  Exchange slow = watch(now());
  slow.stream().stuck = true;
  Exchange quick = watch(now());
  create_big({"a", "b", "c", "d", "e"}, 300'000);
  EXPECT_EQ(shown(quick), "ADDED:a ADDED:b ADDED:c ADDED:d ADDED:e ");
  ASSERT_TRUE(server.run_until([&] { return slow.stream().ended; }));
  EXPECT_FALSE(slow.stream().was_reset);
  EXPECT_TRUE(slow.body().ends_with("}\n"));
  EXPECT_EQ(shown(slow), "ADDED:a ADDED:b ADDED:c ADDED:d ");
}

TEST_F(Watch, WhenASlowReaderCatchesUp_ItGetsEverythingOnce) {
  Exchange slow = watch(now());
  slow.stream().stuck = true;
  create_big({"a", "b", "c", "d", "e", "f", "g"}, 300'000);
  EXPECT_EQ(shown(slow), "ADDED:a ADDED:b ADDED:c ADDED:d ");
  slow.stream().stuck = false;
  slow.handler().on_drained();
  server.settle();
  EXPECT_EQ(shown(slow), "ADDED:a ADDED:b ADDED:c ADDED:d ADDED:e ADDED:f ADDED:g ");
  create("h");
  EXPECT_EQ(shown(slow), "ADDED:a ADDED:b ADDED:c ADDED:d ADDED:e ADDED:f ADDED:g ADDED:h ");
  EXPECT_FALSE(slow.stream().ended);
}

TEST_F(Watch, WhenTheStateIsLarge_ItWaitsForTheReaderAndLosesNothing) {
  const std::string big(100'000, 'x');
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    ASSERT_EQ(server.send("POST", kMaps, config_map(name, {{"f", big}})).status(), 201);
  }
  http::RequestHead head;
  head.method = "GET";
  head.target = std::string(kMaps) + "?watch=1";
  Exchange stream(server.server(), std::move(head), "");
  EXPECT_EQ(stream.status(), 200);
  stream.stream().stuck = true;
  stream.handler().on_drained();
  server.settle();
  remove("b");
  create("i");
  stream.stream().stuck = false;
  stream.handler().on_drained();
  server.settle();
  EXPECT_EQ(shown(stream),
            "ADDED:a ADDED:b ADDED:c ADDED:d ADDED:e ADDED:f ADDED:g ADDED:h DELETED:b ADDED:i ");
}

TEST_F(Watch, WhenTheServerDrains_AM035_WatchesEndWithABookmarkAndRequestsAreRefused) {
  Exchange stream = watch(now() + "&allowWatchBookmarks=true");
  Exchange plain = watch(now());
  server.server().start_drain();
  EXPECT_EQ(shown(stream), "BOOKMARK ");
  EXPECT_TRUE(stream.stream().ended);
  EXPECT_TRUE(plain.stream().ended);
  EXPECT_EQ(plain.body(), "");
  Exchange refused = server.send("GET", kMaps);
  EXPECT_EQ(refused.status(), 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(server.send("GET", "/readyz").status(), 500);
  EXPECT_EQ(server.send("GET", "/livez").status(), 200);
}

TEST_F(Watch, WhenADefinitionEnds_ItsWatchesEndAndOthersGoOn) {
  Exchange stream = watch(now());
  server.server().end_watches("lc", "", "secrets");
  server.server().end_watches("other", "", "configmaps");
  EXPECT_FALSE(stream.stream().ended);
  server.server().end_watches("lc", "", "configmaps");
  EXPECT_TRUE(stream.stream().ended);
}

TEST_F(Watch, WhenRightsAreWithdrawn_AM312_SE047_OnlyThoseWatchesEndWith403) {
  Exchange bob = watch(now(), {{"x-user", "bob"}});
  Exchange carol = watch(now(), {{"x-user", "carol"}});
  Exchange again = watch(now(), {{"x-user", "bob"}});
  server.deny("bob");
  server.server().review_watches("other");
  server.settle();
  EXPECT_FALSE(bob.stream().ended);
  server.server().review_watches("lc");
  server.server().review_watches("lc");
  ASSERT_TRUE(server.run_until([&] { return bob.stream().ended && again.stream().ended; }));
  server.settle();
  EXPECT_FALSE(carol.stream().ended);
  create("a");
  EXPECT_EQ(shown(carol), "ADDED:a ");
  for (Exchange* one : {&bob, &again}) {
    const auto last = krm::Json::parse(one->body());
    ASSERT_TRUE(last) << one->body();
    EXPECT_EQ(last->text({"type"}), "ERROR");
    EXPECT_EQ(last->text({"object", "reason"}), "Forbidden");
    EXPECT_EQ(last->text({"object", "message"}),
              "configmaps is forbidden: User \"bob\" cannot watch resource \"configmaps\" in API "
              "group \"\" in the namespace \"t1\"");
    EXPECT_FALSE(one->stream().was_reset) << "END_STREAM";
  }
  EXPECT_EQ(server
                .send("GET", "/clusters/lc/api/v1/namespaces/t1/configmaps?watch=1",
                      std::string_view(), {{"x-user", "bob"}})
                .status(),
            403);
}

TEST_F(Watch, WhenManyLoseTheirRights_AM312_AllEnd) {
  std::vector<Exchange> streams;
  for (int i = 0; i < 400; ++i) {
    streams.push_back(watch(now(), {{"x-user", i % 2 == 0 ? "bob" : "carol"}}));
  }
  server.deny("bob");
  server.server().review_watches("lc");
  ASSERT_TRUE(server.run_until([&] { return streams[0].stream().ended; }));
  server.settle();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(streams[i].stream().ended, i % 2 == 0) << i;
  }
}

TEST_F(Watch, WhenRightsMayHaveChangedAnywhere_TP122_WatchesOfEveryClusterAreAskedAbout) {
  Exchange bob = watch(now(), {{"x-user", "bob"}});
  Exchange everywhere = server.send("GET", "/clusters/*/api/v1/configmaps?watch=1" + now(),
                                    std::string_view(), {{"x-user", "bob"}});
  Exchange elsewhere = server.send("GET", "/clusters/other/api/v1/configmaps?watch=1" + now(),
                                   std::string_view(), {{"x-user", "bob"}});
  Exchange carol = watch(now(), {{"x-user", "carol"}});
  server.deny("bob");
  server.server().review_watches("lc");
  server.server().review_all_watches();
  ASSERT_TRUE(server.run_until(
      [&] { return bob.stream().ended && everywhere.stream().ended && elsewhere.stream().ended; }));
  EXPECT_FALSE(carol.stream().ended);
  EXPECT_FALSE(bob.stream().was_reset);
}

TEST_F(Watch, WhenAnswersAreSlow_TP122_OnlySomeAreAwaitedAtATime) {
  std::vector<Exchange> streams;
  for (int i = 0; i < 300; ++i) {
    streams.push_back(watch(now(), {{"x-user", "bob"}}));
  }
  server.deny("bob");
  server.hold_decisions();
  server.server().review_all_watches();
  ASSERT_TRUE(server.run_until([&] { return server.held() == 128; }));
  server.settle();
  EXPECT_EQ(server.held(), 128U);
  server.give_decisions();
  ASSERT_TRUE(server.run_until([&] { return server.held() == 128; }));
  server.give_decisions();
  ASSERT_TRUE(server.run_until([&] { return server.held() == 300 - 256; }));
  server.server().review_all_watches();
  server.give_decisions();
  server.settle();
  for (Exchange& stream : streams) {
    EXPECT_TRUE(stream.stream().ended);
  }
}

TEST_F(Watch, WhenIdle_AWatchIsSmall) {
  EXPECT_LE(sizeof(internal::Watcher) + sizeof(internal::Exchange), 700U);
}

}  // namespace
}  // namespace kintsugi::apiserver
