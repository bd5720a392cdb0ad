#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "auth/audit_totals.h"
#include "base/error.h"
#include "base/time.h"

namespace kintsugi::auth {

/// Where an audit log goes. A file that would grow over `rotate_bytes` is renamed to
/// <name>-<time><ending> beside it and begun anew; what is no regular file is not.
struct AuditFile {
  std::string path;
  std::uint64_t rotate_bytes = 0;  ///< 0: never
  std::size_t backups = 0;         ///< renamed files that are kept; 0: any number
  std::uint32_t days = 0;          ///< they are kept so long; 0: for ever
  /// That wait at most, with what their keeping takes.
  std::size_t queue_bytes = std::size_t{16} << 20;
  Duration last_wait = seconds(5);   ///< at the end
  LineTotals* counted_in = nullptr;  ///< of static life; null: the audit logs' (audit_totals.h)
};

/// A file of lines, written by a thread of its own: no loop waits for the disk, nor for a lock.
/// What does not fit into the queue or cannot be written is dropped, and a line {"dropped": n}
/// says so as soon as it can be written. Threads: any but for the end.
class AuditLog {
 public:
  /// Appends (0600). Of a pipe that has no reader yet the lines wait until one comes, as far as
  /// pipe and queue hold them. @error kIo.
  [[nodiscard]] static Expected<std::unique_ptr<AuditLog>> open(AuditFile file);
  /// Writes what is queued, but for a disk that hangs longer than `last_wait`. Nobody may add any
  /// more.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// @param line without its end.
  void add(std::string line);
  /// The path is opened again, after the file was moved away, before lines that are added from now
  /// on are written. Where that fails the old file stays and the log says so.
  void reopen();
  /// Lines that are lost and not reported yet.
  [[nodiscard]] std::uint64_t dropped() const noexcept;
  /// @{ Since the start: lines that were added, and those of them that are lost.
  [[nodiscard]] std::uint64_t added() const noexcept;
  [[nodiscard]] std::uint64_t lost() const noexcept;
  /// @}

 private:
  class Writer;
  explicit AuditLog(std::shared_ptr<Writer> writer);

  std::shared_ptr<Writer> writer_;  ///< the thread has it as well
  std::future<void> done_;
  std::thread thread_;
};

}  // namespace kintsugi::auth
