#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/alive.h"
#include "controlplane/replication/internal/replica_rows.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/informer.h"

namespace kintsugi::controlplane {

/// Keeps the copies of one other shard: its APIExports, APIResourceSchemas, WorkspaceTypes,
/// WorkspaceAuthenticationConfigurations, APIConversions, ClusterCachedResources and their slices,
/// and its admission policies and webhooks, which hold where its exports are bound (KK-222), by
/// wildcard list and watch; of the root shard also the Shards; and of each logical cluster there
/// that holds an export or a type the ClusterRoles and ClusterRoleBindings, because rights on these
/// are decided where they are used. Source: T-13. While the shard is away everything stays; with
/// the first complete list after a start what has gone meanwhile goes. At most kMostClusters
/// clusters: in others nobody but administrators has rights here. Threads: one loop.
class ReplicationSource {
 public:
  static constexpr std::size_t kMostClusters = 4'000;

  /// @param rows must outlive it. @param shard the name that copies carry.
  ReplicationSource(net::Loop& loop, ReplicaRows& rows, std::string shard);
  ~ReplicationSource();
  ReplicationSource(const ReplicationSource&) = delete;
  ReplicationSource& operator=(const ReplicationSource&) = delete;

  /// Starts, or goes on at another address. Requests carry what the TLS context of `params` does.
  void connect(net::UpstreamParams params);
  /// Takes away all copies of the shard.
  void forget();

  struct State {
    bool synced = false;    ///< everything that it has but rights has been listed once
    bool watching = false;  ///< and is followed right now
    bool complete = false;  ///< and the rights that came with it, once
    std::size_t objects = 0, clusters = 0;  ///< without and with rights
    std::uint64_t events = 0, lists = 0, failures = 0;
  };
  [[nodiscard]] State state() const;
  [[nodiscard]] const std::string& shard() const noexcept { return shard_; }

 private:
  struct Feed;
  using FeedPtr = std::unique_ptr<Feed>;

  [[nodiscard]] FeedPtr make_feed(std::size_t kind, std::string_view cluster);
  void upsert(const Feed& feed, const shards::ObjectKey& key, const krm::Json& object);
  void remove(const Feed& feed, const shards::ObjectKey& key);
  void listed(Feed& feed);
  void settle(std::size_t of);
  void note_interest(std::size_t kind, std::string_view cluster, std::string_view name, bool there);
  void note_complete();
  void drop_unconfirmed(std::size_t kind, std::string_view prefix);
  void follow_rights_later(Duration delay);
  void follow_rights();
  void recovered();

  net::Loop& loop_;
  ReplicaRows& rows_;
  std::string shard_;
  std::unique_ptr<net::Upstream> upstream_;
  std::vector<FeedPtr> wide_;                                        // null: not of this shard
  std::map<std::string, std::vector<FeedPtr>, std::less<>> rights_;  // by cluster
  // Exports and types by cluster, as "<kind>/<name>".
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> interest_;
  // Keys that were stored before this start and that the shard has not shown yet.
  std::vector<std::set<std::string, std::less<>>> unconfirmed_;  // by kind
  std::set<std::string, std::less<>> changed_;  // clusters whose interest began or ended
  bool complete_ = false;
  bool full_ = false;  // it has been said that there are too many clusters
  bool timer_runs_ = false;
  std::uint64_t seed_;
  net::Timer timer_;
  Alive alive_;
};

/// Resource names of all copies in store keys ("apiexports.replica", …), sorted.
[[nodiscard]] const std::set<std::string, std::less<>>& replicated_resources();

}  // namespace kintsugi::controlplane
