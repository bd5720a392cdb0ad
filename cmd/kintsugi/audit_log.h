#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"

namespace kintsugi::cmd {

/// A file of lines, written by a thread of its own: no loop waits for the disk, nor for a lock.
/// What does not fit into the queue or cannot be written is dropped, and a line {"dropped": n}
/// says so as soon as it can be written. Threads: any but for the end.
class AuditLog {
 public:
  /// Appends to `path` (0600).
  /// @param queue_bytes that wait at most, with what their keeping takes.
  /// @error kIo.
  [[nodiscard]] static Expected<std::unique_ptr<AuditLog>> open(
      const std::string& path, std::size_t queue_bytes = std::size_t{16} << 20);
  /// Writes what is queued. Nobody may add any more.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// @param line without its end.
  void add(std::string line);
  /// The path is opened again, after the file was moved away, before lines that are added from now
  /// on are written. Where that fails the old file stays and the log says so.
  void reopen();
  /// Lines that are lost and not reported yet.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_.load(); }

 private:
  struct Line {
    std::string text;
    Line* next;
  };

  AuditLog(std::string path, std::size_t queue_bytes, int fd);
  void wake();
  void run();
  void write_waiting();
  void open_again();
  [[nodiscard]] bool write_lines(const std::string& lines);
  void report_drops();

  const std::string path_;
  const std::size_t queue_bytes_;
  std::atomic<Line*> newest_{nullptr};  ///< the queue, the oldest line last
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint32_t> wakes_{0};
  std::atomic<bool> reopen_{false};
  std::atomic<bool> stopping_{false};
  // Of the thread.
  int fd_;
  bool torn_ = false;    ///< the file ends within a line
  bool broken_ = false;  ///< the last write failed
  std::thread thread_;
};

}  // namespace kintsugi::cmd
