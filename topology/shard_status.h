#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "net/loop.h"
#include "topology/conditions.h"
#include "topology/feed.h"
#include "topology/objects.h"

namespace kintsugi::topology {

/// Ready and Synced of a Shard as its status says them (T-05).
[[nodiscard]] std::vector<Condition> shard_conditions(const Feed::ShardStatus& shard);

/// Writes the conditions of Shards that the proxy stores (source `objects`), when their status or
/// reason changes and only then: the message is that of the change. Looks several times a second.
/// Threads: the control loop's.
class ShardStatusKeeper {
 public:
  ShardStatusKeeper(net::Loop& loop, Objects& objects,
                    std::function<std::vector<Feed::ShardStatus>()> shards);
  /// Looks now.
  void look();
  [[nodiscard]] std::uint64_t writes() const noexcept { return writes_; }

 private:
  void write(const std::string& name, std::vector<Condition> wanted, std::string said);

  Objects& objects_;
  std::function<std::vector<Feed::ShardStatus>()> shards_;
  std::map<std::string, std::string> said_;  ///< by Shard: what was written last
  std::uint64_t writes_ = 0;
  net::Timer timer_;
};

}  // namespace kintsugi::topology
