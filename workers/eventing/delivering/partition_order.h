#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace kintsugi::workers {

/// Which records of one assigned partition may be begun, and how far its offset may be committed.
/// Source: docs/spec/eventing.md, DP-5. No I/O.
/// Shape: offsets rise and may have gaps (compaction, transactions): what is contiguous goes by the
/// records that came. Cost: O(1), finish() O(records under way).
class PartitionOrder {
 public:
  /// @param most  records that may be under way at a time; of an ordered one 1
  explicit PartitionOrder(std::size_t most) noexcept : most_(most) {}

  /// A record has come. One at or below the last that came (fetched again) is not taken.
  [[nodiscard]] bool take(std::int64_t offset);
  /// The next record to begin; nullopt: none waits, or enough are under way.
  [[nodiscard]] std::optional<std::int64_t> begin();
  /// What was begun has come to its end, whichever it was.
  void finish(std::int64_t offset);
  /// What is to be committed, one above the last record of which all before are finished; nullopt:
  /// nothing more than the last time.
  [[nodiscard]] std::optional<std::int64_t> take_commit();
  /// An offset that take_commit() gave is committed.
  void committed(std::int64_t offset) noexcept { committed_ = std::max(committed_, offset); }
  /// What take_commit() gave and nobody called committed: it gives that, or more, again.
  void commit_again() noexcept { asked_ = committed_; }
  [[nodiscard]] bool all_committed() const noexcept { return committed_ >= done_; }

  [[nodiscard]] std::size_t waiting() const noexcept { return records_.size() - begun_; }
  [[nodiscard]] std::size_t under_way() const noexcept { return under_way_; }

 private:
  struct Record {
    std::int64_t offset;
    bool finished;
  };
  std::size_t most_;
  std::deque<Record> records_;  // those that are begun first
  std::size_t begun_ = 0, under_way_ = 0;
  std::int64_t last_ = -1;
  std::int64_t done_ = -1, asked_ = -1, committed_ = -1;  // offsets of what comes next; -1: none
};

}  // namespace kintsugi::workers
