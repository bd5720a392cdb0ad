// The process of `kintsugi worker`, from its configuration to the end of its last role.
#include "server/worker_program.h"

#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "base/last_resort.h"
#include "base/log.h"
#include "base/log_output.h"
#include "base/strings.h"
#include "net/loop.h"
#include "net/service_notices.h"
#include "net/signals.h"
#include "net/watchdog.h"
#include "server/files.h"
#include "server/internal/process_socket.h"
#include "server/internal/tracing.h"
#include "server/internal/worker_access.h"
#include "server/internal/worker_files.h"
#include "server/internal/worker_host.h"
#include "server/internal/worker_listeners.h"
#include "server/internal/worker_roles.h"
#include "server/internal/worker_supervision.h"
#include "server/internal/worker_supervisor.h"
#include "server/program.h"

namespace kintsugi::server {
namespace {

constexpr Duration kDrain = seconds(25);
constexpr Duration kMemoryLook = milliseconds(500);
constexpr int kOutOfMemory = 70, kKilled = 143;

/// Runs its roles in this process.
class WorkerProcess {
 public:
  explicit WorkerProcess(const WorkerConfig& config)
      : config_(config),
        loop_("worker"),
        signals_(loop_, {SIGINT, SIGTERM, SIGHUP}, [this](int number) { on_signal(number); }) {}

  Expected<void> start() {
    auto access = load_worker_access(config_.kubeconfig);
    if (!access) {
      return fail(std::move(access.error()));
    }
    access_ = std::move(*access);
    std::vector<WorkerPart*> parts;
    for (const WorkerRoleConfig& role : config_.roles) {
      hosts_.push_back(std::make_unique<WorkerHost>(loop_, role, config_.data_dir,
                                                    make_worker_role(role), *access_));
      parts.push_back(hosts_.back().get());
      limit_ += role.memory_limit;
    }
    WorkerListeners::Params params;
    params.metrics = config_.metrics;
    params.health = config_.health;
    params.labels = hosts_.size() > 1;
    params.own_metrics = process_metrics_text;
    listeners_ = std::make_unique<WorkerListeners>(loop_, std::move(params), std::move(parts));
    if (auto opened = listeners_->open(); !opened) {
      return opened;
    }
    admin_.emplace(loop_, admin_socket_of(config_));
    auto traces = start_tracing(config_.tracing, "kintsugi-worker", "");
    if (!traces) {
      return fail(std::move(traces.error()));
    }
    traces_ = std::move(*traces);
    for (const auto& host : hosts_) {
      if (auto started = host->start(); !started) {
        return started;
      }
    }
    look_at_memory();
    return {};
  }

  int run() {
    const net::Watchdog watchdog(net::watchdog_of_service());
    net::service_notices().ready("runs");
    loop_.run();
    if (hangs_) {  // a thread that does not end cannot be waited for
      ::_exit(0);
    }
    listeners_.reset();
    admin_.reset();
    hosts_.clear();
    return 0;
  }

 private:
  void on_signal(int number) {
    if (number == SIGHUP) {
      reopen_log_file();
      reload();
    } else if (!stopping_) {
      stop();
    } else {
      ::_exit(kKilled);
    }
  }

  /// Connections that are made from now on, and requests, have the new credential; what runs goes
  /// on (RT-4).
  void reload() {
    if (auto renewed = renew_worker_access(*access_, config_.kubeconfig); !renewed) {
      log_error("reload failed", {{"err", renewed.error().to_string()}});
      return;
    }
    log_info("kubeconfig reloaded", {{"kubeconfig", config_.kubeconfig}});
  }

  void stop() {
    stopping_ = true;
    net::service_notices().stopping();
    log_info("stops", {{"roles", static_cast<std::uint64_t>(hosts_.size())}});
    running_ = hosts_.size();
    for (const auto& host : hosts_) {
      host->stop([this] {
        if (--running_ == 0) {
          loop_.stop();
        }
      });
    }
    patience_.start(kDrain, [this] {
      log_warn("not everything has run out in time", {});
      hangs_ = true;
      loop_.stop();
    });
  }

  void look_at_memory() {
    const std::size_t used = resident_bytes();
    const WorkerMemory verdict = judge_memory(used, limit_);
    if (verdict == WorkerMemory::kExceeded) {
      log_error("memory is at its limit; the process ends",
                {{"bytes", static_cast<std::uint64_t>(used)},
                 {"limit", static_cast<std::uint64_t>(limit_)}});
      ::_exit(kOutOfMemory);
    }
    if (verdict != memory_) {
      memory_ = verdict;
      log_warn(verdict == WorkerMemory::kPressure ? "memory is at 80 % of its limit"
                                                  : "memory is below 80 % of its limit again",
               {{"bytes", static_cast<std::uint64_t>(used)},
                {"limit", static_cast<std::uint64_t>(limit_)}});
    }
    for (const auto& host : hosts_) {
      host->set_pressure(verdict == WorkerMemory::kPressure);
    }
    memory_timer_.start(kMemoryLook, [this] { look_at_memory(); });
  }

  const WorkerConfig& config_;
  net::Loop loop_;
  net::Signals signals_;
  std::optional<WorkerAccess> access_;  ///< all roles share its TLS context
  std::vector<std::unique_ptr<WorkerHost>> hosts_;
  std::unique_ptr<WorkerListeners> listeners_;
  std::optional<ProcessSocket> admin_;
  std::unique_ptr<serving::TraceExporter> traces_;  ///< null: no spans are collected
  net::Timer memory_timer_{loop_}, patience_{loop_};
  std::size_t limit_ = 0;  ///< [bytes] of all roles: memory of a process has no owner
  WorkerMemory memory_ = WorkerMemory::kCalm;
  std::size_t running_ = 0;  ///< hosts that have not run out
  bool stopping_ = false, hangs_ = false;
};

bool has_supervisor() {
  const char* const said = std::getenv(kWorkerSupervisor);
  return said != nullptr && parse_decimal<pid_t>(said) == ::getppid();
}

bool is_supervisor(const WorkerConfig& config) {
  return config.roles.size() > 1 && config.isolation == WorkerIsolation::kProcess;
}

Expected<void> check_sockets(const WorkerConfig& config) {
  for (const WorkerRoleConfig& role : config.roles) {
    const std::string path = WorkerFiles{config.data_dir}.metrics_socket(role.name);
    if (path.size() >= sizeof(sockaddr_un::sun_path)) {
      return fail(Errc::kConfig, "data_dir: " + path + " is too long for a Unix socket");
    }
  }
  return {};
}

int could_not_start(const Error& error) {
  return complain("worker", error, error.code() == Errc::kConfig ? 2 : 1);
}

}  // namespace

std::vector<std::string> known_worker_roles() { return worker_roles(); }

Expected<void> check_worker(const WorkerConfig& config) {
  if (is_supervisor(config)) {
    if (auto fit = check_sockets(config); !fit) {
      return fit;
    }
  }
  const auto access = load_worker_access(config.kubeconfig);
  if (!access) {
    return fail(access.error().clone());
  }
  return judge_worker_access(config, *access);
}

int run_worker_program(WorkerOptions options) {
  prepare_for_no_memory();
  const WorkerConfig& config = options.config;
  if (auto right = check_worker(config); !right) {
    return could_not_start(right.error());
  }
  std::vector<FileLock> locks;
  const auto lock = [&locks](const std::string& folder) -> Expected<void> {
    auto taken = lock_worker_folder(folder);
    if (!taken) {
      return fail(std::move(taken.error()));
    }
    locks.push_back(std::move(*taken));
    return {};
  };
  const WorkerFiles files{config.data_dir};
  if (!has_supervisor()) {
    if (auto taken = lock(files.dir); !taken) {
      return could_not_start(taken.error());
    }
  }
  if (is_supervisor(config)) {
    if (auto made = make_directories(files.run()); !made) {
      return could_not_start(made.error());
    }
    WorkerSupervisor supervisor(options);
    if (auto started = supervisor.start(); !started) {
      return could_not_start(started.error());
    }
    return supervisor.run();
  }
  for (const WorkerRoleConfig& role : config.roles) {
    if (auto taken = lock(files.role(role.name)); !taken) {
      return could_not_start(taken.error());
    }
  }
  WorkerProcess process(config);
  if (auto started = process.start(); !started) {
    return could_not_start(started.error());
  }
  return process.run();
}

}  // namespace kintsugi::server
