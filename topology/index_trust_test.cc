#include <gtest/gtest.h>

#include <string>

#include "topology/testing/index.h"

// What the index believes (KK-064, KK-103, KK-294, SE-006).
namespace kintsugi::topology {
namespace {

using Kind = Resolution::Kind;

TEST_F(IndexTest, KKT035_WhenAClusterNamesAnotherOwner_TheEdgeLeadsNowhere) {
  fixture();
  const auto untrusted = [this] { return index.now().untrusted(UntrustedFact::kWorkspaceEdge); };
  // Whoever else names the cluster, by whatever name, uid, parent or shard.
  const WorkspaceReport forged[] = {
      workspace("root", "eve", "root"),
      workspace("root", "eve", "two"),
      workspace("one", "eve", "one"),
      workspace("one", "eve", "two", "Unavailable"),
      workspace("two", "eve", "two"),
      {"root", "eve", "Ready", "one", true, "https://m", "u"},
      {"root", "eve", "Ready", "one", false, {}, testing_uid("root", "org")},
      {"root", "eve", "Ready", "one", false, {}, {}}};
  for (const WorkspaceReport& report : forged) {
    SCOPED_TRACE(report.cluster + " -> " + report.child);
    const std::uint64_t before = untrusted();
    const ShardId where = report.cluster == "root" ? root : report.cluster == "one" ? beta : gama;
    const std::string path = report.cluster + ":eve";
    index.upsert_workspace(where, report);
    EXPECT_EQ(at(path).kind, Kind::kNotFound);
    EXPECT_EQ(at(path).reason, NotFoundReason::kUnconfirmed);
    EXPECT_EQ(at(path + ":rh").kind, Kind::kNotFound);
    EXPECT_EQ(untrusted(), before + 1);
    index.delete_workspace(where, report.cluster, "eve");
  }
  // The same name again: a Workspace that was deleted and made anew is another.
  index.upsert_workspace(root, {"root", "org", "Ready", "one", false, {}, "another uid"});
  EXPECT_EQ(at("root:org").reason, NotFoundReason::kUnconfirmed);
  expect("root", "root", "root");
  expect("one:rh", "gama", "two");
  index.upsert_workspace(root, {"root", "org", "Scheduling", "one", false, {}, "a third"});
  expect_unknown("root:org");
  index.upsert_workspace(root, workspace("root", "org", "one"));
  expect("root:org:rh", "gama", "two");
}

TEST_F(IndexTest, KK064_WhenTheWorkspaceComesBeforeItsCluster_NothingIsDecidedTooEarly) {
  root = add("root");
  beta = add("beta", {}, false);
  index.set_shards_listed();
  cluster(root, "root");
  index.upsert_workspace(root, workspace("root", "org", "one"));
  expect("root:org", Kind::kNotKnown);
  own(beta, "one", "root", "org");
  expect("root:org", "beta", "one");
  EXPECT_EQ(index.now().untrusted(UntrustedFact::kWorkspaceEdge), 0U);
  // And after it.
  own(beta, "two", "root", "team");
  index.upsert_workspace(root, workspace("root", "team", "two"));
  expect("root:team", "beta", "two");
  EXPECT_EQ(index.now().untrusted(UntrustedFact::kWorkspaceEdge), 0U);
}

TEST_F(IndexTest, SET013_WhenAShardClaimsWhatAnotherHas_TheFirstThatIsConfirmedStays) {
  fixture();
  const ShardId liar = add("liar");
  cluster(root, "v1u4alow0iv9", "user:alice");
  index.upsert_cluster(root, {"v1u4alow0iv9", "user:alice", {}, false, {}, {}, {}, true});
  index.upsert_workspace(liar, workspace("mine", "w", "two"));
  index.upsert_workspace(liar, workspace("root", "org", "mine"));
  // The owner copied, one of its own that it confirms itself, none, a home.
  own(liar, "one", "root", "org", "root:org");
  own(liar, "two", "mine", "w");
  cluster(liar, "root", "root");
  index.upsert_cluster(liar, {"v1u4alow0iv9", "user:alice", {}, false, {}, {}, {}, true});
  own(liar, "mine", "root", "org", "root:org");
  expect("root", "root", "root");
  expect("root:org", "beta", "one");
  expect("root:org:rh", "gama", "two");
  expect("two", "gama", "two");
  expect("user:alice", "root", "v1u4alow0iv9");
  EXPECT_EQ(index.now().conflicts(), 4U);
  EXPECT_EQ(index.now().untrusted(UntrustedFact::kClusterName), 4U);
  // A home never belongs to a Workspace.
  own(liar, "2okdry95y5lkv", "mine", "w", "user:bob");
  EXPECT_EQ(at("user:bob").reason, NotFoundReason::kUnconfirmed);
  // What its own shard does not have any more is the other's.
  index.delete_cluster(beta, "one");
  expect("root:org", "liar", "one");
  index.delete_shard("liar");
  EXPECT_EQ(index.now().conflicts(), 0U);
  expect("root:org", Kind::kNotFound);
}

TEST_F(IndexTest, SE006_WhenTheOtherShardCameFirst_TheConfirmedOneTakesTheNameBack) {
  const ShardId liar = add("liar");
  index.set_shards_listed();
  cluster(liar, "root", "root");
  expect("root", "liar", "root");  // no shard is called root
  root = add("root", {}, false);
  expect("root", Kind::kNotKnown);
  sync(root);
  EXPECT_EQ(at("root").reason, NotFoundReason::kUnconfirmed);
  cluster(root, "root", "root");
  expect("root", "root", "root");
  cluster(liar, "one");
  own(root, "one", "root", "org");
  index.upsert_workspace(root, workspace("root", "org", "one"));
  expect("root:org", "root", "one");
  index.upsert_cluster(liar, {"one", {}, "root:other", false});
  expect("one", "root", "one");
}

TEST_F(IndexTest, SE006_WhenAShardSpeaksOfAnothersExport_ItsWordDoesNotCount) {
  const ShardId one = add("one");
  const ShardId liar = add("liar");
  cluster(one, "c1");
  index.upsert_export(one, {"c1", "e", {"west.test/sheriffs"}});
  index.upsert_export(liar, {"c1", "e", {"none/at-all"}});
  EXPECT_TRUE(index.now().claims_foreign("c1", "e", "west.test", "sheriffs"));
  EXPECT_FALSE(index.now().claims_foreign("c1", "e", "none", "at-all"));
  index.upsert_export(liar, {"c1", "e", {}});
  EXPECT_TRUE(index.now().claims_foreign("c1", "e", "west.test", "sheriffs"));
}

TEST_F(IndexTest, KK103_WhenAnOwnedClusterSaysAPath_ItHasNone) {
  fixture();
  cluster(beta, "3zz", "acme");
  own(gama, "two", "one", "rh", "acme");  // forged on a cluster that has a parent
  expect("acme", "beta", "3zz");
  own(gama, "4zz", "gone", "w", "other");
  expect_unknown("other");
}

TEST_F(IndexTest, GR411_OfTwoThatHaveAClusterTheActiveOneIsAsked) {
  fixture();
  const auto report = [](bool inactive) {
    ClusterReport out = owned("one", "root", "org", "root:org", {});
    out.inactive = inactive;
    return out;
  };
  for (const ShardId first : {beta, gama}) {  // whichever is heard first
    index.delete_cluster(beta, "one");
    index.delete_cluster(gama, "one");
    index.upsert_cluster(first, report(first == beta));
    index.upsert_cluster(first == beta ? gama : beta, report(first != beta));
    expect("root:org", "gama", "one");
    EXPECT_FALSE(index.now().cluster("one")->inactive);
    EXPECT_TRUE(index.now().rests(beta, "one"));
    EXPECT_FALSE(index.now().rests(gama, "one"));
    EXPECT_FALSE(index.now().rests(root, "one")) << "it has none";
    EXPECT_FALSE(index.now().rests(beta, "two"));
  }
  index.upsert_cluster(gama, report(true));
  EXPECT_FALSE(index.now().rests(beta, "one")) << "nobody serves it";
  EXPECT_FALSE(index.now().rests(gama, "one"));
  index.upsert_cluster(beta, report(false));
  expect("root:org", "beta", "one");
  EXPECT_TRUE(index.now().rests(gama, "one"));
  index.delete_cluster(beta, "one");
  EXPECT_FALSE(index.now().rests(gama, "one")) << "no other has it";
}

}  // namespace
}  // namespace kintsugi::topology
