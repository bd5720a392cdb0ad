#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "shards/informer.h"

namespace kintsugi::workers {

/// Which objects of a cache are of one cluster: a list for each. Cost: 8 bytes an object, about
/// 80 bytes and the name a cluster; O(1) per call. Threads: as an int.
class ClusterLists {
 public:
  using Id = shards::KeyTable::Id;

  /// @param id  in no list
  void add(std::string_view cluster, Id id) {
    if (id >= links_.size()) {
      links_.resize(id + 1);
    }
    const auto head = heads_.find(cluster);
    links_[id] = {head == heads_.end() ? kNone : head->second, kNone};
    if (head == heads_.end()) {
      heads_.emplace(cluster, id);
      return;
    }
    links_[head->second].previous = id;
    head->second = id;
  }
  /// @param id  in the list of that cluster
  void remove(std::string_view cluster, Id id) {
    const Links gone = links_[id];
    if (gone.next != kNone) {
      links_[gone.next].previous = gone.previous;
    }
    if (gone.previous != kNone) {
      links_[gone.previous].next = gone.next;
    } else if (const auto head = heads_.find(cluster); gone.next != kNone) {
      head->second = gone.next;
    } else {
      heads_.erase(head);
    }
  }
  /// Some object of that cluster; nullopt: there is none.
  [[nodiscard]] std::optional<Id> any(std::string_view cluster) const {
    const auto head = heads_.find(cluster);
    return head == heads_.end() ? std::nullopt : std::optional(head->second);
  }
  [[nodiscard]] std::size_t clusters() const noexcept { return heads_.size(); }
  /// Heap in use but for names of clusters [bytes].
  [[nodiscard]] std::size_t bytes() const noexcept { return links_.capacity() * sizeof(Links); }

 private:
  static constexpr Id kNone = shards::KeyTable::kNone;
  struct Links {
    Id next = kNone, previous = kNone;
  };
  std::vector<Links> links_;  // by number of the object
  StringMap<Id> heads_;
};

}  // namespace kintsugi::workers
