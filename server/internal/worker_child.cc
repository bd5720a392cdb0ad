#include "server/internal/worker_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/log.h"

namespace kintsugi::server {
namespace {

constexpr Duration kFetchLimit = seconds(5);
constexpr std::size_t kMostFetches = 64;

/// For a child between fork and exec: it has the signals of a program that was just started.
void forget_handlers() noexcept {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      ::signal(number, SIG_DFL);
    }
  }
}

/// Its log is the supervisor's. @returns -1: there is no room for a process.
pid_t launch(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<std::string> texts{program};
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& text : texts) {
    argv.push_back(text.data());
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
    ::setpgid(0, 0);  // Ctrl-C reaches the supervisor alone
    forget_handlers();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(null_fd, STDIN_FILENO);
    ::execv(argv.front(), argv.data());
    ::_exit(127);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return pid;
}

}  // namespace

std::string how_child_ended(int status) {
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "exit " + std::to_string(WEXITSTATUS(status));
}

WorkerChild::WorkerChild(net::Loop& loop, Params params)
    : loop_(loop), params_(std::move(params)), restart_(loop), sweep_(loop) {}

WorkerChild::~WorkerChild() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

void WorkerChild::start() {
  const pid_t pid = launch(params_.program, params_.arguments);
  if (pid < 0) {
    log_error("a role cannot be started",
              {{"role", params_.role}, {"err", std::string(std::strerror(errno))}});
    again(0);
    return;
  }
  pid_ = pid;
  policy_.on_started(loop_.now());
  log_info("a role is started", {{"role", params_.role}, {"pid", static_cast<std::int64_t>(pid)}});
}

void WorkerChild::on_ended(int status) {
  pid_ = 0;
  if (!stopped_) {
    again(status);
  }
}

void WorkerChild::again(int status) {
  const Duration pause = policy_.on_ended(loop_.now());
  log_warn(policy_.crash_loop(loop_.now()) ? "a role ends again and again" : "a role ended",
           {{"role", params_.role},
            {"cause", how_child_ended(status)},
            {"again_in_ms", static_cast<std::int64_t>(pause / milliseconds(1))}});
  restart_.start(pause, [this] { start(); });
}

void WorkerChild::send(int signal) const noexcept {
  if (pid_ > 0) {
    ::kill(pid_, signal);
  }
}

void WorkerChild::stop() noexcept {
  stopped_ = true;
  restart_.cancel();
}

void WorkerChild::ask_health(std::function<void(RoleHealth)> done) {
  const std::string why = stopped_                          ? "is stopping"
                          : policy_.crash_loop(loop_.now()) ? "CrashLoop"
                          : pid_ == 0                       ? "its process ended"
                                                            : "";
  if (!why.empty()) {
    done({params_.role, true, why});
    return;
  }
  fetch(params_.health_socket, "/readyz?verbose",
        [role = params_.role, done = std::move(done)](int status, const std::string& body) {
          done({role, true, reason_of(status, body)});
        });
}

void WorkerChild::ask_metrics(std::function<void(std::string)> done) {
  if (pid_ == 0) {
    done("");
    return;
  }
  fetch(params_.metrics_socket, "/metrics", [done = std::move(done)](int status, std::string body) {
    done(status == 200 ? std::move(body) : std::string());
  });
}

/// Whoever asked has given up before a fetch is swept.
void WorkerChild::fetch(const std::string& path, std::string_view target,
                        std::function<void(int, std::string)> done) {
  const TimePoint now = loop_.now();
  std::erase_if(fetches_, [now](const auto& one) { return now - one.first > kFetchLimit; });
  if (fetches_.size() >= kMostFetches) {
    done(0, "");
    return;
  }
  fetches_.emplace_back(now, std::make_unique<SocketFetch>(loop_, path, target, std::move(done)));
  sweep_.start(kFetchLimit + milliseconds(1), [this] { fetches_.clear(); });
}

}  // namespace kintsugi::server
