#include "base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

namespace kintsugi {
namespace {

/// What the file says; "max", or no file, is no limit.
std::size_t limit_in(const std::string& path) {
  std::size_t value = 0;
  return std::ifstream(path) >> value ? value : std::numeric_limits<std::size_t>::max();
}

/// Of a control group and all that it is part of.
std::size_t least_limit(const std::string& root, std::string group, std::string_view file) {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  while (true) {
    std::string path = root + group;
    path.append(1, '/').append(file);
    least = std::min(least, limit_in(path));
    if (group.empty()) {
      return least;
    }
    group.resize(std::min(group.rfind('/'), group.size()));
  }
}

}  // namespace

std::size_t memory_limit(const std::string& root) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  std::size_t least = pages > 0 && page > 0
                          ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page)
                          : std::numeric_limits<std::size_t>::max();
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
      // Beyond memory.high nobody is killed, but everybody is slowed down until memory is free.
      least = std::min({least, least_limit(root + "/sys/fs/cgroup", group, "memory.max"),
                        least_limit(root + "/sys/fs/cgroup", group, "memory.high")});
    } else if ((',' + controllers + ',').find(",memory,") != std::string::npos) {
      least = std::min(least,
                       least_limit(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace kintsugi
