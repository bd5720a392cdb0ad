#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>

#include "base/time.h"

namespace kintsugi::net {

/// What the service manager said when it started this process (sd_notify(3),
/// sd_watchdog_enabled(3)).
struct ServiceEnvironment {
  std::string socket;    ///< path, or '@' and an abstract name; "": nobody listens
  Duration watchdog{0};  ///< it wants a sign of life at least so often; 0: none
};
/// From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which children do not inherit after this.
/// What is no address or no number is taken for absent. Main thread, before there are others.
[[nodiscard]] ServiceEnvironment take_service_environment();

/// Tells the service manager how this process is, by datagrams (OP-204). Without one, or with a bad
/// socket, nothing happens. Nothing waits: what a full socket does not take goes with the next
/// call, the newest 8 messages, but for signs of life. Threads: any. Cost: three system calls.
class ServiceNotices {
 public:
  explicit ServiceNotices(ServiceEnvironment environment) : environment_(std::move(environment)) {}

  /// READY=1, with this process as the one that serves, and a line that shows in `systemctl
  /// status`.
  void ready(std::string_view status);
  /// A line; the same one again is told once.
  void status(std::string_view status);
  /// Files are read again: RELOADING=1. Followed by ready().
  void reloading(std::chrono::microseconds monotonic);
  void stopping();
  /// The start takes longer than the manager thinks: so much more from now on.
  void extend(Duration more);
  /// WATCHDOG=1.
  void alive();
  /// How often alive() is wanted: a third of what the manager waits. 0: never.
  [[nodiscard]] Duration alive_every() const noexcept { return environment_.watchdog / 3; }

 private:
  void tell(std::string message, bool may_be_lost = false);
  [[nodiscard]] bool send(const std::string& message) const;

  const ServiceEnvironment environment_;
  std::mutex mutex_;
  std::string status_;
  std::deque<std::string> unsent_;
};

/// Those of this process. The first call takes the environment.
[[nodiscard]] ServiceNotices& service_notices();

}  // namespace kintsugi::net
