#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "auth/payer.h"
#include "base/memory_budget.h"
#include "http/handler.h"
#include "net/body_gate.h"
#include "net/loop.h"
#include "proxy/forwarding/move_holds.h"
#include "proxy/forwarding/request_tally.h"
#include "proxy/routing/access_note.h"
#include "serving/fair_seats.h"
#include "serving/process_limits.h"
#include "serving/refusals.h"
#include "serving/watch_drain.h"
#include "serving/watch_list.h"
#include "shards/shard_client.h"

namespace kintsugi::proxy {

/// Counters of one loop; read by the admin side through Loop::post.
struct ForwardStats {
  std::uint64_t requests = 0, retries = 0, failures = 0;
  std::uint64_t identity_headers_stripped = 0;
  std::size_t streams = 0, watches = 0;
  RequestTimes times;
  OverheadTimes overhead;
  TallyByServer servers;
  MoveHoldStats held;
};

struct ForwardLimits {
  std::size_t body_bytes = 16U << 20;     ///< E12; not for upgrades
  std::size_t replay_bytes = 256U << 10;  ///< bodies up to this size may be sent again (R-26)
  Duration tunnel_idle = std::chrono::hours(4);  ///< then a tunnel ends (SE-088); 0: never
  MoveHoldLimits held;
};

/// What the forwarded requests of one loop share. Outlives every stream.
struct ForwardLoop {
  /// @param budget  of the process, for what is kept of requests; null: without a bound
  /// @param process  its limits; null: there are none
  explicit ForwardLoop(net::Loop& l, std::shared_ptr<MemoryBudget> budget = nullptr,
                       std::shared_ptr<serving::ProcessLimits> process = nullptr)
      : loop(l),
        unproven(l),
        unproven_tunnels(l),
        watches(l, &unproven),
        moving(l),
        tunnels(l, &unproven_tunnels),
        memory(budget != nullptr ? std::move(budget) : std::make_shared<MemoryBudget>(0)),
        bodies(l, memory),
        process_limits(process != nullptr ? std::move(process)
                                          : std::make_shared<serving::ProcessLimits>()),
        refusals(l),
        all_seats_(process_limits->seats().total) {
    set_limits(limits);
  }
  void set_limits(const ForwardLimits& now) {
    limits = now;
    tunnels.end_when_idle(now.tunnel_idle);
    held.set_limits(now.held);
  }
  /// Proofs have ended: streams that rest on them end in order (SE-042).
  void end_unproven() {
    unproven.end_unproven(watches);
    unproven_tunnels.end_unproven(tunnels);
  }
  /// Of the running ones those that are watches, merged ones too.
  void list_watches(serving::WatchList& into) const;
  net::Loop& loop;
  ForwardLimits limits;
  ForwardStats stats;
  serving::WatchDrain unproven,
      unproven_tunnels;  ///< of callers who have no identity now, until they end
  serving::WatchDrain watches;
  serving::WatchDrain
      moving;  ///< watches of shards that are somewhere else now, until they end (FP-116)
  serving::WatchDrain tunnels;
  const std::shared_ptr<MemoryBudget> memory;
  net::BodyGate bodies;
  auth::BearerBook bearers;
  const std::shared_ptr<serving::ProcessLimits> process_limits;
  serving::Refusals refusals;
  MoveHolds held{stats.held};  ///< while logical clusters move
  /// Whose turn it is at a shard. A request has its seat until the shard begins to answer.
  [[nodiscard]] serving::FairSeats& seats_of(const std::string& shard);

 private:
  serving::SharedSeats all_seats_;
  std::map<std::string, std::unique_ptr<serving::FairSeats>> seats_;
};

/// Whom the proxy charges for a request (SE-071): who authenticated, never whom he impersonates; a
/// bearer that a shard has accepted pays for itself.
[[nodiscard]] net::BodyPayer payer_of(const ForwardLoop& shared, const http::PeerInfo& peer,
                                      const http::HeaderList& headers);

/// Sends one request to a shard and its answer back, with flow control both ways
/// . A body of up to 64 KiB goes there when it is whole, so
/// that one that never ends takes no place there (SE-075).
/// @param head    complete: path, identity and forwarding headers as the shard shall see them.
/// @param stream  the client's side.
/// @param client  must live as long as the loop's snapshot names the shard; looked up again for a
/// retry.
/// @param is_watch  it asks for a watch (krm::RequestTarget::is_watch).
/// @param unreachable called once when the shard did not answer. May be empty.
/// @param note  for the access log; null: there is none
[[nodiscard]] std::unique_ptr<http::RequestHandler> forward(
    ForwardLoop& shared, http::RequestHead&& head, http::ResponseStream& stream,
    shards::ShardClient& client, bool is_watch, std::function<void()> unreachable = {},
    std::shared_ptr<AccessNote> note = nullptr);
/// The same of a request whose body is here already, and given back to the client's window.
[[nodiscard]] std::unique_ptr<http::RequestHandler> forward_whole(ForwardLoop& shared,
                                                                  http::RequestHead&& head,
                                                                  http::ResponseStream& stream,
                                                                  shards::ShardClient& client,
                                                                  std::string body);

}  // namespace kintsugi::proxy
