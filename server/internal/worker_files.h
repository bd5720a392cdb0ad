#pragma once

#include <cstddef>
#include <string>

#include "base/error.h"
#include "base/file_lock.h"
#include "server/worker_config.h"

namespace kintsugi::server {

/// Names in the data folder of a worker.
struct WorkerFiles {
  std::string dir;
  [[nodiscard]] std::string run() const { return dir + "/run"; }
  [[nodiscard]] std::string role(const std::string& name) const { return dir + "/" + name; }
  [[nodiscard]] std::string health_socket(const std::string& role) const {
    return run() + "/" + role + ".health.sock";
  }
  /// Of who has the folder; of a role's own process.
  [[nodiscard]] std::string admin_socket() const { return run() + "/admin.sock"; }
  [[nodiscard]] std::string admin_socket(const std::string& role) const {
    return run() + "/admin-" + role + ".sock";
  }
  [[nodiscard]] std::string metrics_socket(const std::string& role) const {
    return run() + "/" + role + ".metrics.sock";
  }
};

/// That one process uses a folder, which is made where it is missing (RT-T073).
/// @error kConfig another process uses it; kIo, kFull it cannot be made.
[[nodiscard]] Expected<FileLock> lock_worker_folder(const std::string& folder);

/// Where the process of a worker is asked.
[[nodiscard]] std::string admin_socket_of(const WorkerConfig& config);

/// Memory of this process that is in RAM [bytes]; 0: it cannot be told.
[[nodiscard]] std::size_t resident_bytes();

}  // namespace kintsugi::server
