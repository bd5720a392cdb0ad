#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "net/connection_book.h"
#include "serving/fair_queues.h"
#include "serving/payer_bounds.h"
#include "serving/request_limits.h"

namespace kintsugi {
class MetricFamilies;
}

namespace kintsugi::serving {

/// What the loops of a process share of limits and fairness: `limits.*`, and where the queues are,
/// for whoever asks how they stand. Threads: any.
class ProcessLimits {
 public:
  /// @param seats  of all loops, at a proxy those of one shard, and `total` those of all shards;
  /// see FairSeats::share_of
  explicit ProcessLimits(FairLimits seats = {}, const RequestLimits& limits = {},
                         std::size_t loops = 1, const PayerBounds& bounds = {},
                         const net::ConnectionLimits& connections = {});
  ProcessLimits(const ProcessLimits&) = delete;
  ProcessLimits& operator=(const ProcessLimits&) = delete;

  [[nodiscard]] RequestLimiter& requests() noexcept { return *requests_; }
  /// Of what payers have open for long.
  [[nodiscard]] RequestLimiter& bounds() noexcept { return *bounds_; }
  [[nodiscard]] const std::shared_ptr<net::ConnectionBook>& connections() const noexcept {
    return connections_;
  }
  /// Of one loop.
  [[nodiscard]] const FairLimits& seats() const noexcept { return seats_; }
  /// Where nobody says otherwise (SE-080), by the machine's cores: seats of an embedded shard, of
  /// one shard at a proxy, and of all shards there.
  [[nodiscard]] static std::size_t seats_of_shard() noexcept;
  [[nodiscard]] static std::size_t seats_at_proxy() noexcept;
  [[nodiscard]] static std::size_t total_at_proxy() noexcept;
  /// Requests that a loop of an embedded shard begins in one turn (SE-083).
  static constexpr std::size_t kPerTurn = 32;
  /// Seats of one shard at a loop of a proxy, when it is overloaded: whoever is not alone there
  /// waits for so many.
  static constexpr std::size_t kLeastAtProxy = 16;

  /// Users who speak for many others, such as gateways: where seats are scarce whom they
  /// impersonate takes turns, each as a payer of his own (SE-071). Before the loops run.
  void distribute_by_effective_user(const std::vector<std::string>& users);
  [[nodiscard]] bool is_distributed(std::string_view user) const noexcept {
    return distributed_.contains(user);
  }

  /// The queues are there until remove(), on a thread of their own.
  void add(const FairQueues& queues);
  void remove(const FairQueues& queues) noexcept;
  /// Of all queues; those that are gone count on.
  [[nodiscard]] std::array<FairQueues::LevelTotals, kLevels> totals() const;
  /// Seats that the loops give out now.
  [[nodiscard]] std::uint64_t open_seats() const;
  /// Families of queues and seats (SE-094).
  void fill(MetricFamilies& out) const;
  /// Series of kintsugi_limited_total, which has been begun.
  void fill_limited(MetricFamilies& out) const;

 private:
  void fill_connections(MetricFamilies& out) const;

  const FairLimits seats_;
  const std::size_t loops_;
  const std::shared_ptr<RequestLimiter> requests_, bounds_;
  const std::shared_ptr<net::ConnectionBook> connections_;
  std::set<std::string, std::less<>> distributed_;
  mutable std::atomic_flag held_;  // by who uses what follows; loops come and go seldom
  std::vector<const FairQueues*> queues_;
  std::array<FairQueues::LevelTotals, kLevels> gone_{};
};

/// The name in the queues of a distributed user who speaks for this one.
[[nodiscard]] std::string payer_on_behalf(std::string_view payer, std::string_view effective);

}  // namespace kintsugi::serving
