#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>

namespace kintsugi::net {

class Loop;

/// One loop while it runs: on the list of which a Watchdog asks each. Made and destroyed on the
/// loop's thread.
class WatchedLoop {
 public:
  explicit WatchedLoop(Loop& loop);
  ~WatchedLoop();
  WatchedLoop(const WatchedLoop&) = delete;
  WatchedLoop& operator=(const WatchedLoop&) = delete;

  /// All that run now. Nobody begins or ends meanwhile. Threads: any.
  static void for_each(const std::function<void(WatchedLoop&)>& visit);

  Loop& loop;
  const pid_t thread;
  /// @{ Of the watchdog.
  const std::shared_ptr<std::atomic<bool>> answered;
  bool asked = false, told = false;
  unsigned silent = 0;  ///< questions
  /// @}
};

}  // namespace kintsugi::net
