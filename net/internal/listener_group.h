#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "net/loop.h"

namespace kintsugi::net {

/// Listeners of several loops on one port (SO_REUSEPORT) that even out their connections: the
/// kernel spreads few long-lived connections badly (PERF-203). Threads:
/// join() before the loops run, everything else from any loop. Must outlive the loops' threads.
class ListenerGroup {
 public:
  struct Member {
    explicit Member(Loop& l) : loop(l) {}
    Loop& loop;
    std::function<void(int fd)> adopt;        ///< touched by its loop only; null: gone
    std::atomic<std::size_t> connections{0};  ///< running, or on their way there
    std::atomic<bool> open{true};
  };

  [[nodiscard]] std::shared_ptr<Member> join(Loop& loop);
  /// Who should serve a connection that `own` has just accepted and not yet counted: the member
  /// with the fewest connections when `own` would have more than 2 + 1.5 times as many; else null.
  [[nodiscard]] std::shared_ptr<Member> better_than(const Member& own) const noexcept;
  /// Gives a descriptor to another loop; closed when that one has gone.
  static void hand_over(const std::shared_ptr<Member>& to, int fd);

 private:
  std::vector<std::shared_ptr<Member>> members_;
};

}  // namespace kintsugi::net
