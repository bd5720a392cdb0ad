#include "kinds/quota/quota.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <memory>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_admission.h"
#include "kinds/builtin_kinds.h"
#include "kinds/controllers/quota_usage.h"
#include "store/lmdb/lmdb_store.h"

namespace kintsugi::kinds {
namespace {

using apiserver::testing::config_map;
using apiserver::testing::Exchange;
using apiserver::testing::FakeServer;
using krm::Json;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";
constexpr const char* kWidgets = "/apis/ex.io/v1/namespaces/t1/widgets";
constexpr const char* kQuotas = "/api/v1/namespaces/t1/resourcequotas";

std::vector<apiserver::ResourcePtr> kinds() {
  std::vector<apiserver::ResourcePtr> all = builtin_kinds();
  all.push_back(apiserver::testing::widget_kind());
  return all;
}

Json widget(std::string_view name) {
  return Json::object({{"apiVersion", "ex.io/v1"},
                       {"kind", "Widget"},
                       {"metadata", Json::object({{"name", name}})}});
}

/// A server without the controller: what is charged comes from creates alone.
class Quota : public ::testing::Test {
 protected:
  Quota() : server(kinds(), "lc") {
    for (const char* name : {"t1", "t2"}) {
      EXPECT_EQ(server
                    .send("POST", "/api/v1/namespaces",
                          Json::object({{"metadata", Json::object({{"name", name}})}}))
                    .status(),
                201);
    }
  }
  void limit(const std::string& hard, const std::string& name = "q", const std::string& more = "") {
    const std::string body =
        R"({"metadata":{"name":")" + name + R"("},"spec":{"hard":)" + hard + more + "}}";
    Exchange made = server.send("POST", kQuotas, std::string_view(body),
                                {{"content-type", "application/json"}});
    ASSERT_EQ(made.status(), 201) << made.body();
  }
  int create(std::string_view name, const char* path = kMaps) {
    return server.send("POST", path, path == kWidgets ? widget(name) : config_map(name)).status();
  }
  std::string refusal(std::string_view name) {
    Exchange made = server.send("POST", kMaps, config_map(name));
    EXPECT_EQ(made.status(), 403) << made.body();
    EXPECT_EQ(made.json().text({"reason"}), "Forbidden");
    return std::string(made.json().text({"message"}));
  }
  std::string used(const char* name = "q") {
    const Json quota = server.send("GET", std::string(kQuotas) + "/" + name).json();
    const Json* found = quota.at({"status", "used"});
    return found == nullptr ? "" : found->dump();
  }
  /// The controller, from now on, as after a start.
  void run_controller() {
    controller = std::make_unique<QuotaUsage>(
        apiserver::ControllerContext{server.loop(), server.server(), server.registry()});
    controller->start();
    controller->add_cluster("lc");
  }
  [[nodiscard]] bool becomes(const std::string& expected) {
    return server.run_until([&] {
      const auto quota = server.server().reader().get("lc", "", "resourcequotas", "t1", "q");
      const Json* found = quota ? quota->at({"status", "used"}) : nullptr;
      return found != nullptr && found->dump() == expected;
    });
  }

  FakeServer server;
  std::unique_ptr<QuotaUsage> controller;
};

TEST_F(Quota, WhenTheLimitIsReached_CreatesAreRefused) {
  limit(R"({"count/configmaps":"2"})");
  EXPECT_EQ(create("a"), 201);
  EXPECT_EQ(create("b"), 201);
  EXPECT_EQ(refusal("c"),
            "configmaps \"c\" is forbidden: exceeded quota: q, requested: count/configmaps=1, "
            "used: count/configmaps=2, limited: count/configmaps=2");
  EXPECT_EQ(used(), R"({"count/configmaps":"2"})");
  EXPECT_EQ(create("c", "/api/v1/namespaces/t2/configmaps"), 201) << "another namespace";
  EXPECT_EQ(server.send("GET", std::string(kMaps) + "/c").status(), 404);
}

TEST_F(Quota, WhenObjectsWereThereBefore_TheyCount) {
  ASSERT_EQ(create("a"), 201);
  ASSERT_EQ(create("b"), 201);
  limit(R"({"configmaps":"3","count/configmaps":"3","pods":"1"})");
  EXPECT_EQ(create("c"), 201);
  EXPECT_EQ(refusal("d"),
            "configmaps \"d\" is forbidden: exceeded quota: q, requested: "
            "configmaps=1,count/configmaps=1, used: configmaps=3,count/configmaps=3, limited: "
            "configmaps=3,count/configmaps=3");
}

TEST_F(Quota, WhenCustomObjectsAreLimited_TheyCountByTheirGroup) {
  limit(R"({"count/widgets.ex.io":"1","count/widgets":"0"})");
  EXPECT_EQ(create("w", kWidgets), 201);
  EXPECT_EQ(create("v", kWidgets), 403);
  EXPECT_EQ(create("a"), 201);
  EXPECT_EQ(used(), R"({"count/widgets.ex.io":"1"})");
}

TEST_F(Quota, WhenSeveralQuotasHold_TheTightestDecidesAndNothingIsCharged) {
  limit(R"({"configmaps":"5"})", "a");
  limit(R"({"configmaps":"1"})", "b");
  EXPECT_EQ(create("x"), 201);
  EXPECT_EQ(create("y"), 403);
  EXPECT_EQ(used("a"), R"({"configmaps":"1"})");
  EXPECT_EQ(used("b"), R"({"configmaps":"1"})");
}

TEST_F(Quota, WhenItHasScopes_ItIsAboutPods) {
  limit(R"({"count/configmaps":"0"})", "q", R"(,"scopes":["BestEffort"])");
  EXPECT_EQ(create("a"), 201);
}

TEST_F(Quota, WhenDryRun_IsCheckedAndNotCharged) {
  limit(R"({"count/configmaps":"1"})");
  const std::string dry = std::string(kMaps) + "?dryRun=All";
  EXPECT_EQ(create("a", dry.c_str()), 201);
  EXPECT_EQ(used(), "");
  EXPECT_EQ(create("a"), 201);
  EXPECT_EQ(create("b", dry.c_str()), 403);
}

TEST_F(Quota, WhenANameIsTaken_NothingIsCharged) {
  limit(R"({"count/configmaps":"5"})");
  EXPECT_EQ(create("a"), 201);
  EXPECT_EQ(create("a"), 409);
  EXPECT_EQ(used(), R"({"count/configmaps":"1"})");
}

TEST_F(Quota, WhenAppliedAsNew_IsCharged) {
  limit(R"({"count/configmaps":"1"})");
  const auto apply = [&](const std::string& name) {
    const std::string body = R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" +
                             name + R"("},"data":{"k":"v"}})";
    return server
        .send("PATCH", std::string(kMaps) + "/" + name + "?fieldManager=m", std::string_view(body),
              {{"content-type", "application/apply-patch+yaml"}})
        .status();
  };
  EXPECT_EQ(apply("a"), 201);
  EXPECT_EQ(apply("a"), 200);
  EXPECT_EQ(apply("b"), 403);
}

TEST_F(Quota, WhenQuotasAreCounted_TheFirstIsOneOfThem) {
  limit(R"({"resourcequotas":"2"})");
  limit(R"({"pods":"2"})", "second");
  Exchange third =
      server.send("POST", kQuotas, Json::object({{"metadata", Json::object({{"name", "third"}})}}));
  EXPECT_EQ(third.status(), 403);
  EXPECT_EQ(third.json().text({"message"}),
            "resourcequotas \"third\" is forbidden: exceeded quota: q, requested: "
            "resourcequotas=1, used: resourcequotas=2, limited: resourcequotas=2");
}

TEST_F(Quota, WhenUseIsUnknown_NothingIsLetThrough) {
  limit(R"({"count/configmaps":"2"})");
  ASSERT_EQ(server
                .send("PATCH", std::string(kQuotas) + "/q/status",
                      std::string_view(R"({"status":{"hard":{"count/configmaps":"2"}}})"),
                      {{"content-type", "application/merge-patch+json"}})
                .status(),
            200);
  EXPECT_EQ(refusal("a"),
            "configmaps \"a\" is forbidden: status unknown for quota: q, resources: "
            "count/configmaps");
  run_controller();
  ASSERT_TRUE(becomes(R"({"count/configmaps":"0"})"));
  EXPECT_EQ(create("a"), 201);
}

TEST_F(Quota, WhenTheControllerRuns_DeletesGiveBack) {
  ASSERT_EQ(create("a"), 201);
  limit(R"({"count/configmaps":"2","count/widgets.ex.io":"4","pods":"1"})");
  run_controller();
  ASSERT_TRUE(becomes(R"({"count/configmaps":"1","count/widgets.ex.io":"0","pods":"0"})"));
  const Json quota = server.send("GET", std::string(kQuotas) + "/q").json();
  EXPECT_EQ(*quota.at({"status", "hard"}), *quota.at({"spec", "hard"}));
  ASSERT_EQ(create("b"), 201);
  ASSERT_EQ(create("c"), 403);
  ASSERT_EQ(create("w", kWidgets), 201);
  ASSERT_EQ(server.send("DELETE", std::string(kMaps) + "/a").status(), 200);
  ASSERT_TRUE(becomes(R"({"count/configmaps":"1","count/widgets.ex.io":"1","pods":"0"})"));
  EXPECT_EQ(create("c"), 201);
  EXPECT_EQ(create("d"), 403);
}

TEST_F(Quota, WhenTheServerWasAway_UseIsCountedAgain) {
  limit(R"({"count/configmaps":"3"})");
  ASSERT_EQ(create("a"), 201);
  ASSERT_EQ(create("b"), 201);
  // Nobody watches while this happens.
  ASSERT_EQ(server.send("DELETE", std::string(kMaps) + "/a").status(), 200);
  ASSERT_EQ(used(), R"({"count/configmaps":"2"})");
  run_controller();
  EXPECT_TRUE(becomes(R"({"count/configmaps":"1"})"));
}

TEST_F(Quota, WhenLimitsChange_UseFollows) {
  limit(R"({"count/configmaps":"1"})");
  run_controller();
  ASSERT_EQ(create("a"), 201);
  const auto hard = [&](const std::string& text) {
    const std::string body = R"({"spec":{"hard":)" + text + "}}";
    return server
        .send("PATCH", std::string(kQuotas) + "/q", std::string_view(body),
              {{"content-type", "application/merge-patch+json"}})
        .status();
  };
  ASSERT_EQ(hard(R"({"count/configmaps":null,"secrets":"1"})"), 200);
  ASSERT_TRUE(becomes(R"({"secrets":"0"})"));
  ASSERT_EQ(create("b"), 201);
  ASSERT_EQ(hard(R"({"count/configmaps":"3"})"), 200);
  ASSERT_TRUE(becomes(R"({"count/configmaps":"2","secrets":"0"})"));
  EXPECT_EQ(create("c"), 201);
  EXPECT_EQ(create("d"), 403);
}

TEST_F(Quota, WhenTheLastQuotaGoes_NothingIsHeldBack) {
  limit(R"({"count/configmaps":"0"})");
  run_controller();
  ASSERT_EQ(create("a"), 403);
  ASSERT_EQ(server.send("DELETE", std::string(kQuotas) + "/q").status(), 200);
  EXPECT_EQ(create("a"), 201);
  server.settle();
  EXPECT_EQ(controller->tracked(), 0U);
}

TEST_F(Quota, WhenManyCreateAtOnce_TheLimitHolds) {
  limit(R"({"count/configmaps":"5"})");
  run_controller();
  int made = 0;
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    apiserver::ApiServer::WriteRequest request;
    request.cluster = "lc";
    request.resource = "configmaps";
    request.ns = "t1";
    request.name = "m" + std::to_string(i);
    request.what = apiserver::ApiServer::CreateObject{config_map(request.name)};
    request.manager = "test";
    server.server().write(std::move(request), [&](Expected<Json> result) {
      made += result ? 1 : 0;
      refused += result ? 0 : 1;
    });
  }
  ASSERT_TRUE(server.run_until([&] { return made + refused == 40; }));
  EXPECT_EQ(made, 5);
  EXPECT_TRUE(becomes(R"({"count/configmaps":"5"})"));
}

class Nobody final : public auth::Authenticator, public auth::Authorizer {
 public:
  void authenticate(const http::RequestHead&, const auth::BearerPtr&, const http::PeerInfo&,
                    std::string_view, auth::Authenticator::Done done) override {
    done(fail(Errc::kUnauthorized));
  }
  void authorize(const auth::Attributes&, auth::Authorizer::Done done) override {
    done(auth::Decision());
  }
};

/// Two servers over one store, as two loops of a shard: each reads before the other has written.
class QuotaRace : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "quotaXXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    open();
  }
  void TearDown() override {
    close();
    std::filesystem::remove_all(directory_);
  }
  void open() {
    store::LmdbParams params;
    params.directory = directory_;
    params.map_limit = 64 << 20;
    params.no_sync = true;
    params.commit_fault_for_test = [this](bool committed) {
      if (!committed) {
        held_.wait(true);
      }
      return 0;
    };
    auto opened = store::LmdbStore::open(std::move(params));
    ASSERT_TRUE(opened.has_value());
    store_ = std::move(*opened);
    std::vector<StaticPlusCrdRegistry::StaticKind> fixed;
    for (apiserver::ResourcePtr& kind : kinds()) {
      fixed.push_back({std::move(kind), {}});
    }
    registry_ = std::make_unique<StaticPlusCrdRegistry>(std::move(fixed));
    registry_->set_ready();
    for (auto& server : servers_) {
      apiserver::ServerParams parts{loop_, *store_, *registry_, nobody_, nobody_, {}, {}};
      install_builtin_admission(parts);
      server = apiserver::ApiServer::make(std::move(parts));
    }
  }
  void close() {
    for (auto& server : servers_) {
      server.reset();
    }
    registry_.reset();
    store_.reset();
  }
  void send(std::size_t server, apiserver::ApiServer::WriteRequest request) {
    request.cluster = "lc";
    request.manager = "test";
    ++running_;
    servers_.at(server)->write(std::move(request), [this](Expected<Json> result) {
      --running_;
      ++(result ? done_ : refused_);
      if (running_ == 0) {
        loop_.stop();
      }
    });
  }
  void create(std::size_t server, const char* resource, const std::string& name, Json object) {
    apiserver::ApiServer::WriteRequest request;
    request.resource = resource;
    request.ns = resource == std::string_view("namespaces") ? "" : "t1";
    request.name = name;
    object.make({"metadata", "name"}) = name;
    request.what = apiserver::ApiServer::CreateObject{std::move(object)};
    send(server, std::move(request));
  }
  /// How many of the writes that were sent were done.
  int wait() {
    done_ = refused_ = 0;
    loop_.run();
    return done_;
  }
  [[nodiscard]] std::string used() {
    const auto quota = servers_[0]->reader().get("lc", "", "resourcequotas", "t1", "q");
    return quota ? std::string(quota->text({"status", "used", "count/configmaps"})) : "";
  }

  net::Loop loop_{"race"};
  std::string directory_;
  std::atomic<bool> held_ = false;  ///< nothing is committed
  Nobody nobody_;
  std::unique_ptr<store::LmdbStore> store_;
  std::unique_ptr<StaticPlusCrdRegistry> registry_;
  std::array<std::unique_ptr<apiserver::ApiServer>, 2> servers_;
  int running_ = 0;
  int done_ = 0;
  int refused_ = 0;
};

TEST_F(QuotaRace, WhenTwoServersCreate_TheLimitHoldsAlsoAfterARestart) {
  create(0, "namespaces", "t1", Json::object());
  ASSERT_EQ(wait(), 1);
  create(0, "resourcequotas", "q", *Json::parse(R"({"spec":{"hard":{"count/configmaps":"7"}}})"));
  ASSERT_EQ(wait(), 1);
  held_ = true;  // until both have read the quota
  for (int i = 0; i < 40; ++i) {
    create(static_cast<std::size_t>(i % 2), "configmaps", "m" + std::to_string(i), Json::object());
  }
  held_ = false;
  held_.notify_all();
  EXPECT_EQ(wait(), 7);
  EXPECT_EQ(refused_, 33);
  EXPECT_EQ(used(), "7");
  EXPECT_GT(store_->stats().conflicts, 0U) << "the servers did not race";
  EXPECT_EQ(servers_[0]->count("lc", "configmaps", "t1")->objects, 7);
  close();
  open();
  create(1, "configmaps", "late", Json::object());
  EXPECT_EQ(wait(), 0);
  EXPECT_EQ(used(), "7");
}

TEST(QuotaNames, WhenLimitsAreRead_NameWhatTheyCount) {
  EXPECT_EQ(counted_resource("configmaps"), "configmaps");
  EXPECT_EQ(counted_resource("count/secrets"), "secrets");
  EXPECT_EQ(counted_resource("count/widgets.ex.io"), "widgets.ex.io");
  for (const char* name : {"pods", "services", "cpu", "limits.cpu", "count/events", "ex.io/gpu"}) {
    EXPECT_EQ(counted_resource(name), "") << name;
  }
}

}  // namespace
}  // namespace kintsugi::kinds
