#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace kintsugi::workers {

/// The clusters whose objects a unit shows, and which of them it leaves to another unit. Source:
/// RT-14. What has to wait until nothing of a cluster runs waits here: settle(). Cost: O(1) per
/// call, about 100 B per cluster. No I/O, no clock. Threads: one at a time.
class ShownClusters {
 public:
  using Tell = std::function<void(const std::string& cluster)>;

  /// One object more. @returns it is the cluster's first
  bool add(std::string_view cluster) {
    Entry& entry = at(cluster);
    ++entry.objects;
    const bool shown = std::exchange(entry.shown, true);
    return !shown;
  }
  /// One object less; after the last the cluster is gone as soon as nothing of it runs.
  /// @returns something waits for settle()
  bool remove(std::string_view cluster) {
    const auto found = clusters_.find(cluster);
    if (found == clusters_.end() || found->second.objects == 0 || --found->second.objects > 0) {
      return false;
    }
    return wait(found->first, found->second);
  }
  /// No more of its keys are begun. Something waits for settle() then.
  void park(std::string_view cluster) {
    Entry& entry = at(cluster);
    entry.parked = entry.parking = true;
    (void)wait(std::string(cluster), entry);
  }
  /// @returns it was parked, so that its keys have to be looked at again.
  bool act(std::string_view cluster) {
    const auto found = clusters_.find(cluster);
    if (found == clusters_.end()) {
      return false;
    }
    found->second.parking = false;
    return std::exchange(found->second.parked, false);
  }

  /// Of each cluster that waits and of which nothing runs: `parked`, where it was told to park, and
  /// `gone`, where no object is left. These may call this object.
  void settle(const std::function<bool(std::string_view cluster)>& runs, const Tell& parked,
              const Tell& gone) {
    for (const std::string& cluster : std::exchange(waiting_, {})) {
      const auto found = clusters_.find(cluster);
      if (found == clusters_.end()) {
        continue;
      }
      if (runs(cluster)) {
        waiting_.push_back(cluster);
        continue;
      }
      found->second.waits = false;
      const bool leaves = found->second.objects == 0;
      const bool tells = std::exchange(found->second.parking, false);
      if (leaves) {
        clusters_.erase(found);
      }
      if (tells) {
        parked(cluster);
      }
      if (leaves) {
        gone(cluster);
      }
    }
  }
  [[nodiscard]] bool waits() const noexcept { return !waiting_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return clusters_.size(); }

 private:
  struct Entry {
    std::size_t objects = 0;
    bool shown = false;    // the first object was told
    bool parked = false;   // until act()
    bool parking = false;  // parked() is to be told
    bool waits = false;    // is in waiting_
  };
  Entry& at(std::string_view cluster) {
    const auto found = clusters_.find(cluster);
    return found != clusters_.end() ? found->second
                                    : clusters_.emplace(cluster, Entry{}).first->second;
  }
  bool wait(const std::string& cluster, Entry& entry) {
    if (!std::exchange(entry.waits, true)) {
      waiting_.push_back(cluster);
    }
    return true;
  }

  StringMap<Entry> clusters_;
  std::vector<std::string> waiting_;
};

}  // namespace kintsugi::workers
