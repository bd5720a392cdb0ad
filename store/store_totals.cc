#include "store/store_totals.h"

#include <algorithm>

#include "base/metric_families.h"

namespace kintsugi::store {
namespace {

/// Counts a value in the class of the first bound that is not below it.
template <class Bounds, class Counts>
void count(const Bounds& bounds, Counts& counts, double value) noexcept {
  const auto bound = std::lower_bound(bounds.begin(), bounds.end(), value);
  counts[static_cast<std::size_t>(bound - bounds.begin())].fetch_add(1, std::memory_order_relaxed);
}

template <class Counts>
auto read(const Counts& counts) {
  std::array<std::uint64_t, std::tuple_size_v<Counts>> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = counts[i].load(std::memory_order_relaxed);
  }
  return out;
}

}  // namespace

StoreTotals& store_totals() noexcept {
  static StoreTotals totals;
  return totals;
}

void StoreTotals::committed(std::size_t transactions, Duration took) noexcept {
  count(kTimes, times_, std::chrono::duration<double>(took).count());
  count(kSizes, sizes_, static_cast<double>(transactions));
  nanoseconds_.fetch_add(static_cast<std::uint64_t>(std::max<std::int64_t>(took.count(), 0)),
                         std::memory_order_relaxed);
  transactions_.fetch_add(transactions, std::memory_order_relaxed);
}

void StoreTotals::fill(MetricFamilies& out) const {
  const std::uint64_t transactions = transactions_.load(std::memory_order_relaxed);
  out.histogram(
      "kintsugi_store_commit_duration_seconds",
      "until transactions were on the disk: a group of them at once, or one that etcd has");
  out.sample({},
             buckets_of(kTimes, read(times_),
                        static_cast<double>(nanoseconds_.load(std::memory_order_relaxed)) / 1e9));
  out.histogram("kintsugi_store_batch_size", "transactions that went to the disk at once");
  out.sample({}, buckets_of(kSizes, read(sizes_), static_cast<double>(transactions)));
  out.counter("kintsugi_store_commits_total", "transactions that are on the disk", transactions);
  out.counter("kintsugi_store_commit_failures_total",
              "groups of transactions of which nothing was written",
              failures_.load(std::memory_order_relaxed));
}

}  // namespace kintsugi::store
