#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace kintsugi::workers {

/// Room for many short texts that come and go, in steps of 8 bytes and without what an allocator
/// keeps beside each. What is given back is used again for texts of about that size, until all ends
/// with the arena. Cost: O(1). Threads: one at a time.
class TextArena {
 public:
  TextArena() = default;
  TextArena(const TextArena&) = delete;
  TextArena& operator=(const TextArena&) = delete;

  /// @param size  at least 1
  [[nodiscard]] char* take(std::size_t size) {
    if (size > kMost) {
      auto text = std::make_unique<char[]>(size);
      char* const out = text.get();
      large_.emplace(out, std::move(text));
      return out;
    }
    const std::size_t steps = (size + kStep - 1) / kStep;
    if (char* const out = free_[steps - 1]) {
      std::memcpy(&free_[steps - 1], out, sizeof(char*));
      return out;
    }
    if (left_ < steps * kStep) {
      at_ = chunks_.emplace_back(std::make_unique<char[]>(kChunk)).get();
      left_ = kChunk;
    }
    char* const out = at_;
    at_ += steps * kStep;
    left_ -= steps * kStep;
    return out;
  }
  /// @param size  as it was taken with
  void give_back(char* text, std::size_t size) noexcept {
    if (size > kMost) {
      large_.erase(text);
      return;
    }
    char*& first = free_[(size + kStep - 1) / kStep - 1];
    std::memcpy(text, &first, sizeof(char*));
    first = text;
  }

 private:
  static constexpr std::size_t kStep = 8, kMost = 320, kChunk = std::size_t{1} << 16U;
  static_assert(kStep >= sizeof(char*));
  std::vector<std::unique_ptr<char[]>> chunks_;
  std::array<char*, kMost / kStep> free_{};  // each begins with the next
  std::map<const char*, std::unique_ptr<char[]>> large_;
  char* at_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace kintsugi::workers
