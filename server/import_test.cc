#include "topology/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/stack.h"
#include "shards/testing/support.h"
#include "topology/store_import_log.h"

namespace kintsugi::server::testing_stack {
namespace {

using ::testing::ElementsAre;

constexpr const char* kSlicesPath =
    "/clusters/%2A/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
constexpr const char* kSetsPath = "/clusters/%2A/apis/topology.kcp.io/v1alpha1/partitionsets:hash";
constexpr const char* kPartitionsPath =
    "/clusters/%2A/apis/topology.kcp.io/v1alpha1/partitions:hash";

/// A kcp shard with objects of its own, and a proxy that sees it for the first time.
class Import : public Controllers {
 protected:
  Import() {
    kcp_.open();
    world_.add("alpha", {{"region", "eu"}});
    world_.add("beta", {{"region", "us"}});
    start();
  }
  ~Import() override { importer_.reset(); }

  static std::string object(const std::string& kind, const std::string& name,
                            const std::string& rest, const std::string& metadata = "") {
    return R"({"apiVersion":"x/v1alpha1","kind":")" + kind + R"(","metadata":{"name":")" + name +
           R"(","uid":"uid-)" + name + R"(","resourceVersion":"77","generation":4,)" +
           R"("creationTimestamp":"2020-02-03T04:05:06Z","labels":{"from":"kcp"},)" +
           R"("annotations":{"kcp.io/cluster":"ws1","note":"n"})" + metadata + "}," + rest + "}";
  }
  static std::string list(const std::string& api, const std::vector<std::string>& items) {
    std::string text;
    for (const std::string& item : items) {
      std::string one = item;
      one.replace(one.find("x/v1alpha1"), 10, api);
      text += (text.empty() ? "" : ",") + one;
    }
    return R"({"metadata":{"resourceVersion":"9"},"items":[)" + text + "]}";
  }
  /// 2 sets (one with 2 Partitions of its own), 4 Partitions, 3 slices.
  void fill() {
    const std::string owner =
        R"(,"ownerReferences":[{"apiVersion":"topology.kcp.io/v1alpha1","kind":"PartitionSet",)"
        R"("name":"regions","uid":"uid-regions","controller":true,"blockOwnerDeletion":true}])";
    const std::string status = R"(,"status":{"count":9})";
    kcp_.serve(
        kSetsPath, 200,
        list("topology.kcp.io/v1alpha1",
             {object("PartitionSet", "regions", R"("spec":{"dimensions":["region"]})" + status),
              object("PartitionSet", "none", R"("spec":{"dimensions":[]})")}));
    kcp_.serve(kPartitionsPath, 200,
               list("topology.kcp.io/v1alpha1",
                    {object("Partition", "regions-eu-x1",
                            R"("spec":{"selector":{"matchLabels":{"region":"eu"}}})", owner),
                     object("Partition", "regions-us-x2",
                            R"("spec":{"selector":{"matchLabels":{"region":"us"}}})", owner),
                     object("Partition", "own-1", R"("spec":{"selector":{}})"),
                     object("Partition", "own-2", R"("spec":{})")}));
    const auto slice = [](const std::string& name, const std::string& partition) {
      return object("APIExportEndpointSlice", name,
                    R"("spec":{"export":{"name":"widgets"},"partition":")" + partition +
                        R"("},"status":{"endpoints":[{"url":"https://old"}]})");
    };
    kcp_.serve(kSlicesPath, 200,
               list("apis.kcp.io/v1alpha1", {slice("s1", "regions-eu-x1"), slice("s2", "own-1"),
                                             slice("widgets", "own-2")}));
  }
  void import() {
    log_ = std::make_unique<topology::StoreImportLog>(loop_, *store_);
    topology::ImportParams params;
    params.upstream = [](const std::string&, const std::string& url) {
      return Expected<net::UpstreamParams>(shards::testing::FakeServer::upstream(url));
    };
    params.identity = [] { return std::string("hash"); };
    params.busy = [this](bool busy) {
      busy ? replicas_[0]->partitions.hold() : replicas_[0]->partitions.release();
    };
    params.imported = [this](topology::ShardId id) { imported_.push_back(id); };
    importer_ = std::make_unique<topology::Importer>(loop_, replicas_[0]->objects, *log_,
                                                     std::move(params));
    topology::ShardInfo info;
    info.id = 7;
    info.spec.name = "alpha";
    info.spec.base_url = kcp_.url();
    importer_->on_change(topology::ShardChanged{info, false});
    run_until([&] { return importer_->is_done(7); });
    settle();
  }
  void restart() {
    importer_.reset();
    replicas_.clear();
    start();
    imported_.clear();
  }

  shards::testing::FakeServer kcp_{loop_};
  std::unique_ptr<topology::StoreImportLog> log_;
  std::unique_ptr<topology::Importer> importer_;
  std::vector<topology::ShardId> imported_;
};

TEST_F(Import, TP107_WhenAShardIsSeenFirst_CopiesItsObjectsAsTheyAre) {
  fill();
  import();
  EXPECT_THAT(imported_, ElementsAre(7));
  EXPECT_EQ(importer_->stats().copied, 9U);
  const Json set = get(kTopology, "partitionsets", "regions");
  EXPECT_EQ(set.text({"metadata", "uid"}), "uid-regions");
  EXPECT_EQ(set.text({"metadata", "creationTimestamp"}), "2020-02-03T04:05:06Z");
  EXPECT_EQ(set.text({"metadata", "labels", "from"}), "kcp");
  EXPECT_EQ(set.text({"metadata", "annotations", "note"}), "n");
  EXPECT_EQ(set.at({"status", "count"})->as_integer(), 2);
  // The set took the Partitions that it owned over, by their names.
  EXPECT_EQ(tuples_of("regions"),
            (std::map<std::string, std::string>{{R"({"region":"eu"})", "regions-eu-x1"},
                                                {R"({"region":"us"})", "regions-us-x2"}}));
  EXPECT_EQ(get(kTopology, "partitions", "regions-eu-x1").text({"metadata", "uid"}),
            "uid-regions-eu-x1");
  EXPECT_EQ(versions(kTopology, "partitions").size(), 4U);
  const Json slice = get(kApis, kSlices, "s1");
  EXPECT_EQ(slice.text({"metadata", "uid"}), "uid-s1");
  EXPECT_THAT(urls(slice), ElementsAre("https://vw-alpha/services/apiexport/ws1/widgets"));
}

TEST_F(Import, TP107_WhenAnImportedObjectWasDeleted_ItStaysAwayAfterARestart) {
  fill();
  import();
  remove(kApis, kSlices, "s2");
  remove(kTopology, "partitions", "own-2");
  settle();
  restart();
  import();
  EXPECT_EQ(importer_->stats().copied, 0U);
  EXPECT_EQ(importer_->stats().skipped, 9U);
  EXPECT_TRUE(get(kApis, kSlices, "s2").is_null());
  EXPECT_TRUE(get(kTopology, "partitions", "own-2").is_null());
  EXPECT_FALSE(get(kApis, kSlices, "s1").is_null());
}

TEST_F(Import, WhenAnObjectIsThereAlready_ItIsNotTouched) {
  fill();
  make_slice("s1");
  settle();
  const Json before = get(kApis, kSlices, "s1");
  import();
  const Json after = get(kApis, kSlices, "s1");
  EXPECT_EQ(after.text({"metadata", "uid"}), before.text({"metadata", "uid"}));
  EXPECT_EQ(after.find("spec")->dump(), before.find("spec")->dump());
  EXPECT_EQ(importer_->stats().skipped, 1U);
}

TEST_F(Import, WhenTheShardDoesNotServeTheKinds_ThereIsNothingToDo) {
  import();
  EXPECT_THAT(imported_, ElementsAre(7));
  EXPECT_EQ(importer_->stats().copied, 0U);
}

TEST_F(Import, WhenTheShardFailsOrAnswersNonsense_IsAskedAgain) {
  fill();
  kcp_.serve(kSlicesPath, 500, "{}");
  kcp_.serve(kPartitionsPath, 200, "[]");
  net::Timer later(loop_);
  later.start(milliseconds(20), [&] { fill(); });
  import();
  EXPECT_EQ(importer_->stats().copied, 9U);
}

TEST_F(Import, WhenAnObjectIsNotValidHere_TheOthersComeAllTheSame) {
  fill();
  kcp_.serve(
      kSlicesPath, 200,
      list("apis.kcp.io/v1alpha1",
           {object("APIExportEndpointSlice", "bad", R"("spec":{"export":7})"),
            object("APIExportEndpointSlice", "good", R"("spec":{"export":{"name":"widgets"}})")}));
  import();
  EXPECT_EQ(importer_->stats().refused, 1U);
  EXPECT_FALSE(get(kApis, kSlices, "good").is_null());
}

}  // namespace
}  // namespace kintsugi::server::testing_stack
