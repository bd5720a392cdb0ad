#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "net/loop.h"
#include "server/internal/supervisor.h"

namespace kintsugi::server {

/// Who of several processes hangs: who has answered once, and then not to kSilences questions in a
/// row. One that has not answered yet still starts, and has kStarting of them. No I/O. Threads: one
/// at a time.
class HangJudge {
 public:
  static constexpr int kSilences = 3;
  static constexpr int kStarting = 60;

  /// It was asked. @param pid  another one than before: it was started again, and begins anew
  /// @returns whether it hangs, of which it is told once for each `pid`.
  [[nodiscard]] bool on_asked(const std::string& name, pid_t pid, bool answered);

 private:
  struct One {
    pid_t pid = 0;
    bool has_answered = false;
    int silences = 0;
  };
  std::map<std::string, One> all_;
};

/// Asks processes for /livez at their sockets, all at once, three times in `timeout`, and tells of
/// those that hang (OP-205). Any answer is a sign of life but an error of the server (5xx). A round
/// in which this process itself stood still, or the machine, does not count. Threads: the loop's.
class HangWatch {
 public:
  struct Params {
    std::function<std::vector<Supervisor::State>()> processes;
    std::function<void(const std::string& name)> hangs;
    Duration timeout = seconds(30);  ///< above 0
  };
  HangWatch(net::Loop& loop, Params params);
  /// Now, as all are ready: who hangs from then on has answered.
  void ask_now();

 private:
  void ask();
  void judge(const std::vector<Supervisor::State>& asked, const std::vector<bool>& answered);

  net::Loop& loop_;
  const Params params_;
  const Duration period_;  ///< from one question to the next, and what an answer may take
  HangJudge judge_;
  net::Timer timer_;
};

}  // namespace kintsugi::server
