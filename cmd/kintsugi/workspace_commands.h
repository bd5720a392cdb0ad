#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cmd/kintsugi/api_client.h"
#include "cmd/kintsugi/kubeconfig_set.h"
#include "cmd/kintsugi/workspace_path.h"
#include "krm/json.h"

/// What `kintsugi ws` does, once its command line is understood.
/// Source: TP-136 (requests of kcp's kubectl plugins).
namespace kintsugi::cmd {

struct WorkspaceOptions {
  std::string kubeconfig;             ///< --kubeconfig, may be empty
  std::string type;                   ///< create: "path:name" or "name"
  std::vector<std::string> selector;  ///< create: label selector of shards, parts
  bool enter = false;                 ///< create
  bool ignore_existing = false;       ///< create
  std::uint32_t timeout = 60;         ///< [s] create, delete, home
  std::uint32_t depth = 0;            ///< tree; 0: all levels
  bool full = false;                  ///< tree: whole paths
  bool wait = true;                   ///< create, delete
};

/// A kubeconfig, where it points to and the server behind it. Results go to stdout, everything on
/// the way to stderr.
class WorkspaceCommands {
 public:
  [[nodiscard]] static Expected<std::unique_ptr<WorkspaceCommands>> open(WorkspaceOptions options);

  /// The path of the current workspace, on a line. Asks no server.
  [[nodiscard]] Expected<void> show() const;
  /// Goes to `wanted` (resolve_workspace(), or `-` for the previous one) if it is there and the
  /// user may enter it.
  [[nodiscard]] Expected<void> use(const std::string& wanted);
  [[nodiscard]] Expected<void> create(const std::string& wanted);
  [[nodiscard]] Expected<void> list(const std::string& wanted);
  [[nodiscard]] Expected<void> tree(const std::string& wanted);
  [[nodiscard]] Expected<void> remove(const std::string& wanted);

 private:
  explicit WorkspaceCommands(WorkspaceOptions options) : options_(std::move(options)) {}
  [[nodiscard]] Expected<std::string> resolve(const std::string& wanted);
  [[nodiscard]] Expected<std::string> home();
  [[nodiscard]] Expected<std::string> resolve_child(const std::string& wanted);
  [[nodiscard]] Expected<krm::Json> workspace(const std::string& path);
  /// @returns the Workspace, null where there is none to be seen.
  [[nodiscard]] Expected<krm::Json> check_entry(const std::string& path);
  [[nodiscard]] Expected<void> enter(const std::string& path, const krm::Json& workspace);
  [[nodiscard]] Expected<void> go_back();
  [[nodiscard]] Expected<krm::Json> wait_ready(const std::string& path, krm::Json workspace);
  [[nodiscard]] Expected<void> check_same_type(const std::string& path,
                                               const krm::Json& workspace) const;
  [[nodiscard]] Expected<std::vector<krm::Json>> children(const std::string& path);
  [[nodiscard]] Expected<void> print_children(const std::string& path, const std::string& indent,
                                              std::uint32_t level);

  WorkspaceOptions options_;
  KubeconfigSet config_;
  WorkspaceUrl here_;
  std::unique_ptr<ApiClient> client_;
};

}  // namespace kintsugi::cmd
