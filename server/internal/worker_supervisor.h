#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/loop.h"
#include "net/signals.h"
#include "server/internal/process_socket.h"
#include "server/internal/worker_child.h"
#include "server/internal/worker_listeners.h"
#include "server/worker_program.h"

namespace kintsugi::server {

/// Says to a child who its supervisor is: that one holds the lock of the data folder.
inline constexpr const char* kWorkerSupervisor = "KINTSUGI_WORKER_SUPERVISOR";

/// A process for each role, and one page of health and metrics for all of them. It has no
/// connections of its own to any API. Source: RT-2. Threads: main.
class WorkerSupervisor {
 public:
  explicit WorkerSupervisor(const WorkerOptions& options);
  /// @error kConfig, kIo: it cannot listen; nothing was started.
  [[nodiscard]] Expected<void> start();
  int run();

 private:
  void on_signal(int number);
  void reap();
  void stop();
  void end_if_all_ended();
  [[nodiscard]] std::string own_metrics() const;

  net::Loop loop_;
  net::Signals signals_;
  std::vector<std::unique_ptr<WorkerChild>> children_;
  std::unique_ptr<WorkerListeners> listeners_;
  net::Timer patience_;
  const std::string admin_path_;
  std::optional<ProcessSocket> admin_;
  bool stopping_ = false;
};

}  // namespace kintsugi::server
