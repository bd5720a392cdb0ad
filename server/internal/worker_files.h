#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace kintsugi::server {

/// Names in the data folder of a worker.
struct WorkerFiles {
  std::string dir;
  [[nodiscard]] std::string run() const { return dir + "/run"; }
  [[nodiscard]] std::string role(const std::string& name) const { return dir + "/" + name; }
  [[nodiscard]] std::string health_socket(const std::string& role) const {
    return run() + "/" + role + ".health.sock";
  }
  [[nodiscard]] std::string metrics_socket(const std::string& role) const {
    return run() + "/" + role + ".metrics.sock";
  }
};

/// That one process uses a folder, for as long as it lives; ends with the process, too (RT-T073).
class WorkerLock {
 public:
  /// Makes the folder where it is missing. @error kConfig another process uses it; kIo it cannot be
  /// made.
  [[nodiscard]] static Expected<WorkerLock> take(const std::string& folder);
  ~WorkerLock();
  WorkerLock(WorkerLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  WorkerLock& operator=(WorkerLock&&) = delete;

 private:
  explicit WorkerLock(int fd) noexcept : fd_(fd) {}
  int fd_;
};

/// Memory of this process that is in RAM [bytes]; 0: it cannot be told.
[[nodiscard]] std::size_t resident_bytes();

}  // namespace kintsugi::server
