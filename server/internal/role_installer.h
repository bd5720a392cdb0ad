#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/upstream.h"
#include "server/internal/role_plan.h"

namespace kintsugi::server {

/// Installs what a role needs, through the proxy and by server-side apply: again and again with the
/// same outcome. Nothing is written that is there already, and nothing that others have added
/// leaves. Threads: the loop's. It must outlive the tasks, and may not die in an answer to one.
class RoleInstaller {
 public:
  struct Params {
    net::Url proxy;
    std::string ca_file, certificate_file, key_file;  ///< of an administrator
    std::vector<std::string> shards;                  ///< that must be there
    /// Logical clusters in which a role without an APIExport works; made where they are missing.
    std::vector<std::string> targets;
    Duration patience = seconds(60);  ///< for a server that refuses, or does not know yet
  };
  /// @error kConfig names the file and the cause.
  [[nodiscard]] static Expected<std::unique_ptr<RoleInstaller>> make(net::Loop& loop,
                                                                     Params params);

  /// Installs all of it. Shards that are registered besides Params::shards, such as those that
  /// joined, are served if they answer at once. @param known  are not asked whether they do
  /// @returns the shards that are served, Params::shards first. @error names the request.
  [[nodiscard]] net::Task<Expected<std::vector<std::string>>> install(
      RolePlan plan, std::vector<std::string> known);

  /// Registered shards that carry their name as a label, by which workspaces are placed.
  [[nodiscard]] net::Task<Expected<std::vector<std::string>>> registered();

 private:
  RoleInstaller(net::Loop& loop, Params params) : loop_(loop), params_(std::move(params)) {}
  [[nodiscard]] net::Task<Expected<krm::Json>> ask(std::string method, std::string target,
                                                   std::string body, Duration patience);
  [[nodiscard]] net::Task<Expected<void>> apply(std::string cluster, std::vector<krm::Json> objects,
                                                Duration patience);
  [[nodiscard]] net::Task<Expected<void>> make_workspace(std::string parent, krm::Json workspace);
  [[nodiscard]] net::Task<Expected<void>> await_workspace(std::string parent, krm::Json workspace,
                                                          Duration patience);
  [[nodiscard]] net::Task<Expected<std::vector<std::string>>> make_leases(
      RolePlan plan, std::vector<std::string> known);

  [[nodiscard]] net::Task<Expected<void>> make_targets(RolePlan plan);

  net::Loop& loop_;
  const Params params_;
  std::unique_ptr<net::Upstream> upstream_;
};

}  // namespace kintsugi::server
