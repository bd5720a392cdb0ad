#include "workers/runtime/journal/internal/folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/sync_path.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kSuspectsKept = 2;

Expected<void> sync_folder(const std::string& path) {
  const int fault = sync_path(path);
  return fault == 0 ? Expected<void>() : fail(journal_errno(path, fault));
}

std::filesystem::path parent_of(const std::string& directory) {
  return std::filesystem::absolute(directory).parent_path();
}

/// Numbers n of "<directory>.suspect-<n>", ascending.
std::vector<std::uint64_t> suspects_of(const std::string& directory) {
  std::vector<std::uint64_t> numbers;
  const std::string prefix = std::filesystem::path(directory).filename().string() + ".suspect-";
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(parent_of(directory), ignored), end; entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix)) {
      if (const auto number = parse_decimal(std::string_view(name).substr(prefix.size()))) {
        numbers.push_back(*number);
      }
    }
    if (ignored) {
      break;
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

JournalFile& JournalFile::operator=(JournalFile&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void JournalFile::close() noexcept {
  if (fd_ >= 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

Error journal_errno(std::string_view what, int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return Error(full ? Errc::kFull : Errc::kIo,
               std::string(what) + ": " + std::error_code(code, std::generic_category()).message());
}

Expected<FileLock> lock_journal(const std::string& directory) {
  auto lock = FileLock::take(directory + ".lock");
  if (!lock && lock.error().code() == Errc::kConfig) {
    return fail(Errc::kConfig,
                "journal " + directory + " is " + std::string(lock.error().message()));
  }
  return lock;
}

Expected<void> make_journal_folder(const std::string& directory) {
  const std::filesystem::path parent = parent_of(directory);
  std::error_code code;
  std::filesystem::create_directories(parent, code);
  if (code) {
    return fail(journal_errno(parent.string(), code.value()));
  }
  const bool made = ::mkdir(directory.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) {
    return fail(journal_errno(directory, errno));
  }
  const JournalFile folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!folder.is_open() || ::fstat(folder.get(), &status) != 0) {
    return fail(journal_errno(directory, errno));
  }
  if ((status.st_mode & 07777U) != 0700U && ::fchmod(folder.get(), 0700) != 0) {
    return fail(journal_errno(directory, errno));
  }
  return made ? sync_folder(parent.string()) : Expected<void>();
}

Expected<JournalFile> open_journal_data(const std::string& directory) {
  const std::string path = directory + "/data.mdb";
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? Expected<JournalFile>() : fail(journal_errno(path, errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(Errc::kCorrupt, "data.mdb is no plain file");
  }
  if (status.st_size == 0) {
    return JournalFile();
  }
  JournalFile file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file.is_open()) {
    return fail(journal_errno(path, errno));
  }
  return file;
}

Expected<std::string> set_journal_aside(const std::string& directory) {
  std::vector<std::uint64_t> numbers = suspects_of(directory);
  numbers.push_back(numbers.empty() ? 1 : numbers.back() + 1);
  const std::string aside = directory + ".suspect-" + std::to_string(numbers.back());
  if (::rename(directory.c_str(), aside.c_str()) != 0) {
    return fail(journal_errno(aside, errno));
  }
  for (std::size_t i = 0; i + kSuspectsKept < numbers.size(); ++i) {
    std::error_code ignored;
    std::filesystem::remove_all(directory + ".suspect-" + std::to_string(numbers[i]), ignored);
  }
  if (auto synced = sync_folder(parent_of(directory).string()); !synced) {
    return fail(std::move(synced).error());
  }
  return aside;
}

}  // namespace kintsugi::workers
