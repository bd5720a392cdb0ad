#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "net/loop.h"

namespace kintsugi::server {

/// Tells when files have other content than when they were last looked at: within a moment by
/// inotify on their folders, also when a symbolic link on the way is swapped (Kubernetes'
/// `..data`), and every `poll` by content, for file systems that announce nothing. A file that is
/// missing or unreadable has a content of its own. Source: R-33. Threads: the
/// loop's; reads small local files on it.
class FileWatch final : public net::FdHandler {
 public:
  using Changed = std::function<void(const std::vector<std::string>& files)>;
  /// @param changed gets the names as they were given to set_files, in a turn of its own; changes
  /// that come together are told together.
  FileWatch(net::Loop& loop, Duration poll, Changed changed);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  /// Follows exactly these from now on. Content of new names counts as known.
  void set_files(const std::vector<std::string>& files);
  void set_poll(Duration poll) { poll_ = poll; }
  /// Looks now; what it finds is returned and not told again.
  [[nodiscard]] std::vector<std::string> take_changed();

  void on_ready(bool readable, bool writable) noexcept override;

 private:
  void watch_folders();
  void look();
  void poll_later();

  net::Loop& loop_;
  Duration poll_;
  Changed changed_;
  int fd_;
  std::map<std::string, std::string> known_;  // by file: digest of its content
  std::vector<int> watches_;
  net::Timer settle_timer_, poll_timer_;
  bool settling_ = false;
};

}  // namespace kintsugi::server
