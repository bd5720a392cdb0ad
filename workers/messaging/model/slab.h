#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace kintsugi::workers {

inline constexpr std::uint32_t kNoIndex = 0xFFFFFFFFU;

/// Records by small numbers that are used again; a record never moves. Memory: the records in
/// chunks of 512, so that no growth copies or wastes half. Cost: O(1).
template <class Record>
class Slab {
 public:
  [[nodiscard]] std::uint32_t add() {
    ++size_;
    if (!free_.empty()) {
      const std::uint32_t index = free_.back();
      free_.pop_back();
      return index;
    }
    if (end_ % kChunk == 0) {
      chunks_.push_back(std::make_unique<Record[]>(kChunk));
    }
    return end_++;
  }
  void drop(std::uint32_t index) {
    (*this)[index] = Record();
    free_.push_back(index);
    --size_;
  }
  [[nodiscard]] Record& operator[](std::uint32_t index) noexcept {
    return chunks_[index / kChunk][index % kChunk];
  }
  [[nodiscard]] const Record& operator[](std::uint32_t index) const noexcept {
    return chunks_[index / kChunk][index % kChunk];
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// One more than the largest number ever given.
  [[nodiscard]] std::uint32_t end() const noexcept { return end_; }

 private:
  static constexpr std::uint32_t kChunk = 512;
  std::vector<std::unique_ptr<Record[]>> chunks_;
  std::vector<std::uint32_t> free_;
  std::uint32_t end_ = 0;
  std::size_t size_ = 0;
};

}  // namespace kintsugi::workers
