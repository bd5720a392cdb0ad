#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::shards {

/// What an informer remembers of the objects it has delivered: key, revision and whether the
/// running list has named it. No objects.
/// Shape: open addressing over 32-bit offsets into one arena; about 13 bytes plus the key for each
/// entry, plus the hash slots (4 bytes at a load of 25-70 %). Keys up to 65,535 bytes.
/// Threads: as an int.
class KeyTable {
 public:
  /// Adds or refreshes an entry and marks it as seen.
  /// @param revision any number that changes with the object.
  /// @returns true when the entry is new or had another revision.
  bool put(std::string_view key, std::uint64_t revision);
  /// False when it was absent.
  bool erase(std::string_view key);
  /// Starts a list: nothing is seen yet.
  void begin_list() noexcept;
  /// Ends a list: takes out everything not seen since begin_list and calls `gone` for each.
  void end_list(const std::function<void(std::string_view key)>& gone);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Heap in use [bytes].
  [[nodiscard]] std::size_t bytes() const noexcept {
    return arena_.capacity() + slots_.capacity() * sizeof(std::uint32_t);
  }

 private:
  static constexpr std::uint32_t kEmpty = 0xFFFFFFFF;
  static constexpr std::uint32_t kErased = 0xFFFFFFFE;
  static constexpr std::size_t kHeader = 11;  // revision 8, flags 1, key length 2
  [[nodiscard]] std::string_view key_at(std::uint32_t offset) const noexcept;
  [[nodiscard]] std::size_t find_slot(std::string_view key) const noexcept;
  void rebuild(std::size_t slots);
  void insert_slot(std::uint32_t offset) noexcept;

  std::string arena_;
  std::vector<std::uint32_t> slots_;
  std::size_t size_ = 0;
  std::size_t used_ = 0;     // slots that are not empty
  std::size_t garbage_ = 0;  // arena bytes of erased entries
};

}  // namespace kintsugi::shards
