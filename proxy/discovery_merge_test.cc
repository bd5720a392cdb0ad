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

TEST(MergeDiscovery, WhenKindsDiffer_RefusesAndChangesNothing) {
  EXPECT_EQ(merged(R"({"kind":"Status"})", R"({"kind":"APIGroup"})"), "refused");
  EXPECT_EQ(merged(R"({"kind":"Pod"})", R"({"kind":"Pod"})"), "refused");
}

}  // namespace
}  // namespace kintsugi::proxy
