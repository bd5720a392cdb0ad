#pragma once

#include <functional>
#include <memory>

#include "base/time.h"

namespace kintsugi::net {

struct WatchdogParams {
  Duration every = seconds(1);  ///< each loop is asked so often
  /// @{ Questions in a row that a loop leaves open. Time does not count, since a process that was
  /// stopped or a machine that slept is no silent loop.
  unsigned tells_after = 10;   ///< a line with the stack of the loop's thread
  unsigned aborts_after = 60;  ///< then the process ends with SIGABRT
  /// @}
  /// Called every `alive_every` while no loop is silent for `tells_after` questions (OP-205); on
  /// the watchdog's thread. Null: never.
  std::function<void()> alive = {};
  Duration alive_every = seconds(10);
};

/// The usual watchdog of a process, which tells the service manager that it lives if that one asks.
[[nodiscard]] WatchdogParams watchdog_of_service();

/// Asks every loop of the process that runs, by a post, whether it still takes turns (SE-183). One
/// that is silent leaves a line with its stack, as `program+0x…` for addr2line, and counts in
/// silent_loops(); whoever supervises the process starts it again after the end. Has a thread of
/// its own and the signal SIGURG. One per process. Cost for a loop: one post a second.
class Watchdog {
 public:
  explicit Watchdog(WatchdogParams params = {});
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kintsugi::net
