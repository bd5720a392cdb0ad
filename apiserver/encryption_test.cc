#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"

/// Objects that lie encrypted in the store, as clients see them (SE-149 to SE-151).
namespace kintsugi::apiserver {
namespace {

using testing::Exchange;
using testing::FakeServer;

constexpr const char* kSecrets = "/api/v1/namespaces/t1/secrets";
constexpr const char* kFirst = "{name: one, secret: AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=}";
constexpr const char* kSecond = "{name: two, secret: ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7fH1+f4CBgoM=}";

class EncryptedObjects : public ::testing::Test {
 protected:
  EncryptedObjects() : server(kinds::builtin_kinds(), "lc") {
    use(kFirst);
    EXPECT_EQ(
        server
            .send("POST", "/api/v1/namespaces", *krm::Json::parse(R"({"metadata":{"name":"t1"}})"))
            .status(),
        201);
    for (const char* name : {"a", "b", "c"}) {
      EXPECT_EQ(server.send("POST", kSecrets, secret(name)).status(), 201);
    }
  }
  void use(const std::string& keys) {
    auto codec = store::ValueCodec::parse(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
        "- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [" +
        keys + "]}\n  - identity: {}\n");
    ASSERT_TRUE(codec) << codec.error().to_string();
    server.encrypted_store().set_codec(std::move(*codec));
  }
  static krm::Json secret(const std::string& name) {
    return *krm::Json::parse(R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":")" + name +
                             R"("},"data":{"password":"Y2FuYXJ5"}})");
  }
  static std::string key(const std::string& name) {
    return *object_key("secrets", "lc", "t1", name);
  }
  std::string stored(const std::string& name) {
    const auto entry = server.store().get(key(name));
    return entry ? std::string(entry->value.view()) : "";
  }
  static std::string at(const std::string& name) { return std::string(kSecrets) + "/" + name; }
  static std::string message(const Exchange& exchange) {
    return std::string(exchange.json().text({"message"}));
  }

  FakeServer server;
};

TEST_F(EncryptedObjects, SE149_WhenWritten_LiesEncryptedAndReadsPlain) {
  EXPECT_TRUE(stored("a").starts_with("k8s:enc:aesgcm:v1:one:"));
  EXPECT_EQ(stored("a").find("Y2FuYXJ5"), std::string::npos);
  const Exchange read = server.send("GET", at("a"));
  EXPECT_EQ(read.status(), 200);
  EXPECT_EQ(read.json().text({"data", "password"}), "Y2FuYXJ5");
  EXPECT_EQ(server.send("GET", kSecrets).json().find("items")->size(), 3U);
  Exchange watch = server.send("GET", std::string(kSecrets) + "?watch=1&resourceVersion=1");
  EXPECT_EQ(server.send("DELETE", at("c")).status(), 200);
  server.settle();
  const std::vector<krm::Json> events = watch.events();
  ASSERT_EQ(events.size(), 4U);
  for (const krm::Json& event : events) {
    EXPECT_EQ(event.text({"object", "data", "password"}), "Y2FuYXJ5");
  }
  EXPECT_EQ(events.back().text({"type"}), "DELETED");
}

TEST_F(EncryptedObjects, SE150_WhenOneDoesNotOpen_ItAndListsAre500WithTheNameOfTheKey) {
  ASSERT_TRUE(server.store().commit_wait(
      {{store::EventType::kPut, key("b"), stored("a"), std::nullopt}}));  // a's bytes at b's place
  const std::string said =
      "Internal error occurred: unable to transform key \"secrets/lc/t1/b\": the value does not "
      "open "
      "with key \"one\" of aesgcm";
  const Exchange get = server.send("GET", at("b"));
  EXPECT_EQ(get.status(), 500);
  EXPECT_EQ(message(get), said);
  EXPECT_EQ(get.json().text({"reason"}), "InternalError");
  EXPECT_EQ(server.send("GET", at("a")).status(), 200);
  for (const char* list : {"", "?limit=1", "?limit=2", "?labelSelector=x%3Dy"}) {
    const Exchange all = server.send("GET", std::string(kSecrets) + list);
    EXPECT_EQ(all.status(), 500) << list;
    EXPECT_EQ(message(all), said) << list;
  }
  EXPECT_EQ(message(server.send("PUT", at("b"), secret("b"))), said);
  EXPECT_EQ(message(server.send("DELETE", at("b"))), said);
  const Exchange again = server.send("POST", kSecrets, secret("b"));
  EXPECT_TRUE(again.status() == 409 || again.status() == 500) << again.status();
  Exchange watch = server.send("GET", std::string(kSecrets) + "?watch=1");
  server.settle();
  ASSERT_FALSE(watch.events().empty());
  EXPECT_EQ(watch.events().back().text({"type"}), "ERROR");
  EXPECT_EQ(watch.events().back().at({"object", "code"})->as_integer(), 500);
  EXPECT_EQ(server.send("GET", "/api/v1/namespaces/t1/configmaps").status(), 200);
}

TEST_F(EncryptedObjects, SE151_WhenReplacedWithoutAChange_LiesUnderTheFirstKey) {
  use(std::string(kSecond) + ", " + kFirst);
  const krm::Json before = server.send("GET", at("a")).json();
  EXPECT_TRUE(stored("a").starts_with("k8s:enc:aesgcm:v1:one:"));
  const Exchange replaced = server.send("PUT", at("a"), before);
  EXPECT_EQ(replaced.status(), 200);
  EXPECT_TRUE(stored("a").starts_with("k8s:enc:aesgcm:v1:two:"));
  EXPECT_NE(replaced.json().text({"metadata", "resourceVersion"}),
            before.text({"metadata", "resourceVersion"}));
  // Once is enough: the next one changes nothing.
  const Exchange again = server.send("PUT", at("a"), replaced.json());
  EXPECT_EQ(again.json().text({"metadata", "resourceVersion"}),
            replaced.json().text({"metadata", "resourceVersion"}));
}

}  // namespace
}  // namespace kintsugi::apiserver
