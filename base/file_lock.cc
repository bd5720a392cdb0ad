#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>

namespace kintsugi {
namespace {

tl::unexpected<Error> file_error(const std::string& path, int code) {
  const bool full = code == ENOSPC || code == EDQUOT;
  return fail(full             ? Errc::kFull
              : code == ENOENT ? Errc::kNotFound
                               : Errc::kIo,
              path + ": " + std::generic_category().message(code));
}

int lock(int fd, int how) {
  while (::flock(fd, how) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// Who wrote that it has the lock.
std::string holder_in(int fd) {
  char text[32] = {};
  const ssize_t size = ::pread(fd, text, sizeof(text), 0);
  const std::string_view line(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  long pid = 0;
  const auto read = std::from_chars(line.data(), line.data() + line.size(), pid);
  const bool is_named = read.ec == std::errc() && pid > 0;
  return is_named ? "process " + std::to_string(pid) : std::string("another process");
}

/// A full disk keeps nobody from a lock.
void name_holder(int fd) {
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) == 0) {
    (void)!::pwrite(fd, pid.data(), pid.size(), 0);
  }
}

}  // namespace

Expected<FileLock> FileLock::take(const std::string& path, LockFile file, LockWait wait) {
  const int made = file == LockFile::kIsLeftAlone ? 0 : O_CREAT;
  FileLock taken(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | made, 0600));
  if (taken.fd_ < 0) {
    return file_error(path, errno);
  }
  const int fault = lock(taken.fd_, wait == LockWait::kNone ? LOCK_EX | LOCK_NB : LOCK_EX);
  if (fault == EWOULDBLOCK) {
    return fail(Errc::kConfig,
                "in use by " + (file == LockFile::kHasContent ? std::string("another process")
                                                              : holder_in(taken.fd_)));
  }
  if (fault != 0) {
    return file_error(path, fault);
  }
  if (file == LockFile::kNamesHolder) {
    name_holder(taken.fd_);
  }
  return taken;
}

FileLock::~FileLock() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

}  // namespace kintsugi
