#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "http/abuse.h"

namespace kintsugi::controlplane {

/// What clients did at all loops of a shard that costs and brings nothing; each loop tells its own
/// counts now and then. Threads: any; a slot has one writer.
class AbuseTotals {
 public:
  static constexpr std::size_t kSlots = 64;
  /// A slot for one more loop; those beyond kSlots share the last one.
  [[nodiscard]] std::size_t claim() noexcept {
    return std::min(claimed_.fetch_add(1, std::memory_order_relaxed), kSlots - 1);
  }
  void put(std::size_t slot, const http::AbuseCounters& counters) noexcept {
    for (std::size_t i = 0; i < http::kAbuseKinds; ++i) {
      slots_[slot][i].store(counters.counts[i], std::memory_order_relaxed);
    }
  }
  [[nodiscard]] http::AbuseCounters sum() const noexcept {
    http::AbuseCounters out;
    for (const auto& slot : slots_) {
      for (std::size_t i = 0; i < http::kAbuseKinds; ++i) {
        out.counts[i] += slot[i].load(std::memory_order_relaxed);
      }
    }
    return out;
  }

 private:
  std::atomic<std::size_t> claimed_ = 0;
  std::array<std::array<std::atomic<std::uint64_t>, http::kAbuseKinds>, kSlots> slots_{};
};

}  // namespace kintsugi::controlplane
