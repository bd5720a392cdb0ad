#include "proxy/routing/service_route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "krm/request_target.h"
#include "krm/service_path.h"
#include "krm/status.h"
#include "topology/index.h"
#include "topology/testing/reports.h"

namespace kintsugi::proxy {
namespace {

using topology::Resource;
using topology::ShardId;

/// Fixture S of docs/spec/front-proxy.md with the export widgets in `one`.
class ServiceRouting : public ::testing::Test {
 protected:
  ServiceRouting() {
    root = add("root", "eu");
    beta = add("beta", "eu");
    gama = add("gama", "us");
    index.upsert_cluster(root, {"root", "root", {}, false});
    index.upsert_cluster(beta, topology::owned("one", "root", "org", "root:org"));
    index.upsert_cluster(gama, topology::owned("two", "one", "rh", "root:org:rh"));
    index.upsert_cluster(beta, topology::owned("off", "root", "away"));
    index.upsert_workspace(root, topology::edge("root", "org", "one"));
    index.upsert_workspace(beta, topology::edge("one", "rh", "two"));
    index.upsert_workspace(root, topology::edge("root", "away", "off", "Unavailable"));
    index.set_shards_listed();
  }
  ShardId add(const std::string& name, const std::string& region) {
    topology::ShardSpec spec;
    spec.name = name;
    spec.base_url = "https://" + name + ".io";
    spec.labels = {{"region", region}};
    const ShardId id = index.upsert_shard(spec).id;
    for (std::size_t i = 0; i < topology::kResources; ++i) {
      index.set_synced(id, static_cast<Resource>(i), true);
    }
    return id;
  }
  void bind(ShardId shard, const std::string& cluster) {
    topology::ConsumerChanges changes;
    index.upsert_binding(shard, {cluster, "widgets", "one", "", "widgets"}, changes);
  }
  [[nodiscard]] ServiceScope partition(std::string_view selector) const {
    return shards_of_partition(index.now(), *krm::Json::parse(selector));
  }
  /// "<shard> <target>", "any <shards> <target>", or "<status> <message>".
  std::string go(std::string_view target, const std::string& method = "GET") const {
    return go(ServiceScope{}, target, method);
  }
  std::string go(const ServiceScope& scope, std::string_view target,
                 const std::string& method = "GET") const {
    const auto path = krm::parse_service_path(target);
    if (!path) {
      return "404";
    }
    const ServiceRoute route =
        route_service({index.now(), scope, method, target, *path, krm::is_watch(method, target)});
    if (route.refusal) {
      return std::to_string(krm::http_status(*route.refusal)) + " " +
             std::string(route.refusal->message());
    }
    if (route.merged) {
      std::string text = "merged";
      for (const WildcardShard& one : read_shards(
               {index.now(), scope, method, target, *path, krm::is_watch(method, target)})) {
        text += one.contacted() ? " " + one.shard->spec.name : "";
      }
      return text + " " + route.target;
    }
    if (!route.union_of.empty()) {
      std::string text = "union";
      for (const ShardId id : route.union_of) {
        text += " " + name(id);
      }
      return text + " " + route.target;
    }
    if (!route.any_of.empty()) {
      std::string text = "any";
      for (const ShardId id : route.any_of) {
        text += " " + name(id);
      }
      return text + " " + route.target;
    }
    return name(route.shard) + " " + route.target;
  }
  [[nodiscard]] std::string name(ShardId id) const { return index.now().shard(id)->spec.name; }

  topology::Index index;
  ShardId root = 0, beta = 0, gama = 0;
};

constexpr const char* kWildcard =
    "/services/apiexport/one/widgets/clusters/*/apis/ex.io/v1/widgets";

TEST_F(ServiceRouting, FP120_FP121_FP122_TP081_WhenAClusterIsNamed_ItsOwnerGetsItByName) {
  EXPECT_EQ(go("/services/apiexport/one/e/clusters/one/api"),
            "beta /services/apiexport/one/e/clusters/one/api");
  EXPECT_EQ(go("/services/apiexport/root:org/e/clusters/root:org:rh/api"),
            "gama /services/apiexport/one/e/clusters/two/api");
  EXPECT_EQ(go("/services/initializingworkspaces/root:org:tenant/clusters/two/api"),
            "gama /services/initializingworkspaces/one:tenant/clusters/two/api");
  EXPECT_EQ(go("/services/terminatingworkspaces/root:tenant/clusters/root:org/api"),
            "beta /services/terminatingworkspaces/root:tenant/clusters/one/api");
  EXPECT_EQ(go("/services/initializingworkspaces/system:apibindings/clusters/two/api", "PATCH"),
            "gama /services/initializingworkspaces/system:apibindings/clusters/two/api");
  EXPECT_EQ(go("/services/migratingworkspaces/clusters/root:org/apis"),
            "beta /services/migratingworkspaces/clusters/one/apis");
  EXPECT_EQ(go("/services/apiresourceschema/root:org/clusters/root:org/apis"),
            "beta /services/apiresourceschema/one/clusters/one/apis");
  EXPECT_EQ(go("/services/apiresourceschema/root:org/clusters/*/apis"),
            "beta /services/apiresourceschema/one/clusters/*/apis");
  EXPECT_EQ(go("/services/replication/root:org/s/clusters/two/apis"),
            "gama /services/replication/one/s/clusters/two/apis");
}

TEST_F(ServiceRouting, WhenAClusterCannotBeFound_SaysE1E2OrE3) {
  const std::string e1 = "403 forbidden: User \"\" cannot get path \"";
  EXPECT_EQ(go("/services/apiexport/one/e/clusters/nope/api"),
            e1 + "/services/apiexport/one/e/clusters/nope/api\": workspace access not permitted");
  EXPECT_EQ(go("/services/apiexport/root:nope/e/clusters/one/api").substr(0, e1.size()), e1);
  EXPECT_EQ(go("/services/apiresourceschema/nope/clusters/one/api").substr(0, e1.size()), e1);
  const ServiceScope at_beta = one_shard(*index.now().shard(beta));
  EXPECT_EQ(go(at_beta, "/services/apiexport/one/e/clusters/nope/api"),
            "beta /services/apiexport/one/e/clusters/nope/api")
      << "the shard refuses it in its own words";
  EXPECT_EQ(go(at_beta, "/services/apiexport/one/e/clusters/n%2Fx/api").substr(0, e1.size()), e1);
  EXPECT_EQ(go("/services/apiexport/nope/e/clusters/one/api"),
            "beta /services/apiexport/nope/e/clusters/one/api")
      << "a name needs no rewriting";
  EXPECT_EQ(go("/services/apiexport/one/e/clusters/NOPE/api").substr(0, e1.size()), e1);
  EXPECT_EQ(go("/services/apiexport/c%2Fe%2Fclusters%2Fx/e/clusters/one/api").substr(0, e1.size()),
            e1)
      << "R-05: what is forwarded names the cluster that was judged";
  EXPECT_EQ(go("/services/apiexport/one/e%2Fclusters%2Fx/clusters/one/api"), "404")
      << "SE-033: no name holds a slash";
  EXPECT_EQ(go("/services/apiexport/one/e/clusters/root:away/api"), "503 Not available.");
  index.set_synced(gama, Resource::kLogicalClusters, false);
  EXPECT_EQ(go("/services/apiexport/one/e/clusters/nope/api"),
            "503 the location of this workspace is not known yet");
}

TEST_F(ServiceRouting, WhenNoRouteFits_SaysE4) {
  for (const char* target : {"/services/marketplace/clusters/one/api",
                             "/services/migratingworkspaces/clusters/*/apis"}) {
    EXPECT_EQ(go(target), "404 the server could not find the requested resource") << target;
  }
  EXPECT_EQ(go(one_shard(*index.now().shard(beta)), "/services/marketplace/clusters/one/api"),
            "beta /services/marketplace/clusters/one/api");
}

TEST_F(ServiceRouting, FP123_WhenTheOwnerOfASliceIsDown_AnotherShardAnswersReplication) {
  EXPECT_EQ(go("/services/replication/one/s/clusters/*/apis"),
            "beta /services/replication/one/s/clusters/*/apis");
  index.set_health(beta, false, "gone");
  EXPECT_EQ(go("/services/replication/one/s/clusters/*/apis"),
            "any gama root /services/replication/one/s/clusters/*/apis");
  EXPECT_EQ(go("/services/admin/shards"), "any gama root /services/admin/shards");
  index.set_health(root, false, "gone");
  index.set_health(gama, false, "gone");
  EXPECT_EQ(go("/services/admin/shards"), "503 the shard is not reachable");
  EXPECT_EQ(go("/services/admin/shards?watch=1"), "429 the shard is not reachable");
}

TEST_F(ServiceRouting, TP079_TP080_WhenAWildcardRequestIsNoRead_IsRefused) {
  const std::string text =
      " is not supported on resources of kind \"widgets.ex.io\" in the `*` logical cluster";
  EXPECT_EQ(go(kWildcard, "POST"), "405 create" + text);
  EXPECT_EQ(go(std::string(kWildcard) + "/a"), "405 get" + text);
  EXPECT_EQ(go(std::string(kWildcard) + "/a", "PUT"), "405 update" + text);
  EXPECT_EQ(go(std::string(kWildcard) + "/a/status", "PATCH"), "405 patch" + text);
  EXPECT_EQ(go(std::string(kWildcard) + "/a", "DELETE"), "405 delete" + text);
  EXPECT_EQ(go(kWildcard, "DELETE"), "405 deletecollection" + text);
  const std::string base = "/services/apiexport/one/widgets/clusters/*";
  EXPECT_EQ(go(base + "/api/v1/namespaces/d/configmaps/a", "DELETE"),
            "405 delete is not supported on resources of kind \"configmaps\" in the `*` logical "
            "cluster");
  for (const char* query : {"", "?watch=true"}) {
    EXPECT_EQ(go(base + "/api/v1/namespaces/d/configmaps" + query),
              "400 cross-cluster LIST and WATCH are required to be cross-namespace, not scoped to "
              "namespace d");
  }
}

TEST_F(ServiceRouting, WhenShardsHoldConsumers_TheyAreReadFrom) {
  EXPECT_EQ(go(kWildcard), "merged beta " + std::string(kWildcard)) << "none: the export's owner";
  index.set_health(beta, false, "gone");
  EXPECT_EQ(go(kWildcard).substr(0, 12), "merged gama ") << "else one that is up";
  index.set_health(beta, true, "");
  bind(gama, "two");
  EXPECT_EQ(go(kWildcard), "merged gama " + std::string(kWildcard));
  EXPECT_EQ(go("/services/apiexport/root:org/widgets/clusters/%2A/apis/ex.io/v1/widgets?watch=1"),
            "merged gama " + std::string(kWildcard) + "?watch=1");
  bind(beta, "one");
  EXPECT_EQ(go(kWildcard), "merged beta gama " + std::string(kWildcard));
  EXPECT_EQ(go("/services/apiexport/one/widgets/clusters/*/apis"),
            "union beta gama /services/apiexport/one/widgets/clusters/*/apis");
  const char* openapi = "/services/apiexport/one/widgets/clusters/*/openapi/v3";
  EXPECT_EQ(go(openapi), "union beta gama " + std::string(openapi));
  EXPECT_EQ(go("/services/apiexport/one/gadgets/clusters/*/apis").substr(0, 11), "union beta ")
      << "another export";
}

TEST_F(ServiceRouting, WhenBindingsAreNotListed_TheShardIsAskedToo) {
  index.set_synced(gama, Resource::kBindings, false);
  EXPECT_EQ(go(kWildcard).substr(0, 12), "merged gama ");
  bind(beta, "one");
  EXPECT_EQ(go(kWildcard).substr(0, 17), "merged beta gama ") << "gama may hold consumers too";
  EXPECT_EQ(go(one_shard(*index.now().shard(beta)), kWildcard).substr(0, 4), "beta");
  EXPECT_EQ(go("/services/apiexport/one/widgets/clusters/*/api").substr(0, 16), "union beta gama ");
}

TEST_F(ServiceRouting, FP109_TP135_WhenThereIsAPrefix_OnlyItsShardsCount) {
  bind(beta, "one");
  bind(gama, "two");
  const ServiceScope eu = partition(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  const ServiceScope us = partition(R"({"spec":{"selector":{"matchLabels":{"region":"us"}}}})");
  EXPECT_EQ(go(eu, kWildcard), "merged beta " + std::string(kWildcard));
  EXPECT_EQ(go(us, kWildcard), "merged gama " + std::string(kWildcard));
  EXPECT_EQ(go(partition(R"({"spec":{}})"), kWildcard).substr(0, 17), "merged beta gama ");
  const char* two = "/services/apiexport/one/widgets/clusters/two/api";
  EXPECT_EQ(go(us, two), "gama " + std::string(two));
  EXPECT_EQ(go(eu, two), "403 forbidden: User \"\" cannot get path \"" + std::string(two) +
                             "\": workspace access not permitted");
  EXPECT_EQ(go(one_shard(*index.now().shard(beta)), two), "beta " + std::string(two))
      << "the shard refuses what is not its own";
  topology::ShardSpec moved = index.now().shard(gama)->spec;
  moved.labels = {{"region", "eu"}};
  index.upsert_shard(moved);
  const ServiceScope wider = partition(R"({"spec":{"selector":{"matchLabels":{"region":"eu"}}}})");
  EXPECT_EQ(go(wider, two), "gama " + std::string(two)) << "the Partition is looked up live";
}

TEST_F(ServiceRouting, WhenNoMemberHoldsConsumers_NobodyElsesObjectsAreShown) {
  bind(beta, "one");
  const ServiceScope us = partition(
      R"({"spec":{"selector":{"matchExpressions":[{"key":"region","operator":"In","values":["us"]}]}}})");
  EXPECT_EQ(go(us, kWildcard).substr(0, 11), "merged gama");
  const ServiceScope nobody = partition(R"({"spec":{"selector":{"matchLabels":{"region":"x"}}}})");
  EXPECT_EQ(go(nobody, kWildcard).substr(0, 12), "merged gama ")
      << "the owner, beta, holds consumers";
  const ServiceScope broken = partition(
      R"({"spec":{"selector":{"matchExpressions":[{"key":"region","operator":"Foo"}]}}})");
  EXPECT_TRUE(broken.members.empty());
  EXPECT_EQ(go(broken, "/services/apiexport/one/widgets/clusters/two/api").substr(0, 3), "403");
}

TEST_F(ServiceRouting, WhenWorkspacesInitialize_EveryMemberCounts) {
  const char* all =
      "/services/initializingworkspaces/one:t/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters";
  EXPECT_EQ(go(all), "merged beta gama root " + std::string(all));
  EXPECT_EQ(go(one_shard(*index.now().shard(gama)), all), "gama " + std::string(all));
}

}  // namespace
}  // namespace kintsugi::proxy
