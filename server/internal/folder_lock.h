#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <string>

namespace kintsugi::server {

/// For as long as it lives no other process changes what all of an installation use in a folder;
/// whoever comes meanwhile waits. Held for a few writes only.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder)
      : fd_(::open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)),
        taken_(fd_ >= 0 && ::flock(fd_, LOCK_EX) == 0) {}
  ~FolderLock() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  [[nodiscard]] bool is_taken() const noexcept { return taken_; }

 private:
  const int fd_;
  const bool taken_;
};

}  // namespace kintsugi::server
