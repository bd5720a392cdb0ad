#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "proxy/merge/json_split.h"
#include "proxy/merge/merge_loop.h"
#include "proxy/merge/shard_pages.h"

namespace kintsugi::proxy {

/// Logical clusters that two shards show, as one of them is being moved (specs/aggregation.md 11):
/// only what the owner says of it counts. When the owner changes to a shard whose events of the
/// cluster were left out, the cluster is listed there, and its objects are told as ADDED; no client
/// sees the other shard's deletions. Of one group. Threads: its loop.
class ClusterMoves {
 public:
  struct Object {
    std::uint64_t revision = 0;
    std::string event;  ///< ADDED, without a separator
  };
  /// All objects of a cluster that has moved to the shard of this slot.
  using Arrived = std::function<void(std::size_t slot, const std::vector<Object>& objects)>;

  /// @param head  as the group asks; like `route`, `passed_on` and `shape` it has to outlive this.
  ClusterMoves(MergeLoop& shared, const http::RequestHead& head, const MergeRoute& route,
               const std::string& passed_on, StreamShape& shape, Arrived arrived);
  ~ClusterMoves();

  /// The event is not the owner's, or is older than what was told at the move: nobody gets it.
  [[nodiscard]] bool leaves_out(const Member& member, const ObjectFacts& facts);
  /// Owners may have changed.
  void follow(const std::vector<Member>& members);
  /// The slot is not followed any more.
  void forget(std::size_t slot);

 private:
  class Listing;
  struct Left {
    std::uint64_t latest = 0;  ///< revision of what was left out
    std::uint64_t told = 0;    ///< revision of the list that was told; 0: none yet
    std::shared_ptr<Listing> listing;
  };
  using Key = std::pair<std::size_t, std::string>;  // slot, cluster
  void list(const Key& key, const Member& member, Left& left);
  void on_listed(const Key& key, const Member& member, bool complete);

  MergeLoop& shared_;
  const http::RequestHead& head_;
  const MergeRoute& route_;
  const std::string& passed_on_;
  StreamShape& shape_;
  Arrived arrived_;
  std::map<Key, Left> left_;
};

}  // namespace kintsugi::proxy
