#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "server/kubeconfig.h"

namespace kintsugi::cmd {

/// Contexts and clusters that say where a user is and was, as kcp's kubectl plugin writes them: the
/// two can be used in turn.
inline constexpr std::string_view kCurrentWorkspace = "workspace.kcp.io/current";
inline constexpr std::string_view kPreviousWorkspace = "workspace.kcp.io/previous";

/// The kubeconfig of a user: one file or several that kubectl would merge (of equal names, and of
/// current contexts, the first counts). Changes are made in memory; save() writes the files that
/// have changed.
class KubeconfigSet {
 public:
  /// The files that are meant: `flag`, else the list in $KUBECONFIG, else ~/.kube/config.
  [[nodiscard]] static std::vector<std::string> default_files(const std::string& flag);
  /// Files that do not exist are passed over if others do.
  /// @error kConfig none can be read, one is malformed, or there is no current context.
  [[nodiscard]] static Expected<KubeconfigSet> load(const std::vector<std::string>& files);

  [[nodiscard]] const std::string& current_context() const noexcept { return current_; }
  /// Server and credentials of the current context.
  /// @error kConfig also when the user needs what only kubectl can do (exec, auth-provider, …).
  [[nodiscard]] Expected<server::KubeAccess> access() const;

  /// From now on the current context is `workspace.kcp.io/current`, a copy of what was current with
  /// another server; what was current is the previous one.
  [[nodiscard]] Expected<void> enter(std::string_view server);
  /// Current and previous change places. @error kConfig there is no previous one.
  [[nodiscard]] Expected<void> go_back();
  /// Each file by rename, with the mode that it has, behind symbolic links; other entries stay.
  /// Comments do not. @error kIo.
  [[nodiscard]] Expected<void> save() const;

 private:
  struct File {
    std::string path;
    krm::Json document;
    bool changed = false;
  };
  [[nodiscard]] const krm::Json* find(std::string_view list, std::string_view name) const;
  /// A copy of the entry's content, with file names that hold in every file.
  [[nodiscard]] std::optional<krm::Json> content(std::string_view list,
                                                 std::string_view name) const;
  void put(std::string_view list, std::string_view name, krm::Json value);
  void set_current(std::string_view context);

  std::vector<File> files_;
  std::size_t home_ = 0;  ///< of files_: the one that names the current context
  std::string current_;
};

}  // namespace kintsugi::cmd
