#include <gtest/gtest.h>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"

namespace kintsugi::apiserver {
namespace {

using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";

class GeneratedNames : public ::testing::Test {
 protected:
  GeneratedNames() : server(kinds::builtin_kinds(), "lc") {
    krm::Json ns = krm::Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
  }
  Exchange create() {
    return server.send("POST", kMaps, std::string_view(R"({"metadata":{"generateName":"m-"}})"));
  }
  FakeServer server;
};

TEST_F(GeneratedNames, WhenSomeAreTaken_AM006_AnotherIsMade) {
  server.store().lose_races(7);
  Exchange answer = create();
  ASSERT_EQ(answer.status(), 201);
  const krm::Json made = answer.json();
  const std::string_view name = made.text({"metadata", "name"});
  EXPECT_EQ(name.size(), 7U);
  EXPECT_TRUE(name.starts_with("m-"));
  EXPECT_EQ(server.send("GET", std::string(kMaps) + "/" + std::string(name)).status(), 200);
}

TEST_F(GeneratedNames, WhenAllAttemptsCollide_AM006_SaysSoAndWhenToRetry) {
  server.store().lose_races(1'000);
  Exchange answer = create();
  EXPECT_EQ(answer.status(), 409);
  EXPECT_EQ(answer.header("retry-after"), "1");
  const krm::Json status = answer.json();
  EXPECT_EQ(status.text({"reason"}), "AlreadyExists");
  EXPECT_EQ(status.at({"details", "retryAfterSeconds"})->as_integer(), 1);
  const std::string name(status.text({"details", "name"}));
  EXPECT_TRUE(name.starts_with("m-"));
  EXPECT_EQ(status.text({"message"}),
            "configmaps \"" + name +
                "\" already exists, the server was not able to generate a unique name for the "
                "object");
  server.store().lose_races(0);
  EXPECT_EQ(create().status(), 201);
}

}  // namespace
}  // namespace kintsugi::apiserver
