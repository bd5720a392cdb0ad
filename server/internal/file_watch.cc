#include "server/internal/file_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

/// A certificate and its key are seldom replaced in one instant.
constexpr Duration kSettle = milliseconds(50);
constexpr std::uint32_t kEvents =
    IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE | IN_ONLYDIR;

std::string digest_of(const std::string& file) {
  const auto text = read_file(file);
  if (!text) {
    return "!" + std::string(text.error().message());
  }
  return sha256_text(*text);
}

}  // namespace

FileWatch::FileWatch(net::Loop& loop, Duration poll, Changed changed)
    : loop_(loop),
      poll_(poll),
      changed_(std::move(changed)),
      fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)),
      settle_timer_(loop),
      poll_timer_(loop) {
  if (fd_ >= 0) {
    loop_.watch(fd_, *this);
  } else {
    log_warn("changes of files are noticed late: no inotify");
  }
  poll_later();
}

FileWatch::~FileWatch() {
  if (fd_ >= 0) {
    loop_.forget(fd_);
    ::close(fd_);
  }
}

void FileWatch::set_files(const std::vector<std::string>& files) {
  std::map<std::string, std::string> now;
  for (const std::string& file : files) {
    const auto known = known_.find(file);
    now[file] = known != known_.end() ? known->second : digest_of(file);
  }
  known_ = std::move(now);
  watch_folders();
}

/// The folder that names the file, and the one where the content is after following links.
void FileWatch::watch_folders() {
  if (fd_ < 0) {
    return;
  }
  std::set<std::string> folders;
  for (const auto& [file, digest] : known_) {
    std::error_code error;
    folders.insert(std::filesystem::path(file).parent_path().string());
    const auto target = std::filesystem::weakly_canonical(file, error);
    if (!error) {
      folders.insert(target.parent_path().string());
    }
  }
  std::vector<int> watches;
  for (const std::string& folder : folders) {
    // The same descriptor comes back for a folder that is watched already.
    const int watch = ::inotify_add_watch(fd_, folder.c_str(), kEvents);
    if (watch >= 0) {
      watches.push_back(watch);
    }
  }
  for (const int old : watches_) {
    if (std::find(watches.begin(), watches.end(), old) == watches.end()) {
      ::inotify_rm_watch(fd_, old);
    }
  }
  watches_ = std::move(watches);
}

void FileWatch::on_ready(bool readable, bool /*writable*/) noexcept {
  alignas(inotify_event) std::array<char, 4096> events{};
  bool any = false;
  while (readable && ::read(fd_, events.data(), events.size()) > 0) {
    any = true;
  }
  if (any && !settling_) {
    settling_ = true;
    settle_timer_.start(kSettle, [this] {
      settling_ = false;
      look();
    });
  }
}

std::vector<std::string> FileWatch::take_changed() {
  std::vector<std::string> result;
  for (auto& [file, digest] : known_) {
    std::string now = digest_of(file);
    if (now != digest) {
      digest = std::move(now);
      result.push_back(file);
    }
  }
  if (!result.empty()) {
    watch_folders();  // a swapped link points to another folder
  }
  return result;
}

void FileWatch::look() {
  if (const std::vector<std::string> files = take_changed(); !files.empty()) {
    changed_(files);
  }
}

void FileWatch::poll_later() {
  poll_timer_.start(poll_, [this] {
    poll_later();
    look();
  });
}

}  // namespace kintsugi::server
