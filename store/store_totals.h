#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace kintsugi {
class MetricFamilies;
}

namespace kintsugi::store {

/// What the stores of the process have written: groups of transactions that went to the disk at
/// once. Threads: any.
class StoreTotals {
 public:
  /// A group is on the disk. @param took  from the commit on until then.
  void committed(std::size_t transactions, Duration took) noexcept;
  /// Nothing of a group was written: disk full, fault of the disk.
  void failed() noexcept { failures_.fetch_add(1, std::memory_order_relaxed); }
  /// The families kintsugi_store_….
  void fill(MetricFamilies& out) const;

 private:
  /// As etcd has them for etcd_disk_backend_commit_duration_seconds, and two below [s].
  static constexpr std::array<double, 16> kTimes = {0.0001, 0.0005, 0.001, 0.002, 0.004, 0.008,
                                                    0.016,  0.032,  0.064, 0.128, 0.256, 0.512,
                                                    1.024,  2.048,  4.096, 8.192};
  static constexpr std::array<double, 10> kSizes = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

  std::array<std::atomic<std::uint64_t>, kTimes.size() + 1> times_{};
  std::array<std::atomic<std::uint64_t>, kSizes.size() + 1> sizes_{};
  std::atomic<std::uint64_t> nanoseconds_{0}, transactions_{0}, failures_{0};
};
[[nodiscard]] StoreTotals& store_totals() noexcept;

}  // namespace kintsugi::store
