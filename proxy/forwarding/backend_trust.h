#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace kintsugi::proxy {

/// Which servers may be sent callers' requests: none before it is known whom they take the proxy's
/// client certificate for, and never one that takes it for a user's (FP-162).
/// Threads: any.
class BackendTrust {
 public:
  /// @param open  false: nothing is forwarded before open().
  explicit BackendTrust(bool open = true) : open_(open) {}
  void open() noexcept { open_.store(true, std::memory_order_release); }
  [[nodiscard]] bool is_open() const noexcept { return open_.load(std::memory_order_acquire); }
  /// @param name  of the shard
  void set_blocked(const std::string& name, bool blocked) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (blocked) {
      blocked_.insert(name);
    } else {
      blocked_.erase(name);
    }
  }
  [[nodiscard]] bool is_blocked(std::string_view name) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return blocked_.find(name) != blocked_.end();
  }

 private:
  std::atomic<bool> open_;
  mutable std::mutex mutex_;
  std::set<std::string, std::less<>> blocked_;
};

}  // namespace kintsugi::proxy
