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
/// (SE-107). A server is proven while its last answer showed that it understood the question: those
/// who run it want to be asked, so that its workspace is bound by `at_once` alone. Threads: any.
class OutgoingBudget {
 public:
  struct Limits {
    std::size_t at_once = 8;  ///< per cluster
    double per_second = 20;   ///< per cluster, to servers that are not proven; so many at
                              ///< once after a rest
    Duration proven_for = seconds(300);  ///< since that answer
    std::uint32_t failures = 5;          ///< of one server in a row, then it is left alone
    Duration pause = seconds(30);        ///< for so long
    Duration proven_pause = seconds(1);  ///< a proven one; twice as long after each failed trial
    std::size_t max_clusters = 4'096;    ///< that are remembered
  };
  enum class Grant : std::uint8_t {
    kGo,      ///< give_back() is due
    kWait,    ///< ask again
    kPaused,  ///< this server is left alone now
  };
  enum class Outcome : std::uint8_t {
    kUntold,    ///< given up, or never sent
    kAnswered,  ///< somehow
    kProven,    ///< by one who understood
    kFailed,    ///< counts unless another failure came since it was granted
  };
  OutgoingBudget() = default;
  explicit OutgoingBudget(const Limits& limits) : limits_(limits) {}

  /// After a pause one is granted, a trial, and the others when that is over.
  [[nodiscard]] Grant take(std::string_view cluster, std::string_view server, TimePoint now);
  /// @param granted  when take() said kGo
  void give_back(std::string_view cluster, std::string_view server, Outcome outcome,
                 TimePoint granted, TimePoint now);

 private:
  struct Server {
    std::uint32_t failures = 0;  // in a row
    TimePoint failed_at{};       // the last one that counted
    TimePoint proven_until{}, paused_until{};
    Duration pause{};  // that runs, or whose trial is due; 0: none
    bool on_trial = false;
  };
  struct Cluster {
    std::size_t running = 0;
    double tokens = 0;
    TimePoint filled_at{};
    StringMap<Server> servers;  // those that failed, and proven ones
  };
  [[nodiscard]] Cluster& cluster_of(std::string_view name, TimePoint now);
  [[nodiscard]] static Server* remembered(Cluster& cluster, std::string_view server,
                                          Outcome outcome, TimePoint now);
  void count_failure(Server& server, TimePoint granted, TimePoint now) const;

  const Limits limits_{};
  std::mutex mutex_;
  StringMap<Cluster> clusters_;  // guarded by mutex_
};

}  // namespace kintsugi::net
