#include "topology/feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "shards/testing/support.h"
#include "topology/resolver.h"
#include "topology/testing/reports.h"

namespace kintsugi::topology {
namespace {

using Kind = Resolution::Kind;
using shards::testing::FakeServer;
using shards::testing::run_until;

const std::string kExports = "/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports/";
const std::string kShards = "/clusters/root/apis/core.kcp.io/v1alpha1/shards";
const std::string kWorkspaces = "/clusters/%2A/apis/tenancy.kcp.io/v1alpha1/workspaces:";
const std::string kClusters = "/clusters/%2A/apis/core.kcp.io/v1alpha1/logicalclusters";
const std::string kWildcardExports = "/clusters/%2A/apis/apis.kcp.io/v1alpha2/apiexports";
const std::string kBindings = "/clusters/%2A/apis/apis.kcp.io/v1alpha2/apibindings";

std::string identity(const std::string& hash) {
  return R"({"status":{"identityHash":")" + hash + R"("}})";
}

struct Listener final : FeedListener {
  std::vector<std::string> log;
  void on_change(const ShardChanged& c) override {
    log.push_back((c.removed ? "-shard " : "+shard ") + c.shard.spec.name);
  }
  void object(const char* what, const ObjectChanged& c) {
    log.push_back((c.object != nullptr ? "+" : "-") + std::string(what) + " " +
                  std::string(c.cluster) + "/" + std::string(c.name));
  }
  void on_change(const WorkspaceChanged& c) override { object("ws", c); }
  void on_change(const LogicalClusterChanged& c) override { object("lc", c); }
  void on_change(const ExportChanged& c) override { object("export", c); }
  void on_change(const BindingChanged& c) override { object("binding", c); }
  void on_change(const WorkspaceTypeChanged& c) override { object("type", c); }
  void on_change(const WorkspaceAuthenticationChanged& c) override { object("issuers", c); }
  void on_change(const CachedSliceChanged& c) override { object("slice", c); }
  void on_change(const CachedSlicesSynced& c) override {
    log.push_back("slices of " + std::to_string(c.shard));
  }
  void on_change(const AuthenticationSynced& c) override {
    log.push_back("types of " + std::to_string(c.shard));
  }
  void on_change(const SyncedChanged& c) override {
    log.push_back(std::string(c.synced ? "synced " : "unsynced ") +
                  std::string(resource_name(c.resource)));
  }
  [[nodiscard]] bool has(const std::string& line) const {
    return std::find(log.begin(), log.end(), line) != log.end();
  }
};

class FeedTest : public ::testing::Test {
 protected:
  FeedTest() : root(loop), beta(loop), moved(loop), view(publisher.attach(loop)) {
    for (FakeServer* s : {&root, &beta, &moved}) {
      s->open();
      s->serve("/livez", 200, "ok");
      for (const std::string& path : {kWorkspaces + "h1", kClusters, kWildcardExports, kBindings}) {
        s->add_collection(path);
      }
    }
    root.serve(kExports + "tenancy.kcp.io", 200, identity("h1"));
    root.serve(kExports + "topology.kcp.io", 200, identity("h2"));
    root.serve(kExports + "shards.core.kcp.io", 200, identity("h3"));
    root.add_collection(kShards);
    put_shard("root", root.url());
    put_shard("beta", beta.url());
    put_cluster(root, "root");
    put_cluster(beta, "one", "root:org");
    put_workspace(root, "root", "org", "one");
    params.root = FakeServer::upstream(root.url());
    params.shard = [](const std::string&, const std::string& url) -> Expected<net::UpstreamParams> {
      if (!net::Url::parse(url)) {
        return fail(Errc::kConfig, "no URL");
      }
      return FakeServer::upstream(url);
    };
    params.identity_poll = milliseconds(5);
    params.identity_pause = milliseconds(20);
    params.root_headers.add("user-agent", "kintsugi-proxy/test");
    params.shard_headers.add("user-agent", "kintsugi-proxy/test");
  }
  void put_shard(const std::string& name, const std::string& url,
                 const std::string& region = "eu") {
    root.put(kShards, "root", name, R"(,"spec":{"baseURL":")" + url + R"("})",
             R"(,"labels":{"region":")" + region + R"("})");
  }
  /// @param owner  "<cluster>:<name>" of the Workspace that it belongs to.
  static void put_cluster(FakeServer& server, const std::string& cluster,
                          const std::string& owner = {}) {
    const std::size_t colon = owner.find(':');
    server.put(kClusters, cluster, "cluster",
               owner.empty()
                   ? std::string()
                   : R"(,"spec":{"owner":{"apiVersion":"tenancy.kcp.io/v1alpha1",)"
                     R"("resource":"workspaces","cluster":")" +
                         owner.substr(0, colon) + R"(","name":")" + owner.substr(colon + 1) +
                         R"(","uid":"uid of )" + owner + R"("}})");
  }
  static void put_workspace(FakeServer& server, const std::string& cluster, const std::string& name,
                            const std::string& child, const std::string& hash = "h1") {
    server.put(kWorkspaces + hash, cluster, name,
               R"(,"spec":{"cluster":")" + child + R"("},"status":{"phase":"Ready"})",
               R"(,"uid":")" + testing_uid(cluster, name) + R"(")");
  }
  void start() {
    feed = std::make_unique<Feed>(loop, params, publisher);
    feed->add_listener(listener);
    feed->start();
  }
  bool until(const std::function<bool()>& done) { return run_until(loop, done); }
  /// What data loops answer now.
  [[nodiscard]] std::string answer(const std::string& path) const {
    const Resolution r = resolve(view->current(), path);
    return r.resolved() ? r.shard->spec.name + "/" + std::string(r.cluster)
                        : std::string(kind_name(r.kind));
  }

  net::Loop loop{"test"};
  FakeServer root, beta, moved;
  SnapshotPublisher publisher;
  std::shared_ptr<SnapshotView> view;
  FeedParams params;
  Listener listener;
  std::unique_ptr<Feed> feed;
};

TEST_F(FeedTest, FP128_WhenAuthenticationIsWanted_PassesItOn) {
  const std::string types = "/clusters/%2A/apis/tenancy.kcp.io/v1alpha1/workspacetypes:h1";
  const std::string issuers =
      "/clusters/%2A/apis/tenancy.kcp.io/v1alpha1/workspaceauthenticationconfigurations:h1";
  root.add_collection(types);
  root.add_collection(issuers);
  beta.add_collection(types);  // an older shard: it does not know the other kind
  root.put(types, "root", "team", "");
  root.put(issuers, "root", "sso", "");
  params.authentication = true;
  start();
  EXPECT_TRUE(until([&] { return listener.has("types of 1") && listener.has("types of 2"); }));
  EXPECT_TRUE(listener.has("+type root/team"));
  EXPECT_TRUE(listener.has("+issuers root/sso"));
  root.remove(issuers, "root", "sso");
  EXPECT_TRUE(until([&] { return listener.has("-issuers root/sso"); }));
}

TEST_F(FeedTest, KK_201_WhenCachedSlicesAreWanted_PassesThemOn) {
  const std::string path =
      "/clusters/%2A/apis/cache.kcp.io/v1alpha1/clustercachedresourceendpointslices";
  params.cached_slices = true;
  beta.add_collection(path);
  beta.put(path, "one", "flavors", R"(,"spec":{"partition":"eu"})");
  start();
  ASSERT_TRUE(until([&] { return feed->ready() && listener.has("+slice one/flavors"); }));
  const ShardInfo* shard = feed->index().shard("beta");
  ASSERT_NE(shard, nullptr);
  ASSERT_TRUE(until([&] { return listener.has("slices of " + std::to_string(shard->id)); }));
  beta.remove(path, "one", "flavors");
  ASSERT_TRUE(until([&] { return listener.has("-slice one/flavors"); }));
  ASSERT_NE(feed->upstream("beta"), nullptr);
  EXPECT_EQ(feed->upstream("nobody"), nullptr);
  put_shard("beta", moved.url());
  moved.add_collection(path);
  moved.put(path, "one", "others");
  EXPECT_TRUE(until([&] { return listener.has("+slice one/others"); }));
}

TEST_F(FeedTest, FP104_FP151_WhenStarted_AsksInOrderAndNothingElse) {
  start();
  EXPECT_FALSE(feed->ready());
  EXPECT_EQ(answer("root"), "not-known");
  ASSERT_TRUE(until([&] { return feed->ready() && answer("root:org") == "beta/one"; }));
  ASSERT_TRUE(until([&] { return listener.has("synced apibindings"); }));
  EXPECT_EQ(feed->identity("tenancy.kcp.io"), "h1");
  EXPECT_EQ(feed->identity("migration.kcp.io"), "");

  const auto position = [&](const std::string& prefix) {
    const auto at = std::find_if(root.log.begin(), root.log.end(), [&](const auto& request) {
      return request.target.substr(0, prefix.size()) == prefix;
    });
    EXPECT_NE(at, root.log.end()) << prefix;
    return at - root.log.begin();
  };
  EXPECT_LT(position(kExports + "tenancy.kcp.io"), position(kShards + "?watch=true&"));
  EXPECT_LT(position(kShards), position(kWorkspaces + "h1?watch=true"));
  EXPECT_LT(position(kShards), position(kClusters + "?watch=true"));
  for (const FakeServer* server : {&root, &beta}) {
    for (const auto& request : server->log) {
      const std::string& target = request.target;
      const bool stated = target.substr(0, kExports.size()) == kExports ||
                          target.substr(0, kShards.size()) == kShards || target == "/livez" ||
                          target.substr(0, 15) == "/clusters/%2A/a";
      EXPECT_TRUE(stated) << target;
      EXPECT_EQ(request.headers.get("accept"), "application/json");
      EXPECT_EQ(request.headers.get("user-agent"), "kintsugi-proxy/test");
      for (std::size_t i = 0; i < request.headers.size(); ++i) {
        EXPECT_NE(request.headers[i].name.substr(0, 9), "x-remote-");
      }
    }
    for (const std::string& path : {kWorkspaces + "h1", kClusters, kWildcardExports, kBindings}) {
      EXPECT_EQ(server->count(path + "?"), 1U) << path;
    }
  }
}

TEST_F(FeedTest, FP103_WhenRootIsUnreachableAtStart_StartsWhenItComes) {
  const std::uint16_t port = root.port();
  root.close();
  start();
  int turns = 0;
  ASSERT_TRUE(until([&] { return ++turns > 100; }));
  EXPECT_FALSE(feed->ready());
  EXPECT_EQ(answer("root"), "not-known");
  root.open(port);
  ASSERT_TRUE(until([&] { return feed->ready() && answer("root:org") == "beta/one"; }));
}

TEST_F(FeedTest, FP103_WhenTheIdentityIsMissing_NothingElseIsAsked) {
  root.serve(kExports + "tenancy.kcp.io", 200, R"({"status":{}})");
  start();
  ASSERT_TRUE(until([&] { return root.count(kExports + "tenancy.kcp.io") > 3; }));
  EXPECT_EQ(root.count(kShards), 0U);
  root.serve(kExports + "tenancy.kcp.io", 200, identity("h1"));
  ASSERT_TRUE(until([&] { return answer("root:org") == "beta/one"; }));
}

TEST_F(FeedTest, WhenObjectsChange_RoutesFollowAndListenersHear) {
  start();
  ASSERT_TRUE(until([&] { return answer("root:org") == "beta/one"; }));
  put_cluster(beta, "two", "one:rh");
  put_workspace(beta, "one", "rh", "two");
  ASSERT_TRUE(until([&] { return answer("root:org:rh") == "beta/two"; }));
  beta.remove(kWorkspaces + "h1", "one", "rh");
  ASSERT_TRUE(until([&] { return answer("root:org:rh") == "not-found"; }));
  EXPECT_EQ(answer("two"), "beta/two");
  beta.remove(kClusters, "two", "cluster");
  ASSERT_TRUE(until([&] { return answer("two") == "not-found"; }));
  beta.put(kWildcardExports, "one", "widgets");
  root.put(kBindings, "root", "widgets");
  ASSERT_TRUE(until([&] {
    return listener.has("+export one/widgets") && listener.has("+binding root/widgets");
  }));
  root.remove(kBindings, "root", "widgets");
  put_shard("beta", beta.url(), "us");
  ASSERT_TRUE(until([&] {
    return listener.has("-binding root/widgets") &&
           *view->current().shard("beta")->spec.label("region") == "us";
  }));
  for (const char* line : {"+lc two/cluster", "-lc two/cluster", "+ws one/rh", "-ws one/rh"}) {
    EXPECT_TRUE(listener.has(line)) << line;
  }
  EXPECT_EQ(std::count(listener.log.begin(), listener.log.end(), "+shard beta"), 2);
  EXPECT_GT(feed->stats().publications, 0U);
}

TEST_F(FeedTest, FP012_WhenAShardIsRemoved_ItsFactsGoAndItsStreamsStop) {
  start();
  ASSERT_TRUE(until([&] { return answer("root:org") == "beta/one"; }));
  root.remove(kShards, "root", "beta");
  ASSERT_TRUE(until([&] { return answer("root:org") == "not-found"; }));
  EXPECT_TRUE(listener.has("-shard beta"));
  ASSERT_TRUE(until([&] { return beta.watches(kClusters) == 0; }));
  put_shard("beta", beta.url());
  ASSERT_TRUE(until([&] { return answer("root:org") == "beta/one"; }));
}

TEST_F(FeedTest, FP018_FP026_WhenTheBaseUrlChanges_FactsStayAndAreListedAnew) {
  put_cluster(beta, "vanished");
  start();
  ASSERT_TRUE(until([&] { return answer("vanished") == "beta/vanished"; }));
  put_cluster(moved, "one", "root:org");
  put_shard("beta", moved.url());
  ASSERT_TRUE(until([&] { return view->current().shard("beta")->spec.base_url == moved.url(); }));
  EXPECT_EQ(answer("root:org"), "beta/one") << "old facts stay usable";
  ASSERT_TRUE(until([&] { return answer("vanished") == "not-found"; }));
  EXPECT_EQ(answer("root:org"), "beta/one");
  EXPECT_TRUE(listener.has("unsynced logicalclusters"));
  ASSERT_TRUE(until([&] { return beta.watches(kClusters) == 0; }));
  EXPECT_EQ(moved.watches(kClusters), 1U);
}

TEST_F(FeedTest, FP118_WhenTheIdentityHashChanges_TheInformerRestartsWithTheNewOne) {
  start();
  ASSERT_TRUE(until([&] { return answer("root:org") == "beta/one"; }));
  root.serve(kExports + "tenancy.kcp.io", 200, identity("n1"));
  for (FakeServer* server : {&root, &beta}) {
    server->add_collection(kWorkspaces + "n1");
  }
  put_cluster(beta, "nova", "root:fresh");
  put_workspace(root, "root", "fresh", "nova", "n1");
  for (FakeServer* server : {&root, &beta}) {
    server->remove_collection(kWorkspaces + "h1");
  }
  ASSERT_TRUE(until([&] { return answer("root:fresh") == "beta/nova"; }));
  EXPECT_EQ(answer("root:org"), "not-found") << "what the new collection does not list is gone";
  EXPECT_EQ(feed->identity("tenancy.kcp.io"), "n1");
}

TEST_F(FeedTest, FP110_FP111_WhenAShardIsNotSynced_AnswersStayOpenUntilItIs) {
  beta.serve(kClusters, 503, "{}");
  start();
  ASSERT_TRUE(until([&] { return answer("root") == "root/root"; }));
  ASSERT_TRUE(until([&] { return beta.count(kClusters) >= 2; }));
  EXPECT_EQ(answer("one"), "not-known");
  EXPECT_EQ(answer("root:org"), "not-known");
  EXPECT_EQ(answer("root:nope"), "not-found");
  EXPECT_FALSE(feed->ready());
  beta.serve(kClusters, 0, "");
  ASSERT_TRUE(until([&] { return answer("root:org") == "beta/one"; }));
  EXPECT_EQ(answer("nope"), "not-found");
  EXPECT_TRUE(feed->ready());
}

TEST_F(FeedTest, WhenRootHasNoShardYet_ReadinessWaitsForTheFirst) {
  root.remove(kShards, "root", "root");
  root.remove(kShards, "root", "beta");
  start();
  ASSERT_TRUE(until([&] { return feed->index().shards_listed(); }));
  EXPECT_FALSE(feed->ready());
  put_shard("root", root.url());
  EXPECT_TRUE(until([&] { return feed->ready() && answer("root") == "root/root"; }));
}

TEST_F(FeedTest, WhenAnotherShardRegistersBeforeRoot_ReadinessWaitsForRoot) {
  root.remove(kShards, "root", "root");
  start();
  ASSERT_TRUE(until([&] {
    const ShardInfo* shard = feed->index().shard("beta");
    return shard != nullptr && shard->is_synced(Resource::kWorkspaces) &&
           shard->is_synced(Resource::kLogicalClusters);
  }));
  EXPECT_FALSE(feed->ready()) << "nobody can be told where root is";
  put_shard("root", root.url());
  EXPECT_TRUE(until([&] { return feed->ready() && answer("root") == "root/root"; }));
}

TEST_F(FeedTest, FP113_WhenAShardIsNeverReached_ReadinessWaitsNoLongerThanTheLimit) {
  params.ready_limit = milliseconds(50);
  put_shard("far", "http://127.0.0.1:1");
  put_shard("odd", "nonsense");
  start();
  ASSERT_TRUE(until([&] { return feed->ready() && answer("root:org") == "beta/one"; }));
  EXPECT_EQ(answer("root:nope"), "not-found");
  EXPECT_EQ(answer("nope"), "not-known");
  ASSERT_TRUE(until([&] { return feed->status().size() == 4; }));
  for (const auto& status : feed->status()) {
    EXPECT_EQ(status.resources[1].synced, status.name == "root" || status.name == "beta");
  }
  root.remove(kShards, "root", "far");
  root.remove(kShards, "root", "odd");
  ASSERT_TRUE(until([&] { return answer("nope") == "not-found"; }));
}

TEST_F(FeedTest, WhenDestroyedWhileRunning_StopsQuietly) {
  start();
  ASSERT_TRUE(until([&] { return answer("root:org") == "beta/one"; }));
  feed.reset();
  put_cluster(beta, "two");
  ASSERT_TRUE(until([&] { return beta.watches(kClusters) == 0; }));
  EXPECT_EQ(answer("root:org"), "beta/one") << "the last snapshot stays";
}

TEST_F(FeedTest, FP157_WhenServersRefuse_WhatAndWhyIsKnownUntilTheyAnswer) {
  root.serve(kExports + "tenancy.kcp.io", 403, R"({"message":"exports are forbidden"})");
  params.who = [](const std::string& server) { return "me-at-" + server; };
  start();
  ASSERT_TRUE(until([&] { return feed->refusals().size() == 1; }));
  EXPECT_EQ(feed->refusals().front().text(), "root: " + kExports +
                                                 "tenancy.kcp.io: 403 exports are forbidden "
                                                 "(asked as me-at-root)");
  ASSERT_TRUE(until([&] { return feed->refusals().front().times > 5; }));
  EXPECT_FALSE(feed->ready());
  beta.remove_collection(kClusters);  // 404
  root.serve(kExports + "tenancy.kcp.io", 200, identity("h1"));
  ASSERT_TRUE(until(
      [&] { return feed->refusals().size() == 1 && feed->refusals().front().server == "beta"; }));
  EXPECT_EQ(feed->refusals().front().path, kClusters);
  EXPECT_EQ(feed->refusals().front().code, 404);
  beta.add_collection(kClusters);
  put_cluster(beta, "one", "root:org");
  ASSERT_TRUE(until([&] { return feed->ready() && feed->refusals().empty(); }));
}

TEST_F(FeedTest, FP157_WhenAShardGoes_ItRefusesNothingAnyMore) {
  beta.remove_collection(kClusters);
  start();
  ASSERT_TRUE(until([&] { return feed->refusals().size() == 1; }));
  root.remove(kShards, "root", "beta");
  ASSERT_TRUE(until([&] { return feed->refusals().empty(); }));
}

}  // namespace
}  // namespace kintsugi::topology
