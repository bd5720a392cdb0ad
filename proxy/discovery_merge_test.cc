#include "proxy/discovery_merge.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

using krm::Json;

std::string merged(std::string_view theirs, std::string_view ours) {
  Json target = *Json::parse(theirs);
  return merge_discovery(target, *Json::parse(ours)) ? target.dump() : "refused";
}

TEST(MergeDiscovery, T02_GroupListGetsNewGroupsAndVersions) {
  EXPECT_EQ(
      merged(
          R"({"kind":"APIGroupList","groups":[{"name":"apis.kcp.io","preferredVersion":{"version":"v1alpha2"},
                      "versions":[{"groupVersion":"apis.kcp.io/v1alpha2"}]}]})",
          R"({"kind":"APIGroupList","groups":[{"name":"apis.kcp.io","versions":[{"groupVersion":"apis.kcp.io/v1alpha1"}]},
                      {"name":"topology.kcp.io","versions":[]}]})"),
      R"({"groups":[{"name":"apis.kcp.io","preferredVersion":{"version":"v1alpha2"},"versions":[)"
      R"({"groupVersion":"apis.kcp.io/v1alpha2"},{"groupVersion":"apis.kcp.io/v1alpha1"}]},)"
      R"({"name":"topology.kcp.io","versions":[]}],"kind":"APIGroupList"})");
}

TEST(MergeDiscovery, WhenBothHaveAResource_OursWins) {
  EXPECT_EQ(
      merged(
          R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["get"]},{"name":"b"}]})",
          R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["list"]},{"name":"c"}]})"),
      R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["list"]},{"name":"b"},{"name":"c"}]})");
}

TEST(MergeDiscovery, AggregatedDocumentsMergePerResource) {
  EXPECT_EQ(
      merged(
          R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apis.kcp.io"},"versions":[
                      {"version":"v1alpha1","resources":[{"resource":"apiresourceschemas"}]}]}]})",
          R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apis.kcp.io"},"versions":[
                      {"version":"v1alpha1","resources":[{"resource":"apiexportendpointslices"}]}]}]})"),
      R"({"items":[{"metadata":{"name":"apis.kcp.io"},"versions":[{"resources":[{"resource":"apiresourceschemas"},)"
      R"({"resource":"apiexportendpointslices"}],"version":"v1alpha1"}]}],"kind":"APIGroupDiscoveryList"})");
}

std::string united(std::string_view into, std::string_view more) {
  Json target = *Json::parse(into);
  return unite_discovery(target, *Json::parse(more)) ? target.dump() : "refused";
}

TEST(UniteDiscovery, TP118_WhenOneShardHasMore_TheUnionHasItAndCommonVerbs) {
  EXPECT_EQ(
      united(
          R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["get","list","watch"]}]})",
          R"({"kind":"APIResourceList","resources":[{"name":"b","verbs":["get"]},{"name":"a","verbs":["watch","get"]}]})"),
      R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["get","watch"]},{"name":"b","verbs":["get"]}]})");
  EXPECT_EQ(
      united(
          R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"g"},"versions":[{"version":"v1","resources":[
             {"resource":"a","verbs":["get"],"subresources":[{"subresource":"status","verbs":["get","patch"]}]}]}]}]})",
          R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"h"}},{"metadata":{"name":"g"},"versions":[
             {"version":"v1","resources":[{"resource":"a","verbs":["get","list"],"subresources":[
             {"subresource":"status","verbs":["get"]}]}]},{"version":"v2"}]}]})"),
      R"({"items":[{"metadata":{"name":"g"},"versions":[{"resources":[{"resource":"a","subresources":[)"
      R"({"subresource":"status","verbs":["get"]}],"verbs":["get"]}],"version":"v1"},{"version":"v2"}]},)"
      R"({"metadata":{"name":"h"}}],"kind":"APIGroupDiscoveryList"})");
  EXPECT_EQ(united(R"({"kind":"APIVersions","versions":["v1"]})",
                   R"({"kind":"APIVersions","versions":["v1","v2"]})"),
            R"({"kind":"APIVersions","versions":["v1","v2"]})");
  EXPECT_EQ(united(R"({"kind":"APIGroupList","groups":[]})", R"({"kind":"Status"})"), "refused");
}

TEST(MergeDiscovery, WhenKindsDiffer_RefusesAndChangesNothing) {
  EXPECT_EQ(merged(R"({"kind":"Status"})", R"({"kind":"APIGroup"})"), "refused");
  EXPECT_EQ(merged(R"({"kind":"Pod"})", R"({"kind":"Pod"})"), "refused");
}

}  // namespace
}  // namespace kintsugi::proxy
