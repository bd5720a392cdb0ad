#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/server.h"
#include "base/alive.h"
#include "base/error.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::controlplane {

/// What a shard says about itself in root.
struct ShardSelf {
  std::string name;
  std::string base_url;      ///< where proxies and shards connect
  std::string external_url;  ///< what users see: the proxy's
  std::map<std::string, std::string> labels;
  std::string services_url = {};  ///< of virtual workspaces; "": base_url
  /// Of the duty in which the root shard writes its own.
  std::optional<store::Fence> fence = {};
  std::vector<std::string> replica_urls = {};  ///< of the processes beside this one
};

/// The Shard object as it should be: URLs of `self`, annotation of its other processes, label
/// `name`, other labels only where they are absent, so that what users set survives. nullopt:
/// nothing to write.
/// @param present null when there is none yet.
[[nodiscard]] std::optional<krm::Json> wanted_shard(const ShardSelf& self,
                                                    const krm::Json* present);

/// Keeps the shard's own Shard object in root: at start, whenever the root shard is found anew, and
/// again until it works. Threads: one loop.
class ShardRegistration {
 public:
  /// @param server of the root shard, null elsewhere.
  /// @param root connection to the root shard, null while unknown; not asked when `server` is set.
  ShardRegistration(net::Loop& loop, ShardSelf self, apiserver::ApiServer* server,
                    std::function<net::Upstream*()> root);
  /// Starts, or starts again.
  void kick();
  /// Told to root, too, once it has been started.
  void set_replicas(std::vector<std::string> urls);
  [[nodiscard]] bool registered() const noexcept { return registered_; }
  /// Nobody needs to wait any longer: root knows the shard, or has not answered for a while.
  [[nodiscard]] bool settled() const noexcept;
  void stop();

 private:
  void attempt();
  void attempt_local();
  void attempt_remote();
  void write_remote(std::optional<krm::Json> present);
  void finish(bool ok, std::string_view cause);

  net::Loop& loop_;
  ShardSelf self_;
  apiserver::ApiServer* server_;
  std::function<net::Upstream*()> root_;
  net::Timer timer_;
  std::shared_ptr<net::Call> call_;
  Alive alive_;
  unsigned failures_ = 0;
  TimePoint begun_;
  bool registered_ = false, started_ = false;
};

}  // namespace kintsugi::controlplane
