#include "base/sync_path.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace kintsugi {

int sync_path(const std::string& path) noexcept {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return errno;
  }
  const int fault = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  return fault;
}

}  // namespace kintsugi
