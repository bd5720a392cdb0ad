#include "aggregation/wildcard_route.h"

#include <gtest/gtest.h>

namespace kintsugi::aggregation {
namespace {

using Use = WildcardRequest::Use;

TEST(WildcardRequest, WhenAListOrWatchComes_T01_IsMerged) {
  const WildcardRequest list = read_wildcard("GET", "/apis/ex.io/v1/widgets:0a?limit=5", false);
  EXPECT_EQ(list.use, Use::kMerge);
  EXPECT_EQ(list.info.resource, "widgets:0a");
  EXPECT_EQ(list.path, "/apis/ex.io/v1/widgets:0a");
  EXPECT_EQ(read_wildcard("GET", "/api/v1/configmaps?watch=1", false).info.verb, "watch");
}

TEST(WildcardRequest, WhenANamespaceIsNamed_T03_T106_OnlyPlainServersAnswer) {
  const WildcardRequest kcp = read_wildcard("GET", "/api/v1/namespaces/t/configmaps", false);
  ASSERT_EQ(kcp.use, Use::kRefused);
  EXPECT_EQ(kcp.refusal->code(), Errc::kBadRequest);
  EXPECT_EQ(kcp.refusal->message(),
            "cross-cluster LIST and WATCH are required to be cross-namespace, not scoped to "
            "namespace t");
  EXPECT_EQ(read_wildcard("GET", "/api/v1/namespaces/t/configmaps", true).use, Use::kMerge);
}

TEST(WildcardRequest, WhenAnythingElseIsWanted_T16_T18_T92_IsRefused) {
  for (const auto& [method, target] : {std::pair{"POST", "/api/v1/namespaces/t/configmaps"},
                                       std::pair{"DELETE", "/api/v1/configmaps"},
                                       std::pair{"GET", "/api/v1/namespaces/t/configmaps/a"},
                                       std::pair{"GET", "/apis/ex.io/v1/widgets/a/status"},
                                       std::pair{"HEAD", "/api/v1/configmaps"},
                                       std::pair{"PATCH", "/api/v1/namespaces/t/configmaps/a"}}) {
    const WildcardRequest request = read_wildcard(method, target, false);
    ASSERT_EQ(request.use, Use::kRefused) << method << target;
    EXPECT_EQ(request.refusal->code(), Errc::kMethodNotAllowed) << method << target;
  }
  EXPECT_EQ(read_wildcard("GET", "/apis", false).use, Use::kDocument);
  for (const char* method : {"POST", "HEAD", "OPTIONS", "TRACE"}) {
    EXPECT_EQ(read_wildcard(method, "/apis", false).use, Use::kRefused) << method;
  }
}

TEST(WildcardRequest, WhenOneObjectIsRead_T18_PlainServersAnswer) {
  const WildcardRequest get = read_wildcard("GET", "/api/v1/namespaces/t/configmaps/a", true);
  EXPECT_EQ(get.use, Use::kGet);
  EXPECT_EQ(get.info.name, "a");
  EXPECT_EQ(read_wildcard("GET", "/api/v1/nodes/a", true).use, Use::kGet);
  EXPECT_EQ(read_wildcard("GET", "/api/v1/namespaces/t/pods/a/log", true).use, Use::kRefused);
  const WildcardRequest gone = read_wildcard("DELETE", "/api/v1/nodes/a", true);
  ASSERT_EQ(gone.use, Use::kRefused);
  EXPECT_EQ(gone.refusal->code(), Errc::kMethodNotAllowed);
  EXPECT_EQ(gone.refusal->message(),
            "delete is not supported on resources of kind \"nodes\" in the `*` logical cluster; do "
            "that at /clusters/<name>/, an object's annotation kcp.io/cluster is that name");
}

TEST(WildcardRequest, WhenAnIdentityIsMissing_KK378_IsRefused) {
  for (const char* trail :
       {"/apis/ex.io/v1/widgets:", "/apis/ex.io/v1/widgets%3A?watch=1",
        "/apis/ex.io/v1/watch/widgets:", "/api/v1/namespaces/t/configmaps:/x"}) {
    const WildcardRequest request = read_wildcard("GET", trail, false);
    ASSERT_EQ(request.use, Use::kRefused) << trail;
    EXPECT_EQ(request.refusal->code(), Errc::kBadRequest) << trail;
  }
  EXPECT_EQ(read_wildcard("GET", "/apis/ex.io/v1/widgets:", false).refusal->message(),
            "invalid resource \"widgets\": missing identity");
}

// U7.
TEST(WildcardRequest, WhenADeprecatedWatchComes_T38_IsReadAsItsList) {
  const WildcardRequest all =
      read_wildcard("GET", "/api/v1/watch/configmaps?watch=0&limit=5", false);
  EXPECT_EQ(all.use, Use::kMerge);
  EXPECT_EQ(all.path, "/api/v1/configmaps");
  EXPECT_EQ(all.info.verb, "watch");
  EXPECT_EQ(all.info.query.get("limit"), "5");
  const WildcardRequest one = read_wildcard(
      "GET", "/apis/apps/v1/watch/namespaces/t/deployments/x?fieldSelector=metadata.namespace%3Dt",
      true);
  EXPECT_EQ(one.use, Use::kMerge);
  EXPECT_EQ(one.path, "/apis/apps/v1/namespaces/t/deployments");
  EXPECT_EQ(one.info.query.get("fieldSelector"), "metadata.namespace=t,metadata.name=x");
  EXPECT_EQ(one.info.name, "x");
  const WildcardRequest other =
      read_wildcard("GET", "/api/v1/watch/nodes/x?fieldSelector=metadata.name%3Dy", true);
  ASSERT_EQ(other.use, Use::kRefused);
  EXPECT_EQ(other.refusal->code(), Errc::kBadRequest);
}

TEST(WildcardRequest, WhenTheWatchFormIsEscaped_SET001_IsReadAsItsListToo) {
  for (const char* trail : {"/apis/g/v1/%77atch/foo", "/apis/g/v1/wat%63h/foo",
                            "/apis/g/v1/%77%61%74%63%68/foo", "/%61pis/g/v1/watch/foo",
                            "/apis/g/v%31/wat%63%68/foo?watch=0", "/apis/%67/v1/%77atch/foo/"}) {
    for (const bool plain : {false, true}) {
      const WildcardRequest request = read_wildcard("GET", trail, plain);
      EXPECT_EQ(request.use, Use::kMerge) << trail;
      EXPECT_EQ(request.path, "/apis/g/v1/foo") << trail;
      EXPECT_EQ(request.info.verb, "watch") << trail;
    }
  }
  const WildcardRequest named = read_wildcard(
      "GET", "/api/v1/%77atch/namespaces/t%2dx/config%6daps/watch?labelSelector=a%3Db", true);
  EXPECT_EQ(named.use, Use::kMerge);
  EXPECT_EQ(named.path, "/api/v1/namespaces/t-x/configmaps");
  EXPECT_EQ(named.info.name, "watch");
  EXPECT_EQ(named.info.query.get("labelSelector"), "a=b");
  const WildcardRequest bound = read_wildcard("GET", "/apis/g/v1/watch/widgets:0a%20b", false);
  EXPECT_EQ(bound.path, "/apis/g/v1/widgets:0a%20b");
  EXPECT_EQ(bound.info.resource, "widgets:0a b");
}

}  // namespace
}  // namespace kintsugi::aggregation
