#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace kintsugi {

/// A bounded queue between two threads without a lock. Threads: one pushes, one pops.
template <typename T>
class SpscRing {
 public:
  /// @param capacity  [items], at least 1
  explicit SpscRing(std::size_t capacity) : items_(capacity + 1) {}
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  /// @return false: it is full, and `item` is not in it.
  [[nodiscard]] bool push(T item) noexcept {
    const std::size_t at = end_.load(std::memory_order_relaxed);
    const std::size_t next = after(at);
    if (next == begin_.load(std::memory_order_acquire)) {
      return false;
    }
    items_[at] = std::move(item);
    end_.store(next, std::memory_order_release);
    return true;
  }
  /// nullopt: it is empty.
  [[nodiscard]] std::optional<T> pop() noexcept {
    const std::size_t at = begin_.load(std::memory_order_relaxed);
    if (at == end_.load(std::memory_order_acquire)) {
      return std::nullopt;
    }
    std::optional<T> out(std::exchange(items_[at], T()));
    begin_.store(after(at), std::memory_order_release);
    return out;
  }

 private:
  [[nodiscard]] std::size_t after(std::size_t at) const noexcept {
    return at + 1 == items_.size() ? 0 : at + 1;
  }

  static constexpr std::size_t kCacheLine = 64;
  std::vector<T> items_;  // one of them is always free
  alignas(kCacheLine) std::atomic<std::size_t> begin_ = 0;
  alignas(kCacheLine) std::atomic<std::size_t> end_ = 0;
};

}  // namespace kintsugi
