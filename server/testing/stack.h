#pragma once

// For tests of cmd/ only: the controllers of one or several proxies over the real API server and
// store. Only shards and exports are made up.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apiserver/server.h"
#include "endpointslice/slice_controller.h"
#include "krm/status.h"
#include "server/internal/api_objects.h"
#include "server/internal/proxy_loop.h"
#include "store/lmdb/lmdb_store.h"
#include "topology/partition_controller.h"

namespace kintsugi::server::testing_stack {

using endpointslice::ExportFacts;
using endpointslice::ExportRecord;
using krm::Json;

inline constexpr std::string_view kTopology = "topology.kcp.io";
inline constexpr std::string_view kApis = "apis.kcp.io";
inline constexpr std::string_view kSlices = "apiexportendpointslices";
inline constexpr const char* kCluster = "ws1";

inline Json parse(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : Json();
}

class Nobody final : public auth::Authenticator, public auth::Authorizer {
 public:
  void authenticate(const http::RequestHead&, const auth::BearerPtr&, const http::PeerInfo&,
                    std::string_view, auth::Authenticator::Done done) override {
    done(fail(krm::unauthorized()));
  }
  void authorize(const auth::Attributes&, auth::Authorizer::Done done) override {
    done(auth::Decision{});
  }
};

/// Shards and exports as a test sets them.
class TestWorld final : public endpointslice::World {
 public:
  const std::vector<topology::ShardFacts>& shard_table() const override { return table; }
  std::vector<endpointslice::SliceShard> shards(std::string_view, std::string_view) const override {
    std::vector<endpointslice::SliceShard> rows;
    for (const topology::ShardFacts& facts : table) {
      rows.push_back({&facts, !unbound.contains(facts.name), true});
    }
    return rows;
  }
  ExportFacts find_export(std::string_view path, std::string_view name) const override {
    if (lookup_fails) {
      return {ExportFacts::State::kUnknown, {}};
    }
    return record.cluster == path && record.name == name
               ? ExportFacts{ExportFacts::State::kFound, record.cluster}
               : ExportFacts{ExportFacts::State::kAbsent, {}};
  }
  void exports(const std::function<void(const ExportRecord&)>& visit) const override {
    visit(record);
  }
  const ExportRecord* export_record(std::string_view cluster,
                                    std::string_view name) const override {
    return record.cluster == cluster && record.name == name ? &record : nullptr;
  }
  void add(const std::string& name, std::map<std::string, std::string> labels) {
    topology::ShardFacts facts;
    facts.name = name;
    facts.base_url = "https://" + name;
    facts.virtual_workspace_url = "https://vw-" + name;
    for (const auto& [key, value] : labels) {
      facts.labels[key] = value;
    }
    table.push_back(std::move(facts));
  }

  std::vector<topology::ShardFacts> table;
  std::set<std::string> unbound;  ///< shards without a consumer
  ExportRecord record{kCluster, "widgets", "uid-1", "", true};
  bool lookup_fails = false;
  endpointslice::SliceDefaults defaults;         ///< of proxies that are started from now on
  endpointslice::SliceController::Now now = {};  ///< of the same; empty: real time
};

/// What one proxy has over a store that it may share.
struct Replica {
  Replica(net::Loop& loop, store::Store& store, TestWorld& world)
      : registry(proxy_registry(nullptr)),
        server(apiserver::ApiServer::make({.loop = loop,
                                           .store = store,
                                           .registry = *registry,
                                           .authenticator = nobody,
                                           .authorizer = nobody,
                                           .resolve = {},
                                           .checks = {}})),
        objects(*server),
        partitions(loop, objects, [&world] { return world.table; }),
        slices(loop, objects, world, world.defaults, milliseconds(500), world.now) {}
  void shards_changed() {
    partitions.shards_changed();
    slices.shards_changed();
  }
  [[nodiscard]] bool idle() const { return partitions.idle() && slices.idle(); }
  [[nodiscard]] std::uint64_t writes() const {
    return partitions.stats().writes + slices.stats().writes;
  }

  Nobody nobody;
  std::unique_ptr<kinds::StaticPlusCrdRegistry> registry;
  std::unique_ptr<apiserver::ApiServer> server;
  ApiObjects objects;
  topology::PartitionController partitions;
  endpointslice::SliceController slices;
};

class Controllers : public ::testing::Test {
 protected:
  Controllers() {
    std::string folder = (std::filesystem::temp_directory_path() / "kintsugi-cmd-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    store::LmdbParams params;
    params.directory = folder_;
    params.no_sync = true;
    auto store = store::LmdbStore::open(std::move(params));
    EXPECT_TRUE(store) << store.error().to_string();
    store_ = std::move(*store);
  }
  ~Controllers() override {
    replicas_.clear();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  Replica& start() {
    replicas_.push_back(std::make_unique<Replica>(loop_, *store_, world_));
    return *replicas_.back();
  }
  void run_until(const std::function<bool()>& condition) {
    bool done = false;
    const std::function<void()> look = [&] {
      done = condition();
      if (done) {
        loop_.stop();
      } else {
        loop_.post(look);
      }
    };
    loop_.post(look);
    net::Timer limit(loop_);
    limit.start(seconds(300), [&] { loop_.stop(); });  // for machines that have much to do
    loop_.run();
    ASSERT_TRUE(done) << "not reached";
  }
  /// What a write of the test calls when it is done; settle() waits for it.
  topology::Objects::Done counted() {
    ++pending_;
    return [this](const Expected<Json>& result) {
      --pending_;
      EXPECT_TRUE(result) << result.error().to_string();
    };
  }
  /// Until all writes are through and all controllers rest. Events of a write come before its
  /// callback, so what they set going is seen. Work that waits for its retry counts as rest.
  void settle() {
    int quiet = 0;
    run_until([&] {
      bool idle = pending_ == 0;
      for (const auto& replica : replicas_) {
        idle = idle && replica->idle();
      }
      quiet = idle ? quiet + 1 : 0;
      return quiet > 3;
    });
  }
  void shards_changed() {
    for (const auto& replica : replicas_) {
      replica->shards_changed();
    }
    settle();
  }

  /// Writes as a user; many at once are fine, settle() waits for them.
  void create(std::string_view group, std::string_view resource, Json object) {
    replicas_.front()->objects.create(kCluster, group, resource, std::move(object), counted());
  }
  void make_set(const std::string& name, std::string_view spec) {
    Json object = Json::object({{"apiVersion", "topology.kcp.io/v1alpha1"},
                                {"kind", "PartitionSet"},
                                {"metadata", Json::object({{"name", name}})},
                                {"spec", parse(spec)}});
    create(kTopology, "partitionsets", std::move(object));
  }
  void make_slice(const std::string& name, const std::string& partition = "") {
    Json spec = parse(R"({"export":{"name":"widgets"}})");
    if (!partition.empty()) {
      spec["partition"] = partition;
    }
    Json object = Json::object({{"apiVersion", "apis.kcp.io/v1alpha1"},
                                {"kind", "APIExportEndpointSlice"},
                                {"metadata", Json::object({{"name", name}})},
                                {"spec", std::move(spec)}});
    create(kApis, kSlices, std::move(object));
  }
  void make_partition(const std::string& name, std::string_view spec) {
    create(kTopology, "partitions",
           Json::object({{"apiVersion", "topology.kcp.io/v1alpha1"},
                         {"kind", "Partition"},
                         {"metadata", Json::object({{"name", name}})},
                         {"spec", parse(spec)}}));
  }
  void remove(std::string_view group, std::string_view resource, const std::string& name) {
    replicas_.front()->objects.remove(kCluster, group, resource, name, "", counted());
  }
  [[nodiscard]] Json get(std::string_view group, std::string_view resource,
                         std::string_view name) const {
    auto found = replicas_.front()->objects.get(kCluster, group, resource, name);
    return found ? std::move(*found) : Json();
  }
  /// Names and resourceVersions of everything of a kind.
  [[nodiscard]] std::map<std::string, std::string> versions(std::string_view group,
                                                            std::string_view resource) const {
    std::map<std::string, std::string> all;
    replicas_.front()->objects.list(kCluster, group, resource, [&](const Json& object) {
      all.emplace(object.text({"metadata", "name"}), object.text({"metadata", "resourceVersion"}));
      return true;
    });
    return all;
  }
  /// Partitions of a set: label values to name; a value that stands twice is reported.
  [[nodiscard]] std::map<std::string, std::string> tuples_of(std::string_view set) const {
    std::map<std::string, std::string> all;
    replicas_.front()->objects.list(kCluster, kTopology, "partitions", [&](const Json& one) {
      const Json* owners = one.at({"metadata", "ownerReferences"});
      if (owners != nullptr && owners->items().front().text({"name"}) == set) {
        const std::string tuple = one.at({"spec", "selector", "matchLabels"})->dump();
        EXPECT_TRUE(all.emplace(tuple, one.text({"metadata", "name"})).second)
            << set << " has two Partitions for " << tuple;
      }
      return true;
    });
    return all;
  }
  [[nodiscard]] static std::string condition(const Json& object, std::string_view type) {
    if (const Json* conditions = object.at({"status", "conditions"})) {
      for (const Json& one : conditions->items()) {
        if (one.text({"type"}) == type) {
          return std::string(one.text({"status"})) + " " + std::string(one.text({"reason"}));
        }
      }
    }
    return "absent";
  }
  [[nodiscard]] static std::vector<std::string> urls(const Json& slice) {
    std::vector<std::string> all;
    if (const Json* endpoints = slice.at({"status", "endpoints"})) {
      for (const Json& one : endpoints->items()) {
        all.emplace_back(one.text({"url"}));
      }
    }
    return all;
  }

  std::filesystem::path folder_;
  net::Loop loop_{"test"};
  std::unique_ptr<store::LmdbStore> store_;
  TestWorld world_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  int pending_ = 0;
};

}  // namespace kintsugi::server::testing_stack
