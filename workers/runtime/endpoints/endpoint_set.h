#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "workers/runtime/endpoints/endpoint_url.h"

namespace kintsugi::workers {

/// For the event UnitRefused.
struct RefusedEndpoint {
  std::string url;  ///< shown_url()
  std::string reason;
  bool operator==(const RefusedEndpoint&) const = default;
};

/// What a new list of endpoints asks for.
struct EndpointChange {
  std::vector<UnitEndpoint> start;
  std::vector<UnitEndpoint> drain;
  std::vector<RefusedEndpoint> refused;  ///< those that the list before did not have
};

/// The units of one role. Source: RT-10, RT-11, RT-15. A unit runs, drains after its URL went (at
/// most 20 s), and is kept for 24 h in case the URL returns; a URL that returns while its unit
/// drains is started again after the drain, so that no unit runs twice. Shape: at most 1,024 units
/// that run or drain; further URLs are refused. No clock, no I/O. Threads: one at a time.
class EndpointSet {
 public:
  static constexpr std::size_t kMaxUnits = 1'024;
  static constexpr std::size_t kMaxKept = 1'024;  ///< the oldest expires early
  static constexpr Duration kDrain = seconds(20);
  static constexpr Duration kKeep = std::chrono::hours(24);

  explicit EndpointSet(EndpointRules rules) : rules_(std::move(rules)) {}

  /// All URLs that there are now, e.g. of endpoint_urls(), or the one `server`. Equal ones count
  /// once. Cost: O(n log n).
  [[nodiscard]] EndpointChange update(const std::vector<std::string>& urls, TimePoint now);
  /// SIGHUP; holds from the next update() on, also for units that run.
  void set_rules(EndpointRules rules) { rules_ = std::move(rules); }

  /// Nothing of the unit runs any more. @returns it when it is to be started again.
  [[nodiscard]] std::optional<UnitEndpoint> on_drained(std::string_view name, TimePoint now);
  /// Names of units that have drained for 20 s: what they still run is cancelled. Each is told
  /// once.
  [[nodiscard]] std::vector<std::string> overdue(TimePoint now);
  /// Names of units that are gone for 24 h: their journals are removed. Each is told once.
  [[nodiscard]] std::vector<std::string> expired(TimePoint now);

  /// Those that run, in order of URL.
  [[nodiscard]] std::vector<UnitEndpoint> running() const;
  [[nodiscard]] const std::vector<RefusedEndpoint>& refused() const noexcept { return refused_; }

 private:
  enum class State : std::uint8_t { kRunning, kDraining, kKept };
  struct Unit {
    UnitEndpoint endpoint;
    State state = State::kRunning;
    bool returns = false;  // while it drains
    bool told = false;     // that it is overdue
    TimePoint since{};     // of the state
  };

  [[nodiscard]] std::vector<UnitEndpoint> accept(const std::vector<std::string>& urls,
                                                 std::vector<RefusedEndpoint>& refused) const;

  EndpointRules rules_;
  std::vector<Unit> units_;  // in order of URL
  std::vector<RefusedEndpoint> refused_;
};

}  // namespace kintsugi::workers
