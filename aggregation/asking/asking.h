#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "aggregation/asking/internal/merge_stats.h"
#include "aggregation/asking/merge_params.h"
#include "aggregation/asking/route.h"
#include "aggregation/position/positions.h"
#include "base/time.h"
#include "http/handler.h"
#include "net/loop.h"
#include "serving/fair_seats.h"
#include "topology/shard_pool.h"
#include "topology/snapshot.h"

namespace kintsugi::aggregation {

/// What it takes to ask shards on one loop, and what is known of how they answer. Outlives every
/// request. Threads: its loop.
class Asking {
 public:
  Asking(net::Loop& l, topology::ShardPool& p, std::shared_ptr<topology::SnapshotView> v,
         const Positions& positions, const MergeOptions& o, const MergeParams& pa)
      : loop(l), pool(p), view(std::move(v)), options(o), params(pa), positions_(positions) {}

  net::Loop& loop;
  topology::ShardPool& pool;
  /// Connections with the proxy's own credential; null: it is not known yet, or not needed.
  topology::ShardPool* own_pool = nullptr;
  std::shared_ptr<topology::SnapshotView> view;
  /// Seats at a shard (SE-072), of which each part of a merged read has one until the shard begins
  /// to answer; empty: it needs none.
  std::function<serving::FairSeats&(const std::string& shard)> seats_of = {};
  const MergeOptions options;
  const MergeParams params;
  MergeStats stats;

  /// A shard's connections for this route; null: not known yet.
  [[nodiscard]] shards::ShardClient* client_of(const MergeRoute& route, topology::ShardId shard);
  /// Whether a read that was lost before its answer began is worth another request: once where
  /// nobody has looked at it, as after a reload; until it has surely come to another process of the
  /// shard where one answers (GR-301).
  [[nodiscard]] bool sends_again(const MergeRoute& route, topology::ShardId shard, Errc lost,
                                 unsigned repeats);
  /// A shard's own number that has no place in a cursor, or that nobody could tell from one
  /// (AGG-517). The shard is refused for a while, before it is asked.
  [[nodiscard]] bool is_too_large(topology::ShardId shard, std::uint64_t revision) {
    return revision >= kFirstSequence && has_no_place(shard);
  }
  [[nodiscard]] bool is_refused(topology::ShardId shard) const;
  /// Initial events of this shard and resource are taken by LIST for `duration` (AGG-806).
  void list_first(topology::ShardId shard, const Scope& scope, Duration duration);
  [[nodiscard]] bool lists_first(topology::ShardId shard, const Scope& scope) const;

 private:
  [[nodiscard]] bool has_no_place(topology::ShardId shard);

  const Positions& positions_;
  std::map<std::string, TimePoint, std::less<>> lists_first_;  // until then, by shard and resource
  std::map<topology::ShardId, TimePoint> refused_;             // until then
};

/// The request goes on without shards that are away (AGG-1001).
[[nodiscard]] bool asks_partial(const MergeOptions& options, const http::HeaderList& headers);

}  // namespace kintsugi::aggregation
