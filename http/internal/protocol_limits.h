#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace kintsugi::http {

/// Counts what a downstream peer does that costs us and brings it nothing
/// (guides/performance.md 3.9): 100 frames of a kind at once and 10 per second are free, each
/// further one is a glitch. Threads: the owning loop.
class ProtocolLimits {
 public:
  enum class Kind : std::uint8_t { kPing, kSettings, kPriority, kEmptyData, kIdleWindowUpdate };

  explicit ProtocolLimits(std::uint32_t max_glitches) noexcept;
  /// Refills. Until the first call frames cost nothing.
  void set_now(TimePoint now) noexcept;
  /// One frame of this kind arrived.
  void take(Kind kind) noexcept;
  /// The peer broke a rule of the protocol without ending the connection.
  void glitch() noexcept { ++glitches_; }
  [[nodiscard]] std::uint32_t glitches() const noexcept { return glitches_; }
  /// Three quarters of the glitches are used up: tell the peer to go away.
  [[nodiscard]] bool should_warn() const noexcept {
    return std::uint64_t{glitches_} * 4 >= std::uint64_t{max_glitches_} * 3;
  }
  /// All are used up: close.
  [[nodiscard]] bool should_close() const noexcept { return glitches_ >= max_glitches_; }

 private:
  static constexpr std::size_t kKinds = 5;
  std::array<std::uint32_t, kKinds> tokens_;  // thousandths of a frame
  std::uint32_t max_glitches_;
  std::uint32_t glitches_ = 0;
  bool has_time_ = false;
  TimePoint refilled_{};
};

}  // namespace kintsugi::http
