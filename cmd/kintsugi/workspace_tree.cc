#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/strings.h"
#include "cmd/kintsugi/workspace_commands.h"

namespace kintsugi::cmd {
namespace {

using krm::Json;

constexpr std::uint32_t kMostLevels = 64;

std::string name_of(const Json& workspace) {
  return std::string(workspace.text({"metadata", "name"}));
}

/// Columns as wide as their widest cell.
void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - row[i].size() + 3, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
}

}  // namespace

Expected<std::vector<Json>> WorkspaceCommands::children(const std::string& path) {
  Expected<std::vector<Json>> out = client_->list(workspaces_target(path));
  if (!out) {
    return out;
  }
  std::sort(out->begin(), out->end(),
            [](const Json& a, const Json& b) { return name_of(a) < name_of(b); });
  return out;
}

Expected<void> WorkspaceCommands::list(const std::string& wanted) {
  auto path = resolve(wanted);
  if (!path) {
    return fail(std::move(path.error()));
  }
  auto found = children(*path);
  if (!found) {
    return fail(std::move(found.error()));
  }
  if (found->empty()) {
    std::fprintf(stderr, "No workspaces in \"%s\".\n", path->c_str());
    return {};
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "TYPE", "REGION", "PHASE", "CLUSTER"}};
  for (const Json& workspace : *found) {
    const std::string_view type = workspace.text({"spec", "type", "name"});
    rows.push_back({name_of(workspace), std::string(type),
                    std::string(workspace.text({"metadata", "labels", "region"})),
                    std::string(workspace.text({"status", "phase"})),
                    std::string(workspace.text({"spec", "cluster"}))});
  }
  print_table(rows);
  return {};
}

Expected<void> WorkspaceCommands::tree(const std::string& wanted) {
  auto path = resolve(wanted);
  if (!path) {
    return fail(std::move(path.error()));
  }
  std::printf("%s\n", (options_.full ? *path : split_workspace(*path).name).c_str());
  return print_children(*path, "", 1);
}

Expected<void> WorkspaceCommands::print_children(const std::string& path, const std::string& indent,
                                                 std::uint32_t level) {
  auto found = children(path);
  if (!found) {
    return fail(std::move(found.error()));
  }
  for (std::size_t i = 0; i < found->size(); ++i) {
    const Json& workspace = (*found)[i];
    const bool last = i + 1 == found->size();
    const std::string child = path + ":" + name_of(workspace);
    const std::string_view phase = workspace.text({"status", "phase"});
    std::printf("%s%s%s", indent.c_str(), last ? "└── " : "├── ",
                (options_.full ? child : name_of(workspace)).c_str());
    const bool mounted = workspace.at({"spec", "mount"}) != nullptr;
    if (phase != "Ready") {
      std::printf(" (%s)", std::string(phase).c_str());
    } else if (mounted) {
      std::printf(" (mount)");
    }
    std::printf("\n");
    const bool deeper = level < kMostLevels && (options_.depth == 0 || level < options_.depth);
    if (!deeper || phase != "Ready" || mounted) {
      continue;
    }
    const std::string below = indent + (last ? "    " : "│   ");
    if (auto printed = print_children(child, below, level + 1); !printed) {
      // Tokens of one workspace hold nothing in another.
      const Errc code = printed.error().code();
      const bool denied = code == Errc::kForbidden || code == Errc::kUnauthorized;
      if (!denied && code != Errc::kNotFound && code != Errc::kUnavailable) {
        return printed;
      }
      std::printf("%s└── (%s)\n", below.c_str(), denied ? "no access" : "not available now");
    }
  }
  return {};
}

}  // namespace kintsugi::cmd
