#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "aggregation/position/cursor.h"
#include "base/bytes.h"
#include "base/ring.h"
#include "base/time.h"

/// What a group of merged watches has told lately: the events, for readers who are behind, and
/// where the others were meanwhile, for clients who come back (AGG-901, AGG-519, AGG-520). Pure.
namespace kintsugi::aggregation {

/// Where the readers of a group were when an event was delivered, so that a watch can be resumed at
/// an event's own resourceVersion (AGG-519). Remembers much longer than there are events.
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

/// The events, in the order in which the shards sent them. Readers go through it by index; what is
/// older than the limit is forgotten from the front.
class GroupLog {
 public:
  struct Entry {
    SharedBytes bytes;             ///< as clients get it, with its newline
    std::uint64_t revision = 0;    ///< the event's own
    std::uint64_t position = 0;    ///< component of the slot once it is delivered; never falls
    std::uint64_t offset = 0;      ///< bytes of the log before it
    std::uint32_t columns_at = 0;  ///< of a Table's columnDefinitions in `bytes`
    std::uint32_t columns_size = 0;
    std::uint16_t slot = 0;
    /// It does not raise the position: who is exactly there needs it.
    bool repeats = false;
  };
  using Index = std::uint64_t;  ///< of an event since the group began

  /// @param max_bytes  kept; the newest event is kept in any case
  explicit GroupLog(std::size_t max_bytes, ResumeRing::Limits ring = {}) noexcept
      : max_bytes_(max_bytes), ring_(ring) {}
  [[nodiscard]] ResumeRing& ring() noexcept { return ring_; }

  /// From now on every event of the slot after `position` is entered, whatever came of it before.
  void begin_slot(std::size_t slot, std::uint64_t position, TimePoint now);
  /// Only positions after `position`, where everybody is now, are served from now on; what was
  /// entered stays.
  void raise_slot(std::size_t slot, std::uint64_t position, TimePoint now);
  /// Only what comes after `position` is served from now on.
  void cut_slot(std::size_t slot, std::uint64_t position);
  /// Not every event of the slot after `from` and until `to` was entered, or will be. Who is at
  /// `from` or before it reads what makes up for them: they repeat that position.
  void close_range(std::size_t slot, std::uint64_t from, std::uint64_t to);
  /// No position of the slot is served until it begins anew.
  void end_slot(std::size_t slot) noexcept;
  /// The slot's events are no longer followed.
  void leave_slot(std::size_t slot, TimePoint now);
  /// Positions after which every event of the slot is here; nullopt: it is not followed.
  [[nodiscard]] std::optional<std::uint64_t> floor(std::size_t slot) const noexcept;
  /// Every event of the slot after `position` is here, or something that makes up for it.
  [[nodiscard]] bool serves(std::size_t slot, std::uint64_t position) const noexcept;
  /// End of the last range of the slot that is closed; 0: none is.
  [[nodiscard]] std::uint64_t closed_until(std::size_t slot) const noexcept;

  /// An event goes to all who read the log entirely. Nobody can resume at one that repeats a
  /// position.
  void append(Entry entry, TimePoint now);
  /// Forgets all events; the index and the ring go on.
  void clear() noexcept;
  [[nodiscard]] Index begin() const noexcept { return begin_; }
  [[nodiscard]] Index end() const noexcept { return begin_ + entries_.size(); }
  /// @param index  in [begin, end)
  [[nodiscard]] const Entry& at(Index index) const noexcept {
    return entries_[static_cast<std::size_t>(index - begin_)];
  }
  /// The event was entered since its slot began last.
  [[nodiscard]] bool is_current(Index index) const noexcept {
    const std::size_t slot = at(index).slot;
    return slot >= slots_.size() || index >= slots_[slot].since;
  }
  /// The first current event of the slot after `position`, or that repeats it; end() if there is
  /// none.
  [[nodiscard]] Index first_after(std::size_t slot, std::uint64_t position) const noexcept;
  [[nodiscard]] bool has_events_of(std::size_t slot) const noexcept;
  /// The place behind the last event that no position tells: who has not read so far cannot resume
  /// where it is.
  [[nodiscard]] Index repeats_until() const noexcept { return repeats_until_; }
  /// Bytes of the events from `index` on.
  [[nodiscard]] std::size_t bytes_from(Index index) const noexcept {
    return index >= end() ? 0 : static_cast<std::size_t>(end_offset_ - at(index).offset);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_from(begin_); }

 private:
  void trim();

  std::size_t max_bytes_;
  ResumeRing ring_;
  Ring<Entry> entries_;
  struct Slot {
    std::optional<std::uint64_t> floor;
    Index since = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> closed;  // ranges, both ends outside
  };
  Slot& slot_at(std::size_t slot);
  std::vector<Slot> slots_;
  Index begin_ = 0, repeats_until_ = 0;
  std::uint64_t end_offset_ = 0;
};

}  // namespace kintsugi::aggregation
