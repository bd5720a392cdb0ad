#include "workers/runtime/endpoints/endpoint_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const EndpointRules kRules = {"proxy.example.com", {"shard.example.com", "127.0.0.1", "::1"}};

std::string refusal(std::string_view url, const EndpointRules& rules = kRules) {
  const auto endpoint = parse_endpoint(url, rules);
  return endpoint ? "" : std::string(endpoint.error().message());
}

std::string canonical(std::string_view url) {
  const auto endpoint = parse_endpoint(url, kRules);
  return endpoint ? endpoint->url : "refused";
}

TEST(EndpointUrl, RT10_OneUrlInManySpellingsIsOneUnit) {
  const std::string url = "https://proxy.example.com/services/apiexport/root/Kafka";
  EXPECT_EQ(canonical(url), url);
  EXPECT_EQ(canonical("HTTPS://Proxy.Example.COM:443/services/apiexport/root/Kafka//"), url);
  EXPECT_EQ(canonical("https://[::1]:6443"), "https://[::1]:6443");
  EXPECT_NE(canonical("https://proxy.example.com/services/apiexport/root/kafka"), url);
}

TEST(EndpointUrl, RT15_OnlyTheProxyAndAllowedHostsAreSentACredential) {
  EXPECT_EQ(refusal("https://proxy.example.com"), "");
  EXPECT_EQ(refusal("https://shard.example.com:8443/x"), "");
  for (const char* url :
       {"https://evil.example.com", "https://proxy.example.com.evil.org",
        "https://proxy.example.com./", "https://xproxy.example.com", "https://example.com"}) {
    EXPECT_EQ(refusal(url), "host is neither the proxy nor in allowed_endpoint_hosts") << url;
  }
  EXPECT_NE(refusal("https://a", {"", {""}}), "");
}

TEST(EndpointUrl, RT15_UserInfoFragmentQueryAndPlainHttpAreRefused) {
  EXPECT_EQ(refusal("https://proxy.example.com@evil.org/"), "URL has user information");
  EXPECT_EQ(refusal("https://me:secret@proxy.example.com/"), "URL has user information");
  EXPECT_EQ(refusal("https://proxy.example.com/#x"), "URL has a fragment");
  EXPECT_EQ(refusal("https://proxy.example.com/?x=1"), "URL has a query");
  EXPECT_EQ(refusal("http://proxy.example.com/"), "URL is not https");
  EXPECT_EQ(refusal("http://127.0.0.1:8080/x"), "");
  EXPECT_EQ(refusal("http://[::1]:8080/x"), "");
  EXPECT_EQ(refusal("http://localhost/", {"localhost", {}}), "");
  EXPECT_EQ(refusal("http://127.0.0.1.evil.org/", {"127.0.0.1.evil.org", {}}), "URL is not https");
  EXPECT_EQ(refusal("http://128.0.0.1/", {"128.0.0.1", {}}), "URL is not https");
  EXPECT_EQ(refusal("https://proxy.example.com/" + std::string(2'048, 'x')),
            "URL is longer than 2,048 bytes");
  for (const char* url : {"", "proxy.example.com", "ftp://proxy.example.com", "https://",
                          "https://proxy.example.com:0", "https://proxy.example.com:99999",
                          "https://proxy.example.com\\@evil", "https://proxy.example.com/\n"}) {
    EXPECT_NE(refusal(url), "") << url;
  }
}

TEST(EndpointUrl, RT84_WhatIsShownHasNoSecrets) {
  EXPECT_EQ(shown_url("https://me:secret@host:1/p?token=t#f"), "https://host:1/p");
  EXPECT_EQ(shown_url("https://a@b@host/p@q"), "https://host/p@q");
  EXPECT_EQ(shown_url("https://h\x01ost\n/"), "https://host/");
  EXPECT_EQ(shown_url("https://host?token"), "https://host");
  EXPECT_EQ(shown_url(""), "");
  EXPECT_EQ(shown_url(std::string(1'000, 'x')).size(), 256U);
}

TEST(EndpointUrl, RT10_TheNameOfAUnitIsAStableFolder) {
  const std::string name = unit_name("https://proxy.example.com:6443/services/a");
  EXPECT_EQ(name, "proxy.example.com-6443-43a5fe49985196d154389a25ce9d5037");
  EXPECT_NE(name, unit_name("https://proxy.example.com:6443/services/b"));
  EXPECT_EQ(unit_name("https://[::1]/").substr(0, 6), "x--1--");
  const std::string odd = unit_name("https://../" + std::string(500, 'x'));
  EXPECT_EQ(odd.substr(0, 3), "x.-");
  EXPECT_LE(unit_name("https://" + std::string(500, 'x')).size(), 110U);
}

krm::Json slice_of(std::string_view status) {
  return *krm::Json::parse("{\"kind\":\"APIExportEndpointSlice\"" + std::string(status) + "}");
}

TEST(EndpointUrl, RT_T010_AllEndpointsOfASliceAreTaken) {
  EXPECT_THAT(
      *endpoint_urls(slice_of(
          R"(,"status":{"endpoints":[{"url":"https://a"},{"url":"https://b"},{},{"url":7}]})")),
      ElementsAre("https://a", "https://b", "", ""));
  EXPECT_THAT(*endpoint_urls(slice_of("")), IsEmpty());
  EXPECT_THAT(*endpoint_urls(slice_of(R"(,"status":{"endpoints":null})")), IsEmpty());
  EXPECT_FALSE(endpoint_urls(slice_of(R"(,"status":{"endpoints":{}})")));
  EXPECT_FALSE(endpoint_urls(*krm::Json::parse(R"({"kind":"Status"})")));
}

TEST(EndpointUrl, RT13_ReadsGoEverywhereAndWritesToOneCluster) {
  EXPECT_EQ(everywhere_path("/services/x", "/api/v1/pods"), "/services/x/clusters/*/api/v1/pods");
  EXPECT_EQ(everywhere_path("", "/api/v1/pods"), "/clusters/*/api/v1/pods");
  EXPECT_EQ(*cluster_path("/services/x", "2kq9:a", "/api"), "/services/x/clusters/2kq9:a/api");
  EXPECT_EQ(everywhere_path("/x/clusters/root:org", "/api"), "/x/clusters/root:org/api");
  EXPECT_EQ(*cluster_path("/x/clusters/root:org", "root:org", "/api"), "/x/clusters/root:org/api");
  EXPECT_FALSE(cluster_path("/x/clusters/root:org", "root", "/api"));
  for (const char* cluster : {"", "*", "a/b", "a?b", "a%2fb", "..", ".", "a#b", "a b"}) {
    EXPECT_FALSE(cluster_path("/x", cluster, "/api")) << cluster;
  }
}

TEST(EndpointUrl, RT13_TheClusterIsTheAnnotationsElseTheUrls) {
  const auto object =
      *krm::Json::parse(R"({"metadata":{"name":"n","annotations":{"kcp.io/cluster":"2kq9"}}})");
  const krm::Json bare = *krm::Json::parse(R"({"metadata":{"name":"n"}})");
  EXPECT_EQ(cluster_of(object, "/clusters/other/api"), "2kq9");
  EXPECT_EQ(cluster_of(bare, "/services/x/clusters/other/api"), "other");
  EXPECT_EQ(cluster_of(bare, "/services/x/clusters/other?watch=1"), "other");
  EXPECT_EQ(cluster_of(bare, "/clusters/*/api"), "");
  EXPECT_EQ(cluster_of(bare, "/api"), "");
}

TEST(EndpointUrl, RT_T015_SystemClustersAreIgnored) {
  EXPECT_TRUE(is_ignored_cluster("system:admin"));
  EXPECT_TRUE(is_ignored_cluster("system:"));
  EXPECT_FALSE(is_ignored_cluster("system"));
  EXPECT_FALSE(is_ignored_cluster("root:system:admin"));
}

}  // namespace
}  // namespace kintsugi::workers
