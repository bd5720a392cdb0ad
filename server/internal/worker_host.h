#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/alive.h"
#include "base/error.h"
#include "net/loop.h"
#include "server/internal/worker_access.h"
#include "server/internal/worker_part.h"
#include "server/internal/worker_report.h"
#include "server/worker_config.h"
#include "workers/runtime/worker.h"

namespace kintsugi::server {

/// Runs one role on a loop and a thread of its own. Threads: all calls on the main loop's.
/// Lifetime: the main loop outlives it and does not run while it dies.
class WorkerHost final : public WorkerPart {
 public:
  /// A loop that took no turn for so long does not live (section 12).
  static constexpr Duration kSilence = seconds(10);

  /// @param data_dir  of journals; "": there are none
  /// @param access  its TLS context is shared: renew() of it is a new credential
  WorkerHost(net::Loop& main, const WorkerRoleConfig& config, const std::string& data_dir,
             workers::Role role, const WorkerAccess& access);
  ~WorkerHost() override;
  WorkerHost(const WorkerHost&) = delete;
  WorkerHost& operator=(const WorkerHost&) = delete;

  /// @error kConfig: no connections can be made to the endpoints' server, or another process has
  /// the journal of the only endpoint.
  [[nodiscard]] Expected<void> start();
  /// Units run out; `done` once, on the main loop. What hangs never calls it.
  void stop(std::function<void()> done);
  /// Memory is short or not any more: shown in its metrics, and low work waits (RT-5).
  void set_pressure(bool pressure);

  [[nodiscard]] const std::string& role() const noexcept override { return role_; }
  void ask_health(std::function<void(RoleHealth)> done) override;
  void ask_metrics(std::function<void(std::string)> done) override;
  void ask_errors(std::function<void(HealthPage)> done) override;

 private:
  void beat();
  /// On the loop, then `done` on the main one.
  template <class Answer>
  void ask(std::function<Answer()> make, std::function<void(Answer)> done);
  [[nodiscard]] std::string not_ready() const;

  net::Loop& main_;
  const std::string role_;
  net::Loop loop_;
  std::vector<std::unique_ptr<workers::Worker>> workers_;
  net::Timer beat_;
  TimePoint heard_{};  // of the loop
  bool pressure_ = false;
  bool stopping_ = false;    // main loop's
  bool runs_out_ = false;    // the role's loop's
  std::size_t running_ = 0;  // workers that have not run out; the same
  std::thread thread_;
  Alive alive_;  // the main loop's
};

}  // namespace kintsugi::server
