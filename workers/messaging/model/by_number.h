#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <memory>
#include <vector>

#include "workers/messaging/model/age.h"

namespace kintsugi::workers {

/// Records of objects by their numbers, which are small and lie close together. A record never
/// moves. Memory: the records in chunks of 256, which go with their last record; 8 bytes for each
/// 256 numbers below the largest one. Cost: O(1). Threads: one at a time.
template <class Record>
class ByNumber {
 public:
  /// nullptr: there is none.
  [[nodiscard]] const Record* find(ObjectId number) const noexcept {
    const std::size_t chunk = number / kChunk, at = number % kChunk;
    return chunk < chunks_.size() && chunks_[chunk] != nullptr && chunks_[chunk]->used[at]
               ? &chunks_[chunk]->records[at]
               : nullptr;
  }
  [[nodiscard]] Record* find(ObjectId number) noexcept {
    return const_cast<Record*>(static_cast<const ByNumber*>(this)->find(number));
  }
  /// There is one.
  [[nodiscard]] const Record& at(ObjectId number) const noexcept { return *find(number); }
  /// A new one where there is none.
  Record& operator[](ObjectId number) {
    const std::size_t chunk = number / kChunk, at = number % kChunk;
    if (chunk >= chunks_.size()) {
      chunks_.resize(chunk + 1);
    }
    if (chunks_[chunk] == nullptr) {
      chunks_[chunk] = std::make_unique<Chunk>();
    }
    size_ += chunks_[chunk]->used[at] ? 0 : 1;
    chunks_[chunk]->used.set(at);
    return chunks_[chunk]->records[at];
  }
  void erase(ObjectId number) noexcept {
    Record* const found = find(number);
    if (found == nullptr) {
      return;
    }
    *found = Record();
    std::unique_ptr<Chunk>& chunk = chunks_[number / kChunk];
    chunk->used.reset(number % kChunk);
    --size_;
    if (chunk->used.none()) {
      chunk.reset();
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Whether `holds(const Record&)` of all. Cost: O(the largest number).
  template <class Holds>
  [[nodiscard]] bool all_of(Holds&& holds) const {
    for (const auto& chunk : chunks_) {
      for (std::size_t at = 0; chunk != nullptr && at < kChunk; ++at) {
        if (chunk->used[at] && !holds(chunk->records[at])) {
          return false;
        }
      }
    }
    return true;
  }
  template <class Visit>
  void each(Visit&& visit) const {
    (void)all_of([&visit](const Record& record) {
      visit(record);
      return true;
    });
  }

 private:
  static constexpr std::size_t kChunk = 256;
  struct Chunk {
    std::bitset<kChunk> used;
    std::array<Record, kChunk> records{};
  };
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::size_t size_ = 0;
};

}  // namespace kintsugi::workers
