#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "aggregation/position/cursor.h"
#include "aggregation/position/ring.h"
#include "base/time.h"

/// Where the readers of a group were when an event was delivered, so that a watch can be resumed at
/// an event's own resourceVersion (AGG-519). Pure.
namespace kintsugi::aggregation {

class ResumeRing {
 public:
  struct Limits {
    std::size_t least = 16'384;   ///< deliveries that are kept whatever their age
    Duration age = seconds(75);   ///< and all that are younger
    std::size_t most = 1U << 20;  ///< but no more than these
  };
  ResumeRing() = default;
  explicit ResumeRing(Limits limits) noexcept : limits_(limits) {}

  /// All readers that follow the group's log entirely are at `position` of the slot from now on,
  /// without an event that they could resume at. nullopt: the group does not follow the slot.
  void move(std::size_t slot, std::optional<std::uint64_t> position, TimePoint now);
  /// An event of the slot went to all readers that follow the log entirely.
  void deliver(std::size_t slot, std::uint64_t revision, std::uint64_t position, TimePoint now);
  /// An event went to one reader whose position is its own.
  void deliver_to(std::uint64_t revision, const Components& at, TimePoint now);

  struct Found {
    bool known = false;
    /// Component-wise the least of all positions at which the revision was delivered. A position
    /// from which nobody may resume has kBegun.
    Components components;
    /// The least of this and another finding of the same revision.
    void meet(const Found& other);
  };
  /// @param members  by slot: who is one now. Nobody may resume where others had been delivered.
  [[nodiscard]] Found find(std::uint64_t revision, const std::vector<bool>& members) const;
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  enum class Kind : std::uint8_t { kMove, kLost, kShared, kOwn };
  struct Entry {
    std::uint64_t revision = 0;
    std::uint64_t position = 0;
    TimePoint when{};
    std::uint16_t slot = 0;
    Kind kind = Kind::kMove;
  };
  using Vector = std::vector<std::optional<std::uint64_t>>;
  void add(Entry entry);
  static void apply(Vector& vector, const Entry& entry);

  Limits limits_{};
  Ring<Entry> entries_;
  Ring<Components> own_;  // of the entries kOwn, in their order
  Vector base_;           // of the log's readers before the first entry
};

}  // namespace kintsugi::aggregation
