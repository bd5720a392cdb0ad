#include "server/internal/worker_child.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/log.h"
#include "server/internal/child_process.h"

namespace kintsugi::server {
namespace {

constexpr Duration kFetchLimit = seconds(5);
constexpr std::size_t kMostFetches = 64;

}  // namespace

WorkerChild::WorkerChild(net::Loop& loop, Params params)
    : loop_(loop), params_(std::move(params)), restart_(loop), sweep_(loop) {}

WorkerChild::~WorkerChild() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

void WorkerChild::start() {
  const pid_t pid = start_child(params_.program, params_.arguments);
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

void WorkerChild::ask_errors(std::function<void(HealthPage)> done) {
  if (pid_ == 0) {
    done(no_errors_page(params_.role));
    return;
  }
  fetch(params_.metrics_socket, errors_path(params_.role),
        [role = params_.role, done = std::move(done)](int status, std::string body) {
          done(status == 0 ? no_errors_page(role) : HealthPage{status, std::move(body)});
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
