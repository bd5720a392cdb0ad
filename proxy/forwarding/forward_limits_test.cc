// What a request may take before it is forwarded, and which ones may be asked twice.
#include <list>

#include "proxy/forwarding/forward.h"
#include "proxy/forwarding/internal/pending_request.h"
#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

TEST(ForwardLimits, WhenABodyIsNotWhole_SE075_TheShardHearsNothingOfIt) {
  Rig rig;
  rig.shard.complete = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
  std::list<Answer> answers;
  for (int i = 0; i < 100; ++i) {
    rig.send(answers.emplace_back(), Rig::request("POST", "/clusters/root/api", false));
    answers.back().stream->send_data(std::string_view("{"), false);
  }
  Answer other;
  rig.ask(other, Rig::get("/clusters/root/api"));
  EXPECT_EQ(other.status, 200);
  EXPECT_EQ(rig.shard.exchanges.size(), 1U);
  answers.front().stream->send_data(std::string_view("}"), true);
  ASSERT_TRUE(rig.until([&] { return answers.front().closed; }));
  EXPECT_EQ(answers.front().status, 200);
  ASSERT_EQ(rig.shard.exchanges.size(), 2U);
  EXPECT_EQ(rig.shard.exchanges.back().body, "{}");
}

TEST(ForwardLimits, WhenABodyIsLarger_SE075_ItGoesToTheShardAsItComes) {
  Rig rig;
  rig.shard.complete = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
  Answer answer;
  rig.send(answer, Rig::request("POST", "/clusters/root/api", false));
  const std::string part(40U << 10, 'x');
  answer.stream->send_data(part, false);
  answer.stream->send_data(part, false);
  ASSERT_TRUE(rig.until([&] {
    return !rig.shard.exchanges.empty() && rig.shard.exchanges.front().body.size() == 80U << 10;
  }));
  EXPECT_FALSE(rig.shard.exchanges.front().complete);
  answer.stream->send_data(std::string_view("end"), true);
  ASSERT_TRUE(rig.until([&] { return answer.closed; }));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(rig.shard.exchanges.front().body, part + part + "end");
}

TEST(ForwardLimits, WhenAnEmptyBodyEnds_SE075_TheRequestHasNone) {
  Rig rig;
  rig.shard.answer = [](Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); };
  Answer answer;
  rig.send(answer, Rig::request("POST", "/clusters/root/api", false));
  answer.stream->send_data(std::string_view(), true);
  ASSERT_TRUE(rig.until([&] { return answer.closed; }));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(rig.shard.exchanges.front().head.end_stream);
}

TEST(ForwardLimits, WhenTheMethodIsUnknown_SE116_Says405) {
  Rig rig;
  rig.log_in();
  for (const char* method : {"get", "TRACE", "Post", "PROPFIND"}) {
    for (const char* target : {"/clusters/root/api", "/livez", "/readyz", "/metrics"}) {
      Answer answer;
      rig.ask(answer, Rig::request(method, target));
      EXPECT_EQ(answer.status, 405) << method << " " << target;
    }
  }
  for (const char* target : {"/livez", "/readyz"}) {
    Answer answer;
    rig.ask(answer, Rig::request("POST", target));
    EXPECT_EQ(answer.status, 405) << target;
  }
  EXPECT_TRUE(rig.shard.exchanges.empty());
}

TEST(ForwardLimits, WhenTheLengthIsOverTheLimit_Says413BeforeItComes) {
  Rig rig;
  Answer answer;
  http::RequestHead head = Rig::request("POST", "/clusters/root/api", false);
  head.headers.add("content-length", "1048577");
  rig.send(answer, head);
  ASSERT_TRUE(rig.until([&] { return answer.status != 0; }));
  EXPECT_EQ(answer.status, 413);
}

TEST(ForwardRetry, WhatIsSentAgain_GR301) {
  struct Case {
    Errc cause;
    bool idempotent, has_shard, elsewhere;
    Duration passed;
    bool again;
  };
  const Case cases[] = {
      // To the same server within the window, and what may have happened only where that is no
      // harm.
      {Errc::kNotProcessed, false, true, false, seconds(4), true},
      {Errc::kNotProcessed, false, true, false, seconds(6), false},
      {Errc::kReset, true, true, false, seconds(4), true},
      {Errc::kReset, true, true, false, seconds(6), false},
      {Errc::kReset, false, true, false, seconds(0), false},
      {Errc::kUnreachable, true, true, false, seconds(0), false},
      // Where another process may answer, however long the one before kept it.
      {Errc::kUnreachable, false, true, true, seconds(6), true},
      {Errc::kReset, true, true, true, seconds(10), true},
      {Errc::kReset, false, true, true, seconds(0), false},
      {Errc::kDeadline, true, true, true, seconds(6), false},
      // Given up where the shard is not any more.
      {Errc::kCancelled, true, true, false, seconds(15), true},
      {Errc::kCancelled, false, true, false, seconds(0), false},
      {Errc::kCancelled, true, false, false, seconds(0), false},
      {Errc::kBadRequest, true, true, true, seconds(0), false},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(may_repeat(one.cause, one.idempotent, one.has_shard, one.elsewhere, one.passed),
              one.again)
        << errc_name(one.cause) << one.idempotent << one.has_shard << one.elsewhere
        << one.passed / seconds(1);
  }
}

// The answer of a review is all it does.
TEST(ForwardRetry, WhenTheAnswerOfAReviewNeverComes_ItIsAskedAgain_GR301) {
  Rig rig;
  rig.shard.complete = [&](Exchange& exchange) {
    if (rig.shard.exchanges.size() % 2 == 1) {
      exchange.stream->reset(Errc::kInternal);
    } else {
      FakeShard::reply(exchange, 201, exchange.body);
    }
  };
  Answer review, other;
  rig.send(review,
           Rig::request(
               "POST",
               "/clusters/root/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?pretty=true",
               false),
           "question");
  ASSERT_TRUE(rig.until([&] { return review.closed; }));
  EXPECT_EQ(review.status, 201);
  EXPECT_EQ(review.body, "question");
  EXPECT_EQ(rig.shard.exchanges.size(), 2U);
  rig.send(other, Rig::request("POST", "/clusters/root/apis/shop.io/v1/bookreviews", false), "x");
  ASSERT_TRUE(rig.until([&] { return other.closed; }));
  EXPECT_EQ(other.status, 502);
  EXPECT_EQ(rig.shard.exchanges.size(), 3U);
}

}  // namespace
}  // namespace kintsugi::proxy
