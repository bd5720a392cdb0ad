#include "base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/internal/control_groups.h"

namespace kintsugi {
namespace {

/// What the file says; "max", or no file, is no limit.
std::size_t limit_in(const std::string& path) {
  std::size_t value = 0;
  return std::ifstream(path) >> value ? value : std::numeric_limits<std::size_t>::max();
}

}  // namespace

std::size_t memory_limit(const std::string& root) {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  std::size_t least = pages > 0 && page > 0
                          ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page)
                          : std::numeric_limits<std::size_t>::max();
  for (const ControlGroups& groups : control_groups("memory", root)) {
    for (const std::string& folder : groups.folders) {
      // Beyond memory.high nobody is killed, but everybody is slowed down until memory is free.
      least = groups.is_second ? std::min({least, limit_in(folder + "/memory.max"),
                                           limit_in(folder + "/memory.high")})
                               : std::min(least, limit_in(folder + "/memory.limit_in_bytes"));
    }
  }
  return least;
}

}  // namespace kintsugi
