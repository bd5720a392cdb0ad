// Requests on their way through the proxy: what the shard sees, what the client gets when it fails.
#include "proxy/forwarding/forward.h"

#include "krm/json.h"
#include "krm/version.h"
#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Exchange;
using testing::FakeShard;
using testing::Rig;

krm::Json parse(const std::string& text) {
  auto json = krm::Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : krm::Json();
}

/// {status, reason, message} of a Status body.
void expect_status(const Answer& answer, int code, std::string_view reason,
                   std::string_view message) {
  EXPECT_EQ(answer.status, code);
  const krm::Json body = parse(answer.body);
  EXPECT_EQ(body.text({"kind"}), "Status");
  EXPECT_EQ(body.text({"reason"}), reason);
  EXPECT_EQ(body.text({"message"}), message);
  EXPECT_EQ(answer.header("x-content-type-options"), "nosniff");
}

void reply_ok(Exchange& exchange) { FakeShard::reply(exchange, 200, "{}"); }

std::string event(int version) {
  return R"({"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":")" +
         std::to_string(version) + "\"}}}\n";
}

/// Answers with the head and some events, and leaves the stream open.
void open_watch(Exchange& exchange, const std::string& body) {
  http::HeaderList headers;
  headers.add("content-type", "application/json;stream=watch");
  exchange.stream->send_head(200, headers, false);
  exchange.stream->send_data(std::string_view(body), false);
}

constexpr const char* kWatch =
    "/clusters/root/api/v1/configmaps?watch=true&allowWatchBookmarks=true";

TEST(ForwardPaths, TheShardSeesTheClusterNameAndTheRestAsSent_FP038_FP039_FP043_FP107) {
  Rig rig;
  rig.shard.answer = reply_ok;
  const std::pair<const char*, const char*> cases[] = {
      {"/clusters/root", "/clusters/root"},
      {"/clusters/root/", "/clusters/root"},
      {"/clusters/root:one/api", "/clusters/c1/api"},
      {"/clusters/root%3Aone/api", "/clusters/c1/api"},
      {"/clusters/root/api?fieldSelector=a%3Db&x=1&%zz",
       "/clusters/root/api?fieldSelector=a%3Db&x=1&%zz"},
      {"/clusters/root/a%2Fb", "/clusters/root/a%2Fb"},
      {"/clusters/root/clusters/b/api", "/clusters/root/clusters/b/api"},
      {"/clusters/root:one/clusters/b/api?x", "/clusters/c1/clusters/b/api?x"},
      {"/clusters/root:one/clusters/root/clusters/c/api",
       "/clusters/c1/clusters/root/clusters/c/api"},
  };
  for (const auto& [target, seen] : cases) {
    Answer answer;
    rig.ask(answer, Rig::get(target));
    EXPECT_EQ(answer.status, 200) << target;
    EXPECT_EQ(rig.shard.exchanges.back().head.target, seen);
  }
  // Two scopes are no route: the answer is what the shard's would be.
  const std::size_t before = rig.shard.exchanges.size();
  for (const char* target :
       {"/clusters/root/shards/b/api", "/clusters/*/clusters/b/api", "/shards/alpha/livez"}) {
    Answer answer;
    rig.ask(answer, Rig::get(target));
    EXPECT_EQ(answer.status, 404) << target;
  }
  EXPECT_EQ(rig.shard.exchanges.size(), before);
}

TEST(ForwardPaths, WhatIsNoClusterNeverReachesAShard_FP036_FP037_FP040_FP132_FP152) {
  Rig rig;
  const auto status_of = [&](const std::string& target) {
    Answer answer;
    rig.ask(answer, Rig::get(target));
    return answer.status;
  };
  for (const char* invalid : {"root:", ":root", "root::one", "Root", "root:f_o", "*", "%2A",
                              "system:admin", "nope", "root:nope"}) {
    const std::string target = "/clusters/" + std::string(invalid) + "/api";
    Answer answer;
    rig.ask(answer, Rig::get(target));
    EXPECT_EQ(answer.status, 403) << invalid;
    EXPECT_NE(answer.body.find("workspace access not permitted"), std::string::npos);
  }
  const LookupStats stats = rig.handler->lookup_stats();
  EXPECT_GT(stats.not_found[static_cast<std::size_t>(topology::NotFoundReason::kInvalid)], 0U);
  EXPECT_GT(stats.not_found[static_cast<std::size_t>(topology::NotFoundReason::kUnknown)], 0U);
  EXPECT_EQ(status_of("/clusters"), 404);
  EXPECT_EQ(status_of("/clusters/"), 404);
  EXPECT_EQ(status_of("/nothing"), 404);
  EXPECT_EQ(status_of("//clusters/root/api?a=1"), 307);
  EXPECT_EQ(status_of("/clusters/root:closed/api"), 503);
  EXPECT_TRUE(rig.shard.exchanges.empty());
}

TEST(ForwardHeaders, OnlyTheRealIdentityArrives_FP049_FP050_FP058_FP059_FP060) {
  Rig rig;
  rig.shard.answer = reply_ok;
  rig.log_in();
  http::RequestHead head = Rig::get("/clusters/root/api");
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"x-remote-user", "admin"},
           {"x-remote-group", "system:masters"},
           {"x-remote-uid", "77"},
           {"x_remote_user", "evil"},
           {"x-remote-extra-authorization.kcp.io%2fwarrant", "{}"},
           {"x-remote-extra-scopes", "cluster:root"}}) {
    head.headers.add(name, value);
  }
  Answer answer;
  rig.ask(answer, head);
  ASSERT_EQ(answer.status, 200);
  std::vector<std::string> users, groups;
  const http::HeaderList& seen = rig.shard.exchanges.back().head.headers;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const http::HeaderView field = seen[i];
    if (field.name == "x-remote-user") {
      users.emplace_back(field.value);
    } else if (field.name == "x-remote-group") {
      groups.emplace_back(field.value);
    } else {
      EXPECT_EQ(field.name.find("remote"), std::string::npos) << field.name;
    }
  }
  EXPECT_EQ(users, std::vector<std::string>{"alice"});
  EXPECT_EQ(groups, (std::vector<std::string>{"team", "system:authenticated"}));
  EXPECT_EQ(rig.handler->forward_stats().identity_headers_stripped, 6U);
}

TEST(ForwardHeaders, WithoutIdentityNothingIsAddedAndTheBearerPasses_FP056_FP080) {
  Rig rig;
  rig.shard.answer = reply_ok;
  http::RequestHead head = Rig::get("/clusters/root/api");
  head.headers.add("authorization", "Bearer abc");
  head.headers.add("x-remote-user", "admin");
  Answer answer;
  rig.ask(answer, head);
  const http::HeaderList& seen = rig.shard.exchanges.back().head.headers;
  EXPECT_EQ(seen.get("authorization"), "Bearer abc");
  EXPECT_FALSE(seen.contains("x-remote-user"));
  EXPECT_FALSE(seen.contains("x-remote-group"));
}

TEST(ForwardHeaders, TheRestPassesAsSent_FP153) {
  Rig rig;
  rig.shard.answer = reply_ok;
  rig.log_in();
  http::RequestHead head = Rig::get("/clusters/root/api");
  head.authority = "foo.example:1234";
  head.headers.add("x-forwarded-for", "9.9.9.9");
  head.headers.add("cookie", "a=b");
  head.headers.add("impersonate-user", "bob");
  head.headers.add("te", "trailers");
  head.headers.add("audit-id", "id-1");
  head.headers.add("authorization", "Bearer kept");
  head.headers.add("x-kcp-virtual-resource-hops", "-1");
  Answer answer;
  rig.ask(answer, head);
  const Exchange& seen = rig.shard.exchanges.back();
  EXPECT_EQ(seen.head.authority, "foo.example:1234");
  EXPECT_EQ(seen.head.headers.get("x-forwarded-for"), "9.9.9.9, 127.0.0.1");
  EXPECT_EQ(seen.head.headers.get("via"), "2.0 kintsugi-test");
  for (const char* name : {"cookie", "impersonate-user", "te", "audit-id", "authorization",
                           "x-kcp-virtual-resource-hops"}) {
    EXPECT_EQ(seen.head.headers.get(name), head.headers.get(name)) << name;
  }
  EXPECT_FALSE(seen.head.headers.contains("accept-encoding"));
}

TEST(ForwardHeaders, AnswersCarryADate) {
  Rig rig;
  rig.shard.answer = [](Exchange& exchange) {
    http::HeaderList headers;
    headers.add("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    exchange.stream->send_head(200, headers, true);
  };
  Answer passed, own;
  rig.ask(passed, Rig::get("/clusters/root/api"));
  EXPECT_EQ(passed.header("date"), "Sun, 06 Nov 1994 08:49:37 GMT");
  rig.ask(own, Rig::get("/livez"));
  EXPECT_EQ(own.header("date").size(), 29U);
  EXPECT_TRUE(own.header("date").ends_with(" GMT"));
}

TEST(ForwardErrors, WhenNobodyListens_SaysUnreachable_FP082) {  // E6
  Rig rig;
  rig.stop_shard();
  Answer get, post, watch;
  rig.ask(get, Rig::get("/clusters/root/api"));
  expect_status(get, 503, "ServiceUnavailable", "the shard is not reachable");
  EXPECT_EQ(get.header("retry-after"), "1");
  rig.send(post, Rig::request("POST", "/clusters/root/api", false), "body");
  ASSERT_TRUE(rig.until([&] { return post.closed; }));
  EXPECT_EQ(post.status, 503);
  rig.ask(watch, Rig::get(kWatch));
  expect_status(watch, 429, "TooManyRequests", "the shard is not reachable");
  EXPECT_EQ(watch.header("retry-after"), "1");
}

TEST(ForwardErrors, WhenTheShardComesBackInTime_WaitingRequestsAreServed_FP136) {
  Rig rig([](net::UpstreamParams& params) { params.restart_wait = seconds(20); });
  rig.shard.answer = [](Exchange& exchange) {
    if (exchange.complete) {
      reply_ok(exchange);
    }
  };
  rig.shard.complete = [](Exchange& exchange) {
    if (exchange.head.method == "POST") {
      reply_ok(exchange);
    }
  };
  rig.stop_shard();
  std::list<Answer> gets(20);
  Answer post;
  for (Answer& get : gets) {
    rig.send(get, Rig::get("/clusters/root/api"));
  }
  rig.send(post, Rig::request("POST", "/clusters/root:one/api", false), "precious");
  shards::ShardClient* client = rig.pool->find(rig.index.now().shard("alpha")->id);
  ASSERT_TRUE(rig.until([&] { return client->upstream()->failures_in_a_row() > 2; }));
  rig.start_shard();
  for (Answer& get : gets) {
    ASSERT_TRUE(rig.until([&] { return get.closed; }));
    EXPECT_EQ(get.status, 200);
  }
  ASSERT_TRUE(rig.until([&] { return post.closed; }));
  EXPECT_EQ(post.status, 200);
  EXPECT_EQ(rig.shard.exchanges.size(), 21U);
}

TEST(ForwardErrors, WhenTheCertificateIsWrong_SaysNotSecured_FP081) {  // E7
  Rig rig([](net::UpstreamParams& params) {
    params.prior_knowledge = false;
    params.url.scheme = "https";  // the shard speaks plain text
    params.tls = Rig::must(net::TlsContext::client({}));
  });
  Answer answer;
  rig.ask(answer, Rig::get("/clusters/root/api"));
  expect_status(answer, 502, "", "the connection to the backend could not be secured");
  EXPECT_EQ(answer.header("retry-after"), "");
}

TEST(ForwardRetry, WhenTheShardRefusesAStream_TriesAgain_FP135) {
  Rig rig;
  rig.shard.complete = [&](Exchange& exchange) {
    if (rig.shard.exchanges.size() % 2 == 1) {
      exchange.stream->reset(Errc::kNotProcessed);
    } else {
      FakeShard::reply(exchange, 201, exchange.body);
    }
  };
  Answer get, post;
  rig.ask(get, Rig::get("/clusters/root/api"));
  EXPECT_EQ(get.status, 201);
  rig.send(post, Rig::request("POST", "/clusters/root/api", false), "kept");
  ASSERT_TRUE(rig.until([&] { return post.closed; }));
  EXPECT_EQ(post.status, 201);
  EXPECT_EQ(post.body, "kept");
  EXPECT_EQ(rig.shard.exchanges.size(), 4U);
  EXPECT_EQ(rig.handler->forward_stats().retries, 2U);
}

TEST(ForwardRetry, WhenTheBodyIsTooLargeToKeep_IsNotRepeated_FP135) {
  Rig rig;
  rig.shard.complete = [](Exchange& exchange) { exchange.stream->reset(Errc::kNotProcessed); };
  Answer post;
  rig.send(post, Rig::request("POST", "/clusters/root/api", false), std::string(100'000, 'x'));
  ASSERT_TRUE(rig.until([&] { return post.closed; }));
  EXPECT_EQ(post.status, 503);
  EXPECT_EQ(rig.shard.exchanges.size(), 1U);
}

// E8.
TEST(ForwardRetry, WhenTheAnswerNeverComes_OnlyReadsAreRepeated_FP135) {
  Rig rig;
  rig.shard.complete = [&](Exchange& exchange) {
    if (rig.shard.exchanges.size() == 1 || exchange.head.method == "POST") {
      exchange.stream->reset(Errc::kInternal);
    } else {
      reply_ok(exchange);
    }
  };
  Answer get, post;
  rig.ask(get, Rig::get("/clusters/root/api"));
  EXPECT_EQ(get.status, 200);
  EXPECT_EQ(rig.shard.exchanges.size(), 2U);
  rig.send(post, Rig::request("POST", "/clusters/root/api", false), "x");
  ASSERT_TRUE(rig.until([&] { return post.closed; }));
  expect_status(post, 502, "",
                "the backend closed the connection; the request may have been executed");
  EXPECT_EQ(post.header("retry-after"), "");
  EXPECT_EQ(rig.shard.exchanges.size(), 3U);
}

// E9, as HTTP/2 tells it.
TEST(ForwardRetry, WhenTheAnswerBreaksOff_TheStreamIsResetAndAWatchEnds_FP135) {
  Rig rig;
  rig.shard.answer = [](Exchange& exchange) { open_watch(exchange, event(1)); };
  Answer list, watch;
  rig.send(list, Rig::get("/clusters/root/api/v1/configmaps"));
  rig.send(watch, Rig::get(kWatch));
  ASSERT_TRUE(rig.until([&] { return !list.body.empty() && !watch.body.empty(); }));
  for (Exchange& exchange : rig.shard.exchanges) {
    exchange.stream->reset(Errc::kInternal);
  }
  ASSERT_TRUE(rig.until([&] { return list.closed && watch.closed; }));
  EXPECT_EQ(list.result, Errc::kReset);
  EXPECT_EQ(watch.result, Errc::kOk);
  EXPECT_TRUE(watch.ended);
}

TEST(ForwardRetry, WhenTheShardEndsAConnection_NothingFails_FP135) {
  Rig rig;
  rig.shard.answer = [](Exchange& exchange) {
    exchange.stream->close_connection_after();  // GOAWAY after every answer
    reply_ok(exchange);
  };
  for (int i = 0; i < 20; ++i) {
    Answer answer;
    rig.ask(answer, Rig::get("/clusters/root/api"));
    EXPECT_EQ(answer.status, 200);
  }
}

TEST(ForwardPaths, OneShardOnlyNeedsAPermission_FP108) {
  Rig rig;
  rig.shard.answer = reply_ok;
  rig.log_in();
  const auto ask = [&](const char* target) {
    Answer answer;
    rig.ask(answer, Rig::get(target));
    return answer.status;
  };
  EXPECT_EQ(ask("/shards/alpha/clusters/root/api"), 403);
  EXPECT_EQ(rig.permissions.asked.user.name, "alice");
  EXPECT_EQ(rig.permissions.asked.cluster, "root");
  EXPECT_EQ(rig.permissions.asked.path, "/shards/alpha/clusters/root/api");
  EXPECT_TRUE(rig.shard.exchanges.empty());
  rig.permissions.allow = true;
  EXPECT_EQ(ask("/shards/alpha/clusters/root/api"), 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.target, "/clusters/root/api");
  rig.permissions.allow = false;
  EXPECT_EQ(ask("/shards/alpha/services/apiexport/c/e/clusters/c1/api"), 200);
  EXPECT_EQ(rig.shard.exchanges.back().head.target, "/services/apiexport/c/e/clusters/c1/api");
  EXPECT_EQ(ask("/shards/nope/clusters/root/api"), 404);
}

// FP-160, the caller's right being what the rig says.
TEST(ForwardProbes, MetricsNeedAnIdentityAndAPermission_FP072) {
  Rig rig;
  rig.permissions.allow = true;
  Answer nobody;
  rig.ask(nobody, Rig::get("/metrics"));
  EXPECT_EQ(nobody.status, 401);
  Rig other;
  other.log_in();
  Answer denied, allowed;
  other.ask(denied, Rig::get("/metrics"));
  EXPECT_EQ(denied.status, 403);
  EXPECT_NE(denied.body.find(R"(User \"alice\" cannot get path \"/metrics\")"), std::string::npos)
      << denied.body;
  other.permissions.allow = true;
  other.ask(allowed, Rig::get("/metrics"));
  EXPECT_EQ(allowed.status, 200);
  EXPECT_EQ(allowed.body, "kintsugi_of_the_rig 1\n");
}

TEST(ForwardLimits, ManyWatchesSpreadOverConnectionsAndWritesAreNotDelayed_FP134) {
  Rig rig;
  rig.stop_shard();
  rig.shard_streams = 100;
  rig.start_shard();
  rig.shard.answer = [](Exchange& exchange) {
    if (exchange.head.method == "GET") {
      open_watch(exchange, event(1));
    }
  };
  rig.shard.complete = [](Exchange& exchange) {
    if (exchange.head.method == "POST") {
      reply_ok(exchange);
    }
  };
  std::list<Answer> watches(250);
  for (Answer& watch : watches) {
    rig.send(watch, Rig::get(kWatch));
  }
  ASSERT_TRUE(rig.until([&] { return rig.shard.exchanges.size() == 250; }));
  const net::Upstream& upstream = *rig.pool->find(rig.index.now().shard("alpha")->id)->upstream();
  EXPECT_EQ(upstream.stats(net::UpstreamClass::kWatch).connections, 3U);
  Answer post;
  rig.send(post, Rig::request("POST", "/clusters/root/api", false), "x");
  ASSERT_TRUE(rig.until([&] { return post.closed; }));
  EXPECT_EQ(post.status, 200);
  EXPECT_EQ(upstream.stats(net::UpstreamClass::kWrite).connections, 1U);
  EXPECT_EQ(rig.handler->forward_stats().watches, 250U);
}

// E12.
TEST(ForwardLimits, WhenTheBodyIsOverTheLimit_Says413_FP139) {
  Rig rig;
  Answer post;
  rig.send(post, Rig::request("POST", "/clusters/root/api", false), std::string(1'100'000, 'x'));
  ASSERT_TRUE(rig.until([&] { return post.closed; }));
  EXPECT_EQ(post.status, 413);
  EXPECT_EQ(parse(post.body).text({"reason"}), "RequestEntityTooLarge");
}

TEST(ForwardLimits, WhenAWatchRuns_ItsBytesAreCountedBeforeItEnds_FP083_FP140) {
  Rig rig;
  rig.shard.answer = [](Exchange& exchange) { open_watch(exchange, "11 bytes..."); };
  Answer watch;
  rig.send(watch, Rig::get(kWatch));
  ASSERT_TRUE(rig.until([&] { return watch.body.size() == 11; }));
  const ForwardStats& stats = rig.handler->forward_stats();
  EXPECT_EQ(stats.servers.at("alpha").down, 11U);
  EXPECT_EQ(stats.servers.at("alpha").watches, 1U);
  EXPECT_EQ(stats.servers.at("alpha").requests.at({"watch", 200}), 1U);
  EXPECT_EQ(stats.watches, 1U);
  EXPECT_EQ(stats.streams, 1U);
}

TEST(ForwardDrain, WatchesEndWithBookmarkAtABoundaryAndPostsGoOn_FP145) {
  Rig rig;
  rig.shard.answer = [](Exchange& exchange) {
    if (exchange.head.method == "GET") {
      open_watch(exchange, event(4) + event(5));
    }
  };
  rig.shard.complete = [](Exchange& exchange) {
    if (exchange.head.method == "POST") {
      reply_ok(exchange);
    }
  };
  Answer bookmarked, plain, halfway, post;
  // The first in the order of the drain: it has been asked to end when the others have ended.
  rig.send(halfway, Rig::get("/clusters/root:one/api/v1/configmaps?watch=1&allowWatchBookmarks=1"));
  ASSERT_TRUE(rig.until([&] { return !halfway.body.empty(); }));
  rig.send(bookmarked, Rig::get(kWatch));
  rig.send(plain, Rig::get("/clusters/root/api/v1/configmaps?watch=1"));
  rig.send(post, Rig::request("POST", "/clusters/root/api", false));
  post.stream->send_data(std::string(70'000, 'x'), false);  // what is shorter waits for its end
  const std::string both = event(4) + event(5);
  ASSERT_TRUE(rig.until([&] {
    return bookmarked.body == both && plain.body == both && halfway.body == both &&
           rig.shard.exchanges.size() == 4;
  }));
  Exchange* partial = nullptr;
  for (Exchange& exchange : rig.shard.exchanges) {
    partial = exchange.head.target.starts_with("/clusters/c1/") ? &exchange : partial;
  }
  const std::string next = event(6);
  partial->stream->send_data(std::string_view(next).substr(0, next.size() - 3), false);
  ASSERT_TRUE(rig.until([&] { return halfway.body.size() > both.size(); }));

  rig.handler->start_drain();
  rig.handler->end_watches(milliseconds(20));
  Answer readyz;
  rig.ask(readyz, Rig::get("/readyz"));
  EXPECT_EQ(readyz.status, 500);
  EXPECT_NE(readyz.body.find("[-]shutdown failed"), std::string::npos);
  ASSERT_TRUE(rig.until([&] { return bookmarked.closed && plain.closed; }));
  const auto bookmark = [](int version) {
    return R"({"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":")" +
           std::to_string(version) + "\"}}}\n";
  };
  EXPECT_EQ(bookmarked.body, both + bookmark(5));
  EXPECT_EQ(bookmarked.result, Errc::kOk);
  EXPECT_EQ(plain.body, both);
  EXPECT_EQ(plain.result, Errc::kOk);
  EXPECT_FALSE(halfway.closed);
  const std::string rest = next.substr(next.size() - 3) + event(7);
  partial->stream->send_data(std::string_view(rest), false);
  ASSERT_TRUE(rig.until([&] { return halfway.closed; }));
  EXPECT_EQ(halfway.result, Errc::kOk);
  EXPECT_EQ(halfway.body, both + next + bookmark(6));
  EXPECT_FALSE(post.closed);
  post.stream->send_data(std::string_view("done"), true);
  ASSERT_TRUE(rig.until([&] { return post.closed; }));
  EXPECT_EQ(post.status, 200);
  ASSERT_TRUE(rig.until([&] { return partial->stream == nullptr; }));  // the shard's side ends too
}

TEST(ForwardDrain, WhenAWatchIsYoung_ItLivesForASecond_FP145) {
  Rig rig;
  rig.shard.answer = [](Exchange& exchange) { open_watch(exchange, ""); };
  rig.handler->end_watches(milliseconds(10));
  const TimePoint before = Clock::now();
  Answer watch;
  rig.send(watch, Rig::get(kWatch));
  ASSERT_TRUE(rig.until([&] { return watch.closed; }));
  EXPECT_EQ(watch.result, Errc::kOk);
  EXPECT_EQ(watch.body, "");
  EXPECT_GE(Clock::now() - before, milliseconds(990));
}

TEST(ForwardDrain, WhenAProofEnds_SE042_OnlyWatchesThatRestOnItEnd) {
  Rig rig;
  rig.shard.answer = [](Exchange& exchange) { open_watch(exchange, event(4)); };
  rig.log_in();
  auto proof = std::make_shared<auth::Proof>();
  const auto* alice = static_cast<const auth::CertificateIdentity*>(rig.identity.get());
  const_cast<auth::CertificateIdentity*>(alice)->proof = proof;
  Answer watch;
  rig.send(watch, Rig::get(kWatch));
  ASSERT_TRUE(rig.until([&] { return watch.body == event(4); }));
  rig.handler->end_unproven();
  proof->ended = true;
  Answer late;  // its head comes when it is known already
  rig.send(late, Rig::get(kWatch));
  ASSERT_TRUE(rig.until([&] { return late.body == event(4) || late.closed; }));
  rig.handler->end_unproven();
  ASSERT_TRUE(rig.until([&] { return watch.closed && late.closed; }));
  for (const Answer* one : {&watch, &late}) {
    EXPECT_EQ(one->result, Errc::kOk);
    EXPECT_NE(one->body.find("BOOKMARK"), std::string::npos);
  }
}

TEST(ForwardDrain, WhenAShardIsElsewhere_FP116_ItsWatchesEndInOrderAndBeginAgainThere) {
  Rig rig;
  rig.shard.answer = [](Exchange& exchange) { open_watch(exchange, event(4)); };
  Answer watch;
  rig.send(watch, Rig::get(kWatch));
  ASSERT_TRUE(rig.until([&] { return watch.body == event(4); }));
  rig.move_shard();
  Answer again;
  rig.send(again, Rig::get(kWatch));
  ASSERT_TRUE(rig.until([&] { return watch.closed && !again.body.empty(); }));
  EXPECT_EQ(watch.result, Errc::kOk);
  EXPECT_NE(watch.body.find("BOOKMARK"), std::string::npos);
  EXPECT_FALSE(again.closed);
  const auto one = rig.shard.exchanges.begin();
  ASSERT_TRUE(rig.until([&] { return one->stream == nullptr; }));
  EXPECT_EQ(rig.handler->forward_stats().watches, 1U);
}

TEST(ForwardProbes, AnswerWithoutIdentity_FP141) {
  Rig rig;
  rig.ready = false;
  const auto ask = [&](const char* target) {
    Answer answer;
    rig.ask(answer, Rig::get(target));
    return std::to_string(answer.status) + " " + answer.body;
  };
  EXPECT_EQ(ask("/livez"), "200 ok");
  EXPECT_EQ(ask("/livez/ping"), "200 ok");
  EXPECT_EQ(
      ask("/readyz"),
      "500 [+]ping ok\n[-]informer-sync failed: reason withheld\n[+]shutdown ok\nreadyz check "
      "failed\n");
  rig.ready = true;
  EXPECT_EQ(ask("/readyz"), "200 ok");
  EXPECT_EQ(ask("/readyz/informer-sync"), "200 ok");
  EXPECT_EQ(ask("/readyz?verbose"),
            "200 [+]ping ok\n[+]informer-sync ok\n[+]shutdown ok\nreadyz check passed\n");
  EXPECT_EQ(ask("/healthz"), "200 ok");
  EXPECT_EQ(ask("/healthz?verbose"), "200 [+]ping ok\nhealthz check passed\n");
  EXPECT_EQ(ask("/version"), "200 " + krm::version_document());
}

TEST(ForwardErrors, TheBodyIsWhatTheClientAccepts_FP148) {
  Rig rig;
  const auto type_of = [&](const char* accept, const char* method) {
    http::RequestHead head = Rig::request(method, "/clusters/nope/api");
    head.headers.add("accept", accept);
    Answer answer;
    rig.ask(answer, head);
    EXPECT_EQ(answer.status, 403);
    EXPECT_EQ(answer.body.empty(), head.method == "HEAD");
    return answer.header("content-type");
  };
  EXPECT_EQ(type_of("application/json", "GET"), "application/json");
  EXPECT_EQ(type_of("application/yaml", "GET"), "application/yaml");
  EXPECT_EQ(type_of("application/vnd.kubernetes.protobuf", "GET"),
            "application/vnd.kubernetes.protobuf");
  EXPECT_EQ(type_of("text/html", "GET"), "application/json");
  EXPECT_EQ(type_of("application/json", "HEAD"), "application/json");
  http::RequestHead head = Rig::get("/clusters/nope/api");
  head.headers.add("user-agent", "curl/8");
  Answer pretty;
  rig.ask(pretty, head);
  EXPECT_NE(pretty.body.find("\n  \"kind\": \"Status\""), std::string::npos) << pretty.body;
}

}  // namespace
}  // namespace kintsugi::proxy
