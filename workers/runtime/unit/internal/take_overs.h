#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/upstream.h"
#include "workers/runtime/client/api_client.h"
#include "workers/runtime/ring/let_go.h"

namespace kintsugi::workers {

/// Logical clusters that came to a unit from other shards: asks the workers of that shard to let
/// go of them, on their Leases, and waits for it; LetGoFsm has the rules. The Leases are looked for
/// in the same lease clusters that every unit has. Source: RT-14. Threads: the loop's.
class TakeOvers {
 public:
  struct Params {
    std::string role;
    std::vector<std::string> lease_clusters;
    Duration duration = seconds(15);  ///< of Leases
  };
  /// @param client  paths from the server's root. Outlives this
  TakeOvers(net::Loop& loop, ApiClient& client, Params params)
      : loop_(loop), client_(client), params_(std::move(params)) {}
  TakeOvers(const TakeOvers&) = delete;
  TakeOvers& operator=(const TakeOvers&) = delete;

  /// Whether nobody at `shard` acts for the cluster any more. The first call asks; call again.
  /// @param epoch  of who had it there: one that comes again is asked for again
  [[nodiscard]] bool is_free(const std::string& cluster, const std::string& shard,
                             std::int64_t epoch);
  /// The cluster is not shown any more.
  void forget(std::string_view cluster);

 private:
  struct Asking {
    bool done = false;
    net::Job job;
  };
  [[nodiscard]] net::Task<> ask(std::string cluster, std::string shard, Asking* of);
  [[nodiscard]] net::Task<std::string> find_leases(std::string shard);

  net::Loop& loop_;
  ApiClient& client_;
  Params params_;
  std::map<std::string, Asking, std::less<>> asked_;  // by "<cluster>|<shard>|<epoch>"
};

}  // namespace kintsugi::workers
