#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "server/internal/worker_part.h"
#include "server/internal/worker_socket.h"
#include "server/internal/worker_supervision.h"

namespace kintsugi::server {

/// The process of one role under a supervisor: started, asked over its sockets, started again when
/// it ended. Threads: the loop's. The owner waits for children and tells.
class WorkerChild final : public WorkerPart {
 public:
  struct Params {
    std::string role;
    std::string program;                 ///< path of the executable
    std::vector<std::string> arguments;  ///< without the program
    std::string health_socket, metrics_socket;
  };
  WorkerChild(net::Loop& loop, Params params);
  ~WorkerChild() override;  ///< kills what still runs
  WorkerChild(const WorkerChild&) = delete;
  WorkerChild& operator=(const WorkerChild&) = delete;

  /// What does not start counts as a death.
  void start();
  /// waitpid(2) gave this child. Starts it again after a while, unless it was stopped.
  void on_ended(int status);
  /// Of the process, if there is one.
  void send(int signal) const noexcept;
  /// It is not started again.
  void stop() noexcept;
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }  ///< 0: none runs
  [[nodiscard]] std::uint64_t restarts() const noexcept { return policy_.restarts(); }

  [[nodiscard]] const std::string& role() const noexcept override { return params_.role; }
  void ask_health(std::function<void(RoleHealth)> done) override;
  void ask_metrics(std::function<void(std::string)> done) override;
  void ask_errors(std::function<void(HealthPage)> done) override;

 private:
  void again(int status);
  void fetch(const std::string& path, std::string_view target,
             std::function<void(int, std::string)> done);

  net::Loop& loop_;
  Params params_;
  RestartPolicy policy_;
  pid_t pid_ = 0;
  bool stopped_ = false;
  net::Timer restart_, sweep_;
  std::vector<std::pair<TimePoint, std::unique_ptr<SocketFetch>>> fetches_;
};

}  // namespace kintsugi::server
