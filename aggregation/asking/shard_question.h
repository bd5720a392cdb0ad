#pragma once

#include <string>
#include <string_view>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/member_call.h"
#include "aggregation/bytes/watch_coding.h"
#include "aggregation/bytes/watch_text.h"
#include "http/handler.h"
#include "net/upstream.h"

namespace kintsugi::aggregation {

/// What a merged watch asks of each of its shards, whichever way: by streams, by lists that stand
/// in for them or repair them, by probes. One path, one identity, one credential, one
/// representation. Lifetime: outlives all who ask it.
struct ShardQuestion {
  http::RequestHead head;  ///< identity, forwarding headers, Accept; its target does not count
  MergeRoute route;        ///< the path, below which URL, with whose credential
  std::string passed_on;   ///< of the query: selectors and the like; "" or "&a=b&c=d"
  StreamShape shape;       ///< decided by the first answer

  [[nodiscard]] std::string_view accept() const noexcept { return head.headers.get("accept"); }
  /// @{ What is sent to a shard.
  /// @param narrowed  in no other coding than `shape` says, which is known
  [[nodiscard]] http::RequestHead watch(const WatchStart& start, bool narrowed) const;
  /// @param query  "" or "&a=b": before what is passed on, as is `more` behind it. @param path  "":
  /// that of the route
  [[nodiscard]] http::RequestHead list(std::string_view query, std::string_view more,
                                       std::string_view path = {}) const;
  /// The first object of a list at most, in the same representation as JSON.
  [[nodiscard]] http::RequestHead probe() const;  /// @}
};

/// Who asks, as the shards are told: requests that have the same may share what comes.
[[nodiscard]] std::string asked_identity(const http::RequestHead& head);

/// Sends a request to a shard, below the URL and with the credential that the route says.
/// @param head  its target is a path and query. @return "": it is on its way, and `call` tells the
/// rest; else why it is not, for people
[[nodiscard]] std::string ask_shard(Asking& shared, const MergeRoute& route,
                                    topology::ShardId shard, net::UpstreamClass kind,
                                    http::RequestHead head, MemberCall& call);

}  // namespace kintsugi::aggregation
