#include "base/internal/control_groups.h"

#include <algorithm>
#include <fstream>
#include <utility>

namespace kintsugi {
namespace {

std::vector<std::string> folders_of(const std::string& mounted, std::string group) {
  std::vector<std::string> out;
  while (true) {
    out.push_back(mounted + group);
    if (group.empty()) {
      return out;
    }
    group.resize(std::min(group.rfind('/'), group.size()));
  }
}

}  // namespace

std::vector<ControlGroups> control_groups(std::string_view controller, const std::string& root) {
  const std::string wanted = "," + std::string(controller) + ",";
  std::vector<ControlGroups> out;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // hierarchy:controllers:/path
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', std::min(first, line.size() - 1) + 1);
    if (line.empty() || first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/" || !group.starts_with('/')) {
      group.clear();
    }
    if (controllers.empty()) {
      out.push_back({true, folders_of(root + "/sys/fs/cgroup", std::move(group))});
    } else if ((',' + controllers + ',').find(wanted) != std::string::npos) {
      out.push_back({false, folders_of(root + "/sys/fs/cgroup/" + std::string(controller),
                                       std::move(group))});
    }
  }
  return out;
}

}  // namespace kintsugi
