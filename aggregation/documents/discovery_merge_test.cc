#include "aggregation/documents/discovery_merge.h"

#include <gtest/gtest.h>

namespace kintsugi::aggregation {
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

std::string united(std::string_view into, std::string_view more, Join join = Join::kUnion) {
  Json target = *Json::parse(into);
  return join_discovery(target, *Json::parse(more), join) ? target.dump() : "refused";
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

TEST(UniteDiscovery, AGG1601_WhenTheCommonPartIsWanted_OnlyWhatAllServeStays) {
  EXPECT_EQ(
      united(
          R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["get","list"]},{"name":"b","verbs":["get"]}]})",
          R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["list"]},{"name":"c","verbs":["get"]}]})",
          Join::kIntersection),
      R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["list"]}]})");
  EXPECT_EQ(
      united(
          R"({"kind":"APIGroupList","groups":[{"name":"a","versions":[{"groupVersion":"a/v1"},{"groupVersion":"a/v2"}]},{"name":"b"}]})",
          R"({"kind":"APIGroupList","groups":[{"name":"c"},{"name":"a","versions":[{"groupVersion":"a/v2"}]}]})",
          Join::kIntersection),
      R"({"groups":[{"name":"a","versions":[{"groupVersion":"a/v2"}]}],"kind":"APIGroupList"})");
  EXPECT_EQ(united(R"({"kind":"APIVersions","versions":["v1","v2"]})",
                   R"({"kind":"APIVersions","versions":["v2","v3"]})", Join::kIntersection),
            R"({"kind":"APIVersions","versions":["v2"]})");
}

TEST(UniteDiscovery, AGG1602_WhenOneShardIsCurrent_TheVersionIs) {
  const std::string_view stale = R"({"kind":"APIGroupDiscoveryList","items":[
      {"metadata":{"name":"a"},"versions":[{"version":"v1","freshness":"Current"}]},
      {"metadata":{"name":"b"},"versions":[{"version":"v1","freshness":"Current"}]}]})";
  Json target = *Json::parse(stale);
  mark_stale(target);
  EXPECT_EQ(
      target.dump(),
      R"({"items":[{"metadata":{"name":"a"},"versions":[{"freshness":"Stale","version":"v1"}]},)"
      R"({"metadata":{"name":"b"},"versions":[{"freshness":"Stale","version":"v1"}]}],)"
      R"("kind":"APIGroupDiscoveryList"})");
  ASSERT_TRUE(join_discovery(target, *Json::parse(R"({"kind":"APIGroupDiscoveryList","items":[
      {"metadata":{"name":"b"},"versions":[{"version":"v1","freshness":"Current"}]}]})"),
                             Join::kUnion));
  EXPECT_EQ(target.at({"items"})->items()[0].at({"versions"})->items()[0].text({"freshness"}),
            "Stale");
  EXPECT_EQ(target.at({"items"})->items()[1].at({"versions"})->items()[0].text({"freshness"}),
            "Current");
}

TEST(UniteDiscovery, AGG1601_WhenVersionsAreOrdered_KubernetesPriorityCounts) {
  Json groups = *Json::parse(R"({"kind":"APIGroupList","groups":[{"name":"a","preferredVersion":
      {"groupVersion":"a/v1beta1","version":"v1beta1"},"versions":[{"groupVersion":"a/v1beta1",
      "version":"v1beta1"},{"groupVersion":"a/v2","version":"v2"},{"groupVersion":"a/v10","version":"v10"}]}]})");
  order_versions(groups);
  const Json& group = groups.at({"groups"})->items()[0];
  EXPECT_EQ(group.text({"preferredVersion", "version"}), "v10");
  EXPECT_EQ(group.find("versions")->items()[1].text({"version"}), "v2");
  EXPECT_EQ(group.find("versions")->items()[2].text({"version"}), "v1beta1");
}

TEST(UniteDiscovery, AGG1601_WhenOnlyReadsAreServed_OtherVerbsAreNotShown) {
  Json list = *Json::parse(R"({"kind":"APIResourceList","resources":[
      {"name":"a","verbs":["create","get","list","watch"]},{"name":"a/status","verbs":["get"]},
      {"name":"b","verbs":["create"]}]})");
  keep_verbs(list, {"list", "watch"});
  EXPECT_EQ(list.dump(),
            R"({"kind":"APIResourceList","resources":[{"name":"a","verbs":["list","watch"]}]})");
  Json groups = *Json::parse(R"({"kind":"APIGroupDiscoveryList","items":[{"versions":[{"resources":[
      {"resource":"a","verbs":["get","list"],"subresources":[{"subresource":"status"}]},
      {"resource":"b","verbs":["create"]}]}]}]})");
  keep_verbs(groups, {"list", "watch"});
  EXPECT_EQ(
      groups.dump(),
      R"({"items":[{"versions":[{"resources":[{"resource":"a","verbs":["list"]}]}]}],"kind":"APIGroupDiscoveryList"})");
}

TEST(MergeDiscovery, WhenKindsDiffer_RefusesAndChangesNothing) {
  EXPECT_EQ(merged(R"({"kind":"Status"})", R"({"kind":"APIGroup"})"), "refused");
  EXPECT_EQ(merged(R"({"kind":"Pod"})", R"({"kind":"Pod"})"), "refused");
}

std::string kept(std::string_view document, const std::vector<std::string_view>& verbs) {
  Json target = *Json::parse(document);
  keep_verbs(target, verbs);
  return target.dump();
}

TEST(KeepVerbs, FP165_WhatHasNoResourceLeftIsLeftOut) {
  EXPECT_EQ(
      kept(
          R"({"kind":"APIGroupDiscoveryList","items":[
             {"metadata":{"name":"reviews"},"versions":[{"version":"v1","resources":[{"resource":"a","verbs":["create"]}]}]},
             {"metadata":{"name":"some"},"versions":[
               {"version":"v2","resources":[{"resource":"b","verbs":["list","get"]}]},
               {"version":"v1","resources":[{"resource":"c","verbs":["create"]}]}]},
             {"metadata":{"name":"away"},"versions":[{"version":"v1","freshness":"Stale","resources":[]}]}]})",
          {"list", "watch"}),
      R"({"items":[{"metadata":{"name":"some"},"versions":[{"resources":[{"resource":"b","verbs":["list"]}],"version":"v2"}]},)"
      R"({"metadata":{"name":"away"},"versions":[{"freshness":"Stale","resources":[],"version":"v1"}]}],"kind":"APIGroupDiscoveryList"})");
}

TEST(DropVersions, FP165_GroupsWithoutAVersionGoToo) {
  Json groups = *Json::parse(
      R"({"kind":"APIGroupList","groups":[{"name":"a","versions":[{"groupVersion":"a/v1"}]},
          {"name":"b","versions":[{"groupVersion":"b/v2"},{"groupVersion":"b/v1"}]}]})");
  EXPECT_EQ(group_versions(groups), (std::vector<std::string>{"a/v1", "b/v2", "b/v1"}));
  drop_versions(groups, {"a/v1", "b/v1"});
  EXPECT_EQ(
      groups.dump(),
      R"({"groups":[{"name":"b","versions":[{"groupVersion":"b/v2"}]}],"kind":"APIGroupList"})");
  EXPECT_TRUE(group_versions(*Json::parse(R"({"kind":"APIResourceList"})")).empty());
}

TEST(KeepResources, FP164_OnlyWhatKcpExportsIsTakenFromRoot) {
  const auto exported = [](std::string_view group, std::string_view resource) {
    return group == "tenancy.kcp.io" ||
           (group == "core.kcp.io" && (resource.empty() || resource == "shards"));
  };
  const auto left = [&](std::string_view text, std::string_view group) {
    Json document = *Json::parse(text);
    keep_resources(document, group, exported);
    return document.dump();
  };
  EXPECT_EQ(
      left(R"({"kind":"APIGroupList","groups":[{"name":"apps"},{"name":"core.kcp.io"}]})", ""),
      R"({"groups":[{"name":"core.kcp.io"}],"kind":"APIGroupList"})");
  EXPECT_EQ(
      left(R"({"kind":"APIResourceList","resources":[{"name":"shards"},{"name":"shards/status"},
                     {"name":"logicalclusters"}]})",
           "core.kcp.io"),
      R"({"kind":"APIResourceList","resources":[{"name":"shards"},{"name":"shards/status"}]})");
  EXPECT_EQ(left(R"({"kind":"APIGroup","versions":[{"version":"v1"}]})", "apps"),
            R"({"kind":"APIGroup","versions":[]})");
  EXPECT_EQ(
      left(
          R"({"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[{"resources":[{"resource":"x"}]}]},
              {"metadata":{"name":"tenancy.kcp.io"},"versions":[{"resources":[{"resource":"workspaces"}]}]}]})",
          ""),
      R"({"items":[{"metadata":{"name":"tenancy.kcp.io"},"versions":[{"resources":[{"resource":"workspaces"}]}]}],"kind":"APIGroupDiscoveryList"})");
}

}  // namespace
}  // namespace kintsugi::aggregation
