#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "apiserver/server.h"
#include "base/alive.h"
#include "base/strings.h"
#include "controlplane/catalog/cached_resources.h"
#include "controlplane/clusters/root_view.h"
#include "controlplane/replication/internal/replica_rows.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// Copies the objects that ClusterCachedResources of other shards offer into the store of this one
/// (KK-203), where the replication virtual workspace reads them: a list and a watch for each, at
/// the shard that the copy of the ClusterCachedResource is from (replication.h). They stay while
/// that shard is away, and go with the copy of what offers them. Threads: one loop. One per store.
class CachedReplicator {
 public:
  struct Params {
    store::Store& store;
    RootView& root;
    /// How to reach a shard. @error the address is none
    std::function<Expected<net::UpstreamParams>(const std::string& base_url)> connect;
  };
  CachedReplicator(net::Loop& loop, Params params);
  ~CachedReplicator();
  CachedReplicator(const CachedReplicator&) = delete;
  CachedReplicator& operator=(const CachedReplicator&) = delete;
  /// The server outlives this.
  void start(apiserver::ApiServer& server);

 private:
  struct Shard {
    std::string url;
    std::shared_ptr<net::Upstream> upstream;
  };
  struct Feed;

  void note(std::string_view cluster, std::string_view name, const krm::Json* copy);
  void drop(std::string_view stored_resource);
  void drop_orphans();
  void look();
  void serve(Feed& feed);

  net::Loop& loop_;
  Params params_;
  ReplicaRows rows_;
  std::map<std::string, Shard, std::less<>> shards_;                 // by name
  std::map<std::string, std::unique_ptr<Feed>, std::less<>> feeds_;  // by "<cluster>/<name>"
  std::shared_ptr<void> subscription_;
  Alive alive_;
};

}  // namespace kintsugi::controlplane
