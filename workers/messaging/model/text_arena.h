#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace kintsugi::workers {

/// Room for many short texts that come and go, in steps of 4 bytes, each known by a number of 4
/// bytes, and without what an allocator keeps beside each. What is given back is used again for
/// texts of about that size, until all ends with the arena. Limits: texts of 65,535 bytes, 16 GiB
/// of all. Cost: O(1). Threads: one at a time.
class TextArena {
 public:
  using Place = std::uint32_t;
  static constexpr Place kNone = 0xFFFFFFFFU;

  TextArena() { free_.fill(kNone); }
  TextArena(const TextArena&) = delete;
  TextArena& operator=(const TextArena&) = delete;

  /// A copy of it. Its length is the caller's to know.
  [[nodiscard]] Place put(std::string_view text) {
    const Place out = take(text.size());
    text.copy(at(out), text.size());
    return out;
  }
  [[nodiscard]] std::string_view text(Place place, std::size_t size) const noexcept {
    return {chunks_[place / kSteps].get() + place % kSteps * kStep, size};
  }
  /// @param size  of the text
  void give_back(Place place, std::size_t size) noexcept {
    if (size > kMost) {
      chunks_[place / kSteps].reset();
      free_chunks_.push_back(place / kSteps);
      return;
    }
    Place& first = free_[steps_of(size) - 1];
    std::memcpy(at(place), &first, sizeof(Place));
    first = place;
  }

 private:
  static constexpr std::size_t kStep = 4, kMost = 320, kSteps = std::size_t{1} << 14U;
  static_assert(kStep >= sizeof(Place));

  [[nodiscard]] static std::size_t steps_of(std::size_t size) noexcept {
    return size == 0 ? 1 : (size + kStep - 1) / kStep;
  }
  [[nodiscard]] char* at(Place place) noexcept {
    return chunks_[place / kSteps].get() + place % kSteps * kStep;
  }
  /// The first step of a new chunk.
  [[nodiscard]] Place add_chunk(std::size_t bytes) {
    std::size_t number = chunks_.size();
    if (free_chunks_.empty()) {
      chunks_.emplace_back();
      free_chunks_.reserve(chunks_.size());  // give_back() may not fail
    } else {
      number = free_chunks_.back();
      free_chunks_.pop_back();
    }
    chunks_[number] = std::make_unique<char[]>(bytes);
    return static_cast<Place>(number * kSteps);
  }
  [[nodiscard]] Place take(std::size_t size) {
    if (size > kMost) {
      return add_chunk(size);
    }
    const std::size_t steps = steps_of(size);
    Place& first = free_[steps - 1];
    if (first != kNone) {
      const Place out = first;
      std::memcpy(&first, at(out), sizeof(Place));
      return out;
    }
    if (left_ < steps) {
      next_ = add_chunk(kSteps * kStep);
      left_ = kSteps;
    }
    const Place out = next_;
    next_ += static_cast<Place>(steps);
    left_ -= steps;
    return out;
  }

  std::vector<std::unique_ptr<char[]>> chunks_;
  std::vector<std::size_t> free_chunks_;     // of long texts, one each
  std::array<Place, kMost / kStep> free_{};  // each begins with the next
  Place next_ = 0;
  std::size_t left_ = 0;
};

}  // namespace kintsugi::workers
