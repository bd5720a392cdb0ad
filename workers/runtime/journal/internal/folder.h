#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file_lock.h"

/// The directory of one environment, its lock beside it, and its damaged predecessors. Source:
/// RT-70, RT-74.
namespace kintsugi::workers {

/// An open file.
class JournalFile {
 public:
  JournalFile() noexcept = default;
  explicit JournalFile(int fd) noexcept : fd_(fd) {}
  JournalFile(JournalFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  JournalFile& operator=(JournalFile&& other) noexcept;
  ~JournalFile() { close(); }
  void close() noexcept;
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// kFull for what a full disk says, else kIo.
[[nodiscard]] Error journal_errno(std::string_view what, int code);

/// "<directory>.lock": the directory may be renamed under it.
/// @error kConfig "in use by process <pid>"; kIo, kFull.
[[nodiscard]] Expected<FileLock> lock_journal(const std::string& directory);

/// Makes the directory and what is above it; mode 0700, also when it was there with another one.
[[nodiscard]] Expected<void> make_journal_folder(const std::string& directory);

/// "<directory>/data.mdb" for reading and writing; not open when there is none or it is empty.
/// @error kCorrupt when it is no plain file; kIo.
[[nodiscard]] Expected<JournalFile> open_journal_data(const std::string& directory);

/// Renames the directory to "<directory>.suspect-<n>", n above all there are, and removes all of
/// them but the newest two. @returns the new path. @error kIo.
[[nodiscard]] Expected<std::string> set_journal_aside(const std::string& directory);

}  // namespace kintsugi::workers
