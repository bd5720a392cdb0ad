#include "base/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "base/sync_path.h"

namespace kintsugi {
namespace {

std::atomic<SecretFileRule> secret_file_rule = SecretFileRule::kRefuse;

/// Whether this was not the last word on the file: it is read more than once, and told of once.
bool is_news(const std::string& path, const std::string& fault) {
  static std::mutex mutex;
  static std::map<std::string, std::string> told;
  const std::lock_guard<std::mutex> lock(mutex);
  std::string& last = told[path];
  return std::exchange(last, fault) != fault;
}

class OpenFile {
 public:
  explicit OpenFile(int fd) noexcept : fd_(fd) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int close() noexcept { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

Error file_error(Errc code, const std::string& path, int cause) {
  return Error(code, path + ": " + std::strerror(cause));
}

Errc write_fault(int cause) noexcept {
  return cause == ENOSPC || cause == EDQUOT ? Errc::kFull : Errc::kIo;
}

/// Why the file is not closed to others; "" if it is.
std::string fault_of_mode(const struct stat& about) {
  const uid_t self = ::geteuid();
  if (about.st_uid != self && about.st_uid != 0) {
    return "belongs to user " + std::to_string(about.st_uid) +
           ", not to the one of this process or root";
  }
  const mode_t allowed = self != 0 && about.st_uid == 0 ? S_IRWXU | S_IRGRP : S_IRWXU;
  if ((about.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO) & ~allowed) != 0) {
    char mode[16];
    std::snprintf(mode, sizeof(mode), "0%o", static_cast<unsigned>(about.st_mode & 0777));
    return std::string("holds a secret and has mode ") + mode +
           ", which lets others at it; `chmod 600` helps";
  }
  return "";
}

/// Everything up to kMaxSecretFile.
Expected<Secret> read_all(int fd, const std::string& path, std::size_t size) {
  std::string text(size + 1, '\0');  // one more: what grew meanwhile is read again below
  std::size_t have = 0;
  while (true) {
    const ssize_t got = ::read(fd, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      const int cause = errno;
      wipe(text);
      return fail(file_error(Errc::kConfig, path, cause));
    }
    have += static_cast<std::size_t>(got);
    if (got == 0) {
      break;
    }
    if (have > kMaxSecretFile) {
      wipe(text);
      return fail(Errc::kConfig, path + ": is larger than 8 MiB");
    }
    if (have == text.size()) {
      std::string larger(have * 2, '\0');
      text.copy(larger.data(), have);
      text.swap(larger);
      wipe(larger);
    }
  }
  text.resize(have);
  return Secret(std::move(text));
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// A new file beside `path` with this content, synced. @returns its name.
Expected<std::string> write_beside(const std::string& path, std::string_view text, unsigned mode) {
  const std::string made = path + "." + random_suffix(10) + ".new";
  OpenFile file(::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    return fail(file_error(write_fault(errno), path, errno));
  }
  const auto failed = [&](int cause) -> Expected<std::string> {
    ::unlink(made.c_str());
    return fail(file_error(write_fault(cause), path, cause));
  };
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return failed(errno);
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fchmod(file.get(), mode) != 0 || ::fsync(file.get()) != 0 || file.close() != 0) {
    return failed(errno);
  }
  return made;
}

/// The name is as durable as the content.
Expected<void> sync_folder_of(const std::string& path) {
  const std::string folder = folder_of(path);
  const int fault = sync_path(folder);
  // EINVAL: file systems that have nothing to sync.
  return fault == 0 || fault == EINVAL ? Expected<void>()
                                       : fail(file_error(Errc::kIo, folder, fault));
}

}  // namespace

void set_secret_file_rule(SecretFileRule rule) noexcept { secret_file_rule = rule; }

Expected<Secret> read_secret_file(const std::string& path) {
  // A pipe must not make us wait for its writer.
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about {};
  if (file.get() < 0 || ::fstat(file.get(), &about) != 0) {
    return fail(file_error(Errc::kConfig, path, errno));
  }
  if (!S_ISREG(about.st_mode)) {
    return fail(Errc::kConfig, path + ": is not a regular file");
  }
  if (static_cast<std::uint64_t>(about.st_size) > kMaxSecretFile) {
    return fail(Errc::kConfig, path + ": is larger than 8 MiB");
  }
  if (const std::string fault = fault_of_mode(about); !fault.empty()) {
    if (secret_file_rule == SecretFileRule::kRefuse) {
      return fail(Errc::kConfig, path + ": " + fault);
    }
    if (is_news(path, fault)) {
      log_warn("a secret file is open to others", {{"file", path}, {"fault", fault}});
    }
  }
  return read_all(file.get(), path, static_cast<std::size_t>(about.st_size));
}

Expected<void> replace_file(const std::string& path, std::string_view text, unsigned mode) {
  auto made = write_beside(path, text, mode);
  if (!made) {
    return fail(std::move(made.error()));
  }
  if (std::rename(made->c_str(), path.c_str()) != 0) {
    const int cause = errno;
    ::unlink(made->c_str());
    return fail(file_error(write_fault(cause), path, cause));
  }
  return sync_folder_of(path);
}

Expected<bool> create_file(const std::string& path, std::string_view text, unsigned mode) {
  auto made = write_beside(path, text, mode);
  if (!made) {
    return fail(std::move(made.error()));
  }
  const int linked = ::link(made->c_str(), path.c_str());
  const int cause = errno;
  ::unlink(made->c_str());
  if (linked != 0 && cause != EEXIST) {
    return fail(file_error(write_fault(cause), path, cause));
  }
  if (auto synced = sync_folder_of(path); !synced) {
    return fail(std::move(synced.error()));
  }
  return linked == 0;
}

}  // namespace kintsugi
