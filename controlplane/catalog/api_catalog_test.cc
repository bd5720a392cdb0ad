#include "controlplane/catalog/api_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apiserver/testing/controller_server.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Json object_at(std::string_view path, std::string_view hash = {}) {
  Json object = Json::object();
  if (!path.empty()) {
    object.make({"metadata", "annotations", krm::kPathAnnotation}) = path;
  }
  if (!hash.empty()) {
    object.make({"status", "identityHash"}) = hash;
  }
  return object;
}

class ApiCatalogTest : public apiserver::ControllerTest {
 protected:
  static apiserver::ObjectKey own(std::string_view resource, const char* cluster,
                                  const char* name) {
    const std::string_view group = resource == kWorkspaceTypes ? kTenancyGroup : kApisGroup;
    return {cluster, std::string(group), std::string(resource), "", name};
  }
  static apiserver::ObjectKey copy(std::string_view resource, const char* cluster,
                                   const char* name) {
    return {cluster, std::string(kinds::kReplicaGroup), std::string(resource), "", name};
  }
  void start() {
    catalog_.on_export([this](const ExportRef& ref) {
      told_.push_back("export " + ref.cluster + " " + ref.name);
      seen_ = catalog_.get_export(ref).has_value();
    });
    catalog_.on_schema([this](std::string_view cluster, std::string_view name) {
      told_.push_back("schema " + std::string(cluster) + " " + std::string(name));
    });
    catalog_.on_type([this](std::string_view cluster, std::string_view name) {
      told_.push_back("type " + std::string(cluster) + " " + std::string(name));
    });
    catalog_.start(server_);
  }
  /// Until everything that was put before has been told.
  void settle() {
    int turns = 0;
    server_.run_until([&] { return ++turns > 3; });
  }
  std::vector<std::string> paths_to(std::string_view path, std::string_view name) {
    std::vector<std::string> clusters;
    if (const auto found = catalog_.find_export("from", path, name)) {
      clusters.push_back(found->cluster);
    }
    return clusters;
  }

  ApiCatalog catalog_;
  std::vector<std::string> told_;
  bool seen_ = false;
};

TEST_F(ApiCatalogTest, WhenStarted_KnowsWhatIsStored) {
  server_.put(own(kApiExports, "c1", "widgets"), object_at("root:acme", "h1"));
  server_.put(copy(kApiExports, "c2", "widgets"), object_at("root:other", "h2"));
  start();
  EXPECT_EQ(catalog_.find_export("from", "root:acme", "widgets"), (ExportRef{"c1", "widgets"}));
  EXPECT_EQ(catalog_.find_export("from", "c1", "widgets"), (ExportRef{"c1", "widgets"}));
  EXPECT_EQ(catalog_.find_export("c1", "", "widgets"), (ExportRef{"c1", "widgets"}));
  EXPECT_EQ(catalog_.find_export("from", "root:other", "widgets"), (ExportRef{"c2", "widgets"}));
  EXPECT_EQ(catalog_.find_export("from", "root:acme", "gadgets"), std::nullopt);
  EXPECT_EQ(catalog_.find_export("from", "", "widgets"), std::nullopt);
  EXPECT_EQ(catalog_.find_export("from", "root:nope", "widgets"), std::nullopt);
  EXPECT_EQ(catalog_.path_of("c2"), "root:other");
  EXPECT_EQ(catalog_.path_of("c3"), "c3");
  EXPECT_THAT(catalog_.exports_with_identity("h2"), ElementsAre(ExportRef{"c2", "widgets"}));
  EXPECT_THAT(catalog_.exports_with_identity(""), IsEmpty());
}

TEST_F(ApiCatalogTest, WhenObjectsAreReplicas_TheyHaveTheirKind) {
  server_.put(copy(kApiExports, "c2", "widgets"), object_at("root:other"));
  server_.put(copy(kApiResourceSchemas, "c2", "v1.widgets.ex.io"), Json::object());
  server_.put(copy(kWorkspaceTypes, "c2", "team"), object_at("root:other"));
  start();
  const auto one = catalog_.get_export({"c2", "widgets"});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->text({"apiVersion"}), "apis.kcp.io/v1alpha2");
  EXPECT_EQ(one->text({"kind"}), "APIExport");
  const auto schema = catalog_.get_schema("c2", "v1.widgets.ex.io");
  ASSERT_TRUE(schema);
  EXPECT_EQ(schema->text({"kind"}), "APIResourceSchema");
  EXPECT_FALSE(catalog_.get_schema("c2", "v2.widgets.ex.io"));
  for (const char* path : {"root:other", "c2"}) {
    const auto type = catalog_.get_type(path, "team");
    ASSERT_TRUE(type) << path;
    EXPECT_EQ(type->text({"kind"}), "WorkspaceType");
  }
  EXPECT_FALSE(catalog_.get_type("root:acme", "team"));
}

TEST_F(ApiCatalogTest, WhenBothAreThere_TheOwnObjectIsTaken) {
  Json own_object = object_at("root:acme", "h");
  own_object.make({"spec", "own"}) = true;
  server_.put(own(kApiExports, "c1", "widgets"), std::move(own_object));
  server_.put(copy(kApiExports, "c1", "widgets"), object_at("root:acme", "h"));
  start();
  const auto found = catalog_.get_export({"c1", "widgets"});
  ASSERT_TRUE(found);
  EXPECT_NE(found->at({"spec", "own"}), nullptr);
  EXPECT_THAT(catalog_.exports_with_identity("h"), ElementsAre(ExportRef{"c1", "widgets"}));
  server_.erase(copy(kApiExports, "c1", "widgets"));
  settle();
  EXPECT_THAT(catalog_.exports_with_identity("h"), ElementsAre(ExportRef{"c1", "widgets"}));
  EXPECT_THAT(paths_to("root:acme", "widgets"), ElementsAre("c1"));
}

TEST_F(ApiCatalogTest, WhenObjectsChange_ListenersSeeTheNewState) {
  start();
  server_.put(copy(kApiExports, "c2", "widgets"), object_at("root:other"));
  settle();
  EXPECT_THAT(told_, ElementsAre("export c2 widgets"));
  EXPECT_TRUE(seen_);
  server_.put(copy(kApiExports, "c2", "widgets"), object_at("root:other", "h"));
  settle();
  EXPECT_THAT(catalog_.exports_with_identity("h"), ElementsAre(ExportRef{"c2", "widgets"}));
  server_.erase(copy(kApiExports, "c2", "widgets"));
  settle();
  EXPECT_FALSE(seen_);
  EXPECT_THAT(catalog_.exports_with_identity("h"), IsEmpty());
  EXPECT_THAT(paths_to("root:other", "widgets"), IsEmpty());
  EXPECT_EQ(catalog_.path_of("c2"), "c2");
  told_.clear();
  server_.put(own(kApiResourceSchemas, "c1", "v1.widgets.ex.io"), Json::object());
  server_.put(own(kWorkspaceTypes, "c1", "team"), object_at("root:acme"));
  settle();
  EXPECT_THAT(told_, ElementsAre("schema c1 v1.widgets.ex.io", "type c1 team"));
}

TEST_F(ApiCatalogTest, WhenAWorkspaceIsMadeAgain_ThePathLeadsToTheNewClusterOnceTheOldIsGone) {
  start();
  server_.put(copy(kApiExports, "old", "widgets"), object_at("root:acme"));
  settle();
  server_.put(copy(kApiExports, "new", "widgets"), object_at("root:acme"));
  settle();
  // KK-103: nobody takes a path by saying it, as long as another has it.
  EXPECT_THAT(paths_to("root:acme", "widgets"), ElementsAre("old"));
  server_.erase(copy(kApiExports, "old", "widgets"));
  settle();
  EXPECT_THAT(paths_to("root:acme", "widgets"), ElementsAre("new"));

  // The other way round: what is left of two takes the path.
  server_.put(copy(kApiExports, "third", "widgets"), object_at("root:acme"));
  settle();
  server_.erase(copy(kApiExports, "third", "widgets"));
  settle();
  EXPECT_THAT(paths_to("root:acme", "widgets"), ElementsAre("new"));
}

TEST_F(ApiCatalogTest, WhenThePathBecomesKnownLater_ItLeadsThere) {
  start();
  server_.put(own(kApiExports, "c1", "widgets"), object_at(""));
  settle();
  EXPECT_THAT(paths_to("c1", "widgets"), ElementsAre("c1"));
  server_.put(own(kApiExports, "c1", "widgets"), object_at("root:a"));
  settle();
  EXPECT_THAT(paths_to("root:a", "widgets"), ElementsAre("c1"));
  server_.put(own(kApiExports, "c1", "widgets"), object_at("root:b"));
  settle();
  EXPECT_THAT(paths_to("root:a", "widgets"), IsEmpty());
  EXPECT_THAT(paths_to("root:b", "widgets"), ElementsAre("c1"));
}

TEST_F(ApiCatalogTest, AM496_WhenExportsShareAKey_BothHaveTheIdentity) {
  start();
  server_.put(own(kApiExports, "c1", "a"), object_at("root:a", "h"));
  server_.put(copy(kApiExports, "c2", "b"), object_at("root:b", "h"));
  settle();
  EXPECT_THAT(catalog_.exports_with_identity("h"),
              UnorderedElementsAre(ExportRef{"c1", "a"}, ExportRef{"c2", "b"}));
  server_.put(own(kApiExports, "c1", "a"), object_at("root:a", "g"));
  settle();
  EXPECT_THAT(catalog_.exports_with_identity("h"), ElementsAre(ExportRef{"c2", "b"}));
  EXPECT_THAT(catalog_.exports_with_identity("g"), ElementsAre(ExportRef{"c1", "a"}));
}

TEST_F(ApiCatalogTest, KK103_WhenThisShardKnowsThatItWasMadeAgain_ThePathLeadsThereAtOnce) {
  catalog_.start(server_, {nullptr, [](std::string_view path) {
                             return path == "root:acme" ? std::string("new") : std::string();
                           }});
  server_.put(copy(kApiExports, "old", "widgets"), object_at("root:acme"));
  server_.put(copy(kApiExports, "new", "widgets"), object_at("root:acme"));
  settle();
  EXPECT_THAT(paths_to("root:acme", "widgets"), ElementsAre("new"));
}

TEST_F(ApiCatalogTest, KKT056_WhenAPathIsForged_ItStaysWhereItWas) {
  server_.put(own(kApiExports, "prov", "things"), object_at("root:prov"));
  server_.put(copy(kApiExports, "far", "things"), object_at("root:far"));
  std::map<std::string, std::string> paths = {{"prov", "root:prov"}, {"eve", "root:eve"}};
  catalog_.start(server_, {[&](std::string_view cluster) { return paths[std::string(cluster)]; },
                           [](std::string_view path) {
                             return path == "root:prov" ? std::string("prov") : std::string();
                           }});
  // By an own cluster, by another shard's, under a path, under the name of a cluster.
  server_.put(own(kApiExports, "eve", "things"), object_at("root:prov"));
  server_.put(own(kWorkspaceTypes, "eve", "t"), object_at("root:far"));
  server_.put(copy(kApiExports, "liar", "things"), object_at("root:prov"));
  server_.put(copy(kApiExports, "liar2", "things"), object_at("root:far"));
  server_.put(copy(kApiExports, "liar3", "things"), object_at("prov"));
  settle();
  EXPECT_THAT(paths_to("root:prov", "things"), ElementsAre("prov"));
  EXPECT_THAT(paths_to("prov", "things"), ElementsAre("prov"));
  EXPECT_THAT(paths_to("root:far", "things"), ElementsAre("far"));
  EXPECT_THAT(paths_to("root:eve", "things"), ElementsAre("eve"));
  EXPECT_EQ(catalog_.path_of("eve"), "root:eve");
  // Also when what was there first says another path later.
  server_.put(own(kApiExports, "eve", "things"), object_at("root:far"));
  server_.put(copy(kApiExports, "liar", "things"), object_at("root:far"));
  settle();
  EXPECT_THAT(paths_to("root:far", "things"), ElementsAre("far"));
  EXPECT_THAT(paths_to("root:prov", "things"), ElementsAre("prov"));
}

}  // namespace
}  // namespace kintsugi::controlplane
