#include "proxy/merge/wildcard_route.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
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
  EXPECT_EQ(read_wildcard("POST", "/apis", false).use, Use::kRefused);
}

}  // namespace
}  // namespace kintsugi::proxy
