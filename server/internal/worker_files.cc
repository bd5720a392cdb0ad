#include "server/internal/worker_files.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "server/files.h"

namespace kintsugi::server {

std::string admin_socket_of(const WorkerConfig& config) {
  return config.admin_socket.empty() ? WorkerFiles{config.data_dir}.admin_socket()
                                     : config.admin_socket;
}

Expected<FileLock> lock_worker_folder(const std::string& folder) {
  if (auto made = make_directories(folder); !made) {
    return fail(std::move(made.error()));
  }
  auto lock = FileLock::take(folder + "/lock");
  if (!lock && lock.error().code() == Errc::kConfig) {
    return fail(Errc::kConfig, "data_dir: " + folder + " is in use by another worker");
  }
  return lock;
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
