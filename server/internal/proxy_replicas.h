#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/alive.h"
#include "net/loop.h"
#include "server/internal/proxy_loop.h"
#include "server/internal/replica_keeper.h"
#include "server/internal/watch_balance.h"
#include "store/store.h"

namespace kintsugi::server {

/// Tells the proxies of one store of this one and its watches, and gives some of these to others
/// that have far fewer (GR-213). Threads: the control loop's.
class ProxyReplicas {
 public:
  struct Params {
    net::Loop& loop;
    store::Store& store;
    Replica own = {};
    bool balances = false;               ///< gives watches away
    std::vector<ProxyLoop*> loops = {};  ///< outlive it
    std::function<bool()> ready = {};    ///< takes requests
    std::function<void()> settled = {};  ///< ReplicaKeeper's
  };
  explicit ProxyReplicas(Params params);
  ProxyReplicas(const ProxyReplicas&) = delete;
  ProxyReplicas& operator=(const ProxyReplicas&) = delete;

 private:
  /// Each second.
  void look();
  void counted();
  void log(bool was_ending, std::size_t own) const;

  Params params_;
  ReplicaKeeper keeper_;
  WatchBalance balance_;
  std::vector<std::size_t> open_;   ///< by loop
  std::vector<std::size_t> going_;  ///< the same, in the next second
  std::size_t missing_ = 0;         ///< loops that have not answered
  net::Timer timer_;
  Alive alive_;
};

}  // namespace kintsugi::server
