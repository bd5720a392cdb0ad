#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::shards {

/// What an informer remembers of the objects it has delivered: key, revision and whether the
/// running list has named it. No objects; each entry has a small number under which its user can
/// keep one.
/// Shape: open addressing over the numbers of entries in one arena; about 17 bytes plus the key for
/// each entry, plus the hash slots (4 bytes at a load of 25-70 %). Keys up to 65,535 bytes.
/// Threads: as an int.
class KeyTable {
 public:
  /// Of an entry for as long as it is there; the next new entry may get it then. Dense from 0.
  using Id = std::uint32_t;
  static constexpr Id kNone = 0xFFFFFFFF;

  /// Adds or refreshes an entry and marks it as seen.
  /// @param revision any number that changes with the object.
  /// @param id gets the number of the entry.
  /// @returns true when the entry is new or had another revision.
  bool put(std::string_view key, std::uint64_t revision, Id* id = nullptr);
  /// False when it was absent. @param id gets the number that the entry had.
  bool erase(std::string_view key, Id* id = nullptr);
  /// Starts a list: nothing is seen yet.
  void begin_list() noexcept;
  /// Marks an entry as seen if it is there.
  void touch(std::string_view key) noexcept;
  /// Entries not seen since begin_list. O(n).
  [[nodiscard]] std::size_t unseen() const noexcept;
  /// Ends a list: takes out everything not seen since begin_list and calls `gone` for each.
  void end_list(const std::function<void(std::string_view key)>& gone);
  void end_list(const std::function<void(std::string_view key, Id id)>& gone);

  /// kNone when absent.
  [[nodiscard]] Id find(std::string_view key) const noexcept;
  /// Of an entry that is there. The view lasts until the next put or erase.
  [[nodiscard]] std::string_view key(Id id) const noexcept { return key_at(offsets_[id]); }
  [[nodiscard]] std::uint64_t revision(Id id) const noexcept;
  /// Whether there is an entry of that number.
  [[nodiscard]] bool holds(Id id) const noexcept {
    return id < offsets_.size() && offsets_[id] != kEmpty;
  }
  /// All numbers are below.
  [[nodiscard]] Id end_id() const noexcept { return static_cast<Id>(offsets_.size()); }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Heap in use [bytes].
  [[nodiscard]] std::size_t bytes() const noexcept {
    return arena_.capacity() +
           (slots_.capacity() + offsets_.capacity() + free_.capacity()) * sizeof(std::uint32_t);
  }

 private:
  static constexpr std::uint32_t kEmpty = 0xFFFFFFFF;
  static constexpr std::uint32_t kErased = 0xFFFFFFFE;
  static constexpr std::size_t kHeader = 11;  // revision 8, flags 1, key length 2
  [[nodiscard]] std::string_view key_at(std::uint32_t offset) const noexcept;
  [[nodiscard]] std::size_t find_slot(std::string_view key) const noexcept;
  void compact();
  void rehash();
  void insert_slot(Id id) noexcept;

  std::string arena_;
  std::vector<std::uint32_t> slots_;    // numbers of entries
  std::vector<std::uint32_t> offsets_;  // by number, into the arena; kEmpty: none
  std::vector<Id> free_;                // numbers without an entry
  std::size_t size_ = 0;
  std::size_t used_ = 0;     // slots that are not empty
  std::size_t garbage_ = 0;  // arena bytes of erased entries
};

}  // namespace kintsugi::shards
