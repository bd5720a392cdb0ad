#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "workers/runtime/queue/internal/queue_key.h"
#include "workers/runtime/queue/internal/scope_table.h"
#include "workers/runtime/queue/internal/text_slab.h"

namespace kintsugi::workers {

/// What a queue knows of one key. 32 bytes.
struct QueueEntry {
  std::uint64_t when = 0;   ///< ready or dirty: since when [ns]; in the wheel: due [ticks]
  std::uint32_t hash = 0;   ///< of the whole key
  std::uint32_t scope = 0;  ///< ScopeTable
  std::uint32_t name = 0;   ///< TextSlab
  std::uint32_t next = 0;   ///< EntryLists
  std::uint32_t prev = 0;
  std::uint8_t name_length = 0;
  std::uint8_t failures = 0;  ///< errors in a row
  std::uint8_t level = 0;     ///< 0 the lowest
  std::uint8_t flags = 0;
};
static_assert(sizeof(QueueEntry) == 32);

/// The keys of a queue by text: entries in chunks that do not move, and an index with 4-byte slots
/// that hold an entry's number and the rest of the word in bits of its hash. Cost per key beyond
/// texts: 32 bytes, a slot of 5.3 to 10.7 bytes, 0 to 7 of rounding, and its share of the scope.
/// Threads: one at a time.
class EntryTable {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNone = ~Id{0};
  static constexpr std::size_t kMaxName = 255;

  /// @param seed  of the hash; keys are chosen by clients, so it should be random.
  explicit EntryTable(std::uint64_t seed) noexcept : scopes_(seed) {}

  [[nodiscard]] static bool fits(const QueueKey& key) noexcept {
    return key.cluster.size() <= ScopeTable::kMaxText && key.ns.size() <= ScopeTable::kMaxText &&
           key.name.size() <= kMaxName;
  }
  struct Found {
    Id id;
    bool is_new;  ///< all else of the entry has its initial value
  };
  /// The key's entry, made when there is none. @param key  one that fits.
  [[nodiscard]] Found find_or_make(const QueueKey& key);
  /// kNone when there is none.
  [[nodiscard]] Id find(const QueueKey& key) const noexcept;
  void erase(Id id) noexcept;

  [[nodiscard]] QueueEntry& operator[](Id id) noexcept {
    return chunks_[id / kChunkEntries][id % kChunkEntries];
  }
  [[nodiscard]] const QueueEntry& operator[](Id id) const noexcept {
    return chunks_[id / kChunkEntries][id % kChunkEntries];
  }
  /// Its texts live as long as the entry.
  [[nodiscard]] QueueKey key(Id id) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  static constexpr std::uint32_t kChunkEntries = 512;
  static constexpr std::size_t kKeptEntries = 4 * kChunkEntries;  // when nothing is left
  static constexpr unsigned kFirstBits = 6;

  struct Place {
    std::size_t slot;
    Id id;  // kNone: the slot is free
  };
  struct Hashes {
    std::uint64_t scope;
    std::uint32_t whole;
  };
  [[nodiscard]] Hashes hashes_of(const QueueKey& key) const noexcept;
  [[nodiscard]] Place locate(const QueueKey& key, std::uint32_t hash) const noexcept;
  [[nodiscard]] std::size_t home(std::uint32_t hash) const noexcept {
    return hash >> (32U - bits_);
  }
  [[nodiscard]] std::uint32_t slot_of(Id id, std::uint32_t hash) const noexcept {
    return (hash << bits_) | (id + 1);
  }
  [[nodiscard]] Id id_in(std::uint32_t slot) const noexcept {
    return (slot & ((1U << bits_) - 1)) - 1;
  }
  [[nodiscard]] std::size_t mask() const noexcept { return slots_.size() - 1; }
  void grow();

  ScopeTable scopes_;
  TextSlab texts_;
  std::vector<std::unique_ptr<QueueEntry[]>> chunks_;
  std::vector<std::uint32_t> slots_;  // 0: free; linear probing, at most 3/4 full
  unsigned bits_ = 0;                 // 2^bits_ slots; entry numbers stay below 3/4 of that
  std::size_t size_ = 0;
  Id used_ = 0;      // entries ever handed out
  Id free_ = kNone;  // linked by `next`
};

}  // namespace kintsugi::workers
