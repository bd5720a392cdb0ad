#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/alive.h"
#include "http/headers.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/upstream.h"
#include "shards/informer.h"
#include "workers/runtime/client/api_client.h"
#include "workers/runtime/ring/internal/ring_node.h"

namespace kintsugi::workers {

/// What a member of the ring does when its partitions change. Calls come in their order, from the
/// loop. None may destroy the driver.
struct RingCallbacks {
  /// Ours from now on: its keys are to be worked on.
  std::function<void(PartitionId)> started;
  /// Begin nothing more of it; once nothing of it runs: RingDriver::drained.
  std::function<void(PartitionId)> draining;
  /// Not ours any more: what runs is to be ended within this call.
  std::function<void(PartitionId)> stopped;
  /// Units of other shards ask this member to let go of logical clusters: parse_let_go(). All that
  /// is asked, each time that it is another text. Answer: RingDriver::let_gone.
  std::function<void(std::string_view)> asked;
  /// Another member is seen while there was none: what it gets depends on set_weights().
  std::function<void()> joined;
  /// The node has left the ring (after leave()), or will not come to it.
  std::function<void()> left;
};

/// Carries out what a RingNode decides: requests to the lease cluster, watches of its Leases and of
/// the ring's table, one timer. Source: sections 7 and 8.
/// Threads: its loop's. Lifetime: the client and the upstream outlive it.
class RingDriver {
 public:
  struct Params {
    RingNodeParams node;
    std::string cluster_path;  ///< below the client's prefix: "/clusters/<lease cluster>"
    std::string prefix;        ///< the client's, for watches
    http::HeaderList headers;  ///< of watches
    std::uint64_t seed = 1;
  };
  RingDriver(net::Loop& loop, ApiClient& api, net::Upstream& upstream, Params params,
             RingCallbacks callbacks);
  ~RingDriver();
  RingDriver(const RingDriver&) = delete;
  RingDriver& operator=(const RingDriver&) = delete;

  void start();
  void drained(PartitionId partition);
  /// What of `asked` nothing is done for any more, as let_go_text(): said on the Lease at once.
  void let_gone(std::string_view text);
  /// How many keys each partition has; not more often than every few seconds.
  void set_weights(const std::array<std::uint32_t, kRingPartitions>& weights);
  void leave();
  /// No other member's Lease is seen: nobody asks for weights.
  [[nodiscard]] bool is_alone() const noexcept { return others_.empty(); }

  [[nodiscard]] bool may_start(PartitionId partition) const noexcept {
    return node_.may_start(partition, loop_.now());
  }
  [[nodiscard]] bool may_write(PartitionId partition, std::uint32_t epoch) const noexcept {
    return node_.may_write(partition, epoch, loop_.now());
  }
  [[nodiscard]] std::uint32_t epoch(PartitionId partition) const noexcept {
    return node_.member().epoch(partition);
  }
  [[nodiscard]] const RingNode& node() const noexcept { return node_; }
  /// It has seen the ring's table with itself in it, so that what it does not own another one does.
  [[nodiscard]] bool settled() const noexcept;

 private:
  class Watcher;
  void perform(RingOutput output);
  void send(RingOp op);
  void note_lease(std::string_view name, bool there);
  [[nodiscard]] net::Task<> exchange(RingOp op);
  [[nodiscard]] std::string leases() const;
  [[nodiscard]] std::string config_maps() const;

  net::Loop& loop_;
  ApiClient& api_;
  net::Upstream& upstream_;
  Params params_;
  RingCallbacks callbacks_;
  RingNode node_;
  std::unique_ptr<Watcher> lease_watch_, ring_watch_;
  std::array<net::Job, 3> jobs_;  // by channel
  net::Timer timer_;
  std::set<std::string, std::less<>> others_;  // members' identities
  bool left_ = false;
  Alive alive_;
};

}  // namespace kintsugi::workers
