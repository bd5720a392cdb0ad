#pragma once

#include <cstddef>

#include "base/time.h"

namespace kintsugi::serving {

/// How many requests a server should have at once: as many as it works on, and few that only wait
/// there, since whose turn it is there nobody here decides (SE-005). Learned from how long the
/// fastest of its answers take: when even these take longer than they do when nothing waits, what
/// is there beyond that only waits.
///
/// A machine without I/O. Threads: one.
class SeatWindow {
 public:
  /// @param most  that there ever are
  /// @param least  that are never gone below; it begins with four times as many. 0: always `most`
  SeatWindow(std::size_t most, std::size_t least) noexcept
      : most_(most),
        least_(least < most ? least : most),
        seats_(least == 0 || 4 * least > most ? most : 4 * least) {}

  /// An answer has begun.
  /// @param took  since the request got its seat
  /// @param running  seats that were taken then, with its own
  /// @param refused  the server said that it has no room: 429
  /// @returns that seats() is another one now.
  bool on_answer(Duration took, std::size_t running, bool refused, TimePoint now) noexcept;
  [[nodiscard]] std::size_t seats() const noexcept { return seats_; }

 private:
  bool judge(TimePoint now) noexcept;

  const std::size_t most_, least_;
  std::size_t seats_;
  // Of this period.
  TimePoint since_{};
  Duration fastest_ = Duration::max();
  std::size_t answers_ = 0, peak_ = 0;
  bool refused_ = false;
  // When nothing waits: of the last seconds, and of those before.
  Duration quiet_ = Duration::max(), last_quiet_ = Duration::max();
  TimePoint quiet_since_{};
};

}  // namespace kintsugi::serving
