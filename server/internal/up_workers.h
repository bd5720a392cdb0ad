#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/loop.h"
#include "net/task.h"
#include "server/internal/role_installer.h"
#include "server/internal/role_plan.h"
#include "server/up_program.h"

namespace kintsugi::server {

/// The workers of an installation: what their roles need is installed, then each role has a process
/// with an identity, a folder and a log of its own. Threads: the loop's.
class UpWorkers {
 public:
  struct Events {
    std::function<Expected<void>(const RoleNames& names)> start;
    std::function<void(const std::string& process, int number)> signal;
    std::function<void(const std::string& text)> tell;  ///< how far it is, for people
    /// Once: all are ready, or it cannot be. May end the installation, not this object.
    std::function<void(Expected<void>)> done;
  };
  /// @error kConfig a role that this program cannot install.
  [[nodiscard]] static Expected<std::unique_ptr<UpWorkers>> make(net::Loop& loop,
                                                                 const UpOptions& options,
                                                                 Events events);

  /// Call it when shards and proxy are ready.
  void begin();
  /// Pairs of which a third of the life is over, and shards that have joined. Call it every minute;
  /// before done() it does nothing.
  void renew();
  void stop() { job_.end(); }
  /// Whom of them is waited for, and why; the first is "" before begin().
  [[nodiscard]] const std::pair<std::string, std::string>& waits() const noexcept { return waits_; }

 private:
  struct Place {
    RolePlan plan;
    std::vector<std::string> shards;  ///< that are served
  };
  UpWorkers(net::Loop& loop, const UpOptions& options, Events events)
      : loop_(loop), options_(options), events_(std::move(events)) {}
  [[nodiscard]] net::Task<> start_all();
  [[nodiscard]] net::Task<Expected<void>> start_role(Place& place);
  [[nodiscard]] net::Task<> await_ready(RoleNames names);
  [[nodiscard]] net::Task<> look_for_shards();
  [[nodiscard]] Expected<void> connect();
  /// @returns whether the file is another now.
  [[nodiscard]] Expected<bool> write_kubeconfig(const RoleNames& names) const;
  [[nodiscard]] Expected<void> write_config(const Place& place) const;

  net::Loop& loop_;
  const UpOptions& options_;
  const Events events_;
  std::vector<std::unique_ptr<Place>> places_;
  std::unique_ptr<RoleInstaller> installer_;
  std::pair<std::string, std::string> waits_;
  bool started_ = false;
  net::Job job_;  ///< the last member: it uses the others
};

}  // namespace kintsugi::server
