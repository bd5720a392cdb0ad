#include "server/internal/supervisor.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <numeric>

#include "base/log.h"
#include "server/files.h"
#include "server/internal/child_process.h"

namespace kintsugi::server {
namespace {

constexpr Duration kFirstPause = milliseconds(50);
constexpr Duration kLastPause = seconds(5);
constexpr Duration kStable =
    seconds(10);  // a process that lived this long starts over with the short pause

}  // namespace

struct Supervisor::Child {
  Process process;
  pid_t pid = 0;
  bool term_sent = false;
  bool hung = false;  ///< and is ended for it
  TimePoint started{}, ended{};
  std::array<std::uint64_t, kCauses> restarts_by = {};
  Cause cause = Cause::kExit;  ///< of the last end
  std::string last_end;
  Duration pause = kFirstPause;
  net::Timer timer;
  Child(Process p, net::Loop& loop) : process(std::move(p)), timer(loop) {}
};

Supervisor::Supervisor(net::Loop& loop, std::string program, Events events)
    : loop_(loop), program_(std::move(program)), events_(std::move(events)) {}

Supervisor::~Supervisor() {
  for (const auto& child : children_) {
    if (child->pid > 0) {
      ::kill(child->pid, SIGKILL);
      ::waitpid(child->pid, nullptr, 0);
      ::unlink(child->process.pid_file.c_str());
    }
  }
}

Expected<void> Supervisor::start(Process process) {
  children_.push_back(std::make_unique<Child>(std::move(process), loop_));
  return launch(*children_.back());
}

Expected<void> Supervisor::launch(Child& child) {
  const int log_fd =
      ::open(child.process.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0) {
    return fail(Errc::kIo, child.process.log_file + ": " + std::strerror(errno));
  }
  const std::string& program = child.process.program.empty() ? program_ : child.process.program;
  const pid_t pid = start_child(program, child.process.arguments, log_fd);
  const int why = errno;
  ::close(log_fd);
  if (pid < 0) {
    return fail(Errc::kIo, "fork: " + std::string(std::strerror(why)));
  }
  child.pid = pid;
  child.started = Clock::now();
  child.term_sent = false;
  child.hung = false;
  return write_file(child.process.pid_file, std::to_string(pid) + "\n");
}

void Supervisor::signal(const std::string& name, int number) const {
  for (const auto& child : children_) {
    if (child->process.name == name && child->pid > 0) {
      ::kill(child->pid, number);
    }
  }
}

void Supervisor::signal_programs(int number) const {
  for (const auto& child : children_) {
    if (child->process.program.empty() && child->pid > 0) {
      ::kill(child->pid, number);
    }
  }
}

void Supervisor::end_hung(const std::string& name, Duration patience) {
  for (const auto& one : children_) {
    Child& child = *one;
    if (child.process.name != name || child.pid == 0 || child.hung || stopping_) {
      continue;
    }
    child.hung = true;
    ::kill(child.pid, SIGABRT);
    child.timer.start(patience, [&child] {
      if (child.pid > 0) {
        ::kill(child.pid, SIGKILL);
      }
    });
  }
}

/// What cannot be started now (no memory, no room for processes) may be later.
void Supervisor::launch_again(Child& child) {
  child.timer.start(child.pause, [this, &child] {
    if (auto result = launch(child); !result) {
      log_error("restart failed",
                {{"process", child.process.name}, {"error", result.error().to_string()}});
    }
    if (child.pid == 0) {
      child.pause = std::min(child.pause * 2, kLastPause);
      launch_again(child);
    } else {
      ++child.restarts_by[static_cast<std::size_t>(child.cause)];
    }
  });
}

void Supervisor::reap() {
  while (true) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) {
      break;
    }
    const auto found = std::find_if(children_.begin(), children_.end(),
                                    [&](const auto& child) { return child->pid == pid; });
    if (found == children_.end()) {
      continue;
    }
    Child& child = **found;
    child.pid = 0;
    child.ended = Clock::now();
    child.last_end = (child.hung ? "hung, " : "") + how_child_ended(status);
    child.cause = child.hung ? Cause::kHang : WIFSIGNALED(status) ? Cause::kSignal : Cause::kExit;
    ::unlink(child.process.pid_file.c_str());
    if (stopping_) {
      continue;
    }
    events_.ended(child.process.name, status);
    child.pause = Clock::now() - child.started > kStable ? kFirstPause
                                                         : std::min(child.pause * 2, kLastPause);
    launch_again(child);
  }
  if (stopping_) {
    stop_next();
  }
}

void Supervisor::stop_all(Duration patience, std::function<void()> done) {
  stopping_ = true;
  patience_ = patience;
  stopped_ = std::move(done);
  for (const auto& child : children_) {
    child->timer.cancel();
  }
  stop_next();
}

void Supervisor::stop_next() {
  for (auto it = children_.rbegin(); it != children_.rend(); ++it) {
    Child& child = **it;
    if (child.pid == 0) {
      continue;
    }
    if (!child.term_sent) {
      child.term_sent = true;
      ::kill(child.pid, SIGTERM);
      child.timer.start(patience_, [&child] {
        if (child.pid > 0) {
          ::kill(child.pid, SIGKILL);
        }
      });
    }
    return;
  }
  if (stopped_) {
    std::exchange(stopped_, nullptr)();
  }
}

std::vector<Supervisor::State> Supervisor::states() const {
  std::vector<State> out;
  const TimePoint now = Clock::now();
  for (const auto& child : children_) {
    out.push_back(
        {child->process.name, child->process.socket, child->pid,
         now - (child->pid > 0 ? child->started : child->ended),
         std::accumulate(child->restarts_by.begin(), child->restarts_by.end(), std::uint64_t{0}),
         child->last_end, child->restarts_by});
  }
  return out;
}

std::size_t Supervisor::running() const noexcept {
  return static_cast<std::size_t>(std::count_if(children_.begin(), children_.end(),
                                                [](const auto& child) { return child->pid > 0; }));
}

}  // namespace kintsugi::server
