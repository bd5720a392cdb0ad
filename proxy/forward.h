#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "http/handler.h"
#include "net/loop.h"
#include "proxy/watch_drain.h"
#include "shards/shard_client.h"

namespace kintsugi::proxy {

/// Counters of one loop; read by the admin side through Loop::post.
struct ForwardStats {
  std::uint64_t requests = 0, retries = 0, failures = 0;
  std::uint64_t bytes_up = 0, bytes_down = 0;
  std::uint64_t identity_headers_stripped = 0;
  std::uint64_t code_class[6] = {};  ///< by first digit of the status
  std::size_t streams = 0, watches = 0;
};

struct ForwardLimits {
  std::size_t body_bytes = 16U << 20;     ///< E12; not for upgrades
  std::size_t replay_bytes = 256U << 10;  ///< bodies up to this size may be sent again (R-26)
};

/// What the forwarded requests of one loop share. Outlives every stream.
struct ForwardLoop {
  explicit ForwardLoop(net::Loop& l)
      : loop(l),
        unproven(l),
        unproven_tunnels(l),
        watches(l, &unproven),
        moving(l),
        tunnels(l, &unproven_tunnels) {}
  /// Proofs have ended: streams that rest on them end in order (SE-042).
  void end_unproven() {
    unproven.end_unproven(watches);
    unproven_tunnels.end_unproven(tunnels);
  }
  net::Loop& loop;
  ForwardLimits limits;
  ForwardStats stats;
  WatchDrain unproven, unproven_tunnels;  ///< of callers who have no identity now, until they end
  WatchDrain watches;
  WatchDrain moving;  ///< watches of shards that are somewhere else now, until they end (FP-116)
  WatchDrain tunnels;
};

/// Sends one request to a shard and its answer back, with flow control both ways
/// (specs/front-proxy.md sections 11, 13).
/// @param head    complete: path, identity and forwarding headers as the shard shall see them.
/// @param stream  the client's side.
/// @param client  must live as long as the loop's snapshot names the shard; looked up again for a
/// retry.
/// @param unreachable called once when the shard did not answer. May be empty.
[[nodiscard]] std::unique_ptr<http::RequestHandler> forward(ForwardLoop& shared,
                                                            http::RequestHead head,
                                                            http::ResponseStream& stream,
                                                            shards::ShardClient& client,
                                                            std::function<void()> unreachable = {});
/// The same of a request whose body is here already, and given back to the client's window.
[[nodiscard]] std::unique_ptr<http::RequestHandler> forward_whole(ForwardLoop& shared,
                                                                  http::RequestHead head,
                                                                  http::ResponseStream& stream,
                                                                  shards::ShardClient& client,
                                                                  std::string body);

}  // namespace kintsugi::proxy
