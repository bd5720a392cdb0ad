#pragma once

#include <cstdint>
#include <vector>

#include "workers/runtime/queue/internal/entry_table.h"

namespace kintsugi::workers {

/// First-in, first-out lists through the entries of a table. An entry stands in one list at most;
/// which one is told by the ends of that list, so that an entry needs no room for it. Cost: all
/// O(1), 8 bytes a list.
class EntryLists {
 public:
  using Id = EntryTable::Id;

  EntryLists(EntryTable& table, std::size_t lists) : table_(table), ends_(lists) {}

  [[nodiscard]] bool empty(std::uint32_t list) const noexcept {
    return ends_[list].first == EntryTable::kNone;
  }
  [[nodiscard]] Id front(std::uint32_t list) const noexcept { return ends_[list].first; }

  void push_back(std::uint32_t list, Id id) noexcept {
    QueueEntry& entry = table_[id];
    Ends& ends = ends_[list];
    entry.next = kEnd | list;
    entry.prev = kEnd | list;
    if (ends.last != EntryTable::kNone) {
      table_[ends.last].next = id;
      entry.prev = ends.last;
    } else {
      ends.first = id;
    }
    ends.last = id;
  }

  void remove(Id id) noexcept {
    const QueueEntry& entry = table_[id];
    const bool is_first = (entry.prev & kEnd) != 0;
    const bool is_last = (entry.next & kEnd) != 0;
    if (is_first) {
      ends_[entry.prev & ~kEnd].first = is_last ? EntryTable::kNone : entry.next;
    } else {
      table_[entry.prev].next = entry.next;
    }
    if (is_last) {
      ends_[entry.next & ~kEnd].last = is_first ? EntryTable::kNone : entry.prev;
    } else {
      table_[entry.next].prev = entry.prev;
    }
  }

  /// All of a list as a row linked by `next`, kNone at its end; the list is empty then.
  [[nodiscard]] Id take_all(std::uint32_t list) noexcept {
    const Id first = ends_[list].first;
    if (first != EntryTable::kNone) {
      table_[ends_[list].last].next = EntryTable::kNone;
      ends_[list] = Ends{};
    }
    return first;
  }

 private:
  static constexpr std::uint32_t kEnd = 1U << 31U;  // the rest is the list's number
  struct Ends {
    Id first = EntryTable::kNone;
    Id last = EntryTable::kNone;
  };

  EntryTable& table_;
  std::vector<Ends> ends_;
};

}  // namespace kintsugi::workers
