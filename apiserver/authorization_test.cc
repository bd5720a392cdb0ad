#include <gtest/gtest.h>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"

/// What the server itself asks and refuses (docs/spec/api-machinery.md).
namespace kintsugi::apiserver {
namespace {

using krm::Json;
using testing::config_map;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";
constexpr const char* kMap = "/api/v1/namespaces/t1/configmaps/a";
const testing::Fields kBob = {{"x-user", "bob"}};

class Authorization : public ::testing::Test {
 protected:
  Authorization() : server(kinds::builtin_kinds(), "lc") {
    Json ns = Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
  }
  Exchange apply(const char* target, const char* name) {
    testing::Fields fields = kBob;
    fields.emplace_back("content-type", "application/apply-patch+yaml");
    return server.send("PATCH", std::string(target) + "?fieldManager=m",
                       config_map(name, {{"k", "v"}}), fields);
  }
  static Json annotated(std::string_view key, std::string_view value) {
    Json object = config_map("a");
    object.make({"metadata", "annotations", key}) = value;
    return object;
  }
  static std::string message(const Exchange& exchange) {
    return std::string(exchange.json().text({"message"}));
  }

  FakeServer server;
};

TEST_F(Authorization, WhenApplyCreates_AM454_NeedsCreateToo) {
  server.deny("bob", "create");
  Exchange refused = apply(kMap, "a");
  EXPECT_EQ(refused.status(), 403);
  EXPECT_NE(message(refused).find("cannot create resource \"configmaps\""), std::string::npos)
      << message(refused);
  ASSERT_EQ(server.send("POST", kMaps, config_map("a")).status(), 201);
  EXPECT_EQ(apply(kMap, "a").status(), 200);
  server.deny("bob", "patch");
  EXPECT_EQ(apply(kMap, "a").status(), 403);
}

TEST_F(Authorization, WhenPutCreates_AM454_NeedsCreateToo) {
  const char* role = "/apis/rbac.authorization.k8s.io/v1/namespaces/t1/roles/r";
  Json body = Json::object({{"apiVersion", "rbac.authorization.k8s.io/v1"}, {"kind", "Role"}});
  body.make({"metadata", "name"}) = "r";
  server.deny("bob", "create");
  EXPECT_EQ(server.send("PUT", role, body, kBob).status(), 403);
  EXPECT_EQ(server.send("PUT", role, body, {{"x-user", "carol"}}).status(), 201);
  EXPECT_EQ(server.send("PUT", role, body, kBob).status(), 200);
}

TEST_F(Authorization, WhenObjectsAreSent_AM474_TheClusterIsStampedOverAnyInput) {
  const std::string one = "/clusters/one" + std::string(kMaps);
  const std::string two = "/clusters/two" + std::string(kMaps);
  for (const char* cluster : {"one", "two"}) {
    Json ns = Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/clusters/" + std::string(cluster) + "/api/v1/namespaces", ns)
                  .status(),
              201);
  }
  Exchange watch = server.send("GET", two + "?watch=1");
  EXPECT_EQ(server.send("POST", one, annotated("kcp.io/cluster", "forged")).status(), 201);
  Exchange made = server.send("POST", two, annotated("kcp.io/cluster", "one"));
  const auto cluster_of = [](const Json& object) {
    return std::string(object.text({"metadata", "annotations", "kcp.io/cluster"}));
  };
  EXPECT_EQ(cluster_of(made.json()), "two");
  EXPECT_EQ(cluster_of(server.send("GET", one + "/a").json()), "one");
  EXPECT_EQ(cluster_of(*server.send("GET", two).json().at({"items"})->items().data()), "two");
  server.settle();
  ASSERT_EQ(watch.events().size(), 1U);
  EXPECT_EQ(cluster_of(*watch.events().front().find("object")), "two");
  EXPECT_NE(server.send("GET", one + "/a").json().text({"metadata", "uid"}),
            made.json().text({"metadata", "uid"}));
}

TEST_F(Authorization, WhenTheWildcardIsWrittenTo_AM478_IsNotAllowed) {
  const std::string all = "/clusters/*/api/v1/namespaces/t1/configmaps";
  EXPECT_EQ(server.send("GET", all + "/a").status(), 405);
  EXPECT_EQ(server.send("POST", all, config_map("a")).status(), 405);
  EXPECT_EQ(server.send("PUT", all + "/a", config_map("a")).status(), 405);
  EXPECT_EQ(server.send("DELETE", all + "/a").status(), 405);
  EXPECT_EQ(server.send("DELETE", all).status(), 405);
}

TEST_F(Authorization, WhenRequestsAreAnswered_AM455_EachIsALineWithoutItsBody) {
  const std::size_t before = server.audit().size();
  Json secret = Json::object({{"apiVersion", "v1"}, {"kind", "Secret"}});
  secret.make({"metadata", "name"}) = "s";
  secret.make({"stringData", "password"}) = "hunter2";
  testing::Fields fields = {{"x-user", "bob"},
                            {"impersonate-user", "carol"},
                            {"authorization", "Bearer t0ken"},
                            {"user-agent", "test/1"}};
  EXPECT_EQ(server.send("POST", "/api/v1/namespaces/t1/secrets", secret, fields).status(), 201);
  EXPECT_EQ(server.send("GET", kMap, std::string_view(), {{"x-user", "alice"}}).status(), 403);
  Exchange watch = server.send("GET", std::string(kMaps) + "?watch=1");
  ASSERT_EQ(server.audit().size(), before + 3);
  const std::string& line = server.audit()[before];
  EXPECT_EQ(line.find("hunter2"), std::string::npos);
  EXPECT_EQ(line.find("t0ken"), std::string::npos);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Json event = *Json::parse(line);
  EXPECT_EQ(event.text({"verb"}), "create");
  EXPECT_EQ(event.text({"stage"}), "ResponseComplete");
  EXPECT_EQ(event.text({"user", "username"}), "bob");
  EXPECT_EQ(event.text({"impersonatedUser", "username"}), "carol");
  EXPECT_EQ(event.at({"objectRef"})->dump(),
            R"({"apiVersion":"v1","namespace":"t1","resource":"secrets"})");
  EXPECT_EQ(event.at({"responseStatus", "code"})->as_integer(), 201);
  EXPECT_EQ(event.text({"userAgent"}), "test/1");
  EXPECT_GE(event.at({"latencyMicroseconds"})->as_integer(), 0);
  EXPECT_EQ(event.text({"auditID"}).size(), 36U);
  EXPECT_EQ(event.text({"authenticationMetadata", "impersonationConstraint"}),
            "impersonate:user-info");
  const Json refused = *Json::parse(server.audit()[before + 1]);
  EXPECT_EQ(refused.at({"responseStatus", "code"})->as_integer(), 403);
  EXPECT_EQ(refused.text({"objectRef", "name"}), "a");
  EXPECT_EQ(Json::parse(server.audit()[before + 2])->text({"stage"}), "ResponseStarted");
  (void)server.send("GET", kMap, std::string_view(), {{"user-agent", "a\xFF"}});
  EXPECT_EQ(Json::parse(server.audit().back())->text({"userAgent"}), "a?");
}

TEST_F(Authorization, WhenADocumentIsThere_AM432_OnlyItsPathIsAnswered) {
  Exchange one = server.send("GET", "/clusters/x/documents/one");
  EXPECT_EQ(one.status(), 200);
  EXPECT_EQ(one.body(), R"({"root":"/clusters/x"})");
  EXPECT_EQ(one.header("cache-control"), "public, max-age=3600");
  EXPECT_EQ(server.send("GET", "/clusters/x/documents/two").status(), 404);
  EXPECT_EQ(
      server.send("GET", "/clusters/x/documents/one", std::string_view(), {{"x-user", "alice"}})
          .status(),
      403);
}

}  // namespace
}  // namespace kintsugi::apiserver
