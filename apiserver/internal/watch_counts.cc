#include "apiserver/internal/server_impl.h"
#include "apiserver/open_watches.h"

namespace kintsugi::apiserver {

void WatchCounts::begun(const std::string& cluster) {
  const std::lock_guard lock(mutex_);
  ++counts_[cluster];
}

void WatchCounts::ended(const std::string& cluster) noexcept {
  const std::lock_guard lock(mutex_);
  if (const auto known = counts_.find(cluster); known != counts_.end() && --known->second == 0) {
    counts_.erase(known);
  }
}

std::size_t WatchCounts::of(std::string_view cluster) const {
  const std::lock_guard lock(mutex_);
  const auto known = counts_.find(cluster);
  return known == counts_.end() ? 0 : known->second;
}

void count_watches(ApiServer& server, std::shared_ptr<WatchCounts> counts) {
  static_cast<internal::Server&>(server).set_watch_counts(std::move(counts));
}

}  // namespace kintsugi::apiserver
