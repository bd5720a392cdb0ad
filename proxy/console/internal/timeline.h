#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "proxy/admin/admin.h"
#include "proxy/console/internal/row_page.h"

namespace kintsugi::proxy {

/// What the timeline is made of: two of these, one after the other. What a loop counts is not told
/// by anybody when it happens, so that happening costs nothing more.
struct TimelineSample {
  /// kind, shard or "", reason
  using Key = std::tuple<std::string, std::string, std::string>;
  std::map<Key, std::uint64_t> counts;  ///< only grow
  /// By kind and shard: what it is in now; "": nothing of that kind is there.
  using States = std::map<std::pair<std::string, std::string>, std::string>;
  States states;
  bool operator==(const TimelineSample&) const = default;
};

/// The latest events of this process (OP-710): cursor, resync, eviction, move, shard, join, reload,
/// certificate, drain. Bounded: the oldest go. Threads: the control loop's.
class Timeline {
 public:
  static constexpr std::size_t kMost = 2'000;
  /// The first one is where it begins. @param at  [us since 1970]
  void take(TimelineSample sample, std::int64_t at);
  /// Only the states of shards: they are looked at more often than the loops are asked.
  void take_shards(const TimelineSample::States& shards, std::int64_t at);
  [[nodiscard]] ViewRows rows() const;
  /// The last one of a kind; null: there was none.
  [[nodiscard]] krm::Json last(std::string_view kind) const;
  /// Other rows have another one.
  [[nodiscard]] std::uint64_t version() const noexcept { return next_; }

 private:
  struct Event {
    std::uint64_t number;
    std::int64_t at;
    std::string kind, shard, reason;
    std::uint64_t count;
  };
  void add(std::int64_t at, std::string kind, std::string shard, std::string reason,
           std::uint64_t count);
  void take_states(TimelineSample::States states, std::int64_t at);
  [[nodiscard]] static krm::Json row(const Event& event);

  bool begun_ = false;
  TimelineSample before_;
  std::deque<Event> events_;
  std::uint64_t next_ = 0;
};

[[nodiscard]] TimelineSample timeline_sample(const topology::Feed& feed,
                                             const std::vector<LoopReport>& loops,
                                             const TopologyReport& topology);
/// Of what the control loop knows by itself. Cost: O(shards).
[[nodiscard]] TimelineSample::States shard_states(const topology::Feed& feed);

}  // namespace kintsugi::proxy
