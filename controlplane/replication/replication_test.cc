#include "controlplane/replication/replication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "shards/testing/support.h"
#include "store/memory/memory_store.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;
using shards::testing::FakeServer;
using shards::testing::run_until;
using ::testing::ElementsAre;

constexpr const char* kExportList = "/clusters/*/apis/apis.kcp.io/v1alpha2/apiexports";
constexpr const char* kSchemaList = "/clusters/*/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
constexpr const char* kTypeList = "/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspacetypes";
constexpr const char* kIssuerList =
    "/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaceauthenticationconfigurations";

std::string role_list(const std::string& cluster) {
  return "/clusters/" + cluster + "/apis/rbac.authorization.k8s.io/v1/clusterroles";
}
std::string binding_list(const std::string& cluster) {
  return "/clusters/" + cluster + "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
}

/// A store that does not take writes for a while.
class FlakyStore final : public store::Store {
 public:
  store::Revision current() const noexcept override { return inner_.current(); }
  store::Revision compacted() const noexcept override { return inner_.compacted(); }
  Expected<store::Entry> get(std::string_view key) const override { return inner_.get(key); }
  Expected<store::Revision> range(const store::RangeQuery& query,
                                  const store::Visitor& visit) const override {
    return inner_.range(query, visit);
  }
  Expected<std::uint64_t> count(const store::RangeQuery& query) const override {
    return inner_.count(query);
  }
  void commit(std::vector<store::Op> ops, store::CommitCallback done) override {
    if (failures > 0) {
      --failures;
      done(fail(Errc::kFull, "no space"));
      return;
    }
    ++batches;
    inner_.commit(std::move(ops), std::move(done));
  }
  Expected<Changes> changes(std::string_view prefix, store::Revision after,
                            std::size_t limit) const override {
    return inner_.changes(prefix, after, limit);
  }
  Subscription subscribe(std::function<void(const store::EventBatch&)> listener) override {
    return inner_.subscribe(std::move(listener));
  }
  void compact(store::Revision revision) override { inner_.compact(revision); }
  store::StoreStats stats() const override { return inner_.stats(); }
  Expected<void> health() const override { return inner_.health(); }

  int failures = 0, batches = 0;

 private:
  store::MemoryStore inner_;
};

class ReplicationTest : public ::testing::Test {
 protected:
  ReplicationTest() : one_(loop_), two_(loop_) {
    for (FakeServer* server : {&one_, &two_}) {
      server->open();
      for (const char* path : {kExportList, kSchemaList, kTypeList, kIssuerList}) {
        server->add_collection(path);
      }
    }
  }
  ~ReplicationTest() override { replicator_.reset(); }

  void put_shard(const char* name, const std::string& url) {
    Json shard = Json::object();
    shard.make({"spec", "baseURL"}) = url;
    root_->put_shard(name, &shard);
  }
  /// As when the process of this shard starts.
  void start() {
    replicator_.reset();
    root_ = std::make_unique<RootView>();
    put_shard("own", "http://own");
    put_shard("one", one_.url());
    put_shard("two", two_.url());
    root_->listed(RootView::Part::kShards);
    start_replicator();
  }
  void start_replicator() {
    replicator_ = std::make_unique<Replicator>(
        loop_, Replicator::Params{"own", "http://own", store_, *root_,
                                  [](const std::string& url) -> Expected<net::UpstreamParams> {
                                    if (!url.starts_with("http://127")) {
                                      return fail(Errc::kConfig, "no such place");
                                    }
                                    return FakeServer::upstream(url);
                                  },
                                  nullptr, most_cold_});
    replicator_->start();
  }
  /// Resource, cluster, name of everything copied, with the shard it is from.
  std::map<std::string, std::string> copies() const {
    std::map<std::string, std::string> all;
    for (const std::string& resource : replicated_resources()) {
      store::RangeQuery query;
      query.prefix = apiserver::resource_prefix(resource);
      (void)store_.range(query, [&](const store::EntryView& entry) {
        const Json object = *apiserver::decode_stored(entry.value, "", "", 0);
        all[std::string(apiserver::parse_stored_resource(resource).plural) + " " +
            cluster_of(object) + " " + std::string(object.text({"metadata", "name"}))] =
            annotation(object, krm::kReplicatedFromAnnotation);
        return true;
      });
    }
    return all;
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& [name, shard] : copies()) {
      all.insert(name);
    }
    return all;
  }
  ::testing::AssertionResult become(const std::set<std::string>& wanted) {
    if (run_until(loop_, [&] { return names() == wanted && quiet(); })) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << ::testing::PrintToString(names());
  }
  bool quiet() const { return replicator_->rows().waiting == 0; }
  /// All others have been read, and everything that followed from it is done.
  void settle() {
    ASSERT_TRUE(run_until(loop_, [&] {
      const Json report = replicator_->report();
      const auto& shards = report.at({"shards"})->members();
      return quiet() && !shards.empty() &&
             std::all_of(shards.begin(), shards.end(), [](const krm::JsonMember& shard) {
               return shard.value.find("synced")->as_bool();
             });
    }));
  }
  void settle_turns() {
    int turns = 0;
    ASSERT_TRUE(run_until(loop_, [&] { return ++turns > 200; }));
  }
  Json object(std::string_view resource, std::string_view cluster, std::string_view name) const {
    const auto entry = store_.get(*apiserver::object_key(
        apiserver::stored_resource(kinds::kReplicaGroup, resource), cluster, "", name));
    EXPECT_TRUE(entry) << resource << " " << name;
    return entry ? *apiserver::decode_stored(entry->value.view(), "", "", 0) : Json();
  }

  net::Loop loop_{"test"};
  Duration most_cold_ = seconds(1'000);
  FlakyStore store_;
  FakeServer one_, two_;
  std::unique_ptr<RootView> root_;
  std::unique_ptr<Replicator> replicator_;
};

TEST_F(ReplicationTest, WhenShardsHoldApis_TheyAreCopied) {
  one_.put(kExportList, "c1", "widgets", R"(,"spec":{"x":1})",
           R"(,"managedFields":[{"manager":"m"}],"ownerReferences":[{"uid":"u"}],"uid":"42")");
  one_.put(kSchemaList, "c1", "v1.widgets.ex.io");
  two_.put(kTypeList, "c2", "team");
  start();
  ASSERT_TRUE(become({"apiexports c1 widgets", "apiresourceschemas c1 v1.widgets.ex.io",
                      "workspacetypes c2 team"}));
  EXPECT_EQ(copies()["apiexports c1 widgets"], "one");
  EXPECT_EQ(copies()["workspacetypes c2 team"], "two");
  const Json copy = object("apiexports", "c1", "widgets");
  EXPECT_EQ(copy.text({"metadata", "uid"}), "42");
  EXPECT_NE(copy.at({"spec", "x"}), nullptr);
  EXPECT_EQ(copy.at({"metadata", "managedFields"}), nullptr);
  EXPECT_EQ(copy.at({"metadata", "ownerReferences"}), nullptr);

  one_.put(kExportList, "c1", "widgets", R"(,"spec":{"x":2})");
  one_.remove(kSchemaList, "c1", "v1.widgets.ex.io");
  ASSERT_TRUE(become({"apiexports c1 widgets", "workspacetypes c2 team"}));
  ASSERT_TRUE(run_until(loop_, [&] {
    return object("apiexports", "c1", "widgets").at({"spec", "x"})->as_integer() == 2;
  }));
}

TEST_F(ReplicationTest, WhenAClusterOffersSomething_ItsRightsAreCopied) {
  for (const char* cluster : {"c1", "c2"}) {
    one_.add_collection(role_list(cluster));
    one_.add_collection(binding_list(cluster));
    one_.put(role_list(cluster), cluster, "bind");
    one_.put(binding_list(cluster), cluster, "bind");
  }
  one_.put(kSchemaList, "c2", "v1.widgets.ex.io");  // nothing that one needs a right on
  start();
  settle();
  EXPECT_THAT(names(), ElementsAre("apiresourceschemas c2 v1.widgets.ex.io"));
  EXPECT_EQ(one_.count("/clusters/c2/"), 0U);
  one_.remove(kSchemaList, "c2", "v1.widgets.ex.io");
  one_.put(kExportList, "c1", "widgets");
  one_.put(kExportList, "c1", "gadgets");
  ASSERT_TRUE(become({"apiexports c1 gadgets", "apiexports c1 widgets",
                      "clusterrolebindings c1 bind", "clusterroles c1 bind"}));
  one_.put(role_list("c1"), "c1", "more");
  ASSERT_TRUE(
      become({"apiexports c1 gadgets", "apiexports c1 widgets", "clusterrolebindings c1 bind",
              "clusterroles c1 bind", "clusterroles c1 more"}));
  one_.remove(kExportList, "c1", "gadgets");
  one_.remove(role_list("c1"), "c1", "more");
  ASSERT_TRUE(
      become({"apiexports c1 widgets", "clusterrolebindings c1 bind", "clusterroles c1 bind"}));
  one_.remove(kExportList, "c1", "widgets");
  ASSERT_TRUE(become({}));
  ASSERT_TRUE(run_until(loop_, [&] { return one_.watches(role_list("c1")) == 0; }));
}

TEST_F(ReplicationTest, WhenAllHasBeenReadOnce_KK005_ItIsComplete) {
  one_.put(kExportList, "c1", "widgets");  // whose rights cannot be had yet
  start();
  EXPECT_FALSE(replicator_->is_complete());
  settle();
  EXPECT_FALSE(replicator_->is_complete()) << "who may bind is not known";
  one_.add_collection(role_list("c1"));
  one_.add_collection(binding_list("c1"));
  ASSERT_TRUE(run_until(loop_, [&] { return replicator_->is_complete(); }));
  one_.put(kExportList, "c2", "gadgets");
  ASSERT_TRUE(run_until(loop_, [&] { return names().contains("apiexports c2 gadgets"); }));
  EXPECT_TRUE(replicator_->is_complete()) << "what is new comes late, and not cold";
  FakeServer three(loop_);
  three.open();
  put_shard("three", three.url());
  ASSERT_TRUE(run_until(loop_, [&] { return !replicator_->is_complete(); }));
  root_->put_shard("three", nullptr);
  ASSERT_TRUE(run_until(loop_, [&] { return replicator_->is_complete(); }));
  one_.close();
  start();
  settle_turns();
  EXPECT_FALSE(replicator_->is_complete()) << "a shard is away since the start";
  most_cold_ = milliseconds(1);
  start();
  EXPECT_TRUE(run_until(loop_, [&] { return replicator_->is_complete(); })) << "and is given up";
  replicator_.reset();
}

TEST_F(ReplicationTest, WhenNothingDiffers_NothingIsWritten) {
  one_.add_collection(role_list("c1"));
  one_.add_collection(binding_list("c1"));
  one_.put(role_list("c1"), "c1", "bind");
  one_.put(kExportList, "c1", "widgets");
  one_.put(kSchemaList, "c1", "v1.widgets.ex.io");
  const std::set<std::string> all = {
      "apiexports c1 widgets", "apiresourceschemas c1 v1.widgets.ex.io", "clusterroles c1 bind"};
  start();
  ASSERT_TRUE(become(all));
  const store::Revision revision = store_.current();
  start();
  settle();
  ASSERT_TRUE(run_until(loop_, [&] { return one_.watches(role_list("c1")) == 1; }));
  one_.put(kExportList, "c1", "widgets");  // only its resourceVersion is another
  two_.put(kExportList, "c9", "end");
  ASSERT_TRUE(run_until(loop_, [&] { return names().contains("apiexports c9 end"); }));
  EXPECT_EQ(store_.current(), revision + 1);
}

TEST_F(ReplicationTest, WhenAShardIsAway_CopiesStayAlsoOverARestart) {
  one_.add_collection(role_list("c1"));
  one_.add_collection(binding_list("c1"));
  one_.put(role_list("c1"), "c1", "kept");
  one_.put(role_list("c1"), "c1", "gone");
  one_.put(kExportList, "c1", "kept");
  one_.put(kExportList, "c1", "gone");
  one_.put(kTypeList, "c2", "gone");
  one_.add_collection(role_list("c2"));
  one_.add_collection(binding_list("c2"));
  one_.put(role_list("c2"), "c2", "gone");
  start();
  const std::set<std::string> all = {"apiexports c1 kept",     "apiexports c1 gone",
                                     "workspacetypes c2 gone", "clusterroles c1 kept",
                                     "clusterroles c1 gone",   "clusterroles c2 gone"};
  ASSERT_TRUE(become(all));
  const std::uint16_t port = one_.port();
  one_.close();
  one_.forget(kExportList, "c1", "gone");
  one_.forget(role_list("c1"), "c1", "gone");
  one_.forget(kTypeList, "c2", "gone");
  start();
  two_.put(kExportList, "c9", "end");
  ASSERT_TRUE(run_until(loop_, [&] { return names().contains("apiexports c9 end"); }));
  EXPECT_EQ(names().size(), all.size() + 1);
  one_.open(port);
  EXPECT_TRUE(become({"apiexports c1 kept", "clusterroles c1 kept", "apiexports c9 end"}));
}

TEST_F(ReplicationTest, WhenAShardIsTakenOut_ItsCopiesGo) {
  one_.put(kExportList, "c1", "widgets");
  two_.put(kExportList, "c2", "gadgets");
  start();
  ASSERT_TRUE(become({"apiexports c1 widgets", "apiexports c2 gadgets"}));
  root_->put_shard("one", nullptr);
  ASSERT_TRUE(become({"apiexports c2 gadgets"}));

  // Also when this shard does not run at that moment.
  replicator_.reset();
  root_ = std::make_unique<RootView>();
  start_replicator();
  put_shard("own", "http://own");
  settle_turns();
  EXPECT_THAT(names(), ElementsAre("apiexports c2 gadgets")) << "root is not known yet";
  root_->listed(RootView::Part::kShards);
  ASSERT_TRUE(become({}));
}

TEST_F(ReplicationTest, WhenRootIsAway_ItsShardsAreKnownFromTheCopies) {
  constexpr const char* kShardList = "/clusters/root/apis/core.kcp.io/v1alpha1/shards";
  one_.add_collection(kShardList);
  one_.put(kShardList, "root", "one", R"(,"spec":{"baseURL":"http://x"})");
  two_.add_collection(kShardList);
  two_.put(kShardList, "root", "stranger");
  start();
  put_shard("root", one_.url());  // which is also called one, that came first
  root_->put_shard("one", nullptr);
  ASSERT_TRUE(become({"shards root one"}));
  EXPECT_EQ(object("shards", "root", "one").text({"spec", "baseURL"}), "http://x");
  one_.remove(kShardList, "root", "one");
  EXPECT_TRUE(become({}));
}

TEST_F(ReplicationTest, WhenAShardMoves_ItIsFollowedThere) {
  one_.put(kExportList, "c1", "widgets");
  start();
  ASSERT_TRUE(become({"apiexports c1 widgets"}));
  FakeServer moved(loop_);
  moved.open();
  for (const char* path : {kExportList, kSchemaList, kTypeList, kIssuerList}) {
    moved.add_collection(path);
  }
  moved.put(kExportList, "c1", "gadgets");
  put_shard("one", moved.url());
  EXPECT_TRUE(become({"apiexports c1 gadgets"}));
  replicator_.reset();
}

TEST_F(ReplicationTest, WhenShardsShareAnAddress_OneIsCopied) {
  one_.put(kExportList, "c1", "widgets");
  start();
  ASSERT_TRUE(become({"apiexports c1 widgets"}));
  put_shard("a", one_.url());
  put_shard("b", "http://own");
  put_shard("c", "nonsense");
  settle();
  EXPECT_EQ(copies()["apiexports c1 widgets"], "one");
  EXPECT_EQ(replicator_->report().at({"shards"})->size(), 2U);
  root_->put_shard("one", nullptr);
  ASSERT_TRUE(run_until(loop_, [&] { return copies()["apiexports c1 widgets"] == "a"; }));
}

TEST_F(ReplicationTest, WhenAClusterMovesBetweenShards_TheNewOwnersCopyStays) {
  one_.put(kExportList, "c1", "widgets", R"(,"spec":{"at":"one"})");
  start();
  ASSERT_TRUE(become({"apiexports c1 widgets"}));
  two_.put(kExportList, "c1", "widgets", R"(,"spec":{"at":"two"})");
  ASSERT_TRUE(run_until(loop_, [&] { return copies()["apiexports c1 widgets"] == "two"; }));
  one_.remove(kExportList, "c1", "widgets");
  one_.put(kExportList, "c9", "end");
  ASSERT_TRUE(become({"apiexports c1 widgets", "apiexports c9 end"}));
  EXPECT_EQ(object("apiexports", "c1", "widgets").text({"spec", "at"}), "two");
}

TEST_F(ReplicationTest, WhenTheStoreRefuses_EverythingIsWrittenLater) {
  store_.failures = 3;
  for (int i = 0; i < 1200; ++i) {
    one_.put(kSchemaList, "c1", "v1.s" + std::to_string(i) + ".ex.io");
  }
  start();
  ASSERT_TRUE(run_until(loop_, [&] { return replicator_->rows().failures == 3; }));
  one_.remove(kSchemaList, "c1", "v1.s0.ex.io");
  ASSERT_TRUE(run_until(loop_, [&] { return names().size() == 1199 && quiet(); }));
  EXPECT_FALSE(names().contains("apiresourceschemas c1 v1.s0.ex.io"));
  EXPECT_LT(store_.batches, 100) << "what comes together is written together";
}

TEST_F(ReplicationTest, WhenObjectsAreNoneOfACluster_TheyAreLeftOut) {
  one_.send_event(kExportList, "ADDED", R"({"metadata":{"name":"x","resourceVersion":"5"}})");
  one_.put(kExportList, "", "nowhere");
  one_.put(kExportList, "c1", "widgets");
  start();
  EXPECT_TRUE(become({"apiexports c1 widgets"}));
}

}  // namespace
}  // namespace kintsugi::controlplane
