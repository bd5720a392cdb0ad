#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/time.h"
#include "shards/shard_client.h"

namespace kintsugi::proxy {

struct MoveHoldLimits {
  std::size_t count = 1'000;            ///< requests that wait at once
  std::size_t bytes = 16U << 20;        ///< of their bodies
  Duration time = milliseconds(6'000);  ///< longer than writes stop (GR-604)
  Duration pause = milliseconds(25);    ///< between two attempts
};
struct MoveHoldStats {
  std::size_t waiting = 0, bytes = 0;
  std::uint64_t held = 0;      ///< requests that had to wait
  std::uint64_t refused = 0;   ///< there was no room for one more
  std::uint64_t given_up = 0;  ///< the time was over, and the client got the shard's answer
  void add(const MoveHoldStats& other) noexcept;
};

/// Requests that wait because a shard has said that their logical cluster is on its way to another
/// one, and that it has done nothing of them (GR-606). Of one loop. Threads: its loop.
class MoveHolds {
 public:
  /// A request that waits, until it goes.
  class Hold {
   public:
    Hold(MoveHolds& owner, std::size_t bytes, TimePoint until) noexcept;
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    [[nodiscard]] TimePoint until() const noexcept { return until_; }

   private:
    MoveHolds& owner_;
    const std::size_t bytes_;
    const TimePoint until_;
  };

  /// @param stats  outlives this
  explicit MoveHolds(MoveHoldStats& stats) noexcept : stats_(stats) {}

  /// @param bytes  of the body that is kept. @returns null: there is no room.
  [[nodiscard]] std::unique_ptr<Hold> enter(std::size_t bytes, TimePoint now);
  void gave_up() noexcept { ++stats_.given_up; }
  void set_limits(const MoveHoldLimits& limits) noexcept { limits_ = limits; }
  [[nodiscard]] Duration pause() const noexcept { return limits_.pause; }

  /// The shard that has the logical cluster of such a path now; null: nobody knows. Set by who
  /// routes; empty: they stay where they were.
  std::function<shards::ShardClient*(std::string_view target)> find;

 private:
  MoveHoldLimits limits_;
  MoveHoldStats& stats_;
};

}  // namespace kintsugi::proxy
