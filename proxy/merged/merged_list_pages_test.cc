// Pages of merged lists.
#include "proxy/testing/list_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using namespace testing;  // NOLINT: the fixture's words

TEST_F(MergedLists, WhenAShardFailsInTheMiddle_AGG609_ThePageIsShorter) {
  start(kPartial);
  scripts_[1] = [](Exchange& exchange) {
    const bool pinned = !parameter(exchange, "resourceVersionMatch").empty();
    (pinned ? status(500) : paged("b"))(exchange);
  };
  const Answer& first = ask("?limit=10");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(names(first), std::vector<std::string>{"alpha"});
  const std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  ASSERT_FALSE(token.empty());
  // What it had is part of the state that the pages show, so not even `partial` goes on without it.
  EXPECT_EQ(ask("?limit=10&continue=" + token).status, 503);
  scripts_[1] = paged("b");
  const Answer& rest = ask("?limit=10&continue=" + token);
  EXPECT_EQ(names(rest), (std::vector<std::string>{"b", "cc"}));
  EXPECT_EQ(cursor(rest), cursor(first));
}

TEST_F(MergedLists, WhenALaterShardForgotItsPin_T24_ThePageBeforeIsWhole) {
  start();
  const Answer& first = ask("?limit=1");
  const std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  scripts_[2] = status(410);
  const Answer& second = ask("?limit=5&continue=" + token);
  EXPECT_EQ(names(second), std::vector<std::string>{"b"});
  const std::string next(Json::parse(second.body)->text({"metadata", "continue"}));
  EXPECT_EQ(ask("?limit=5&continue=" + next).status, 410);
  // No item of that page has been sent: the answer is as it would be at once.
  scripts_[1] = [](Exchange& exchange) { FakeShard::reply(exchange, 200, list_of("9", {})); };
  EXPECT_EQ(ask("?limit=5&continue=" + token).status, 410);
}

TEST_F(MergedLists, WhenAShardJoinsBetweenPages_T28_TheListEndsUnderItsOwnGeneration) {
  start();
  const Answer& first = ask("?limit=1");
  std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  topology::ShardSpec joined;
  joined.name = "joined";
  joined.base_url = "http://127.0.0.1:1";
  const aggregation::SlotHistoryPtr before = rig_->slots;
  rig_->add_shard(joined, before);
  std::vector<std::string> seen = names(first);
  for (int page = 0; page < 2; ++page) {
    const Answer& next = ask("?limit=1&continue=" + token);
    EXPECT_EQ(cursor(next), cursor(first));
    for (const std::string& name : names(next)) {
      seen.push_back(name);
    }
    const auto list = Json::parse(next.body);
    token = list ? std::string(list->text({"metadata", "continue"})) : std::string();
  }
  EXPECT_EQ(seen, all_);
  EXPECT_EQ(token, "");
}

TEST_F(MergedLists, WhenThereAreNoRevisions_AGG506_EverythingComesOnOnePage) {
  start();  // as metrics.k8s.io and componentstatuses: neither lists nor objects have versions
  for (std::size_t i = 0; i < all_.size(); ++i) {
    scripts_[i] = [name = all_[i]](Exchange& exchange) {
      FakeShard::reply(exchange, 200,
                       R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[)"
                       R"({"metadata":{"name":")" +
                           name + R"("}},{"metadata":{"name":"x"}}]})");
    };
  }
  for (const char* query : {"", "?limit=1", "?limit=500"}) {
    const Answer& answer = ask(query);
    EXPECT_EQ(answer.status, 200) << query;
    EXPECT_EQ(names(answer), (std::vector<std::string>{"alpha", "x", "b", "x", "cc", "x"}))
        << query;
    EXPECT_EQ(Json::parse(answer.body)->text({"metadata", "continue"}), "") << query;
  }
}

TEST_F(MergedLists, WhenAShardIsAwayAtTheFirstPage_AGG612_ItHasNoPin) {
  start(kPartial);
  scripts_[0] = status(500);
  const Answer& first = ask("?limit=1");
  EXPECT_EQ(names(first), std::vector<std::string>{"b"});
  EXPECT_EQ(component(first, 0), 0U);
  const std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  scripts_[0] = paged("alpha");
  const Answer& rest = ask("?limit=1&continue=" + token);
  EXPECT_EQ(names(rest), std::vector<std::string>{"cc"});
  EXPECT_EQ(cursor(rest), cursor(first));
}

TEST_F(MergedLists, WhenAShardForgotItsPin_T24_TheTokenOfTheAnswerGoesOn) {
  start();
  bool forgotten = false;
  scripts_[1] = [&](Exchange& exchange) {
    if (parameter(exchange, "continue") == "FRESH") {
      FakeShard::reply(exchange, 200, list_of("50", {item("b-now")}));
    } else if (forgotten) {
      reply_with(exchange, 410, R"({"kind":"Status","code":410,"metadata":{"continue":"FRESH"}})",
                 {});
    } else {
      paged("b")(exchange);
    }
  };
  const Answer& first = ask("?limit=1");
  const std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  forgotten = true;
  const Answer& gone = ask("?limit=1&continue=" + token);
  EXPECT_EQ(gone.status, 410);
  const std::string fresh(Json::parse(gone.body)->text({"metadata", "continue"}));
  ASSERT_FALSE(fresh.empty());
  const Answer& rest = ask("?limit=1&continue=" + fresh);
  EXPECT_EQ(names(rest), std::vector<std::string>{"b-now"});
  EXPECT_EQ(component(rest, 1), 50U);
}

TEST_F(MergedLists, WhenAShardForgotAPinThatWasNotBegun_T24_PagesGoOnWithWhatItHas) {
  start();
  const Answer& first = ask("?limit=1");
  const std::string token(Json::parse(first.body)->text({"metadata", "continue"}));
  scripts_[1] = [](Exchange& exchange) {
    const bool pinned = !parameter(exchange, "resourceVersion").empty();
    (pinned ? status(410) : [](Exchange& now) {
      FakeShard::reply(now, 200, list_of("50", {item("b-now")}));
    })(exchange);
  };
  const Answer& gone = ask("?limit=1&continue=" + token);
  EXPECT_EQ(gone.status, 410);
  const std::string next(Json::parse(gone.body)->text({"metadata", "continue"}));
  const Answer& rest = ask("?limit=5&continue=" + next);
  EXPECT_EQ(names(rest), (std::vector<std::string>{"b-now", "cc"}));
  EXPECT_EQ(component(rest, 1), 50U);
  EXPECT_EQ(parameter(shard(2).exchanges.back(), "resourceVersion"), "");
}

TEST_F(MergedLists, WhenTheEndOfAFullPageComesLate_T20_ItsTokenIsWaitedFor) {
  start();
  Exchange* late = nullptr;
  const std::string body =
      R"({"items":[)" + item("a1") +
      R"(],"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":"REST"}})";
  const std::size_t half = body.find("],");
  scripts_[0] = [&](Exchange& exchange) {
    http::HeaderList headers;
    headers.add("content-type", "application/json");
    exchange.stream->send_head(200, headers, false);
    exchange.stream->send_data(body.substr(0, half), false);
    late = &exchange;
  };
  const Answer& answer = send("?limit=1");
  ASSERT_TRUE(rig_->until([&] { return !answer.body.empty(); }));
  late->stream->send_data(body.substr(half), true);
  ASSERT_TRUE(rig_->until([&] { return answer.closed; }));
  const std::string token(Json::parse(answer.body)->text({"metadata", "continue"}));
  scripts_[0] = paged("a2");
  EXPECT_EQ(names(ask("?limit=1&continue=" + token)), std::vector<std::string>{"a2"});
  EXPECT_EQ(parameter(shard(0).exchanges.back(), "continue"), "REST");
}

}  // namespace
}  // namespace kintsugi::proxy
