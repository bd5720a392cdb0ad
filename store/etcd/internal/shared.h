#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "store/etcd/etcd_store.h"
#include "store/store.h"

namespace kintsugi::store::etcd {

/// What readers on any thread and the one that talks to etcd share.
struct Shared {
  std::atomic<Revision> position{0};  ///< everything up to it is in the mirror, and published
  std::atomic<std::int64_t> confirmed_at{0};  ///< steady clock [ns]: the position was etcd's newest
  std::atomic<bool> is_full{false};           ///< etcd is out of space
  std::atomic<bool> is_ended{false};          ///< etcd was restored to an older state
  std::atomic<std::size_t> queued{0}, queued_bytes{0};
  std::atomic<std::uint64_t> commits{0}, conflicts{0};
  std::atomic<std::uint64_t> watches{0}, resyncs{0}, head_reads{0}, barriers{0},
      progress_requests{0}, unknown{0}, resolved{0}, durable_unseen{0}, foreign_keys{0};
  // Of the mirror's queue.
  std::atomic<std::size_t> mirror_bytes{0}, mirror_transactions{0};
  std::atomic<Revision> mirror_published{0};
  std::atomic<bool> mirror_posted{false};
  std::atomic<bool> mirror_torn{false};  ///< it has refused something, and all behind that
  /// The mirror was or is told a difference up to it, not what was between: history below is gone.
  std::atomic<Revision> lost_before{0};
  /// The mirror is between what it was at `position` and what it will be at `lost_before`.
  std::atomic<bool> is_comparing{false};

  /// Rows that cannot be read (GR-105). Readers look at the count first.
  std::atomic<std::size_t> corrupt_count{0};
  mutable std::mutex corrupt_mutex;
  std::set<std::string, std::less<>> corrupt;

  [[nodiscard]] bool is_corrupt(std::string_view key) const {
    if (corrupt_count.load(std::memory_order_acquire) == 0) {
      return false;
    }
    const std::lock_guard lock(corrupt_mutex);
    return corrupt.find(key) != corrupt.end();
  }
  void set_corrupt(const std::string& key, bool is) {
    if (!is && corrupt_count.load(std::memory_order_acquire) == 0) {
      return;
    }
    const std::lock_guard lock(corrupt_mutex);
    if (is) {
      corrupt.insert(key);
    } else {
      corrupt.erase(key);
    }
    corrupt_count.store(corrupt.size(), std::memory_order_release);
  }
};

}  // namespace kintsugi::store::etcd
