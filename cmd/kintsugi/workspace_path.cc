#include "cmd/kintsugi/workspace_path.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/strings.h"
#include "krm/path_prefixes.h"
#include "krm/request_info.h"

namespace kintsugi::cmd {
namespace {

constexpr std::string_view kRoot = "root";

bool is_root_path(std::string_view path) {
  return path == kRoot || (path.starts_with(kRoot) && path[kRoot.size()] == ':');
}

std::string with_colons(std::string_view text) {
  std::string out(text);
  while (out.size() > 1 && out.back() == '/') {
    out.pop_back();  // as completion of file names leaves it
  }
  std::replace(out.begin(), out.end(), '/', ':');
  return out;
}

/// A home may hold more than one part ("user:alice"), of which none can be left out.
Expected<std::string> append(std::string base, std::size_t fixed, std::string_view steps) {
  std::vector<std::string> parts;
  if (!base.empty()) {
    for (const std::string_view part : split(base, ':')) {
      parts.emplace_back(part);
    }
  }
  for (const std::string_view step : split(steps, ':')) {
    if (step == "." || (step.empty() && steps.empty())) {
      continue;
    }
    if (step != "..") {
      parts.emplace_back(step);
    } else if (parts.size() <= fixed) {
      return fail(Errc::kConfig, "there is nothing above " + join(parts, ":"));
    } else {
      parts.pop_back();
    }
  }
  return join(parts, ":");
}

/// How many parts at the beginning stay together.
std::size_t fixed_parts(std::string_view path) { return path.starts_with("user:") ? 2 : 1; }

}  // namespace

std::string workspaces_target(std::string_view cluster) {
  return krm::cluster_root(cluster) + "/apis/tenancy.kcp.io/v1alpha1/workspaces";
}

std::string WorkspaceUrl::at(std::string_view other) const {
  return base + krm::cluster_root(other);
}

Expected<WorkspaceUrl> parse_workspace_url(std::string_view url) {
  WorkspaceUrl out;
  const std::size_t slash = url.find('/');
  const bool has_scheme =
      slash != std::string_view::npos && slash > 0 && url.substr(slash - 1).starts_with("://");
  const std::size_t path = has_scheme ? url.find('/', slash + 2) : slash;
  const std::size_t clusters =
      path == std::string_view::npos ? path : url.find(krm::kClustersPrefix, path);
  if (path != std::string_view::npos &&
      url.substr(path, clusters - path).find(krm::kServicesPrefix) != std::string_view::npos) {
    return fail(Errc::kConfig,
                "the server " + std::string(url) + " is a virtual workspace, not a workspace");
  }
  std::string_view base = url.substr(0, std::min(clusters, url.size()));
  while (base.ends_with('/')) {
    base.remove_suffix(1);
  }
  out.base = base;
  if (clusters == std::string_view::npos) {
    return out;
  }
  const std::string_view rest = url.substr(clusters + krm::kClustersPrefix.size());
  const std::string_view raw = rest.substr(0, rest.find('/'));
  out.path = percent_decode(raw).value_or(std::string(raw));
  if (!krm::is_workspace_path(out.path)) {
    return fail(Errc::kConfig, "the server " + std::string(url) + " does not name a workspace");
  }
  return out;
}

bool is_below_home(std::string_view wanted) noexcept {
  return wanted == "~" || wanted.starts_with("~:") || wanted.starts_with("~/");
}

Expected<std::string> resolve_workspace(std::string_view current, std::string_view wanted,
                                        std::string_view home) {
  const std::string text = with_colons(wanted);
  Expected<std::string> path = std::string();
  if (is_below_home(text)) {
    if (home.empty()) {
      return fail(Errc::kConfig, "the home workspace is not known");
    }
    path = append(std::string(home), fixed_parts(home), text.size() > 2 ? text.substr(2) : "");
  } else if (text == ":") {
    const std::vector<std::string_view> parts = split(current, ':');
    const std::size_t fixed = std::min(fixed_parts(current), parts.size());
    std::vector<std::string> first(parts.begin(),
                                   parts.begin() + static_cast<std::ptrdiff_t>(fixed));
    path = join(first, ":");
  } else if (is_root_path(text)) {
    path = append("", 1, text);
  } else if (text.starts_with(':')) {
    path = append("", 1, std::string_view(text).substr(1));
  } else if (current.empty()) {
    return fail(Errc::kConfig,
                "the server of the current context names no workspace; give an absolute path, "
                "as in :root:a");
  } else {
    path = append(std::string(current), fixed_parts(current), text);
  }
  if (!path) {
    return path;
  }
  if (!krm::is_workspace_path(*path)) {
    return fail(Errc::kConfig, "\"" + std::string(wanted) +
                                   "\" is not a workspace path: its parts are lower case letters, "
                                   "digits and '-', joined by ':'");
  }
  return path;
}

WorkspaceName split_workspace(std::string_view path) {
  const std::size_t colon = path.rfind(':');
  if (colon == std::string_view::npos) {
    return {"", std::string(path)};
  }
  return {std::string(path.substr(0, colon)), std::string(path.substr(colon + 1))};
}

}  // namespace kintsugi::cmd
