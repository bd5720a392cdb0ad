#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/time.h"

namespace kintsugi {
class MetricFamilies;
}

namespace kintsugi::serving {

/// What is given up as memory runs short (SE-091), each with what stands above it.
enum class ShedStep : std::uint8_t {
  kNone,
  kCaches,       ///< 70 %: what the allocator keeps goes back
  kLists,        ///< 80 %: fewer lists run at once, bodies get a quarter of their bounds
  kWatches,      ///< 85 %: those end whose clients do not read
  kTenants,      ///< 90 %: tenants and strangers get 429
  kConnections,  ///< 95 %: idle ones end, if ending watches at the look before was not enough
};
inline constexpr std::size_t kShedSteps = 6;
/// "caches", …: the label `step`.
[[nodiscard]] std::string_view step_name(ShedStep step) noexcept;

/// The answer to tenants and strangers from kTenants on.
[[nodiscard]] Error memory_is_short();

/// How the memory of the process stands to its budget. One thread looks now and then, any may ask.
class MemoryPressure {
 public:
  /// @param budget  [bytes]; 0: three quarters of what the process may use, read again every 10 s
  /// @param root  prefix of /proc and /sys, for tests
  explicit MemoryPressure(std::size_t budget, std::string root = {});
  MemoryPressure(const MemoryPressure&) = delete;
  MemoryPressure& operator=(const MemoryPressure&) = delete;

  /// Reads how much the process uses (its own pages, not those of files) and what it may use, after
  /// the allocator has given back what it keeps.
  /// @returns the step now
  ShedStep look(TimePoint now);
  /// The same of what somebody else has read.
  ShedStep judge(std::size_t used, std::size_t budget) noexcept;
  /// An allocation has found no memory and taken the reserve (base/last_resort.h): for 10 s as much
  /// is given up as at kTenants, whatever the budget says. look() does so by itself (SE-183).
  ShedStep run_out(TimePoint now) noexcept;
  /// Cost: one load.
  [[nodiscard]] ShedStep step() const noexcept { return step_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t budget() const noexcept {
    return budget_.load(std::memory_order_relaxed);
  }
  /// So many requests, watches, connections were given up at this step.
  void count(ShedStep step, std::uint64_t number = 1) noexcept {
    shed_[static_cast<std::size_t>(step)].fetch_add(number, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t shed(ShedStep step) const noexcept {
    return shed_[static_cast<std::size_t>(step)].load(std::memory_order_relaxed);
  }
  /// Families of shedding (SE-094).
  void fill(MetricFamilies& out) const;

 private:
  const std::size_t said_;
  const std::string root_;
  std::atomic<ShedStep> step_ = ShedStep::kNone;
  std::atomic<std::size_t> used_ = 0, budget_;
  std::array<std::atomic<std::uint64_t>, kShedSteps> shed_{};
  TimePoint limit_read_{}, trimmed_{}, short_until_{};
  std::uint64_t shortages_;  // that are known
};

}  // namespace kintsugi::serving
