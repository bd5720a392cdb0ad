#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/fenced_store.h"
#include "controlplane/moves/move_book.h"
#include "controlplane/moves/move_steps.h"
#include "store/memory/memory_store.h"

/// Two shards between which logical cluster c1 moves, without a network, for unit tests.
namespace kintsugi::controlplane::testing {

inline std::string row_key(std::string_view group, std::string_view plural,
                           std::string_view cluster, std::string_view ns, std::string_view name) {
  return *apiserver::object_key(apiserver::stored_resource(group, plural), cluster, ns, name);
}
inline std::string cluster_row() {
  return row_key(kCoreGroup, kLogicalClusters, "c1", "", kClusterName);
}
inline std::string map_row(std::string_view name) {
  return row_key("", "configmaps", "c1", "default", name);
}

/// One shard: its store, and the steps over it.
struct MoveShard final : apiserver::ObjectReader {
  MoveShard(net::Loop& loop, std::string name) : loop(loop), name(std::move(name)) { restart(); }

  /// What is not in the store is forgotten.
  void restart() {
    steps = std::make_unique<MoveSteps>(
        loop,
        MoveSteps::Params{name, kept->store, [this]() -> const ObjectReader& { return *this; }});
  }
  std::optional<krm::Json> get(std::string_view cluster, std::string_view group,
                               std::string_view resource, std::string_view ns,
                               std::string_view object) const override {
    const auto entry = kept->store.get(row_key(group, resource, cluster, ns, object));
    return entry ? std::optional<krm::Json>(
                       *apiserver::decode_stored(entry->value.view(), "v1", "K", entry->modified))
                 : std::nullopt;
  }
  void list(std::string_view cluster, std::string_view group, std::string_view resource,
            std::string_view ns,
            const std::function<bool(const krm::Json&)>& visit) const override {
    store::RangeQuery query;
    query.prefix =
        apiserver::collection_prefix(apiserver::stored_resource(group, resource), cluster, ns);
    static_cast<void>(kept->store.range(query, [&](const store::EntryView& entry) {
      return visit(*apiserver::decode_stored(entry.value, "v1", "K", entry.modified));
    }));
  }
  /// @returns 0: it was refused
  store::Revision put(const std::string& key, std::string_view text, store::Store& through) {
    store::Op op;
    op.key = key;
    op.value = apiserver::encode_stored(*krm::Json::parse(text));
    const auto result = through.commit_wait({op});
    return result ? result->revision : 0;
  }
  /// As the server writes to c1, which it does while it has the cluster.
  bool write(const std::string& key, std::string_view text) {
    return kept->store.get(cluster_row()) && put(key, text, kept->fenced) != 0;
  }
  bool erase(const std::string& key) {
    store::Op op;
    op.type = store::EventType::kDelete;
    op.key = key;
    const auto known = kept->store.get(key);
    return known && kept->store.get(cluster_row()) && kept->fenced.commit_wait({op});
  }
  [[nodiscard]] std::set<std::string> keys(std::string_view cluster) const {
    std::set<std::string> out;
    static_cast<void>(kept->store.range({}, [&](const store::EntryView& entry) {
      if (const auto parts = apiserver::parse_key(entry.key); parts && parts->cluster == cluster) {
        out.emplace(entry.key);
      }
      return true;
    }));
    return out;
  }

  /// Each is the other from now on.
  void swap(MoveShard& other) {
    std::swap(kept, other.kept);
    std::swap(name, other.name);
    for (MoveShard* one : {this, &other}) {
      one->restart();
    }
  }

  net::Loop& loop;
  std::string name;
  struct Kept {
    store::MemoryStore store;
    FencedStore fenced{store};
  };
  std::unique_ptr<Kept> kept = std::make_unique<Kept>();
  std::unique_ptr<MoveSteps> steps;
};

class MoveTest : public ::testing::Test {
 protected:
  MoveTest() { fill(from_); }
  static void fill(MoveShard& shard) {
    shard.put(cluster_row(),
              R"({"metadata":{"name":"cluster","uid":"u1","annotations":{"core.kcp.io/shard":"a"}},
                  "status":{"phase":"Ready"}})",
              shard.kept->store);
    shard.put(map_row("m"), R"({"metadata":{"name":"m","uid":"u2"}})", shard.kept->store);
    shard.put(row_key("", "configmaps", "c2", "default", "other"),
              R"({"metadata":{"name":"other"}})", shard.kept->store);
    shard.put(row_key(kinds::kReplicaGroup, kApiExports, "c1", "", "x"),
              R"({"metadata":{"name":"x"}})", shard.kept->store);
    shard.put(row_key("facts", "workspaces", "c1", "", "w"),
              R"({"metadata":{"name":"w"},"shard":"a"})", shard.kept->store);
    shard.put(row_key(kApisGroup, kApiBindings, "c1", "", "b"),
              R"({"metadata":{"name":"b"},"status":{"boundResources":[{"schema":{"UID":"s1"}}]}})",
              shard.kept->store);
    shard.put(row_key(kBoundGroup, kApiResourceSchemas, kBoundCluster, "", "s1"),
              R"({"metadata":{"name":"v1.a.b"}})", shard.kept->store);
  }
  Expected<krm::Json> run(MoveShard& shard, std::string_view step,
                          krm::Json more = krm::Json::object(), std::string_view migration = "mig",
                          const std::string& cluster = "c1") {
    more["step"] = step;
    more["migration"] = migration;
    more["from"] = "a";
    more["to"] = "b";
    std::optional<Expected<krm::Json>> out;
    bool waits = false;
    shard.steps->run(cluster, more, [&](Expected<krm::Json> answer) {
      out = std::move(answer);
      if (waits) {
        loop_.stop();
      }
    });
    if (!out) {
      waits = true;
      loop_.run();
    }
    return out ? std::move(*out) : Expected<krm::Json>(fail(Errc::kInternal, "no answer"));
  }
  std::string error(MoveShard& shard, std::string_view step, krm::Json more = krm::Json::object(),
                    std::string_view migration = "mig") {
    const Expected<krm::Json> out = run(shard, step, std::move(more), migration);
    return out ? "" : std::string(out.error().message());
  }
  /// Turns of the loop in which what was posted is done.
  void settle() {
    loop_.after(milliseconds(0), [&] { loop_.post([&] { loop_.stop(); }); });
    loop_.run();
  }

  net::Loop loop_{"moves"};
  MoveShard from_{loop_, "a"}, to_{loop_, "b"};
};

}  // namespace kintsugi::controlplane::testing
