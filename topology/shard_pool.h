#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "net/upstream.h"
#include "shards/shard_client.h"
#include "topology/snapshot.h"

namespace kintsugi::topology {

/// The connections of one loop to all shards, following the loop's snapshot. Health comes with the
/// snapshot (the control loop probes); failures of requests are noticed here at once. Threads: its
/// loop.
class ShardPool {
 public:
  using MakeUpstream = std::function<Expected<net::UpstreamParams>(const std::string& shard,
                                                                   const std::string& base_url)>;
  /// See shards::ShardClientParams::as_caller.
  using AsCaller = std::function<void(const std::string& shard, http::HeaderList& headers)>;
  ShardPool(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view,
            MakeUpstream make_upstream, AsCaller as_caller = {});

  /// Client of a shard of the current snapshot; nullptr when it is unknown or its base URL is no
  /// URL.
  [[nodiscard]] shards::ShardClient* find(topology::ShardId id) noexcept;
  /// The same for its virtual workspaces, which may have a URL of their own.
  [[nodiscard]] shards::ShardClient* find_virtual(topology::ShardId id) noexcept;
  /// Client of a host that is no shard ("https://host:port"), with the credentials for shards, made
  /// when it is first asked for; nullptr: no URL, or too many of them. Mounts lead there.
  [[nodiscard]] shards::ShardClient* find_host(const std::string& origin);
  /// Client of a backend of the mapping file, made when it is first asked for; `make_upstream` is
  /// asked with this name. nullptr: no URL. @param name of the entry; another URL moves its client
  [[nodiscard]] shards::ShardClient* find_backend(const std::string& name, const std::string& url);
  /// Runs after a client got another URL: what still runs at the old one ends within a minute.
  void on_moved(std::function<void(const shards::ShardClient&)> listener) {
    moved_ = std::move(listener);
  }
  /// For connections made from now on. @param of  by the name of the shard; null: unchanged
  void set_tls(const std::function<std::shared_ptr<net::TlsContext>(const std::string&)>& of);
  /// The clients of the base URLs.
  void for_each(const std::function<void(topology::ShardId, shards::ShardClient&)>& visit);

 private:
  void follow(const topology::Snapshot& now);
  /// @param others  URLs of other processes of the same server
  /// @param anew  also where it points there already
  void point(shards::ShardClient& client, const std::string& url,
             const std::vector<std::string>& others = {}, bool anew = false);
  [[nodiscard]] std::unique_ptr<shards::ShardClient> make_client(const std::string& shard);

  net::Loop& loop_;
  MakeUpstream make_upstream_;
  AsCaller as_caller_;
  std::function<void(const shards::ShardClient&)> moved_;
  struct Entry {
    std::unique_ptr<shards::ShardClient> client;
    /// Of the virtual workspaces, since they first had a URL of their own; streams refer to it.
    std::unique_ptr<shards::ShardClient> services;
    bool apart = false;        ///< `services` is where they are
    bool up = true;            ///< what the control loop said the last time
    std::uint64_t access = 0;  ///< of the spec
  };
  std::unordered_map<topology::ShardId, Entry> clients_;
  std::unordered_map<std::string, std::unique_ptr<shards::ShardClient>> hosts_;     ///< by origin
  std::unordered_map<std::string, std::unique_ptr<shards::ShardClient>> backends_;  ///< by entry
  std::shared_ptr<ShardPool*> alive_;

 public:
  ~ShardPool() { *alive_ = nullptr; }
  ShardPool(const ShardPool&) = delete;
  ShardPool& operator=(const ShardPool&) = delete;
};

}  // namespace kintsugi::topology
