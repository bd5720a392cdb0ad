#include "shards/informer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "shards/shard_client.h"
#include "shards/testing/support.h"

namespace kintsugi::shards {
namespace {

using testing::FakeServer;
using testing::run_until;

struct Sink final : InformerSink {
  std::set<std::string> objects;
  int synced = 0, refused = 0;
  void on_upsert(const ObjectKey& key, const krm::Json&) override {
    objects.insert(std::string(key.cluster) + "/" + std::string(key.name));
  }
  void on_delete(const ObjectKey& key) override {
    objects.erase(std::string(key.cluster) + "/" + std::string(key.name));
  }
  void on_synced() override { ++synced; }
  void on_refused(int) override { ++refused; }
};

class InformerTest : public ::testing::Test {
 protected:
  InformerTest() : server(loop), other(loop) {
    server.open();
    other.open();
    for (FakeServer* s : {&server, &other}) {
      s->add_collection("/things");
    }
    params.target = "/things";
    params.rest_min = milliseconds(1);
    headers.add("user-agent", "kintsugi-proxy/test");
  }
  net::Loop loop{"test"};
  FakeServer server, other;
  Sink sink;
  InformerParams params;
  http::HeaderList headers;
};

TEST_F(InformerTest, WhenObjectsChange_FollowsThem) {
  server.put("/things", "one", "a");
  auto upstream = net::Upstream::make(loop, FakeServer::upstream(server.url()));
  Informer informer(loop, params, headers, sink);
  informer.start(*upstream);
  ASSERT_TRUE(run_until(loop, [&] { return sink.synced == 1; }));
  EXPECT_EQ(sink.objects, (std::set<std::string>{"one/a"}));
  server.put("/things", "two", "b");
  ASSERT_TRUE(run_until(loop, [&] { return sink.objects.size() == 2; }));
  server.remove("/things", "one", "a");
  ASSERT_TRUE(run_until(loop, [&] { return sink.objects.size() == 1; }));
  ASSERT_EQ(server.log.size(), 1U);
  EXPECT_EQ(server.log[0].headers.get("accept"), "application/json");
  EXPECT_EQ(server.log[0].headers.get("user-agent"), "kintsugi-proxy/test");
}

TEST_F(InformerTest, FP118_WhenTheRevisionIsGone_VanishedObjectsGo) {
  server.put("/things", "one", "a");
  server.put("/things", "one", "b");
  auto upstream = net::Upstream::make(loop, FakeServer::upstream(server.url()));
  Informer informer(loop, params, headers, sink);
  informer.start(*upstream);
  ASSERT_TRUE(run_until(loop, [&] { return sink.synced == 1; }));
  server.forget("/things", "one", "a");
  server.send_event("/things", "ERROR", R"({"code":410})");
  ASSERT_TRUE(run_until(loop, [&] { return sink.synced == 2; }));
  EXPECT_EQ(sink.objects, (std::set<std::string>{"one/b"}));
}

TEST_F(InformerTest, WhenTheServerGoesAndComesBack_Resumes) {
  auto upstream = net::Upstream::make(loop, FakeServer::upstream(server.url()));
  Informer informer(loop, params, headers, sink);
  informer.start(*upstream);
  ASSERT_TRUE(run_until(loop, [&] { return sink.synced == 1; }));
  const std::uint16_t port = server.port();
  server.close();
  ASSERT_TRUE(run_until(loop, [&] { return informer.machine().counters().failures >= 2; }));
  EXPECT_TRUE(informer.machine().synced()) << "stale, but synced";
  server.open(port);
  ASSERT_TRUE(run_until(loop, [&] { return server.watches("/things") == 1; }));
  EXPECT_NE(server.log.back().target.find("resourceVersion="), std::string::npos);
  EXPECT_EQ(server.log.back().target.find("sendInitialEvents"), std::string::npos);
}

TEST_F(InformerTest, WhenTheUpstreamIsReplaced_ListsAtTheNewOne) {
  server.put("/things", "one", "a");
  server.put("/things", "one", "b");
  other.put("/things", "one", "b");
  auto upstream = net::Upstream::make(loop, FakeServer::upstream(server.url()));
  auto next = net::Upstream::make(loop, FakeServer::upstream(other.url()));
  Informer informer(loop, params, headers, sink);
  informer.start(*upstream);
  ASSERT_TRUE(run_until(loop, [&] { return sink.synced == 1; }));
  informer.set_upstream(*next);
  ASSERT_TRUE(run_until(loop, [&] { return sink.synced == 2; }));
  EXPECT_EQ(sink.objects, (std::set<std::string>{"one/b"}));
  ASSERT_TRUE(run_until(loop, [&] { return server.watches("/things") == 0; }));
}

TEST_F(InformerTest, WhenRefused_TellsAndTriesAnotherTarget) {
  params.target = "/things:old";
  auto upstream = net::Upstream::make(loop, FakeServer::upstream(server.url()));
  Informer informer(loop, params, headers, sink);
  informer.start(*upstream);
  ASSERT_TRUE(run_until(loop, [&] { return sink.refused >= 2; }));
  informer.set_target("/things");
  ASSERT_TRUE(run_until(loop, [&] { return sink.synced == 1; }));
}

TEST_F(InformerTest, WhenDestroyedInTheMiddle_NothingRunsLater) {
  auto upstream = net::Upstream::make(loop, FakeServer::upstream(server.url()));
  auto informer = std::make_unique<Informer>(loop, params, headers, sink);
  informer->start(*upstream);
  ASSERT_TRUE(run_until(loop, [&] { return !server.log.empty(); }));
  informer.reset();
  server.put("/things", "one", "a");
  ASSERT_TRUE(run_until(loop, [&] { return server.watches("/things") == 0; }));
  EXPECT_TRUE(sink.objects.empty());
}

TEST_F(InformerTest, FP157_WhenTheServerRefuses_TheBodyIsHeardAndTheEnd) {
  server.serve("/things", 403, "not for you");
  auto upstream = net::Upstream::make(loop, FakeServer::upstream(server.url()));
  std::vector<std::string> heard;
  Informer informer(loop, params, headers, sink);
  informer.tell_answers([&](std::string_view target, int status, std::string_view body) {
    heard.push_back(std::string(target.substr(0, target.find('?'))) + " " + std::to_string(status) +
                    " " + std::string(body));
    EXPECT_NE(target.find("watch=true"), std::string_view::npos);
  });
  informer.start(*upstream);
  ASSERT_TRUE(run_until(loop, [&] { return heard.size() >= 3; }));
  EXPECT_EQ(heard, (std::vector<std::string>(heard.size(), heard.front())));
  EXPECT_EQ(heard.front(), "/things 403 not for you");
  EXPECT_EQ(sink.refused, static_cast<int>(heard.size()));
  server.serve("/things", 0, "");
  ASSERT_TRUE(run_until(loop, [&] { return sink.synced == 1; }));
  EXPECT_EQ(heard.back(), "/things 200 ");
}

TEST_F(InformerTest, FP157_WhenAPageOfAListIsRefused_ItsBodyIsHeardToItsBound) {
  const std::string body(6'000, 'x');
  server.serve("/things", 400, body);  // watches with initial events are not known there: pages are
  auto upstream = net::Upstream::make(loop, FakeServer::upstream(server.url()));
  std::vector<std::string> heard;
  Informer informer(loop, params, headers, sink);
  informer.tell_answers([&](std::string_view target, int status, std::string_view said) {
    if (status >= 400 && target.find("watch=true") == std::string_view::npos) {
      heard.emplace_back(said);
    }
  });
  informer.start(*upstream);
  ASSERT_TRUE(run_until(loop, [&] { return !heard.empty(); }));
  EXPECT_EQ(heard.front(), body.substr(0, 4'096));
}

class ShardClientTest : public ::testing::Test {
 protected:
  ShardClientTest() : server(loop), other(loop) {
    params.name = "beta";
    params.upstream = [](const std::string& url) -> Expected<net::UpstreamParams> {
      auto parsed = net::Url::parse(url);
      if (!parsed) {
        return fail(Errc::kConfig, "no URL");
      }
      return FakeServer::upstream(url);
    };
    params.probe_every = milliseconds(2);
    for (FakeServer* s : {&server, &other}) {
      s->open();
      s->serve("/livez", 500, "an application answer counts as up");
    }
  }
  net::Loop loop{"test"};
  FakeServer server, other;
  ShardClientParams params;
  int changes = 0;
};

TEST_F(ShardClientTest, FP136_WhenTheShardStopsAndReturns_HealthFollows) {
  ShardClient client(loop, params, [&] { ++changes; });
  ASSERT_TRUE(client.set_base_url(server.url()));
  ASSERT_TRUE(run_until(loop, [&] { return server.count("/livez") >= 3; }));
  EXPECT_TRUE(client.up());
  EXPECT_EQ(changes, 0);
  const std::uint16_t port = server.port();
  server.close();
  ASSERT_TRUE(run_until(loop, [&] { return !client.up(); }));
  EXPECT_FALSE(client.cause().empty());
  EXPECT_EQ(changes, 1);
  server.open(port);
  ASSERT_TRUE(run_until(loop, [&] { return client.up(); }));
  EXPECT_EQ(client.cause(), "");
  EXPECT_EQ(changes, 2);
}

TEST_F(ShardClientTest, FP026_WhenTheBaseUrlChanges_TheOldUpstreamDrains) {
  params.probe = false;
  ShardClient client(loop, params);
  server.add_collection("/things");
  ASSERT_TRUE(client.set_base_url(server.url()));
  net::FetchRequest request;
  request.target = "/things?watch=true";
  bool ended = false;
  auto call = net::stream(loop, *client.upstream(), std::move(request),
                          {nullptr, nullptr, [&](Errc cause) { ended = cause == Errc::kOk; }});
  ASSERT_TRUE(run_until(loop, [&] { return server.watches("/things") == 1; }));
  net::Upstream* before = client.upstream();
  ASSERT_TRUE(client.set_base_url(other.url()));
  EXPECT_NE(client.upstream(), before);
  EXPECT_EQ(client.draining(), 1U);
  server.end_watches("/things");
  ASSERT_TRUE(run_until(loop, [&] { return ended && client.draining() == 0; }));
}

TEST_F(ShardClientTest, WhenTheBaseUrlIsUnusable_HasNoUpstream) {
  ShardClient client(loop, params);
  EXPECT_FALSE(client.set_base_url("nonsense"));
  EXPECT_EQ(client.upstream(), nullptr);
  EXPECT_FALSE(client.cause().empty());
  EXPECT_TRUE(client.set_base_url(server.url()));
  EXPECT_NE(client.upstream(), nullptr);
}

}  // namespace
}  // namespace kintsugi::shards
