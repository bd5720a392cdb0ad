#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "net/loop.h"

namespace kintsugi::server {

/// Child processes on one loop: started, logged to files, restarted with back-off (100 ms to 5 s;
/// from the beginning for one that lived for 10 s) when they end,
/// stopped in order. Threads: the loop's. The owner routes SIGCHLD here by calling reap().
class Supervisor {
 public:
  struct Process {
    std::string name;
    std::vector<std::string> arguments;  ///< argv without the program
    std::string log_file, pid_file;
    std::string program = {};  ///< "": that of all others
    std::string socket = {};   ///< where it is asked for /readyz; "": it is ready while it runs
  };
  /// Why one was started again.
  enum class Cause : std::uint8_t { kExit, kSignal, kHang };
  static constexpr std::size_t kCauses = 3;
  /// One of them as it is now.
  struct State {
    std::string name, socket;
    pid_t pid = 0;     ///< 0: it has ended, and is started again
    Duration since{};  ///< its last start, or its end
    std::uint64_t restarts = 0;
    std::string last_end;  ///< "exit 1", "signal 9", "hung, signal 6"; "": it never ended
    std::array<std::uint64_t, kCauses> restarts_by = {};
  };
  struct Events {
    std::function<void(const std::string& name, int status)>
        ended;  ///< unexpected end; a restart follows
  };

  /// @param program path of the executable that processes run which name none.
  Supervisor(net::Loop& loop, std::string program, Events events);
  ~Supervisor();  ///< kills what still runs

  /// @error kIo when the log cannot be opened or fork fails.
  [[nodiscard]] Expected<void> start(Process process);
  /// Sends it where it runs; one that ends of it is started again, as any.
  void signal(const std::string& name, int number) const;
  /// Sends it to all that run which are this program.
  void signal_programs(int number) const;
  /// Ends one that does nothing any more, so that it is started again: SIGABRT, which leaves what
  /// can be looked at, and SIGKILL where it still runs after `patience`.
  void end_hung(const std::string& name, Duration patience);
  /// Collects ended children.
  void reap();
  /// SIGTERM to all, in reverse order of start, each after the one before it has ended or
  /// `patience` has passed, then SIGKILL; `done` when none is left.
  void stop_all(Duration patience, std::function<void()> done);
  [[nodiscard]] std::size_t running() const noexcept;
  /// In the order of their starts.
  [[nodiscard]] std::vector<State> states() const;

 private:
  struct Child;
  [[nodiscard]] Expected<void> launch(Child& child);
  void launch_again(Child& child);
  void stop_next();

  net::Loop& loop_;
  std::string program_;
  Events events_;
  std::vector<std::unique_ptr<Child>> children_;
  bool stopping_ = false;
  Duration patience_{};
  std::function<void()> stopped_;
};

}  // namespace kintsugi::server
