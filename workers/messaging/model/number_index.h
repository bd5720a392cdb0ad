#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kintsugi::workers {

/// Numbers of records by what is in these: an open-addressing table that keeps the numbers alone
/// and asks its user for the rest. Shape: 4 bytes a slot, at most 3/4 full. Cost: O(1). Threads:
/// one at a time.
class NumberIndex {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFU;

  /// @param hash  of what is looked for
  /// @param is    is(number): whether that record is it
  template <class Is>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, Is&& is) const {
    if (slots_.empty()) {
      return kNone;
    }
    std::size_t at = hash & mask();
    while (slots_[at] != kNone && !is(slots_[at])) {
      at = (at + 1) & mask();
    }
    return slots_[at];
  }
  /// @param hash_of  hash_of(number): of any record that is in it
  template <class HashOf>
  void add(std::uint64_t hash, std::uint32_t number, HashOf&& hash_of) {
    if (slots_.empty() || size_ + 1 > slots_.size() / 4 * 3) {
      std::vector<std::uint32_t> old(slots_.empty() ? kLeast : slots_.size() * 2, kNone);
      old.swap(slots_);
      for (const std::uint32_t one : old) {
        if (one != kNone) {
          put(hash_of(one), one);
        }
      }
    }
    put(hash, number);
    ++size_;
  }
  /// @param number  that is in it with this hash
  template <class HashOf>
  void remove(std::uint64_t hash, std::uint32_t number, HashOf&& hash_of) {
    std::size_t hole = hash & mask();
    while (slots_[hole] != number) {
      hole = (hole + 1) & mask();
    }
    // What stands behind the hole and could not stand before it moves up.
    for (std::size_t at = (hole + 1) & mask(); slots_[at] != kNone; at = (at + 1) & mask()) {
      const std::size_t home = hash_of(slots_[at]) & mask();
      if (((at - home) & mask()) >= ((at - hole) & mask())) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = kNone;
    --size_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::size_t kLeast = 16;
  [[nodiscard]] std::size_t mask() const noexcept { return slots_.size() - 1; }
  void put(std::uint64_t hash, std::uint32_t number) noexcept {
    std::size_t at = hash & mask();
    while (slots_[at] != kNone) {
      at = (at + 1) & mask();
    }
    slots_[at] = number;
  }

  std::vector<std::uint32_t> slots_;
  std::size_t size_ = 0;
};

}  // namespace kintsugi::workers
