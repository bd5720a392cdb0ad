#pragma once

#include <string>

#include "topology/index.h"

/// For tests only: reports of Workspaces and of the logical clusters that belong to them.
namespace kintsugi::topology {

[[nodiscard]] inline std::string testing_uid(const std::string& parent, const std::string& name) {
  return "uid of " + parent + ":" + name;
}

/// The Workspace `name` in the logical cluster `parent`.
[[nodiscard]] inline WorkspaceReport edge(const std::string& parent, const std::string& name,
                                          const std::string& child,
                                          const std::string& phase = "Ready") {
  return {parent, name, phase, child, false, {}, testing_uid(parent, name)};
}

/// A logical cluster that belongs to it.
[[nodiscard]] inline ClusterReport owned(const std::string& cluster, const std::string& parent,
                                         const std::string& name, const std::string& path = {},
                                         const std::string& type = {}) {
  return {cluster, path, type, false, parent, name, testing_uid(parent, name)};
}

}  // namespace kintsugi::topology
