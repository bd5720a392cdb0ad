#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "proxy/reviews/shard_reviews.h"
#include "proxy/routing/local_kinds.h"

namespace kintsugi::proxy {

/// Which groups of mode `auto` the shard of a logical cluster serves itself
/// (T-01): its discovery there is asked, with the proxy's own credentials. Answers hold for 30
/// s; while none can be had the last one does. Threads: one loop.
class GroupOwners {
 public:
  struct Limits {
    Duration fresh = seconds(30), retry = seconds(1), timeout = seconds(5);
    std::size_t max_clusters = 65'536;
  };
  using Done = std::function<void(const Expected<LocalGroups>&)>;
  GroupOwners(net::Loop& loop, FindReviewTarget find, GroupModes modes);
  GroupOwners(net::Loop& loop, FindReviewTarget find, GroupModes modes, Limits limits);
  ~GroupOwners();

  /// The proxy's groups in this cluster; nullopt: ask().
  [[nodiscard]] std::optional<LocalGroups> known(std::string_view cluster) const;
  /// Calls `done` in this turn or a later one, once; known() has the answer from then on.
  /// @error kUnavailable nobody can be asked now, and nobody has answered before.
  void ask(const std::string& cluster, Done done);

 private:
  struct Entry;
  void finish(const std::string& cluster, bool failed, std::optional<Error> error);

  net::Loop& loop_;
  FindReviewTarget find_;
  GroupModes modes_;
  Limits limits_;
  StringMap<std::unique_ptr<Entry>> entries_;
};

}  // namespace kintsugi::proxy
