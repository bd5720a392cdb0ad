#include "controlplane/catalog/bound_kinds.h"

#include <gtest/gtest.h>

#include "apiserver/keys.h"
#include "apiserver/testing/controller_server.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/catalog/shard_registry.h"
#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr const char* kFirst = "1111";
constexpr const char* kSecond = "2222";

class BoundKindsTest : public apiserver::ControllerTest {
 protected:
  void put_schema(const std::string& uid, const std::string& version = "v1") {
    server_.put({std::string(kBoundCluster), std::string(kBoundGroup),
                 std::string(kApiResourceSchemas), "", uid},
                R"({"spec":{"group":"ex.io","scope":"Namespaced",
        "names":{"plural":"widgets","kind":"Widget"},
        "versions":[{"name":")" +
                    version + R"(","served":true,"storage":true,"schema":{"type":"object"}}]}})");
  }
  static apiserver::ObjectKey key(const std::string& cluster, const std::string& name = "wb") {
    return {cluster, std::string(kApisGroup), std::string(kApiBindings), "", name};
  }
  void bind(const std::string& cluster, const std::string& uid, const std::string& identity,
            const std::string& name = "wb") {
    server_.put(key(cluster, name),
                R"({"spec":{"reference":{"export":{"name":"widgets"}}},"status":{
        "apiExportClusterName":"prov","boundResources":[{"group":"ex.io","resource":"widgets",
        "schema":{"UID":")" +
                    uid + R"(","identityHash":")" + identity + R"("}}]}})");
    settle();
  }
  void settle() {
    int turns = 0;
    server_.run_until([&] { return ++turns > 4; });
  }
  [[nodiscard]] apiserver::ResourcePtr find(std::string_view cluster,
                                            std::string_view resource = "widgets") {
    return registry_.find(cluster, "ex.io", resource);
  }

  BoundKinds bound_;
  kinds::StaticPlusCrdRegistry own_{{}};
  ShardRegistry registry_{own_, bound_};
};

TEST_F(BoundKindsTest, WhenAsked_TheBindingIsWhatServesIt) {
  put_schema("u1");
  bind("a", "u1", kFirst);
  bound_.start(server_);
  const apiserver::ResourcePtr def = find("a");
  ASSERT_NE(def, nullptr);
  const auto by = registry_.served_by("a", *def);
  ASSERT_TRUE(by);
  EXPECT_EQ(by->key, *apiserver::object_key(apiserver::stored_resource(kApisGroup, kApiBindings),
                                            "a", "", "wb"));
  EXPECT_FALSE(by->terminating);
  EXPECT_FALSE(registry_.served_by("b", *def));
  server_.erase(key("a"));
  settle();
  EXPECT_FALSE(registry_.served_by("a", *def));
}

TEST_F(BoundKindsTest, WhenClustersBindTheSame_OneDefinitionIsShared) {
  put_schema("u1");
  bind("a", "u1", kFirst);
  bound_.start(server_);
  bind("b", "u1", kFirst);
  ASSERT_NE(find("a"), nullptr);
  EXPECT_EQ(find("a"), find("b"));
  EXPECT_EQ(find("a")->identity, kFirst);
  EXPECT_EQ(find("c"), nullptr);
  EXPECT_EQ(find("*"), nullptr);
}

TEST_F(BoundKindsTest, WhenTwoExportsHaveOneResource_AM503_IdentitiesKeepThemApart) {
  put_schema("u1");
  put_schema("u2");
  bound_.start(server_);
  bind("a", "u1", kFirst);
  bind("b", "u2", kSecond);
  EXPECT_NE(find("a"), find("b"));
  EXPECT_EQ(find("a", "widgets:1111"), find("a"));
  EXPECT_EQ(find("a", "widgets:2222"), nullptr);
  EXPECT_EQ(find("a", "widgets:"), nullptr);
  EXPECT_EQ(find("*", "widgets:1111"), find("a"));
  EXPECT_EQ(find("*", "widgets:2222"), find("b"));
  EXPECT_EQ(find("*", "widgets:3333"), nullptr);
  EXPECT_EQ(find("*", "widgets"), nullptr);
}

TEST_F(BoundKindsTest, WhenTheSchemaComesLate_ItIsServedThen) {
  bound_.start(server_);
  bind("a", "u1", kFirst);
  EXPECT_EQ(find("a"), nullptr);
  put_schema("u1");
  settle();
  EXPECT_NE(find("a"), nullptr);
}

TEST_F(BoundKindsTest, WhenTheConversionComesChangesAndGoes_KK191_ItsRulesAreUsed) {
  put_schema("u1");
  put_schema("u2");
  bound_.start(server_);
  const auto bind_named = [&](const std::string& cluster, const std::string& uid) {
    server_.put(key(cluster, uid),
                R"({"spec":{"reference":{"export":{"name":"widgets"}}},"status":{
        "apiExportClusterName":"prov","boundResources":[{"group":"ex.io","resource":"widgets",
        "schema":{"name":"v1.widgets.ex.io","UID":")" +
                    uid + R"(","identityHash":"1111"}}]}})");
    settle();
  };
  bind_named("a", "u1");
  bind_named("b", "u1");
  EXPECT_EQ(find("a")->webhook, nullptr);
  const std::uint64_t generation = registry_.generation("a");
  const std::string rules = R"({"spec":{"conversions":[]}})";
  for (const std::string_view group : {kApisGroup, kinds::kReplicaGroup}) {
    const apiserver::ObjectKey conversion{"prov", std::string(group), std::string(kApiConversions),
                                          "", "v1.widgets.ex.io"};
    server_.put({"other", std::string(group), std::string(kApiConversions), "", "v1.widgets.ex.io"},
                rules);
    settle();
    EXPECT_EQ(find("a")->webhook, nullptr);
    server_.put(conversion, rules);
    settle();
    ASSERT_NE(find("a")->webhook, nullptr);
    EXPECT_TRUE(find("a")->webhook->rules);
    EXPECT_EQ(find("a"), find("b"));
    EXPECT_EQ(find("*", "widgets:1111"), find("a"));
    server_.erase(conversion);
    settle();
    EXPECT_EQ(find("a")->webhook, nullptr);
    EXPECT_EQ(find("a"), find("b"));
  }
  EXPECT_GT(registry_.generation("a"), generation);
}

TEST_F(BoundKindsTest, WhenTheSchemaIsReplaced_AM504_ClustersAndWildcardFollow) {
  put_schema("u1");
  put_schema("u2", "v2");
  bound_.start(server_);
  bind("a", "u1", kFirst);
  const std::uint64_t generation = registry_.generation("a");
  bind("a", "u2", kFirst);
  EXPECT_GT(registry_.generation("a"), generation);
  EXPECT_NE(find("a")->version("v2"), nullptr);
  EXPECT_EQ(find("a")->version("v1"), nullptr);
  EXPECT_EQ(find("*", "widgets:1111"), find("a"));
  EXPECT_TRUE(registry_.is_known_elsewhere("ex.io", "v2"));
  EXPECT_TRUE(registry_.is_known_elsewhere("ex.io", "v1")) << "KK-382: its list is empty";
  EXPECT_TRUE(registry_.is_known_elsewhere("none.example", "v9"));
  EXPECT_FALSE(registry_.is_known_elsewhere("", "v2")) << "there is one core group";
  EXPECT_FALSE(bound_.uses_schema("u1"));
  EXPECT_TRUE(bound_.uses_schema("u2"));
}

TEST_F(BoundKindsTest, WhenABindingIsDeleted_AM506_ItFirstStopsCreating) {
  put_schema("u1");
  bound_.start(server_);
  bind("a", "u1", kFirst);
  bind("b", "u1", kFirst);
  Json held = *server_.find(key("a"));
  held.make({"metadata", "finalizers"}).push_back("example.test/hold");
  server_.put(key("a"), held);
  server_.erase(key("a"));
  settle();
  ASSERT_NE(find("a"), nullptr);
  EXPECT_TRUE(find("a")->terminating);
  EXPECT_TRUE(registry_.served_by("a", *find("a")).value().terminating);
  EXPECT_FALSE(find("b")->terminating);
  held = *server_.find(key("a"));
  held.at({"metadata"})->erase("finalizers");
  server_.put(key("a"), held);
  settle();
  EXPECT_EQ(find("a"), nullptr);
  EXPECT_NE(find("b"), nullptr);
  EXPECT_TRUE(registry_.all("a").empty());
  EXPECT_EQ(registry_.all("b").size(), 1U);
}

TEST_F(BoundKindsTest, WhenAFixedKindHasTheName_ItHidesTheBoundOne) {
  put_schema("u1");
  bound_.start(server_);
  bind("a", "u1", kFirst);
  auto fixed = std::make_shared<apiserver::ResourceDef>(*find("a"));
  fixed->identity.clear();
  own_.add({fixed, {}});
  EXPECT_EQ(find("a"), fixed);
  EXPECT_EQ(registry_.all("a").size(), 1U);
  EXPECT_EQ(find("a", "widgets:1111")->identity, kFirst) << "but its objects can be reached";
}

TEST(BoundSchema, WhenTheGroupIsCore_TheResourceIsInIt) {
  Expected<Json> schema = Json::parse(R"({"spec":{"group":"","scope":"Namespaced",
      "nameValidation":"PathSegmentName","names":{"plural":"pods","kind":"Pod"},
      "versions":[{"name":"v1","served":true,"storage":true,"schema":{"type":"object"}}]}})");
  EXPECT_TRUE(schema_faults(*schema).empty());
  const apiserver::ResourcePtr def = bound_resource(*schema, "aa");
  ASSERT_NE(def, nullptr);
  EXPECT_EQ(def->qualified_name(), "pods");
  EXPECT_EQ(def->list_kind, "PodList");
  EXPECT_EQ(def->name_rule, apiserver::NameRule::kPathSegment);
  EXPECT_EQ(stored_version(*schema), "v1");
}

TEST(BoundSchema, WhenTextIsHashed_LabelsAreThoseOfKcp) {
  EXPECT_EQ(base62_sha224(""), "aAkHCkvjglfF66mdhRcVKb0I3FT1lepYlWZNwj");
}

}  // namespace
}  // namespace kintsugi::controlplane
