#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/alive.h"
#include "base/error.h"
#include "controlplane/clusters/root_view.h"
#include "controlplane/replication/internal/replica_rows.h"
#include "controlplane/replication/internal/replication_source.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// What the replication of a shard does now, for /clusters/*/debug/replication and
/// /clusters/*/metrics. Threads: any.
class ReplicationReport {
 public:
  void set(krm::Json report);
  [[nodiscard]] krm::Json get() const;
  /// Everything that other shards hold for everybody has been read once: what is not there is
  /// nowhere (KK-005). A shard that is new, or away since the start, makes it false for a minute.
  void set_complete(bool complete) noexcept { complete_.store(complete); }
  [[nodiscard]] bool is_complete() const noexcept { return complete_.load(); }

 private:
  std::atomic<bool> complete_{false};
  mutable std::mutex mutex_;
  krm::Json report_;
};

/// Copies what all other shards hold for everybody (ReplicationSource) into the store of this
/// shard: one source for each address that Shards of root name, except its own. Copies of a Shard
/// that is no longer registered are removed; of one that is only away they stay. Several Shards
/// with one address are one shard, under the name that came first.
/// Lag: one watch event and one commit. Threads: one loop. One per store.
class Replicator {
 public:
  struct Params {
    std::string own_shard;
    std::string own_url;
    store::Store& store;
    RootView& root;
    /// How to reach a shard. @error the address is none: it is left alone until it changes.
    std::function<Expected<net::UpstreamParams>(const std::string& base_url)> connect;
    std::shared_ptr<ReplicationReport> report;  ///< may be null
    /// So long what a shard holds counts as unread; one that is away for longer is done without.
    Duration most_cold = seconds(60);
  };
  Replicator(net::Loop& loop, Params params);
  ~Replicator();
  Replicator(const Replicator&) = delete;
  Replicator& operator=(const Replicator&) = delete;
  void start();

  [[nodiscard]] ReplicaRows::Stats rows() const { return rows_.stats(); }
  [[nodiscard]] krm::Json report() const;
  /// ReplicationReport::is_complete(), now.
  [[nodiscard]] bool is_complete() const;

 private:
  struct Source {
    std::string url;
    TimePoint since{};  ///< it is one
    std::unique_ptr<ReplicationSource> feed;
  };
  void look_later();
  void look();
  void add(const ShardRecord& shard);
  void remove_strangers();
  void publish();

  net::Loop& loop_;
  Params params_;
  ReplicaRows rows_;
  std::map<std::string, Source, std::less<>> sources_;  // by name of the shard
  TimePoint began_{};
  bool look_posted_ = false;
  bool strangers_removed_ = false;
  net::Timer sync_timer_, report_timer_;
  Alive alive_;
};

}  // namespace kintsugi::controlplane
