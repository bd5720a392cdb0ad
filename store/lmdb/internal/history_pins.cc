#include "store/lmdb/internal/history_pins.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/random.h"
#include "base/strings.h"

namespace kintsugi::store {
namespace {

constexpr std::string_view kBegin = "pin-";
constexpr mode_t kMode = 0644;  // a backup may run as another user than the store's owner
constexpr std::size_t kIdBytes = 8;
constexpr int kTries = 100;

bool lock(int fd) noexcept {
  int code = 0;
  do {
    code = ::flock(fd, LOCK_EX | LOCK_NB);
  } while (code != 0 && errno == EINTR);
  return code == 0;
}

tl::unexpected<Error> failure(const std::string& path) {
  const int code = errno;
  return fail(code == ENOSPC || code == EDQUOT ? Errc::kFull : Errc::kIo,
              path + ": " + std::generic_category().message(code));
}

/// Nullopt: it means nothing (any more).
std::optional<Revision> read_pin(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    return std::nullopt;
  }
  std::optional<Revision> held;
  struct stat about {};
  if (lock(fd)) {
    ::unlink(path.c_str());
  } else if (::fstat(fd, &about) == 0 &&
             seconds(unix_seconds() - about.st_mtim.tv_sec) <= HistoryPin::kLongest) {
    std::array<char, 32> text{};
    const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
    const std::string_view line(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    held = parse_decimal<Revision>(line).value_or(0);  // it is being written
  }
  ::close(fd);
  return held;
}

}  // namespace

Expected<HistoryPin> HistoryPin::hold(const std::string& directory, Revision revision) {
  std::string path = directory + '/';
  path.append(kBegin).append(hex_encode(random_bytes(kIdBytes)));
  const std::string text = std::to_string(revision);
  for (int i = 0; i < kTries; ++i) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode);
    if (fd < 0) {
      return failure(path);
    }
    struct stat about {};
    HistoryPin pin(path, fd);
    // Until it is locked, who looks at it takes it for left behind.
    if (lock(fd) && ::fstat(fd, &about) == 0 && about.st_nlink > 0) {
      ::fchmod(fd, kMode);
      if (::pwrite(fd, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
        return failure(path);
      }
      return pin;
    }
  }
  return fail(Errc::kIo, path + ": cannot be locked");
}

HistoryPin::~HistoryPin() {
  if (fd_ >= 0) {
    ::unlink(path_.c_str());
    ::close(fd_);
  }
}

std::optional<Revision> lowest_pin(const std::string& directory) {
  std::optional<Revision> lowest;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(directory, code)) {
    if (!entry.path().filename().string().starts_with(kBegin)) {
      continue;
    }
    if (const auto held = read_pin(entry.path())) {
      lowest = std::min(*held, lowest.value_or(*held));
    }
  }
  return lowest;
}

}  // namespace kintsugi::store
