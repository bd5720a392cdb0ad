#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace kintsugi::auth {

/// What a policy leaves out and is written nevertheless: refusals (SE-007). A client can make as
/// many of them as it likes, so that the process writes so many bytes of them in a second, and
/// counts the others. Threads: any. No lock, no wait.
class AuditRefusals {
 public:
  static constexpr std::size_t kBytesPerSecond = std::size_t{512} << 10;  // SE-T075

  /// One has been refused. @return its line may be written; false: it is counted only.
  [[nodiscard]] bool may_write(TimePoint now) noexcept;
  /// The line that could be written has so many bytes.
  void wrote(std::size_t bytes) noexcept { bytes_ += bytes; }
  /// Those that were not written since this was asked last.
  [[nodiscard]] std::uint64_t take_left_out() noexcept { return left_out_.exchange(0); }

  /// @{ Since the start.
  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
  [[nodiscard]] std::uint64_t counted() const noexcept { return counted_; }
  /// @}

 private:
  std::atomic<std::int64_t> second_{-1};  // that bytes_ are of
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::uint64_t> left_out_{0}, written_{0}, counted_{0};
};

/// The one of the process.
[[nodiscard]] AuditRefusals& audit_refusals() noexcept;

/// An answer that refuses what was asked for, rather than telling of it (SE-007).
[[nodiscard]] bool is_refusal(int status) noexcept;

}  // namespace kintsugi::auth
