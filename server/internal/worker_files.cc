#include "server/internal/worker_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "server/files.h"

namespace kintsugi::server {

Expected<WorkerLock> WorkerLock::take(const std::string& folder) {
  if (auto made = make_directories(folder); !made) {
    return fail(std::move(made.error()));
  }
  const std::string path = folder + "/lock";
  WorkerLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.fd_ < 0) {
    return fail(Errc::kIo, path + ": " + std::strerror(errno));
  }
  if (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    return fail(Errc::kConfig, "data_dir: " + folder + " is in use by another worker");
  }
  return lock;
}

WorkerLock::~WorkerLock() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

std::size_t resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) {
    return 0;
  }
  unsigned long all = 0, resident = 0;
  const int read = std::fscanf(file, "%lu %lu", &all, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace kintsugi::server
