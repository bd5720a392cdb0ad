#include "proxy/routing/internal/in_cluster.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace kintsugi::proxy {
namespace {

std::string token(const char* claims) {
  return base64url_encode(R"({"alg":"ES256"})") + "." + base64url_encode(claims) + "." +
         base64url_encode("signature");
}

std::string rewritten(const std::string& target, const std::string& authorization,
                      bool sharded = false) {
  Request request;
  request.head.method = "GET";
  request.head.target = target;
  request.head.headers.add("authorization", authorization);
  if (sharded) {
    request.head.headers.add("x-kubernetes-sharded-request", "1");
  }
  request.target = krm::parse_target("GET", target);
  return in_cluster_target(request).value_or("");
}

TEST(InCluster, WhenTheTokenNamesACluster_FP129_ItIsPutInFront) {
  const std::string modern = "Bearer " + token(R"({"kubernetes.io":{"clusterName":"abc"}})");
  EXPECT_EQ(rewritten("/api/v1/pods?limit=1", modern), "/clusters/abc/api/v1/pods?limit=1");
  EXPECT_EQ(rewritten("/apis/", modern), "/clusters/abc/apis");
  EXPECT_EQ(rewritten("/", modern), "/clusters/abc");
  const std::string legacy =
      "Bearer " + token(R"({"kubernetes.io/serviceaccount/clusterName":"old"})");
  EXPECT_EQ(rewritten("/api", legacy), "/clusters/old/api");
  const std::string path = "Bearer " + token(R"({"kubernetes.io":{"clusterName":"root:org"}})");
  EXPECT_EQ(rewritten("/api", path), "/clusters/root:org/api");
}

TEST(InCluster, WhenThePathOrHeaderSaysWhere_FP129_NothingIsRewritten) {
  const std::string modern = "Bearer " + token(R"({"kubernetes.io":{"clusterName":"abc"}})");
  for (const char* target :
       {"/clusters/x/api", "/services/x/api", "/shards/a/clusters/x/api",
        "/partitions/c/p/services/x/api", "*", "/ui/", "/ui/api/v1/shards?limit=1"}) {
    EXPECT_EQ(rewritten(target, modern), "") << target;
  }
  EXPECT_EQ(rewritten("/api", modern, true), "");
}

TEST(InCluster, WhenTheClaimIsNoClusterName_FP129_SE_T004_IsIgnored) {
  for (const char* claims :
       {R"({"kubernetes.io":{"clusterName":"../services/x"}})",
        R"({"kubernetes.io":{"clusterName":"a/b"}})", R"({"kubernetes.io":{"clusterName":"*"}})",
        R"({"kubernetes.io":{"clusterName":7}})", R"({"kubernetes.io":"abc"})", "{}", "[]", "x"}) {
    EXPECT_EQ(rewritten("/api", "Bearer " + token(claims)), "") << claims;
  }
  const std::string large =
      R"({"kubernetes.io":{"clusterName":")" + std::string(10'240, 'a') + "\"}}";
  EXPECT_EQ(rewritten("/api", "Bearer " + token(large.c_str())), "");
  const std::string good = token(R"({"kubernetes.io":{"clusterName":"abc"}})");
  for (const std::string& header : {"bearer " + good, "Basic " + good, good,
                                    std::string("Bearer a.b"), std::string("Bearer ")}) {
    EXPECT_EQ(rewritten("/api", header), "") << header;
  }
}

}  // namespace
}  // namespace kintsugi::proxy
