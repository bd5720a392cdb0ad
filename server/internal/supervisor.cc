#include "server/internal/supervisor.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/log.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

constexpr Duration kFirstPause = milliseconds(50);
constexpr Duration kLastPause = seconds(5);
constexpr Duration kStable =
    seconds(10);  // a process that lived this long starts over with the short pause

/// For a child between fork and exec: no handler of the parent runs in it, for that would tell the
/// parent's loop of a signal that the parent did not get. What is ignored stays ignored.
void forget_handlers() noexcept {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      ::signal(number, SIG_DFL);
    }
  }
}

}  // namespace

struct Supervisor::Child {
  Process process;
  pid_t pid = 0;
  bool term_sent = false;
  TimePoint started{};
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
  std::vector<char*> argv{program_.data()};
  for (std::string& argument : child.process.arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Only async-signal-safe calls until exec.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) {
      ::_exit(1);
    }
    ::setpgid(0, 0);  // Ctrl-C reaches the supervisor alone, which ends its children in order
    forget_handlers();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null_fd = ::open("/dev/null", O_RDONLY);
    ::dup2(null_fd, STDIN_FILENO);
    ::dup2(log_fd, STDOUT_FILENO);
    ::dup2(log_fd, STDERR_FILENO);
    ::execv(argv.front(), argv.data());
    ::_exit(127);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(log_fd);
  if (pid < 0) {
    return fail(Errc::kIo, "fork: " + std::string(std::strerror(errno)));
  }
  child.pid = pid;
  child.started = Clock::now();
  child.term_sent = false;
  return write_file(child.process.pid_file, std::to_string(pid) + "\n");
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
    ::unlink(child.process.pid_file.c_str());
    if (stopping_) {
      continue;
    }
    events_.ended(child.process.name, status);
    child.pause = Clock::now() - child.started > kStable ? kFirstPause
                                                         : std::min(child.pause * 2, kLastPause);
    child.timer.start(child.pause, [this, &child] {
      if (auto result = launch(child); !result) {
        log_error("restart failed",
                  {{"process", child.process.name}, {"error", result.error().to_string()}});
      }
    });
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

std::size_t Supervisor::running() const noexcept {
  return static_cast<std::size_t>(std::count_if(children_.begin(), children_.end(),
                                                [](const auto& child) { return child->pid > 0; }));
}

}  // namespace kintsugi::server
