#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::net {

/// How many requests a logical cluster's objects may cause, for all loops of a process
/// (SE-107). Threads: any.
class OutgoingBudget {
 public:
  struct Limits {
    std::size_t at_once = 8;           ///< per cluster
    double per_second = 20;            ///< per cluster; so many at once after a rest
    std::uint32_t failures = 5;        ///< of one server in a row, then it is left alone
    Duration pause = seconds(30);      ///< for so long
    std::size_t max_clusters = 4'096;  ///< that are remembered
  };
  enum class Grant : std::uint8_t {
    kGo,      ///< give_back() is due
    kWait,    ///< ask again
    kPaused,  ///< this server is left alone now
  };
  OutgoingBudget() = default;
  explicit OutgoingBudget(const Limits& limits) : limits_(limits) {}

  [[nodiscard]] Grant take(std::string_view cluster, std::string_view server, TimePoint now);
  void give_back(std::string_view cluster, std::string_view server, bool failed, TimePoint now);

 private:
  struct Server {
    std::uint32_t failures = 0;  // in a row
    TimePoint paused_until{};
  };
  struct Cluster {
    std::size_t running = 0;
    double tokens = 0;
    TimePoint filled_at{};
    StringMap<Server> servers;  // those that failed
  };
  [[nodiscard]] Cluster& cluster_of(std::string_view name, TimePoint now);

  const Limits limits_{};
  std::mutex mutex_;
  StringMap<Cluster> clusters_;  // guarded by mutex_
};

}  // namespace kintsugi::net
