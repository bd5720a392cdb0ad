#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

/// Which workspace a server URL names, and where what a user types leads from there.
namespace kintsugi::cmd {

/// "https://host:6443/clusters/root:a" taken apart.
struct WorkspaceUrl {
  std::string base;  ///< "https://host:6443", with a path prefix when there is one
  std::string path;  ///< "root:a"; empty: the URL names no workspace
  /// The URL of another workspace of the same server.
  [[nodiscard]] std::string at(std::string_view other) const;
  bool operator==(const WorkspaceUrl&) const = default;
};
/// @error kConfig the URL is that of a virtual workspace (`/services/…`), of all logical clusters,
///        or its workspace path is malformed.
[[nodiscard]] Expected<WorkspaceUrl> parse_workspace_url(std::string_view url);

/// Where the Workspaces of a logical cluster are: "/clusters/root:a/apis/…/workspaces".
/// @param cluster as it is to stand there, nothing is escaped.
[[nodiscard]] std::string workspaces_target(std::string_view cluster);

/// The absolute path that `wanted` means in `current`. `/` may stand for `:`.
///   a, a:b, .., ../a   from `current`
///   root, root:…, :…   absolute (`:` is the first part of `current`)
///   ~, ~:a             below `home`
/// @param current, home may be empty: then what needs them is an error.
/// @error kConfig malformed, above the first part, or relative to nothing.
[[nodiscard]] Expected<std::string> resolve_workspace(std::string_view current,
                                                      std::string_view wanted,
                                                      std::string_view home = {});
/// True for `~` and paths below it.
[[nodiscard]] bool is_below_home(std::string_view wanted) noexcept;

/// "root:a:b" as "root:a" and "b"; the parent of a single part is "".
struct WorkspaceName {
  std::string parent, name;
};
[[nodiscard]] WorkspaceName split_workspace(std::string_view path);

}  // namespace kintsugi::cmd
