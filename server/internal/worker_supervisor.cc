#include "server/internal/worker_supervisor.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "base/log_output.h"
#include "net/service_notices.h"
#include "net/watchdog.h"
#include "server/internal/child_process.h"
#include "server/internal/worker_files.h"
#include "server/internal/worker_report.h"

namespace kintsugi::server {
namespace {

/// A child drains for 25 s.
constexpr Duration kPatience = seconds(28);

}  // namespace

WorkerSupervisor::WorkerSupervisor(const WorkerOptions& options)
    : loop_("worker"),
      signals_(loop_, {SIGINT, SIGTERM, SIGHUP, SIGCHLD},
               [this](int number) { on_signal(number); }),
      patience_(loop_),
      admin_path_(admin_socket_of(options.config)) {
  const WorkerFiles files{options.config.data_dir};
  std::vector<WorkerPart*> parts;
  for (const WorkerRoleConfig& role : options.config.roles) {
    WorkerChild::Params params;
    params.role = role.name;
    params.program = own_program();
    params.health_socket = files.health_socket(role.name);
    params.metrics_socket = files.metrics_socket(role.name);
    params.arguments = {"worker"};
    params.arguments.insert(params.arguments.end(), options.child_arguments.begin(),
                            options.child_arguments.end());
    for (std::string more : {"--roles=" + role.name, "--data-dir=" + options.config.data_dir,
                             "--metrics-bind-address=" + params.metrics_socket,
                             "--health-probe-bind-address=" + params.health_socket,
                             "--admin-socket=" + files.admin_socket(role.name)}) {
      params.arguments.push_back(std::move(more));
    }
    children_.push_back(std::make_unique<WorkerChild>(loop_, std::move(params)));
    parts.push_back(children_.back().get());
  }
  WorkerListeners::Params params;
  params.metrics = options.config.metrics;
  params.health = options.config.health;
  params.labels = true;
  params.own_metrics = [this] { return own_metrics(); };
  listeners_ = std::make_unique<WorkerListeners>(loop_, std::move(params), std::move(parts));
}

Expected<void> WorkerSupervisor::start() {
  if (auto opened = listeners_->open(); !opened) {
    return opened;
  }
  admin_.emplace(loop_, admin_path_);
  ::setenv(kWorkerSupervisor, std::to_string(::getpid()).c_str(), 1);
  for (const auto& child : children_) {
    child->start();
  }
  return {};
}

int WorkerSupervisor::run() {
  const net::Watchdog watchdog(net::watchdog_of_service());
  net::service_notices().ready("runs " + std::to_string(children_.size()) + " roles");
  loop_.run();
  return 0;
}

void WorkerSupervisor::on_signal(int number) {
  if (number == SIGCHLD) {
    reap();
  } else if (number == SIGHUP) {
    reopen_log_file();
    for (const auto& child : children_) {
      child->send(SIGHUP);
    }
  } else if (!stopping_) {
    stop();
  } else {
    for (const auto& child : children_) {
      child->send(SIGKILL);
    }
    ::_exit(143);
  }
}

void WorkerSupervisor::reap() {
  int status = 0;
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0;
       pid = ::waitpid(-1, &status, WNOHANG)) {
    for (const auto& child : children_) {
      if (child->pid() == pid) {
        child->on_ended(status);
      }
    }
  }
  end_if_all_ended();
}

void WorkerSupervisor::stop() {
  stopping_ = true;
  net::service_notices().stopping();
  log_info("stops", {{"roles", static_cast<std::uint64_t>(children_.size())}});
  for (const auto& child : children_) {
    child->stop();
    child->send(SIGTERM);
  }
  patience_.start(kPatience, [this] {
    for (const auto& child : children_) {
      child->send(SIGKILL);
    }
  });
  end_if_all_ended();
}

void WorkerSupervisor::end_if_all_ended() {
  if (stopping_ && std::all_of(children_.begin(), children_.end(),
                               [](const auto& child) { return child->pid() == 0; })) {
    loop_.stop();
  }
}

std::string WorkerSupervisor::own_metrics() const {
  std::vector<std::pair<std::string, std::uint64_t>> restarts;
  for (const auto& child : children_) {
    restarts.emplace_back(child->role(), child->restarts());
  }
  return process_metrics_text() + restart_metrics_text(restarts);
}

}  // namespace kintsugi::server
