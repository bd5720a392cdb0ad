#include "proxy/routing/mount_route.h"

#include <gtest/gtest.h>

#include "topology/index.h"

namespace kintsugi::proxy {
namespace {

class Mounts : public ::testing::Test {
 protected:
  Mounts() {
    topology::ShardSpec spec;
    spec.name = "beta";
    spec.base_url = "https://beta.io:7443";
    spec.virtual_workspace_url = "https://vw.beta.io";
    spec.external_url = "https://outside.io";
    index.upsert_shard(spec);
    index.set_shards_listed();
  }
  /// "<kind> <target>", for other hosts "<origin><target>".
  std::string go(std::string_view url, std::string_view trail = "/api?a=b") const {
    const MountRoute route = route_mount(index.now(), rules, url, trail);
    switch (route.kind) {
      case MountRoute::Kind::kRefused:
        return "refused";
      case MountRoute::Kind::kNoRoute:
        return "none";
      case MountRoute::Kind::kInside:
        return "inside " + route.target;
      case MountRoute::Kind::kShard:
        return "shard " + route.target;
      case MountRoute::Kind::kServices:
        return "services " + route.target;
      case MountRoute::Kind::kHost:
        return route.origin + route.target;
    }
    return "";
  }
  topology::Index index;
  MountRules rules{"https://proxy.io/kcp", {}};
};

TEST_F(Mounts, FP124_WhenTheHostIsNobodys_ItIsRefused) {
  EXPECT_EQ(go("https://evil.example/clusters/x"), "refused");
  EXPECT_EQ(go("https://beta.io/clusters/x"), "refused") << "another port";
  EXPECT_EQ(go("https://beta.io:7443.evil.example/clusters/x"), "refused");
  EXPECT_EQ(go("http://beta.io:7443/clusters/x"), "refused");
}

TEST_F(Mounts, FP124_WhenAShardIsMeant_ItGetsThePath) {
  EXPECT_EQ(go("https://beta.io:7443/clusters/x"), "shard /clusters/x/api?a=b");
  EXPECT_EQ(go("https://vw.beta.io/clusters/x/services/y"),
            "services /clusters/x/services/y/api?a=b");
  EXPECT_EQ(go("https://outside.io/clusters/x", ""), "https://outside.io/clusters/x");
}

TEST_F(Mounts, FP124_WhenTheHostIsListed_ItIsAsked) {
  rules.allowed_hosts = {"one.example", "two.example:8443"};
  EXPECT_EQ(go("https://one.example/clusters/x"), "https://one.example/clusters/x/api?a=b");
  EXPECT_EQ(go("https://two.example:8443/clusters/x"),
            "https://two.example:8443/clusters/x/api?a=b");
  EXPECT_EQ(go("https://two.example/clusters/x"), "refused");
  EXPECT_EQ(go("https://three.example/clusters/x"), "refused");
  rules.allowed_hosts = {"*"};
  EXPECT_EQ(go("https://evil.example/clusters/x"), "https://evil.example/clusters/x/api?a=b");
  EXPECT_EQ(go("http://evil.example/clusters/x"), "refused");
}

TEST_F(Mounts, FP124_WhenItIsTheProxyItself_NothingLeaves) {
  EXPECT_EQ(go("https://proxy.io/kcp/clusters/root:org"), "inside /clusters/root:org/api?a=b");
  EXPECT_EQ(go("https://proxy.io/clusters/root:org"), "refused") << "not below the proxy's path";
}

TEST_F(Mounts, WhenThePathIsNotBelowClusters_ThereIsNoRoute) {
  EXPECT_EQ(go("https://beta.io:7443/services/x"), "none");
  EXPECT_EQ(go("https://beta.io:7443"), "none");
  EXPECT_EQ(go("https://evil.example/metrics"), "none");
}

TEST_F(Mounts, WhenTheUrlCouldBeReadInTwoWays_SE_T004_ItIsRefused) {
  rules.allowed_hosts = {"*"};
  for (const char* url :
       {"", "x", "https://", "https://a@beta.io:7443/clusters/x",
        "https://beta.io:7443/clusters/..", "https://beta.io:7443/clusters/../x",
        "https://beta.io:7443/clusters//x", "https://beta.io:7443/clusters/%2e%2e/x",
        "https://beta.io:7443/clusters/x?a=b", "https://beta.io:7443/clusters/x#y",
        "https://beta.io:7443\\@evil.example/clusters/x"}) {
    EXPECT_EQ(go(url), "refused") << url;
  }
}

}  // namespace
}  // namespace kintsugi::proxy
