#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apiserver/server.h"
#include "base/alive.h"
#include "controlplane/clusters/peer_shards.h"

namespace kintsugi::controlplane {

/// LogicalCluster objects on any shard. Callbacks come once, in a later turn, and not at all when
/// the object is gone. Failures are the caller's to retry. Threads: one loop.
class ClusterAccess {
 public:
  using Got = std::function<void(Expected<std::optional<krm::Json>>)>;
  using Done = std::function<void(Expected<void>)>;
  virtual ~ClusterAccess() = default;
  /// nullopt: there is no such logical cluster on that shard.
  virtual void get(const std::string& shard, const std::string& cluster, Got done) = 0;
  /// @error kAlreadyExists
  virtual void create(const std::string& shard, const std::string& cluster, krm::Json object,
                      Done done) = 0;
  /// Marks it for deletion if it still has this uid; ok when it is gone.
  virtual void remove(const std::string& shard, const std::string& cluster, const std::string& uid,
                      Done done) = 0;
  /// Whether the shard answers now.
  virtual void probe(const std::string& shard, std::function<void(bool up)> done) = 0;
};

/// The shard's own clusters in process, others over HTTPS as an administrator of shards.
class ShardClusterAccess final : public ClusterAccess {
 public:
  /// @param own name of this shard. @param peers  must outlive it
  ShardClusterAccess(net::Loop& loop, apiserver::ApiServer& server, std::string own,
                     PeerShards& peers);
  /// Which clusters have left this shard: it does not know them, and does not say that they are
  /// gone.
  void use(std::function<bool(const std::string& cluster)> has_left) {
    has_left_ = std::move(has_left);
  }
  /// Of the duty in which it writes here.
  void set_fence(std::optional<store::Fence> fence) { fence_ = std::move(fence); }

  void get(const std::string& shard, const std::string& cluster, Got done) override;
  void create(const std::string& shard, const std::string& cluster, krm::Json object,
              Done done) override;
  void remove(const std::string& shard, const std::string& cluster, const std::string& uid,
              Done done) override;
  void probe(const std::string& shard, std::function<void(bool up)> done) override;

 private:
  void local(apiserver::ApiServer::WriteRequest request, Done done);
  void later(std::function<void()> function);

  net::Loop& loop_;
  apiserver::ApiServer& server_;
  std::string own_;
  std::function<bool(const std::string&)> has_left_;
  std::optional<store::Fence> fence_;
  PeerShards& peers_;
  Alive alive_;
};

}  // namespace kintsugi::controlplane
