#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "topology/resolver.h"

namespace kintsugi::server {

/// Paths of logical clusters for the few writes that name one: looking for one takes a pass over
/// all Workspaces, so what was found is kept, and believed as long as it leads there.
class KnownPaths {
 public:
  /// @param view  of the loop that asks.
  explicit KnownPaths(std::shared_ptr<topology::SnapshotView> view) : view_(std::move(view)) {}
  /// "root:org:team"; "" when none is known (topology::canonical_path).
  std::string operator()(std::string_view cluster) {
    const topology::Snapshot& snapshot = view_->current();
    const auto known = paths_.find(cluster);
    if (known != paths_.end() && topology::resolve(snapshot, known->second).cluster == cluster) {
      return known->second;
    }
    std::string path = topology::canonical_path(snapshot, cluster);
    if (paths_.size() >= kMost) {
      paths_.clear();
    }
    paths_.insert_or_assign(std::string(cluster), path);
    return path;
  }

 private:
  static constexpr std::size_t kMost = 1024;
  std::shared_ptr<topology::SnapshotView> view_;
  StringMap<std::string> paths_;
};

}  // namespace kintsugi::server
