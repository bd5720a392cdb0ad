#include "topology/partition_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/testing/stack.h"
#include "shards/own_requests.h"

namespace kintsugi::server::testing_stack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A call that is over; it only has to live.
class Over final : public net::Call {};

/// The Partitions of a real store, and shards that answer what the test says.
class PartitionNotes : public Controllers {
 protected:
  PartitionNotes() {
    start();
    topology::PartitionNotesParams params;
    params.source = "this-proxy";
    params.owner = [this](std::string_view cluster) -> std::optional<topology::ShardId> {
      const auto found = owners_.find(cluster);
      return found == owners_.end() ? std::nullopt : std::optional(found->second);
    };
    params.send = [this](
                      topology::ShardId shard, net::FetchRequest request,
                      topology::PartitionNotesParams::Answered done) -> std::unique_ptr<net::Call> {
      if (!reachable_) {
        return nullptr;
      }
      EXPECT_EQ(request.method, "POST");
      http::RequestHead head;
      head.method = request.method;
      head.target = request.target;
      head.headers = request.headers;
      EXPECT_TRUE(shards::is_own_request(shards::OwnRole::kTopology, head)) << request.target;
      const Json body = parse(request.body);
      const Json* spec = body.find("spec");
      sent_.push_back(std::to_string(shard) + " " + std::string(spec->text({"partition"})) + " " +
                      (spec->find("gone") != nullptr       ? "gone"
                       : spec->find("selector") != nullptr ? spec->find("selector")->dump()
                                                           : "all"));
      EXPECT_EQ(spec->text({"source"}), "this-proxy");
      loop_.post([done, status = status_] {
        net::FetchResponse answer;
        answer.status = status;
        done(std::move(answer));
      });
      return std::make_unique<Over>();
    };
    notes_ =
        std::make_unique<topology::PartitionNotes>(loop_, replicas_[0]->objects, std::move(params));
  }
  ~PartitionNotes() override { notes_.reset(); }

  void slice(topology::ShardId shard, const std::string& name, const std::string& partition,
             const std::string& cluster = kCluster) {
    const Json object = Json::object({{"spec", Json::object({{"partition", partition}})}});
    notes_->on_change(topology::CachedSliceChanged{{shard, cluster, name, &object}});
  }
  void make_partition(const std::string& name, const std::string& region) {
    Json object = Json::object({{"apiVersion", "topology.kcp.io/v1alpha1"}, {"kind", "Partition"}});
    object.make({"metadata", "name"}) = name;
    object["spec"] = region.empty()
                         ? Json::object()
                         : parse(R"({"selector":{"matchLabels":{"region":")" + region + R"("}}})");
    create(kTopology, "partitions", std::move(object));
    settle();
  }
  /// What was sent since the last look, after all that has been set going.
  std::vector<std::string> sent() {
    int turns = 0;
    run_until([&] { return ++turns > 20; });
    return std::exchange(sent_, {});
  }

  std::map<std::string, topology::ShardId, std::less<>> owners_{{kCluster, 1}};
  bool reachable_ = true;
  int status_ = 201;
  std::vector<std::string> sent_;
  std::unique_ptr<topology::PartitionNotes> notes_;
};

constexpr const char* kEu = R"({"matchLabels":{"region":"eu"}})";

TEST_F(PartitionNotes, KK_201_WhenASliceNamesAPartition_ItsShardHearsOfThatOneAlone) {
  make_partition("eu", "eu");
  make_partition("us", "us");
  make_partition("all", "");
  EXPECT_THAT(sent(), IsEmpty());
  slice(1, "s", "eu");
  EXPECT_THAT(sent(), ElementsAre(std::string("1 eu ") + kEu));
  slice(1, "t", "eu");  // known there
  EXPECT_THAT(sent(), IsEmpty());
  slice(1, "s", "all");
  EXPECT_THAT(sent(), ElementsAre("1 all all"));
  slice(1, "s", "");
  EXPECT_THAT(sent(), IsEmpty());
  slice(1, "s", "missing");
  EXPECT_THAT(sent(), ElementsAre("1 missing gone"));
}

TEST_F(PartitionNotes, KK_201_WhenAPartitionChanges_WhoNamesItHears) {
  slice(1, "s", "eu");
  EXPECT_THAT(sent(), ElementsAre("1 eu gone"));
  make_partition("eu", "eu");
  EXPECT_THAT(sent(), ElementsAre(std::string("1 eu ") + kEu));
  Json changed = get(kTopology, "partitions", "eu");
  changed["spec"] = Json::object();
  replicas_[0]->objects.update(kCluster, kTopology, "partitions", "", changed, counted());
  settle();
  EXPECT_THAT(sent(), ElementsAre("1 eu all"));
  replicas_[0]->objects.remove(kCluster, kTopology, "partitions", "eu",
                               changed.text({"metadata", "uid"}), counted());
  settle();
  EXPECT_THAT(sent(), ElementsAre("1 eu gone"));
}

TEST_F(PartitionNotes, KK_201_WhenAShardShowsASliceOfAnothersCluster_ItHearsNothing) {
  make_partition("eu", "eu");
  slice(2, "lie", "eu");
  slice(2, "lie", "eu", "unknown");
  slice(2, "bars", "x|ws1|eu");
  EXPECT_THAT(sent(), IsEmpty());
  owners_[kCluster] = 2;  // it has moved there
  notes_->on_change(topology::LogicalClusterChanged{{2, kCluster, "cluster", nullptr}});
  run_until([&] { return !sent_.empty(); });
  EXPECT_THAT(sent(), ::testing::Contains(std::string("2 eu ") + kEu));
}

TEST_F(PartitionNotes, KK_201_WhenAShardIsAway_ItIsToldWhenItIsBack) {
  make_partition("eu", "eu");
  reachable_ = false;
  slice(1, "s", "eu");
  EXPECT_THAT(sent(), IsEmpty());
  reachable_ = true;
  status_ = 503;
  topology::ShardInfo info;
  info.id = 1;
  notes_->on_change(topology::ShardChanged{info, false});
  run_until([&] { return !sent_.empty(); });
  status_ = 201;
  run_until([&] { return notes_->stats().told == 1; });
  (void)sent();
  notes_->on_change(topology::ShardChanged{info, false});
  EXPECT_THAT(sent(), IsEmpty());
  notes_->on_change(topology::CachedSlicesSynced{1});  // perhaps with an older store
  EXPECT_THAT(sent(), ElementsAre(std::string("1 eu ") + kEu));
}

TEST_F(PartitionNotes, KK_201_WhenAShardWantsNone_ItIsNotAskedAgain) {
  make_partition("eu", "eu");
  status_ = 404;
  slice(1, "s", "eu");
  run_until([&] { return notes_->stats().refused == 1; });
  EXPECT_THAT(sent(), ElementsAre(std::string("1 eu ") + kEu));
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(PartitionNotes, KK_201_WhenAShardGoes_WhatRunsEnds) {
  make_partition("eu", "eu");
  slice(1, "s", "eu");
  topology::ShardInfo info;
  info.id = 1;
  notes_->on_change(topology::ShardChanged{info, true});
  (void)sent();
  EXPECT_EQ(notes_->stats().told, 0U);
  slice(1, "s", "eu");
  run_until([&] { return notes_->stats().told == 1; });
}

}  // namespace
}  // namespace kintsugi::server::testing_stack
