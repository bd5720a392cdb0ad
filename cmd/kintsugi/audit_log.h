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

/// Where an audit log goes. A file that would grow over `rotate_bytes` is renamed to
/// <name>-<time><ending> beside it and begun anew; what is no regular file is not.
struct AuditFile {
  std::string path;
  std::uint64_t rotate_bytes = 0;  ///< 0: never
  std::size_t backups = 0;         ///< renamed files that are kept; 0: any number
  std::uint32_t days = 0;          ///< they are kept so long; 0: for ever
  /// That wait at most, with what their keeping takes.
  std::size_t queue_bytes = std::size_t{16} << 20;
};

/// A file of lines, written by a thread of its own: no loop waits for the disk, nor for a lock.
/// What does not fit into the queue or cannot be written is dropped, and a line {"dropped": n}
/// says so as soon as it can be written. Threads: any but for the end.
class AuditLog {
 public:
  /// Appends (0600). @error kIo.
  [[nodiscard]] static Expected<std::unique_ptr<AuditLog>> open(AuditFile file);
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
  /// @{ Since the start: lines that were added, and those of them that are lost.
  [[nodiscard]] std::uint64_t added() const noexcept { return added_.load(); }
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_.load(); }
  /// @}

 private:
  struct Line {
    std::string text;
    Line* next;
  };

  AuditLog(AuditFile file, int fd);
  void wake();
  void run();
  void write_waiting();
  void open_again();
  void measure();
  void rotate();
  void remove_old() const;
  /// @return lines that are lost.
  [[nodiscard]] std::uint64_t write_lines(const std::string& lines);
  void lose(std::uint64_t lines);
  void report_drops();

  const AuditFile file_;
  std::atomic<Line*> newest_{nullptr};  ///< the queue, the oldest line last
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::uint64_t> dropped_{0}, added_{0}, lost_{0};
  std::atomic<std::uint32_t> wakes_{0};
  std::atomic<bool> reopen_{false};
  std::atomic<bool> stopping_{false};
  // Of the thread.
  int fd_;
  std::uint64_t size_ = 0;  ///< of the file, while it may be rotated
  bool rotates_ = false;
  bool torn_ = false;    ///< the file ends within a line
  bool broken_ = false;  ///< the last write failed
  std::thread thread_;
};

}  // namespace kintsugi::cmd
