#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace kintsugi::workers {

struct AutoscalerSettings {
  Duration refresh = seconds(100);  ///< AUTOSCALER_REFRESH_PERIOD
  Duration tick = seconds(2);       ///< at least, between two lots of moves
  std::int64_t min_replicas = 0;
  std::int64_t max_replicas = 0;  ///< DISPATCHERS_MAX_REPLICAS; 0: no bound
};

/// A pool at one look.
struct AutoscalerView {
  std::int64_t replicas = 0;  ///< of the StatefulSet's spec
  std::int64_t wanted = 0;    ///< replicas that hold all units (P-11); without the bounds
  bool pending_room = false;  ///< some group has units that no pod has room for
  bool coming = false;        ///< of the replicas some pod is not there yet, or not bound
  std::int64_t used = 0;      ///< 1 + the highest ordinal with something on it
  bool moving = false;        ///< moves are under way
};

/// What to do now.
struct AutoscalerStep {
  std::optional<std::int64_t> scale_to;  ///< to be written with a resourceVersion; then answered()
  bool compact = false;                  ///< one lot of moves off ordinals that are not wanted
  bool rebalance = false;                ///< one lot of moves that even out
};

/// How many pods a pool is to have, and when units move for that. KA-1 to KA-6. Up at once where
/// something is pending, unless pods are coming; down when fewer were wanted for a whole period and
/// the ordinals above are empty, which compaction sees to from then on; evened once a period, lot
/// by lot until there is nothing to gain (moved()). A machine without I/O. Threads: one.
class Autoscaler {
 public:
  explicit Autoscaler(const AutoscalerSettings& settings) : settings_(settings) {}

  [[nodiscard]] AutoscalerStep look(const AutoscalerView& view, TimePoint now);
  /// The scale was written, or another one is there: the next look() sees it.
  void answered() noexcept { asked_ = false; }
  /// How many groups the step that was asked for began to move.
  void moved(std::size_t groups, TimePoint now) noexcept;
  /// When to look again though nothing happens; nullopt: a look is due only when something does.
  [[nodiscard]] std::optional<TimePoint> next_timer() const noexcept { return timer_; }
  /// Within the bounds. @returns at least 0
  [[nodiscard]] std::int64_t bounded(std::int64_t wanted) const noexcept;

 private:
  [[nodiscard]] bool may_move(const AutoscalerView& view, TimePoint now);
  void wake_at(TimePoint at) noexcept;

  AutoscalerSettings settings_;
  bool asked_ = false;
  std::optional<TimePoint> fewer_since_;  // wanted < replicas without a break
  std::optional<TimePoint> last_lot_, last_round_;
  bool evening_ = false;  // a round of rebalancing has begun
  bool asked_even_ = false;
  std::optional<TimePoint> timer_;
};

}  // namespace kintsugi::workers
