#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "controlplane/catalog/bound_schema.h"
#include "controlplane/internal/names.h"
#include "controlplane/moves/fenced_store.h"
#include "controlplane/moves/move_book.h"
#include "controlplane/moves/move_steps.h"
#include "store/batches.h"
#include "store/forwarding_store.h"
#include "store/memory/memory_store.h"
#include "store/raise.h"

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

/// A store whose transactions can be made as small as on etcd: others write it, too, and its
/// revisions are its own.
class StoreOfShard final : public store::ForwardingStore {
 public:
  explicit StoreOfShard(store::Store& inner) : ForwardingStore(inner) {}
  /// From now on, with revisions above `revision`.
  void share(store::Revision revision) {
    store::Op op;
    op.key = "shared";
    EXPECT_TRUE(inner().commit_wait({std::move(op), store::raise_to(revision)}));
    shared_ = true;
  }
  /// So many commits are done, and the one behind them is not.
  void fail_after(std::size_t commits) { fails_after_ = commits; }
  void fail_no_more() { fails_after_.reset(); }
  [[nodiscard]] bool is_shared() const noexcept override { return shared_; }
  [[nodiscard]] store::Limits limits() const noexcept override {
    return shared_ ? store::Limits{store::kRoomForGuards + 4, 4'000} : store::Limits{};
  }
  void commit(std::vector<store::Op> ops, store::CommitCallback done) override {
    const bool raises = std::any_of(ops.begin(), ops.end(),
                                    [](const store::Op& op) { return op.key == store::kRaiseKey; });
    if (fails_after_ && (*fails_after_)-- == 0) {
      fails_after_.reset();
      done(fail(Errc::kUnavailable, "it is away"));
    } else if (shared_ && (raises || ops.size() > limits().ops)) {
      done(fail(Errc::kInvalid, "more than a transaction takes"));
    } else {
      inner().commit(std::move(ops), std::move(done));
    }
  }

 private:
  bool shared_ = false;
  std::optional<std::size_t> fails_after_;
};

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
    store::MemoryStore memory;
    StoreOfShard store{memory};
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
