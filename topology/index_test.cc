#include "topology/index.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <string>

#include "topology/internal/source.h"
#include "topology/testing/index.h"

namespace kintsugi::topology {
namespace {

using Kind = Resolution::Kind;

TEST_F(IndexTest, FP001_WhenEmptyAndSynced_NothingIsFound) {
  index.set_shards_listed();
  for (const char* path : {"root", "root:org", "a:b:c"}) {
    expect_unknown(path);
  }
}

TEST_F(IndexTest, FP103_WhenShardsAreNotListed_NothingIsDecided) {
  expect("root", Kind::kNotKnown);
  expect("root:org", Kind::kNotKnown);
}

TEST_F(IndexTest, FP002_WhenTheSegmentIsInvalid_IsNotFoundWithItsReason) {
  fixture();
  for (const char* path : {"", ":", "root:", ":root", "a::b", "Root", "a_b", "-a"}) {
    EXPECT_EQ(at(path).kind, Kind::kNotFound) << path;
    EXPECT_EQ(at(path).reason, NotFoundReason::kInvalid) << path;
  }
  EXPECT_EQ(at("*").reason, NotFoundReason::kWildcard);
  EXPECT_EQ(at(std::string(64, 'a')).reason, NotFoundReason::kInvalid);
}

TEST_F(IndexTest, FP003_WhenAWorkspaceIsScheduling_ItIsNotRouted) {
  root = add("root");
  cluster(root, "root");
  cluster(root, "one");
  index.set_shards_listed();
  EXPECT_FALSE(index.upsert_workspace(root, workspace("root", "org", "one", "Scheduling")));
  expect_unknown("root:org");
}

TEST_F(IndexTest, FP004_WhenThereIsOneShard_ResolvesThere) {
  root = add("root");
  cluster(root, "root");
  own(root, "one", "root", "org");
  index.upsert_workspace(root, workspace("root", "org", "one"));
  index.set_shards_listed();
  expect("root:org", "root", "one");
}

TEST_F(IndexTest, FP005_FP006_FP007_WhenPathsHopShards_FollowsThem) {
  fixture();
  expect("root", "root", "root");
  expect("root:org", "beta", "one");
  expect("root:org:rh", "gama", "two");
  expect("one:rh", "gama", "two");
}

TEST_F(IndexTest, KK142_WhenAClusterIsNamed_ItsPathIsThatOfConfirmedWorkspaces) {
  fixture();
  for (const auto& [name, path] :
       {std::pair("root", "root"), {"one", "root:org"}, {"two", "root:org:rh"}}) {
    EXPECT_EQ(canonical_path(index.now(), name), path);
    EXPECT_EQ(resolve(index.now(), canonical_path(index.now(), name)).cluster, name);
  }
  cluster(root, "home", "user:ann");
  EXPECT_EQ(canonical_path(index.now(), "home"), "");
  EXPECT_EQ(canonical_path(index.now(), "none"), "");
  // An edge that its cluster does not confirm leads nowhere.
  index.upsert_workspace(root, workspace("root", "forged", "two"));
  EXPECT_EQ(canonical_path(index.now(), "two"), "root:org:rh");
  EXPECT_TRUE(index.delete_workspace(root, "root", "org"));
  EXPECT_EQ(canonical_path(index.now(), "two"), "");
}

TEST_F(IndexTest, FP008_FP009_WhenASegmentIsUnknown_IsNotFound) {
  fixture();
  expect_unknown("does-not-exists:rh");
  expect_unknown("root:one:rh");
}

TEST_F(IndexTest, FP010_FP011_WhenTheLastSegmentIsAMount_GivesItsUrlUnlessUnavailable) {
  fixture();
  const std::string url = "https://kcp.dev.local/services/custom-url/proxy";
  index.upsert_workspace(beta, mount("one", "rh", url));
  const Resolution r = at("one:rh");
  EXPECT_EQ(r.kind, Kind::kMount);
  EXPECT_EQ(r.mount_url, url);
  EXPECT_EQ(r.shard, nullptr);
  EXPECT_EQ(r.cluster, "");
  index.upsert_workspace(beta, mount("one", "rh", url, "Unavailable"));
  expect("one:rh", Kind::kUnavailable);
  index.upsert_workspace(beta, mount("one", "rh", url));
  expect("one:rh", Kind::kMount);
}

TEST_F(IndexTest, FP012_WhenAShardIsDeleted_ItsFactsGo) {
  fixture();
  EXPECT_TRUE(index.delete_shard("beta"));
  expect_unknown("root:org");
  expect_unknown("one");
  expect("root", "root", "root");
  expect("two", "gama", "two");
  EXPECT_EQ(index.now().shard("beta"), nullptr);
}

TEST_F(IndexTest, FP013_WhenTheOwnerDeletesACluster_NothingResolvesThroughIt) {
  fixture();
  EXPECT_TRUE(index.delete_cluster(beta, "one"));
  expect_unknown("root:org");
  expect_unknown("root:org:rh");
  expect_unknown("one:rh");
  expect_unknown("one");
  EXPECT_FALSE(index.now().cluster("one").has_value());
  EXPECT_EQ(index.now().owned(beta), 0U);
  // Its Workspace objects follow, then no fact about it is left.
  index.delete_workspace(root, "root", "org");
  index.delete_workspace(beta, "one", "rh");
  EXPECT_EQ(index.now().workspace_count(), 0U);
  EXPECT_EQ(index.now().cluster_count(), 2U);
}

TEST_F(IndexTest, FP088_WhenAClusterMovesAndTheDeleteComesFirst_ThePathResolvesAgain) {
  fixture();
  index.delete_cluster(beta, "one");
  own(gama, "one", "root", "org");
  expect("root:org", "gama", "one");
  expect_unknown("root:org:rh");  // that Workspace object is still on beta
  index.upsert_workspace(gama, workspace("one", "rh", "two"));
  expect("root:org:rh", "gama", "two");
}

TEST_F(IndexTest, FP014_WhenANonOwnerDeletesACluster_NothingChanges) {
  fixture();
  EXPECT_FALSE(index.delete_cluster(gama, "one"));
  expect("root:org", "beta", "one");
}

TEST_F(IndexTest, FP015_WhenAWorkspaceIsDeleted_TheClusterStaysReachableByName) {
  fixture();
  EXPECT_TRUE(index.delete_workspace(root, "root", "org"));
  expect_unknown("root:org");
  expect("one", "beta", "one");
}

TEST_F(IndexTest, FP016_FP117_WhenTwoShardsReport_TheNewestOwnsAndTheOtherInherits) {
  root = add("root");
  const ShardId amber = add("amber");
  index.set_shards_listed();
  cluster(root, "34");
  cluster(amber, "34");
  expect("34", "amber", "34");
  EXPECT_EQ(index.now().owned(root), 0U);
  EXPECT_EQ(index.now().owned(amber), 1U);
  EXPECT_TRUE(index.delete_cluster(amber, "34"));
  expect("34", "root", "34");
  EXPECT_EQ(index.now().owned(root), 1U);
  EXPECT_TRUE(index.delete_cluster(root, "34"));
  expect_unknown("34");
}

TEST_F(IndexTest, AGG11_WhenTheOwnerChanges_TheShardItWasIsKnown) {
  fixture();
  index.delete_workspace(root, "root", "org");
  const auto away = [this] {
    const Snapshot& now = index.now();
    return std::vector<std::uint64_t>{now.moved_away(root), now.moved_away(beta),
                                      now.moved_away(gama), now.moved_away(0)};
  };
  using Counts = std::vector<std::uint64_t>;
  EXPECT_EQ(away(), (Counts{0, 0, 0, 0}));
  cluster(beta, "one", "root:else");
  cluster(root, "new");
  EXPECT_EQ(away(), (Counts{0, 0, 0, 0}));
  cluster(gama, "one", "root:org");
  EXPECT_EQ(away(), (Counts{0, 1, 0, 1}));
  index.delete_cluster(beta, "one");
  EXPECT_EQ(away(), (Counts{0, 1, 0, 1}));
  cluster(beta, "one", "root:org");
  index.delete_cluster(beta, "one");  // its other owner is back
  EXPECT_EQ(away(), (Counts{0, 2, 1, 3}));
  index.delete_cluster(gama, "one");
  EXPECT_EQ(away(), (Counts{0, 2, 1, 3}));
}

TEST_F(IndexTest, R10_WhenANonOwnersReportGoes_OwnershipStays) {
  root = add("root");
  beta = add("beta");
  gama = add("gama");
  index.set_shards_listed();
  cluster(root, "34");
  cluster(beta, "34");
  cluster(gama, "34");
  index.delete_cluster(beta, "34");
  expect("34", "gama", "34");
  index.delete_shard("gama");
  expect("34", "root", "34");
}

TEST_F(IndexTest, FP017_FP018_FP027_WhenTheBaseUrlChanges_TheNextRequestUsesIt) {
  root = add("root", "https://root.io/");
  index.set_shards_listed();
  cluster(root, "root");
  own(root, "34", "root", "org");
  index.upsert_workspace(root, workspace("root", "org", "34"));
  Resolution r = at("root:org");
  EXPECT_EQ(shard_url(*r.shard, r.cluster, ""), "https://root.io/clusters/34");
  EXPECT_EQ(shard_url(*r.shard, r.cluster, "/"), "https://root.io/clusters/34");
  EXPECT_EQ(shard_url(*r.shard, r.cluster, "/api/v1/pods?a=%zz"),
            "https://root.io/clusters/34/api/v1/pods?a=%zz");
  EXPECT_EQ(shard_url(*r.shard, r.cluster, "?a=1"), "https://root.io/clusters/34?a=1");
  expect_unknown("root:org:rh");
  const auto change = index.upsert_shard(shard("root", "https://new-root.io"));
  EXPECT_TRUE(change.base_url_changed);
  r = at("root:org");
  ASSERT_TRUE(r.resolved()) << "old facts stay usable (R-09)";
  EXPECT_EQ(shard_url(*r.shard, r.cluster, ""), "https://new-root.io/clusters/34");
  expect("root:org:rh", Kind::kNotKnown);
}

TEST_F(IndexTest, GR301_WhenAnotherProcessOfTheShardLeads_WhatWasReadStays) {
  const auto at_both = [&](const std::string& base, std::vector<std::string> others) {
    topology::ShardSpec spec = shard("root", base);
    spec.replica_urls = std::move(others);
    return index.upsert_shard(spec);
  };
  auto change = at_both("https://one.io", {"https://two.io/", "https://one.io", "nonsense"});
  EXPECT_EQ(index.now().shard("root")->spec.replica_urls,
            std::vector<std::string>{"https://two.io"});
  index.set_synced(change.id, Resource::kWorkspaces, true);
  change = at_both("https://two.io", {"https://one.io"});
  EXPECT_TRUE(change.urls_changed);
  EXPECT_FALSE(change.base_url_changed);
  EXPECT_TRUE(index.now().shard("root")->is_synced(Resource::kWorkspaces));
  change = at_both("https://two.io", {});
  EXPECT_TRUE(change.urls_changed);
  EXPECT_FALSE(at_both("https://two.io", {}).urls_changed);
  EXPECT_TRUE(at_both("https://one.io", {}).base_url_changed) << "it is not known any more";
}

TEST_F(IndexTest, FP019_WhenTheChildChanges_FollowsTheNewOne) {
  root = add("root");
  index.set_shards_listed();
  cluster(root, "root");
  own(root, "34", "root", "org");
  own(root, "44", "root", "org");
  index.upsert_workspace(root, workspace("root", "org", "34"));
  index.upsert_workspace(root, workspace("root", "org", "44"));
  expect("root:org", "root", "44");
  EXPECT_EQ(index.now().cluster("34")->parents, 0U);
  EXPECT_EQ(index.now().cluster("44")->parents, 1U);
}

TEST_F(IndexTest, FP020_WhenTheTypeChanges_IsTakenOver) {
  root = add("root");
  beta = add("beta");
  index.set_shards_listed();
  cluster(root, "34", {}, "root:universal");
  EXPECT_EQ(at("34").type, "root:universal");
  cluster(beta, "34", {}, "root:custom-type");
  EXPECT_EQ(at("34").type, "root:custom-type");
  cluster(beta, "34", {}, "root:other");
  EXPECT_EQ(at("34").type, "root:other");
}

TEST_F(IndexTest, FP021_FP022_WhenAPathNamesAUser_IsRewrittenToTheHome) {
  EXPECT_EQ(rewrite_home("user:alice:abc"), "v1u4alow0iv9:abc");
  EXPECT_EQ(rewrite_home("user:bob"), "2okdry95y5lkv");
  EXPECT_EQ(rewrite_home("user"), "user");
  EXPECT_EQ(rewrite_home("root:org"), "root:org");
  root = add("root");
  index.set_shards_listed();
  cluster(root, "v1u4alow0iv9");
  expect("user:alice", "root", "v1u4alow0iv9");
}

TEST_F(IndexTest, FP023_FP024_WhenAParentIsUnavailable_SaysSoOnlyIfTheRestResolves) {
  fixture();
  index.upsert_workspace(root, workspace("root", "org", "one", "Unavailable"));
  expect("root:org", Kind::kUnavailable);
  expect("root:org:rh", Kind::kUnavailable);
  expect_unknown("root:org:nope");
  expect("one:rh", "gama", "two");  // a name never consults its parent
  index.upsert_workspace(root, workspace("root", "org", "one"));
  expect("root:org:rh", "gama", "two");
}

TEST_F(IndexTest, FP025_WhenSegmentsFollowAMount_IsNotFound) {
  fixture();
  index.upsert_workspace(root, mount("root", "m", "https://x/clusters/y"));
  EXPECT_EQ(at("root:m:child").kind, Kind::kNotFound);
  EXPECT_EQ(at("root:m:child").reason, NotFoundReason::kMountSuffix);
}

TEST_F(IndexTest, FP110_FP111_WhenAShardIsNotSynced_OnlyWhatItCouldKnowIsOpen) {
  root = add("root");
  beta = add("beta");
  gama = add("gama", {}, false);
  index.set_shards_listed();
  cluster(root, "root");
  own(beta, "one", "root", "org");
  index.upsert_workspace(root, workspace("root", "org", "one"));
  index.upsert_workspace(beta, workspace("one", "rh", "two"));
  expect("two", Kind::kNotKnown);
  expect("root:org:rh", Kind::kNotKnown);
  expect_unknown("root:nope");
  expect("nope", Kind::kNotKnown);
  own(gama, "two", "one", "rh");
  sync(gama);
  expect("two", "gama", "two");
  expect_unknown("nope");
}

TEST_F(IndexTest, FP112_FP113_WhenAShardIsDownOrNeverReached_RoutesStay) {
  fixture();
  EXPECT_TRUE(index.set_health(gama, false, "Refused"));
  expect_unknown("nope");
  ASSERT_TRUE(at("two").resolved());
  EXPECT_FALSE(at("two").shard->up);
  add("far", "https://nowhere.invalid", false);
  expect("root:org:rh", "gama", "two");
  expect_unknown("root:nope");
  expect("nope", Kind::kNotKnown);
  index.delete_shard("far");
  expect_unknown("nope");
}

TEST_F(IndexTest, FP115_WhenAClusterWithoutParentHasAPath_IsFoundByItUntilTwoClaimIt) {
  fixture();
  cluster(beta, "3zz", "acme");
  expect("acme", "beta", "3zz");
  index.upsert_workspace(beta, workspace("3zz", "team", "5zz"));
  own(gama, "5zz", "3zz", "team");
  expect("acme:team", "gama", "5zz");
  cluster(gama, "4zz", "acme");
  EXPECT_EQ(at("acme").kind, Kind::kNotFound);
  EXPECT_EQ(at("acme").reason, NotFoundReason::kPathConflict);
  own(gama, "4zz", "root", "x", "acme");  // 4zz has a parent now
  expect("acme", "beta", "3zz");
  cluster(root, "acme");  // a real name wins
  expect("acme", "root", "acme");
  index.delete_cluster(root, "acme");
  cluster(beta, "3zz", "other");
  expect_unknown("acme");
  expect("other", "beta", "3zz");
  cluster(beta, "5zz", "root");
  expect("root", "root", "root");
}

// E10: what is not known is answered as E2.
TEST_F(IndexTest, E10_WhenTheBaseUrlIsUnusable_TheAnswerIsOpen) {
  fixture();
  for (const char* url : {"", "beta.io", "ftp://beta.io", "https://", "https:///x"}) {
    ShardSpec spec = shard("beta");
    spec.base_url = url;
    index.upsert_shard(spec);
    expect("one", Kind::kNotKnown);
  }
  index.upsert_shard(shard("beta"));
  expect("one", "beta", "one");
}

TEST_F(IndexTest, FP119_WhenAPathHasAHundredLevels_Resolves) {
  root = add("root");
  index.set_shards_listed();
  cluster(root, "root");
  std::string path = "root";
  std::string parent = "root";
  for (int i = 0; i < 100; ++i) {
    const std::string child = "c" + std::to_string(i);
    own(root, child, parent, "w");
    index.upsert_workspace(root, workspace(parent, "w", child));
    path += ":w";
    parent = child;
  }
  expect(path, "root", "c99");
}

TEST_F(IndexTest, FP119_WhenAHundredThousandClustersAreKnown_EachTakesAtMostTwoHundredBytes) {
  const ShardId ids[] = {add("root"), add("beta"), add("gama")};
  index.set_shards_listed();
  cluster(ids[0], "root");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const auto heap = mallinfo2();
#endif
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) {
    const std::string name = "2bqfj6xlth" + std::to_string(100'000 + i);
    const std::string parent =
        i % 10 == 0 ? "root" : "2bqfj6xlth" + std::to_string(100'000 + i / 10 * 10);
    own(ids[i % 3], name, parent, "team-" + std::to_string(i),
        "root:team-" + std::to_string(i / 10) + ":w", "root:universal");
    index.upsert_workspace(ids[i % 3], workspace(parent, "team-" + std::to_string(i), name));
  }
  EXPECT_LE(index.now().bytes() / kCount, 200U);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const auto after = mallinfo2();
  EXPECT_LE((after.uordblks + after.hblkhd - heap.uordblks - heap.hblkhd) / kCount, 200U);
  RecordProperty("bytes_per_cluster", static_cast<int>((after.uordblks - heap.uordblks) / kCount));
#endif
  // A published snapshot keeps its answers while 10,000 deletions go on.
  const SnapshotPtr before = index.freeze();
  for (int i = 0; i < 10'000; ++i) {
    index.delete_cluster(ids[i % 3], "2bqfj6xlth" + std::to_string(100'000 + i));
  }
  expect_unknown("2bqfj6xlth100001");
  EXPECT_TRUE(resolve(*before, "2bqfj6xlth100001").resolved());
  EXPECT_EQ(index.now().cluster_count(), 90'001U);
  EXPECT_EQ(before->cluster_count(), 100'001U);
}

TEST_F(IndexTest, FP142_WhenExplained_NamesEveryStepAndWhatDecided) {
  index.set_time(1'700'000'000);
  fixture();
  std::vector<ExplainStep> steps;
  EXPECT_TRUE(explain(index.now(), "root:org:rh", steps).resolved());
  ASSERT_EQ(steps.size(), 5U);
  EXPECT_EQ(steps[0].source, "logicalclusters.core.kcp.io/cluster in root on root");
  EXPECT_EQ(steps[1].segment, "org");
  EXPECT_EQ(steps[1].source, "workspaces.tenancy.kcp.io/org in root on root");
  EXPECT_EQ(steps[1].cluster, "one");
  EXPECT_EQ(steps[4].shard, "gama");
  EXPECT_EQ(steps[4].changed, 1'700'000'000U);
  for (const char* path : {"Bad", "*", "nope", "root:nope", "user:alice"}) {
    steps.clear();
    EXPECT_FALSE(explain(index.now(), path, steps).resolved());
    ASSERT_FALSE(steps.empty()) << path;
    EXPECT_FALSE(steps.back().note.empty()) << path;
  }
}

TEST_F(IndexTest, FP149_WhenTheSourceIsStatic_EveryShardIsAClusterWithoutPrefix) {
  apply_static(index, {shard("east"), shard("west", "https://west.io/k8s/")});
  Resolution r = at("west");
  ASSERT_TRUE(r.resolved());
  EXPECT_EQ(shard_url(*r.shard, r.cluster, "/api/v1/pods?limit=1"),
            "https://west.io/k8s/api/v1/pods?limit=1");
  EXPECT_EQ(shard_url(*r.shard, r.cluster, ""), "https://west.io/k8s/");
  expect_unknown("north");
  apply_static(index, {shard("east")});
  expect_unknown("west");
  expect("east", "east", "east");
}

TEST_F(IndexTest, R23_WhenReasonsAreNamed_TheyAreDistinct) {
  EXPECT_EQ(reason_name(NotFoundReason::kInvalid), "invalid");
  EXPECT_EQ(reason_name(NotFoundReason::kWildcard), "wildcard");
  EXPECT_EQ(reason_name(NotFoundReason::kUnknown), "unknown");
  EXPECT_EQ(reason_name(NotFoundReason::kMountSuffix), "mount-suffix");
  EXPECT_EQ(reason_name(NotFoundReason::kMountHost), "mount-host");
  EXPECT_EQ(reason_name(NotFoundReason::kPathConflict), "path-conflict");
}

TEST_F(IndexTest, AGG904_WhenAnExportClaimsAnothersApi_ItIsKnownUntilItDoesNot) {
  const ShardId one = add("one");
  const ShardId two = add("two");
  const auto object = krm::Json::parse(R"({"metadata":{"name":"e"},"spec":{"permissionClaims":[
    {"group":"","resource":"configmaps"},{"group":"west.test","resource":"sheriffs","identityHash":"h"},
    {"resource":"badges","identityHash":"i"}]}})");
  const ExportReport report = export_from_json("c1", *object);
  EXPECT_TRUE(index.upsert_export(one, report));
  EXPECT_FALSE(index.upsert_export(one, report));
  const SnapshotPtr before = index.freeze();
  EXPECT_TRUE(before->claims_foreign("c1", "e", "west.test", "sheriffs"));
  EXPECT_TRUE(before->claims_foreign("c1", "e", "", "badges"));
  EXPECT_FALSE(before->claims_foreign("c1", "e", "", "configmaps"));
  EXPECT_FALSE(before->claims_foreign("c2", "e", "west.test", "sheriffs"));
  EXPECT_FALSE(index.delete_export(two, "c1", "e")) << "it is the other shard's";
  EXPECT_TRUE(index.upsert_export(one, {"c1", "e", {}}));
  EXPECT_FALSE(index.now().claims_foreign("c1", "e", "", "badges"));
  EXPECT_TRUE(before->claims_foreign("c1", "e", "", "badges"));
  EXPECT_TRUE(index.upsert_export(two, {"c1", "e", std::vector<std::string>(30'000, "g/r")}));
  EXPECT_TRUE(index.now().claims_foreign("c1", "e", "any", "thing")) << "more than are kept";
  EXPECT_TRUE(index.delete_shard("two"));
  EXPECT_FALSE(index.now().claims_foreign("c1", "e", "any", "thing"));
}

TEST(Source, WhenObjectsAreRead_TakesWhatRoutingNeeds) {
  const auto object = krm::Json::parse(R"({"metadata":{"name":"cluster","annotations":{
    "kcp.io/cluster":"one","kcp.io/path":"root:org","internal.tenancy.kcp.io/type":"root:universal",
    "internal.kcp.io/inactive":"true"}}})");
  const ClusterReport report = cluster_from_json("one", *object);
  EXPECT_EQ(report.path, "root:org");
  EXPECT_EQ(report.type, "root:universal");
  EXPECT_TRUE(report.inactive);
  const auto home = krm::Json::parse(R"({"spec":{"createdBy":{"username":"alice"}}})");
  EXPECT_TRUE(cluster_from_json("v1u4alow0iv9", *home).is_home);
  EXPECT_FALSE(cluster_from_json("one", *home).is_home);
  const auto child = krm::Json::parse(R"({"spec":{"createdBy":{"username":"alice"},"owner":{
    "apiVersion":"tenancy.kcp.io/v1alpha1","resource":"workspaces","name":"w","cluster":"c",
    "uid":"u"}}})");
  const ClusterReport owned_by = cluster_from_json("v1u4alow0iv9", *child);
  EXPECT_FALSE(owned_by.is_home);
  EXPECT_EQ(owned_by.owner_cluster + owned_by.owner_name + owned_by.owner_uid, "cwu");
  const auto ws = krm::Json::parse(R"({"metadata":{"name":"m"},"spec":{"URL":"https://x",
    "mount":{"ref":{"kind":"K"}}},"status":{"phase":"Unavailable"}})");
  const WorkspaceReport w = workspace_from_json("one", *ws);
  EXPECT_TRUE(w.mount);
  EXPECT_EQ(w.url, "https://x");
  EXPECT_EQ(w.phase, "Unavailable");
  const auto row = krm::Json::parse(R"({"metadata":{"name":"s","labels":{"region":"eu","a":"b"}},
    "spec":{"baseURL":"https://s.io/"}})");
  Index index;
  index.upsert_shard(shard_from_json(*row));
  const ShardInfo* info = index.now().shard("s");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->spec.base_url, "https://s.io");
  EXPECT_EQ(info->spec.virtual_workspace_url, "https://s.io");
  ASSERT_NE(info->spec.label("region"), nullptr);
  EXPECT_EQ(*info->spec.label("region"), "eu");
  EXPECT_EQ(info->spec.label("zone"), nullptr);
}

}  // namespace
}  // namespace kintsugi::topology
