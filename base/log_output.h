#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/log.h"

/// Where lines of log() go and what they look like (OP-301, OP-304, OP-307).
namespace kintsugi {

enum class LogFormat : std::uint8_t {
  kAuto,    ///< kLogfmt on a terminal; for the journal of systemd lines with `<6>` in front and
            ///< without a time, which it has; else kJson
  kJson,    ///< `{"ts":"…","level":"info","msg":"…","shard":"a","ms":12}`, numbers as numbers
  kLogfmt,  ///< `2026-11-28T00:00:00.000000Z info … shard=a ms=12`
};

/// Default kAuto. Threads: any.
void set_log_format(LogFormat format) noexcept;

/// From now on lines are appended to a file, with mode 0640 where it is made; whatever else is
/// written to stderr is, too, and to stdout where that was the same file. Threads: one.
/// @error kIo names the file and the cause; lines go on to where they went.
[[nodiscard]] Expected<void> set_log_file(std::string path);

/// Opens the file of set_log_file() again, after somebody has renamed it; nothing without one. A
/// fault is a line of the log. No line is lost or written twice. Threads: the one of
/// set_log_file().
void reopen_log_file();

struct LogCounts {
  std::array<std::uint64_t, 4> lines{};  ///< written, by level
  std::uint64_t dropped = 0;             ///< since who reads did not read, or the disk was full
};
/// Since the process began. Threads: any.
[[nodiscard]] LogCounts log_counts() noexcept;

}  // namespace kintsugi
