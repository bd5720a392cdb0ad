// Merged lists when shards fail, and their limits.
#include "proxy/testing/list_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using namespace testing;  // NOLINT: the fixture's words

TEST_F(MergedLists, WhenAllAnswer_T01_HasTheObjectsOfAllInOrder) {
  start();
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [i](Exchange& exchange) {
      reply_with(exchange, 200, list_of("4" + std::to_string(i), {item("x" + std::to_string(i))}),
                 {{"warning", "299 - \"old\""}});
    };
  }
  const Answer& answer = ask();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(names(answer), (std::vector<std::string>{"x0", "x1", "x2"}));
  EXPECT_EQ(cursor(answer).size(), 15U + 60U);
  EXPECT_EQ(component(answer, 2), 42U);
  EXPECT_EQ(warnings(answer), std::vector<std::string>{"299 - \"old\""});
  EXPECT_EQ(rig_->handler->merge_stats().list_times.at(200).counts.size(), 7U);
}

TEST_F(MergedLists, WhenAShardDoesNotAnswer_T62_StrictIsUnavailableAndNamesIt) {
  start(kOnRequest);
  scripts_[1] = kSilent;
  const Answer& answer = ask();
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.header("retry-after"), "");
  const auto body = Json::parse(answer.body);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->text({"reason"}), "ServiceUnavailable");
  EXPECT_EQ((*body->at({"details", "causes"})).items()[0].text({"field"}), "b");
  EXPECT_EQ(failures("b", "timeout"), 1U);
}

TEST_F(MergedLists, WhenAskedFor_T63_GoesOnWithoutTheShardThatIsAway) {
  start(kOnRequest);
  for (const auto& script : {kSilent, status(500), status(401), status(403)}) {
    scripts_[1] = script;
    const Answer& answer = ask("", "application/json", {{"x-kintsugi-partial", "true"}});
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(names(answer), (std::vector<std::string>{"alpha", "cc"}));
    EXPECT_EQ(component(answer, 1), 0U);
    EXPECT_NE(component(answer, 2), 0U);
    ASSERT_EQ(warnings(answer).size(), 1U);
    EXPECT_TRUE(warnings(answer)[0].starts_with("299 - \"the answer lacks shard b: "));
  }
  EXPECT_FALSE(shard(0).exchanges.back().head.headers.contains("x-kintsugi-partial"));
  EXPECT_EQ(rig_->handler->merge_stats().lists_partial_asked, 4U);
  EXPECT_EQ(ask().status, 403);
}

TEST_F(MergedLists, WhenPartialIsNotAllowed_TheRequestCannotHaveIt) {
  start();
  scripts_[1] = status(500);
  EXPECT_EQ(ask("", "application/json", {{"x-kintsugi-partial", "true"}}).status, 503);
}

TEST_F(MergedLists, WhenEveryShardIsAway_PartialIsNoEmptyList) {
  start(kPartial);
  scripts_ = {status(500), status(500), status(500)};
  EXPECT_EQ(ask().status, 503);
  scripts_ = {status(403), status(404), status(403)};
  EXPECT_EQ(ask().status, 403);
  scripts_ = {status(404), status(500), status(404)};
  EXPECT_EQ(ask().status, 503);
  scripts_ = {status(404), status(404), status(404)};
  EXPECT_EQ(ask().status, 404);
}

TEST_F(MergedLists, WhenAShardAnswersSomethingElse_T19_T67_ItIsDown) {
  start(kPartial);
  scripts_[1] = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "<html>", "text/html"); };
  const Answer& answer = ask();
  EXPECT_EQ(names(answer), (std::vector<std::string>{"alpha", "cc"}));
  EXPECT_EQ(failures("b", "malformed"), 1U);
}

TEST_F(MergedLists, WhenIdentityIsNotTaken_T67_OnlyACallersOwnTokenIsTold) {
  start();
  scripts_[2] = status(401);
  EXPECT_EQ(ask().status, 503);
  EXPECT_EQ(failures("cc", "identity"), 1U);
  rig_->identity = nullptr;
  rig_->client = net::Upstream::make(rig_->loop, rig_->client->params());
  EXPECT_EQ(ask("", "application/json", {{"authorization", "Bearer x"}}).status, 401);
}

TEST_F(MergedLists, WhenAShardIsBusy_T67_ItIsWaitedForOnce) {
  start();
  int calls = 0;
  scripts_[1] = [&](Exchange& exchange) {
    ++calls;
    (calls == 1 ? status(429, "1") : [](Exchange& again) {
      FakeShard::reply(again, 200, list_of("9", {item("b")}));
    })(exchange);
  };
  EXPECT_EQ(names(ask()), all_);
  EXPECT_EQ(calls, 2);
}

TEST_F(MergedLists, WhenShardsStayBusy_T67_SaysTheLongestWait) {
  start({}, [](aggregation::MergeParams& params) { params.list_deadline = seconds(5); });
  scripts_[1] = status(429, "1");
  scripts_[2] = status(429, "3");
  const Answer& answer = ask();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("retry-after"), "3");
}

TEST_F(MergedLists, SE_T035_WhenOneShardIsFull_ItAloneIsAskedOnceMoreAndOneAnswerSaysSo) {
  start();
  std::array<int, 3> asked{};
  for (std::size_t i = 0; i < asked.size(); ++i) {
    scripts_[i] = [&asked, i](Exchange& exchange) {
      ++asked[i];
      if (i == 1) {
        status(429, "1")(exchange);
      } else {
        FakeShard::reply(exchange, 200, list_of("9", {item("b")}));
      }
    };
  }
  const Answer& answer = ask();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("retry-after"), "1");
  EXPECT_EQ(asked, (std::array<int, 3>{1, 2, 1}));
}

TEST_F(MergedLists, WhenItsWaitIsTooLong_T67_BusyIsSaidAtOnce) {
  start();
  scripts_[2] = status(429, "60");
  const Answer& answer = ask();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.header("retry-after"), "60");
}

TEST_F(MergedLists, WhenAShardIsCutOff_T65_TheListIsNoList) {
  start(kPartial);
  scripts_[1] = [](Exchange& exchange) {
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(list_of("9", {item("b1"), item("b2")}).substr(0, 150), true);
  };
  for (const char* encoding : {"identity", "gzip"}) {
    const Answer& answer = ask("", "application/json", {{"accept-encoding", encoding}});
    EXPECT_TRUE(answer.closed && !answer.ended);
    EXPECT_NE(answer.result, Errc::kOk);
    EXPECT_FALSE(Json::parse(answer.body));
  }
  EXPECT_EQ(rig_->handler->merge_stats().list_times.at(0).counts[0] +
                rig_->handler->merge_stats().list_times.at(0).counts[1] +
                rig_->handler->merge_stats().list_times.at(0).counts[2],
            2U);
}

TEST_F(MergedLists, WhenAnotherKindOrAStatusComes_T68_IsNotForwarded) {
  start();
  for (
      const char* body :
      {R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"})",
       R"({"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"s"}}]})",
       R"({"items":[{"metadata":{"name":"s"}}],"apiVersion":"v1","kind":"OtherList","metadata":{}})"}) {
    scripts_[1] = [body](Exchange& exchange) { FakeShard::reply(exchange, 200, body); };
    const Answer& answer = ask();
    EXPECT_FALSE(answer.ended) << body;
    EXPECT_EQ(failures("b", "malformed"),
              rig_->handler->merge_stats().dropped.at({"b", "malformed"}));
  }
  EXPECT_EQ(failures("b", "malformed"), 3U);
}

TEST_F(MergedLists, WhenAnObjectOnlySpeaksOfASystemCluster_AGG1501_StaysInTheList) {
  start();
  const std::string system = R"(,"annotations":{"kcp.io/cluster":"system:admin"})";
  scripts_[0] = [&](Exchange& exchange) {
    FakeShard::reply(
        exchange, 200,
        list_of("9", {R"({"metadata":{"name":"mine"},"spec":{"kcp.io/cluster":"system:admin"}})",
                      R"({"metadata": {"name": "theirs", "annotations": )"
                      R"({"kcp.io/cluster" : "system:admin"}}})",
                      item("too", system)}));
  };
  EXPECT_EQ(names(ask()), (std::vector<std::string>{"mine", "b", "cc"}));
}

TEST_F(MergedLists, WhenAShardMakesPagesUnasked_AllOfThemAreRead) {
  start();
  scripts_[1] = [](Exchange& exchange) {
    const bool first = parameter(exchange, "continue").empty();
    FakeShard::reply(exchange, 200,
                     first ? list_of("9", {item("b1")}, "more") : list_of("9", {item("b2")}));
  };
  EXPECT_EQ(names(ask()), (std::vector<std::string>{"alpha", "b1", "b2", "cc"}));
}

TEST_F(MergedLists, WhenTooManyStreamsAreOpen_AGG601_WholeListsWait) {
  start({}, [](aggregation::MergeParams& params) {
    params.list_streams = 3;
    params.first_byte = seconds(20);
  });
  scripts_[2] = kSilent;
  Answer& first = send();
  ASSERT_TRUE(rig_->until([&] { return shard(2).exchanges.size() == 1; }));
  Answer& second = send();
  Answer& third = send("?timeout=100ms");
  ASSERT_TRUE(rig_->until([&] { return third.closed; }));
  EXPECT_EQ(third.status, 503);
  EXPECT_EQ(shard(0).exchanges.size(), 1U);
  scripts_[2] = paged("cc");
  scripts_[2](shard(2).exchanges.front());
  ASSERT_TRUE(rig_->until([&] { return first.closed && second.closed; }));
  EXPECT_EQ(names(first), all_);
  EXPECT_EQ(names(second), all_);
}

TEST_F(MergedLists, WhenItWaitsTooLongForItsTurn_AGG601_IsTooMany) {
  start({}, [](aggregation::MergeParams& params) { params.list_streams = 1; });
  scripts_[0] = [](Exchange& exchange) {
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
  };
  const Answer& first = send();
  ASSERT_TRUE(rig_->until([&] { return shard(0).exchanges.size() == 1; }));
  const Answer& second = ask();
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.header("retry-after"), "1");
  EXPECT_FALSE(first.closed);
}

TEST_F(MergedLists, WhenANewShardHasNoSlotYet_WaitsForIt) {
  start();
  rig_->handler->set_slots(std::make_shared<const aggregation::SlotHistory>(),
                           {{1, Secret::copy_of("secret")}});
  Answer& answer = send();
  testing::Answer behind;  // on the connection
  rig_->ask(behind, testing::Rig::get("/livez"));
  EXPECT_EQ(behind.status, 200);
  EXPECT_FALSE(answer.closed);
  EXPECT_TRUE(shard(0).exchanges.empty());
  rig_->give_slots();
  ASSERT_TRUE(rig_->until([&] { return answer.closed; }));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(names(answer), all_);
}

TEST_F(MergedLists, WhenANewShardGetsNoSlot_SaysSoInTime) {
  start({}, [](aggregation::MergeParams& params) { params.future_wait = milliseconds(20); });
  rig_->handler->set_slots(std::make_shared<const aggregation::SlotHistory>(),
                           {{1, Secret::copy_of("secret")}});
  const Answer& answer = ask();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.header("retry-after"), "1");
  EXPECT_TRUE(shard(0).exchanges.empty());
}

TEST_F(MergedLists, WhatRestsAtOneShardIsListedAtTheOther_GR411) {
  start();
  topology::Index& index = rig_->index;
  index.upsert_workspace(index.now().shard("alpha")->id, topology::edge("root", "one", "c9"));
  const auto report = [&](const std::string& shard, bool inactive) {
    topology::ClusterReport out = topology::owned("c9", "root", "one", "root:one");
    out.inactive = inactive;
    index.upsert_cluster(index.now().shard(shard)->id, out);
    rig_->publisher.publish(index.freeze());
  };
  const auto of = [](const std::string& cluster) {
    return R"(,"annotations":{"kcp.io/cluster":")" + cluster + "\"}";
  };
  for (std::size_t i = 0; i < 3; ++i) {
    scripts_[i] = [at = std::to_string(i), of](Exchange& exchange) {
      const std::string own = item("own" + at, of("c" + at));
      const std::string moved = item("moved" + at, of("c9"));
      const bool rest = parameter(exchange, "continue") == "rest";
      FakeShard::reply(exchange, 200, rest ? list_of("42", {own}) : list_of("42", {moved}, "rest"));
    };
  }
  const auto waits_for = [&](bool rests) {
    return rig_->until([&] {
      const topology::Snapshot& now = rig_->view->current();
      return now.rests(now.shard("b")->id, "c9") == rests;
    });
  };
  report("b", true);
  report("cc", false);
  ASSERT_TRUE(waits_for(true));
  EXPECT_EQ(names(ask()), (std::vector<std::string>{"moved0", "own0", "own1", "moved2", "own2"}));
  report("b", false);  // somebody has woken it, and the other one rests
  report("cc", true);
  ASSERT_TRUE(waits_for(false));
  EXPECT_EQ(names(ask()), (std::vector<std::string>{"moved0", "own0", "moved1", "own1", "own2"}));
}

}  // namespace
}  // namespace kintsugi::proxy
