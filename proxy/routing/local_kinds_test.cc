#include "proxy/routing/local_kinds.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

TEST(LocalUse, WhenThePathNamesAKindOfTheProxy_ServesIt) {
  for (const char* ours : {"/apis/topology.kcp.io", "/apis/topology.kcp.io/v1alpha1",
                           "/apis/topology.kcp.io/v1alpha1/partitions/a",
                           "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices",
                           "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices?watch=1",
                           "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/a/status",
                           "/apis/apis.kcp.io/v1alpha1/watch/apiexportendpointslices",
                           "/openapi/v3/apis/topology.kcp.io/v1alpha1?hash=A"}) {
    EXPECT_EQ(local_use(ours), LocalUse::kServe) << ours;
  }
  for (const char* both :
       {"/apis", "/apis/", "/apis?timeout=32s", "/apis/apis.kcp.io", "/apis/apis.kcp.io/v1alpha1/",
        "/openapi/v2", "/openapi/v2?timeout=32s", "/openapi/v3", "/openapi/v3/",
        "/openapi/v3/apis/apis.kcp.io/v1alpha1?hash=A"}) {
    EXPECT_EQ(local_use(both), LocalUse::kOverlay) << both;
  }
  for (const char* theirs :
       {"", "/", "/api", "/api/v1/pods", "/apis/apps/v1", "/apis/apis.kcp.io/v1alpha2",
        "/apis/topology.kcp.iox/v1", "/apis/apis.kcp.io/v1alpha1/apiexportendpointslicesx",
        "/apis/apis.kcp.io/v1alpha1/apiexports", "/openapi/v2x", "/openapi/v3/api/v1",
        "/openapi/v3x", "/openapi/v3/apis/apis.kcp.io/v1alpha2"}) {
    EXPECT_EQ(local_use(theirs), LocalUse::kForward) << theirs;
  }
}

TEST(LocalUse, WhenShardsAreOurs_ServesThemToo) {
  EXPECT_EQ(local_use("/apis/core.kcp.io/v1alpha1/shards", true), LocalUse::kServe);
  EXPECT_EQ(local_use("/apis/core.kcp.io/v1alpha1/shards/a/status?x", true), LocalUse::kServe);
  EXPECT_EQ(local_use("/apis/core.kcp.io/v1alpha1", true), LocalUse::kOverlay);
  EXPECT_EQ(local_use("/apis/core.kcp.io", true), LocalUse::kOverlay);
  EXPECT_EQ(local_use("/openapi/v3/apis/core.kcp.io/v1alpha1", true), LocalUse::kOverlay);
  for (const char* theirs :
       {"/apis/core.kcp.io/v1alpha1/logicalclusters", "/apis/core.kcp.io/v1alpha1/shardsx",
        "/apis/core.kcp.iox", "/apis/core.kcp.io/v1/shards"}) {
    EXPECT_EQ(local_use(theirs, true), LocalUse::kForward) << theirs;
  }
  EXPECT_EQ(local_use("/apis/core.kcp.io/v1alpha1/shards"), LocalUse::kForward);
}

TEST(WithoutIdentity, WhenAHashFollowsTheResource_TakesItAway) {
  EXPECT_EQ(without_identity("/apis/topology.kcp.io/v1alpha1/partitions:a1b2?watch=true&x=a:b"),
            "/apis/topology.kcp.io/v1alpha1/partitions?watch=true&x=a:b");
  EXPECT_EQ(without_identity("/apis/topology.kcp.io/v1alpha1/partitions:a1b2/p"),
            "/apis/topology.kcp.io/v1alpha1/partitions/p");
  EXPECT_EQ(without_identity("/apis/topology.kcp.io/v1alpha1/partitions?labelSelector=a:b"),
            "/apis/topology.kcp.io/v1alpha1/partitions?labelSelector=a:b");
}

}  // namespace
}  // namespace kintsugi::proxy
