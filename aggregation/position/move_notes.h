#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "aggregation/position/internal/move_book.h"
#include "aggregation/position/positions.h"
#include "topology/snapshot.h"

namespace kintsugi::aggregation {

/// The process's MoveBook, as streams of one loop ask it: by shard rather than by UID. Threads: its
/// loop.
class MoveNotes {
 public:
  /// Both outlive it.
  MoveNotes(const Positions& positions, const topology::SnapshotView& view)
      : positions_(positions), view_(view) {}

  /// @{ Streams of the scope that the shard was asked for before this revision lack what came to
  /// it with a logical cluster (T110); 0: nothing did, as far as is known here.
  void note_arrival(topology::ShardId shard, const Scope& scope, const std::string& cluster,
                    std::uint64_t revision) const;
  [[nodiscard]] std::uint64_t arrival(std::size_t slot, const Scope& scope) const;  /// @}
  /// @{ Logical clusters of which nobody was told what the shard has in the scope, as it did not
  /// own them, and the last revision of that: until they arrive there.
  void leave_out(topology::ShardId shard, const Scope& scope, const std::string& cluster,
                 std::uint64_t revision) const;
  [[nodiscard]] MoveBook::LeftOut left_out(topology::ShardId shard,
                                           const Scope& scope) const;  /// @}

 private:
  const Positions& positions_;
  const topology::SnapshotView& view_;
};

}  // namespace kintsugi::aggregation
