#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace kintsugi {

/// Whether who finds a lock taken comes back later, or stays until it is free. Only for what is
/// held for a few writes.
enum class LockWait : std::uint8_t { kNone, kUntilFree };
/// What taking a lock does to its file: a lock file is made (mode 0600), and names the process that
/// has it, for people. Content is somebody else's: the file is made, and stays what it is. Of a
/// store that is only looked at, nothing is written.
enum class LockFile : std::uint8_t { kNamesHolder, kHasContent, kIsLeftAlone };

/// A file that one process at a time has: a data folder, by a file in it or beside it, or what the
/// file contains. Whoever has it has it alone, also within one process, until this goes or the
/// process ends, however it ends; what stands in the file says nothing. Other machines keep to it
/// where the file system has locks (flock). Threads: one at a time.
class FileLock {
 public:
  /// @param path  no symbolic link
  /// @error kConfig  "in use by process <pid>", or "by another process" where none is named;
  /// kNotFound, kIo, kFull  "<path>: …"
  [[nodiscard]] static Expected<FileLock> take(const std::string& path,
                                               LockFile file = LockFile::kNamesHolder,
                                               LockWait wait = LockWait::kNone);
  ~FileLock();
  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;

  /// The file, for reading and writing.
  [[nodiscard]] int descriptor() const noexcept { return fd_; }

 private:
  explicit FileLock(int fd) noexcept : fd_(fd) {}

  int fd_;
};

}  // namespace kintsugi
