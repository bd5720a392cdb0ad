#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::workers {

/// Number of a unit of one role, given by the caller.
using UnitId = std::uint16_t;
/// Stands for a unit of another process.
inline constexpr UnitId kElsewhere = 0xFFFF;

struct OwnerAction {
  enum class Kind : std::uint8_t {
    kAct,   ///< the unit's keys of the cluster go on
    kPark,  ///< no more steps for them; on_parked() once the running ones ended
  } kind;
  std::string cluster;
  UnitId unit;
  bool operator==(const OwnerAction&) const = default;
};

/// Which unit acts for a cluster that several show, as while it moves between shards. Source:
/// RT-14. The first to show it acts. When another does too, that one is parked and the proxy asked,
/// again every 5 s, who has the cluster; its answer is the owner. An owner begins only after the
/// acting unit has parked, so at any time at most one acts. While a cluster is shown twice nobody
/// takes the absence of an object for its deletion: may_delete(). Cost: O(1) per call, about 100 B
/// per cluster; the exceptions are said. No clock, no I/O. Threads: one at a time.
class ClusterOwners {
 public:
  static constexpr Duration kAskAgain = seconds(5);

  using Actions = std::vector<OwnerAction>;

  /// The unit shows its first object of a cluster, or any further one.
  void on_seen(std::string_view cluster, UnitId unit, TimePoint now, Actions& out);
  /// The unit shows none any more, and none of its keys runs or waits.
  void on_gone(std::string_view cluster, UnitId unit, Actions& out);
  /// The unit is drained and gone, with all its clusters. Cost: O(clusters).
  void on_unit_gone(UnitId unit, Actions& out);
  /// A unit of another process shows the cluster and asks this one, which need not show it, to let
  /// go: so it does, until the proxy names a unit of this process. Actions for kElsewhere need no
  /// answer.
  void on_elsewhere(std::string_view cluster, UnitId unit, TimePoint now, Actions& out);
  /// Answer to kPark; others are ignored.
  void on_parked(std::string_view cluster, UnitId unit, Actions& out);

  /// Checked at every step. True for a cluster that nobody has told of.
  [[nodiscard]] bool may_act(std::string_view cluster, UnitId unit) const noexcept;
  /// Whether something may still run at the unit, although it must not begin anything more.
  [[nodiscard]] bool acts(std::string_view cluster, UnitId unit) const noexcept;
  /// Whether an object that the unit does not show may be removed from peers.
  [[nodiscard]] bool may_delete(std::string_view cluster, UnitId unit) const noexcept;

  /// Clusters to ask the proxy for now, `GET /clusters/<cluster>`, at most `limit`; none of them
  /// comes again before its answer. Cost: O(clusters shown twice).
  [[nodiscard]] std::vector<std::string> due(TimePoint now, std::size_t limit = 64);
  /// @param owner  nullopt: no answer, or none of our units; nothing changes, and it is asked
  /// again.
  void on_resolved(std::string_view cluster, std::optional<UnitId> owner, TimePoint now,
                   Actions& out);

  [[nodiscard]] std::size_t duplicates() const noexcept { return duplicates_.size(); }
  /// unit_duplicate_cluster_total: units that were parked since another showed the cluster.
  [[nodiscard]] std::uint64_t duplicates_total() const noexcept { return total_; }

 private:
  struct Duplicate {
    std::vector<UnitId> seen;
    UnitId owner = 0;
    std::optional<UnitId> acting;  // stays set until it has parked
    bool asking = false;
    TimePoint ask_at{};
  };

  void follow(std::string_view cluster, Duplicate& entry, Actions& out) const;
  void settle(const std::string& cluster);
  void leave(const std::string& cluster, UnitId unit, Actions& out);

  StringMap<UnitId> single_;  // clusters that one unit shows, which acts
  StringMap<Duplicate> duplicates_;
  std::uint64_t total_ = 0;
};

}  // namespace kintsugi::workers
