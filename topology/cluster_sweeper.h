#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "net/work_queue.h"
#include "topology/objects.h"

namespace kintsugi::topology {

/// Deletes what the proxy stores for logical clusters that are gone (T-03), also
/// what finalizers hold: nobody can take them off any more. A cluster that moves is reported gone
/// by the one shard and there by the other in any order, so it is looked at again after a while.
/// Threads: one loop.
class ClusterSweeper {
 public:
  using Resource = std::pair<std::string, std::string>;  ///< group, plural
  /// @param exists whether a shard holds the cluster now.
  ClusterSweeper(net::Loop& loop, topology::Objects& objects, std::vector<Resource> resources,
                 std::function<bool(std::string_view cluster)> exists,
                 Duration grace = milliseconds(300));

  void cluster_gone(std::string_view cluster);

 private:
  void sweep(const std::string& cluster, const net::WorkQueue::Finished& finished);
  void remove(const std::string& cluster, const Resource& resource, krm::Json object,
              topology::Objects::Done done);

  topology::Objects& objects_;
  std::vector<Resource> resources_;
  std::function<bool(std::string_view)> exists_;
  Duration grace_;
  net::WorkQueue queue_;
};

}  // namespace kintsugi::topology
