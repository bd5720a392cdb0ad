#include "krm/request_info.h"

#include <gtest/gtest.h>

namespace kintsugi::krm {
namespace {

/// "verb · group/version · namespace · resource[/sub] · name", as the tables of the specification.
std::string line(std::string_view method, std::string_view target) {
  const RequestInfo info = parse_request_info(method, target);
  if (!info.is_resource) {
    return "non-resource " + info.verb + " " + info.path;
  }
  std::string text =
      info.verb + " · " + info.group + "/" + info.version + " · " + info.ns + " · " + info.resource;
  if (!info.subresource.empty()) {
    text += "/" + info.subresource;
  }
  return text + " · " + info.name;
}

TEST(RequestInfo, WhenPathIsTooShort_IsNonResourceAM036) {
  for (const char* path :
       {"/api", "/api/v1", "/apis", "/apis/g", "/apis/g/v", "/version", "/", ""}) {
    EXPECT_EQ(line("GET", path), std::string("non-resource get ") + (*path == '\0' ? "/" : path));
  }
  EXPECT_EQ(line("POST", "/healthz/etcd"), "non-resource post /healthz/etcd");
}

TEST(RequestInfo, WhenItemIsNamed_IsGetAM037) {
  EXPECT_EQ(line("GET", "/api/v1/namespaces/t1/configmaps/a"), "get · /v1 · t1 · configmaps · a");
}

TEST(RequestInfo, WhenCollectionIsRead_IsListAM038) {
  EXPECT_EQ(line("GET", "/api/v1/configmaps"), "list · /v1 ·  · configmaps · ");
}

TEST(RequestInfo, WhenWatchIsNotFalse_IsWatchAM039) {
  for (const char* value : {"1", "true", "maybe", "", "TRUE"}) {
    EXPECT_EQ(line("GET", std::string("/api/v1/configmaps?watch=") + value),
              "watch · /v1 ·  · configmaps · ");
  }
  EXPECT_EQ(line("GET", "/api/v1/configmaps?watch"), "watch · /v1 ·  · configmaps · ");
  for (const char* value : {"0", "false", "FALSE", "False"}) {
    EXPECT_EQ(line("GET", std::string("/api/v1/configmaps?watch=") + value),
              "list · /v1 ·  · configmaps · ");
  }
}

TEST(RequestInfo, WhenFieldSelectorPinsName_TakesItAM040) {
  const std::string base = "/api/v1/namespaces/t1/configmaps?fieldSelector=";
  EXPECT_EQ(line("GET", base + "metadata.name%3Da"), "list · /v1 · t1 · configmaps · a");
  EXPECT_EQ(line("GET", base + "metadata.namespace=t1,metadata.name==a&watch=1"),
            "watch · /v1 · t1 · configmaps · a");
  EXPECT_EQ(line("GET", base + "metadata.name!=a"), "list · /v1 · t1 · configmaps · ");
  EXPECT_EQ(line("GET", base + "metadata.name%3Da%252Fb"), "list · /v1 · t1 · configmaps · ");
  EXPECT_EQ(line("GET", base + "metadata.name%3D.."), "list · /v1 · t1 · configmaps · ");
  EXPECT_EQ(line("DELETE", base + "metadata.name%3Da"),
            "deletecollection · /v1 · t1 · configmaps · ");
  const RequestInfo info = parse_request_info("GET", base + "metadata.name%3Da");
  EXPECT_FALSE(info.path_has_name);
}

TEST(RequestInfo, WhenNamespaceIsTheObject_IsInItselfAM041) {
  EXPECT_EQ(line("GET", "/api/v1/namespaces/t1"), "get · /v1 · t1 · namespaces · t1");
  EXPECT_EQ(line("GET", "/api/v1/namespaces"), "list · /v1 ·  · namespaces · ");
}

TEST(RequestInfo, WhenNamespaceSubresource_IsKnownAM042) {
  EXPECT_EQ(line("PUT", "/api/v1/namespaces/t1/finalize"),
            "update · /v1 · t1 · namespaces/finalize · t1");
  EXPECT_EQ(line("PUT", "/api/v1/namespaces/t1/status"),
            "update · /v1 · t1 · namespaces/status · t1");
}

TEST(RequestInfo, WhenOtherWordFollowsNamespace_IsResourceAM043) {
  EXPECT_EQ(line("GET", "/api/v1/namespaces/t1/finalize2"), "list · /v1 · t1 · finalize2 · ");
}

TEST(RequestInfo, WhenSubresourceOfGroup_IsReadAM044) {
  EXPECT_EQ(line("PATCH", "/apis/ex.io/v1/namespaces/t1/widgets/w/status"),
            "patch · ex.io/v1 · t1 · widgets/status · w");
}

TEST(RequestInfo, WhenTokenIsPosted_IsCreateAM045) {
  EXPECT_EQ(line("POST", "/api/v1/namespaces/t1/serviceaccounts/default/token"),
            "create · /v1 · t1 · serviceaccounts/token · default");
}

TEST(RequestInfo, WhenDeleted_NameDecidesVerbAM046) {
  EXPECT_EQ(line("DELETE", "/api/v1/namespaces/t1/configmaps"),
            "deletecollection · /v1 · t1 · configmaps · ");
  EXPECT_EQ(line("DELETE", "/api/v1/namespaces/t1/configmaps/a"),
            "delete · /v1 · t1 · configmaps · a");
}

TEST(RequestInfo, WhenOldWatchForm_IsWatchAM047) {
  EXPECT_EQ(line("GET", "/api/v1/watch/namespaces/t1/configmaps"),
            "watch · /v1 · t1 · configmaps · ");
  EXPECT_EQ(line("GET", "/api/v1/watch/namespaces/t1/configmaps/a"),
            "watch · /v1 · t1 · configmaps · a");
  EXPECT_EQ(line("GET", "/apis/ex.io/v1/watch/namespaces/t1/widgets"),
            "watch · ex.io/v1 · t1 · widgets · ");
  EXPECT_EQ(line("GET", "/api/v1/watch/configmaps?fieldSelector=metadata.name%3Da"),
            "watch · /v1 ·  · configmaps · ");
  EXPECT_TRUE(parse_request_info("GET", "/api/v1/watch/configmaps").deprecated_watch);
  EXPECT_EQ(line("GET", "/api/v1/watch"), "non-resource get /api/v1/watch");
}

TEST(RequestInfo, WhenMethodIsUnknown_VerbIsEmptyAM048) {
  EXPECT_EQ(line("HEAD", "/api/v1/namespaces/t1/configmaps/a"), "get · /v1 · t1 · configmaps · a");
  EXPECT_EQ(line("FOO", "/api/v1/namespaces/t1/configmaps/a"), " · /v1 · t1 · configmaps · a");
  EXPECT_EQ(line("OPTIONS", "/api/v1/configmaps"), " · /v1 ·  · configmaps · ");
}

TEST(RequestInfo, WhenPathEndsInSlash_IsTheSameAM049) {
  EXPECT_EQ(line("GET", "/api/v1/namespaces/t1/configmaps/"), "list · /v1 · t1 · configmaps · ");
}

TEST(RequestInfo, WhenSegmentIsEmpty_IsNonResourceAM050) {
  EXPECT_FALSE(parse_request_info("GET", "/api/v1//namespaces/t1/configmaps").is_resource);
}

TEST(RequestInfo, WhenASlashIsEscaped_SeparatesLikeAPlainOneKK371) {
  EXPECT_EQ(line("GET", "/api/v1/namespaces/t1/configmaps/a%2Fb"),
            "get · /v1 · t1 · configmaps/b · a");
  EXPECT_EQ(line("GET", "/api/v1/namespaces%2Ft1/configmaps"), "list · /v1 · t1 · configmaps · ");
  EXPECT_EQ(line("GET", "/api%2Fv1/secrets"), "list · /v1 ·  · secrets · ");
  EXPECT_EQ(line("DELETE", "/apis%2fg/v1%2Fwidgets/w%252Fx"), "delete · g/v1 ·  · widgets · w%2Fx");
  EXPECT_EQ(line("GET", "/api/v1/secrets/a+b"), "get · /v1 ·  · secrets · a+b");
}

TEST(RequestInfo, WhenAVerbStandsInThePath_ItIsTheVerbAM047) {
  EXPECT_EQ(line("GET", "/api/v1/proxy/namespaces/t/pods/x/y"), "proxy · /v1 · t · pods · x");
  EXPECT_EQ(line("POST", "/apis/g/v1/%77atch/widgets"), "watch · g/v1 ·  · widgets · ");
  EXPECT_EQ(line("GET", "/api/v1/watches/watch"), "get · /v1 ·  · watches · watch");
  EXPECT_EQ(line("GET", "/api/v1/proxy"), "non-resource get /api/v1/proxy");
}

TEST(RequestInfo, WhenItemIsWatched_IsGetAM051) {
  EXPECT_EQ(line("GET", "/api/v1/namespaces/t1/configmaps/a?watch=1"),
            "get · /v1 · t1 · configmaps · a");
}

TEST(RequestInfo, WhenRead_GivesPartsAndQualifiedResource) {
  const RequestInfo info =
      parse_request_info("GET", "/apis/ex.io/v1/namespaces/t1/widgets/w/a/b?x=1");
  EXPECT_EQ(info.parts, (std::vector<std::string>{"namespaces", "t1", "widgets", "w", "a", "b"}));
  EXPECT_EQ(info.qualified_resource(), "widgets.ex.io");
  EXPECT_EQ(info.api_prefix, "apis");
  EXPECT_TRUE(info.path_has_name);
  EXPECT_EQ(info.query.get("x"), "1");
}

TEST(RequestInfo, WhenEscapeIsBroken_IsNonResource) {
  EXPECT_EQ(line("GET", "/api/v1/configmaps/%zz"), "non-resource get /api/v1/configmaps/%zz");
}

TEST(Query, WhenPairsRepeat_KeepsOrderAndDropsBrokenOnes) {
  const Query query("a=1&b=x+y%20z&a=2&&c&%zz=1&d=1;e=2&f==");
  EXPECT_EQ(query.get("a"), "1");
  EXPECT_EQ(query.all("a"), (std::vector<std::string_view>{"1", "2"}));
  EXPECT_EQ(query.get("b"), "x y z");
  EXPECT_EQ(query.get("c"), "");
  EXPECT_EQ(query.get("f"), "=");
  EXPECT_EQ(query.get("d"), std::nullopt);
  EXPECT_EQ(query.pairs().size(), 5U);
}

TEST(ClusterPath, WhenTargetHasCluster_IsSplitOnce) {
  const auto star = split_cluster_path("/clusters/%2A/apis/g/v1/x?watch=1");
  ASSERT_TRUE(star);
  EXPECT_EQ(star->segment, "*");
  EXPECT_EQ(star->rest, "/apis/g/v1/x?watch=1");
  EXPECT_EQ(split_cluster_path("/clusters/root%3Aorg/api")->segment, "root:org");
  EXPECT_EQ(split_cluster_path("/clusters/root%253Aorg/api")->segment, "root%3Aorg");
  EXPECT_EQ(split_cluster_path("/clusters/a")->rest, "");
  EXPECT_EQ(split_cluster_path("/clusters/a?x=1")->rest, "?x=1");
  EXPECT_EQ(parse_request_info("GET", "?x=1").path, "/");
  EXPECT_EQ(parse_request_info("GET", "").path, "/");
  EXPECT_EQ(split_cluster_path("/clusters/a/clusters/b/api")->rest, "/clusters/b/api");
  EXPECT_EQ(split_cluster_path("/clusters/a%2Fb/api")->segment, "a/b");
  EXPECT_FALSE(split_cluster_path("/clusters/"));
  EXPECT_FALSE(split_cluster_path("/clusters"));
  EXPECT_FALSE(split_cluster_path("/clusters//api"));
  EXPECT_FALSE(split_cluster_path("/api/clusters/x"));
}

TEST(ClusterPath, WhenNameIsChecked_FollowsTheGrammar) {
  for (const char* good : {"root", "a", "0", "a-b", "root:org:ws", "system:admin"}) {
    EXPECT_TRUE(is_workspace_path(good)) << good;
  }
  for (const char* bad : {"", "Root", "a_b", "-a", "a-", ":a", "a:", "a::b", "*", "a.b", "a b"}) {
    EXPECT_FALSE(is_workspace_path(bad)) << bad;
  }
  EXPECT_TRUE(is_cluster_name(std::string(63, 'a')));
  EXPECT_FALSE(is_cluster_name(std::string(64, 'a')));
  EXPECT_FALSE(is_cluster_name("a:b"));
}

TEST(HomeClusterName, WhenVectorIsGiven_MatchesKcp) {
  EXPECT_EQ(home_cluster_name(""), "36ks9xj4a2n61");
  EXPECT_EQ(home_cluster_name("alice"), "v1u4alow0iv9");
  EXPECT_EQ(home_cluster_name("bob"), "2okdry95y5lkv");
  EXPECT_EQ(home_cluster_name("user-with-dash"), "1e25681jymk1l");
  EXPECT_EQ(home_cluster_name("user:with:colons"), "2bqfj6xlthg3t");
  EXPECT_EQ(home_cluster_name("user172"), "0f9mt7goyif7");
  EXPECT_EQ(home_cluster_name("user-1"), "285xjbwx8vocb");
  EXPECT_EQ(home_cluster_name("kcp-admin"), "kvdk2spgmbix");
}

}  // namespace
}  // namespace kintsugi::krm
