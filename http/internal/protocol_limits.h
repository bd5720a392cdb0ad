#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"
#include "http/abuse.h"

namespace kintsugi::http {

/// Counts what a peer does that costs us and brings it nothing (SE-124 to SE-131, SE-135): 100
/// frames of a kind at once and 10 per second are free (of refused streams 1,000 and 33), each
/// further one is a glitch. Threads: the owning loop. Cost: integers only.
class ProtocolLimits {
 public:
  enum class Kind : std::uint8_t {
    kPing,
    kSettings,
    kPriority,
    kEmptyData,
    kIdleWindowUpdate,
    kUnknown,
    kRefused
  };

  explicit ProtocolLimits(std::uint32_t max_glitches) noexcept;
  /// Counts from now on. @param spare_resets  those are not judged
  void count_in(AbuseCounters& counters, bool spare_resets) noexcept {
    counters_ = &counters;
    spare_resets_ = spare_resets;
  }
  /// Refills. Until the first call frames cost nothing.
  void set_now(TimePoint now) noexcept;
  /// One frame of this kind arrived.
  void take(Kind kind) noexcept;
  /// A request began on this stream.
  void on_request(std::int32_t id) noexcept { first_ = requests_++ == 0 ? id : first_; }
  /// The peer reset this stream; who ends what he asked for longer ago is not judged.
  void on_reset(std::int32_t id) noexcept;
  /// A DATA frame. @param payload  without padding [bytes]
  void on_data(std::uint32_t payload, std::uint32_t padding) noexcept;
  /// A header block that took `wire` bytes and became `decoded` ones.
  void on_block(std::uint64_t wire, std::uint64_t decoded) noexcept;
  /// The peer broke a rule of the protocol without ending the connection.
  void glitch(Abuse kind) noexcept {
    ++glitches_;
    count(kind);
  }
  /// Only counts.
  void count(Abuse kind) noexcept {
    if (counters_ != nullptr) {
      counters_->add(kind);
    }
  }
  [[nodiscard]] std::uint32_t glitches() const noexcept { return glitches_; }
  /// Three quarters of the glitches are used up: tell the peer to go away.
  [[nodiscard]] bool should_warn() const noexcept {
    return std::uint64_t{glitches_} * 4 >= std::uint64_t{max_glitches_} * 3;
  }
  /// The same frames alone have used up all: a server that we asked is left.
  [[nodiscard]] bool is_flooded() const noexcept { return floods_ >= max_glitches_; }
  /// All are used up, or requests are reset as fast as they come: close.
  [[nodiscard]] bool should_close() const noexcept {
    return glitches_ >= max_glitches_ || resets_at_once_;
  }

 private:
  static constexpr std::size_t kKinds = 7;
  std::array<std::uint32_t, kKinds> tokens_;  // thousandths of a frame
  std::uint32_t max_glitches_;
  std::uint32_t glitches_ = 0;
  std::uint32_t floods_ = 0;
  std::int32_t first_ = 0;                            // stream since second_
  std::uint32_t requests_ = 0, resets_ = 0;           // since second_
  std::uint32_t data_frames_ = 0, data_bytes_ = 0;    // of the last 4,096 frames
  std::uint32_t padding_ = 0, padded_ = 0;            // of the last 1 MiB
  std::uint64_t heads_wire_ = 0, heads_decoded_ = 0;  // of the last 1 MiB
  bool has_time_ = false;
  bool spare_resets_ = false;
  bool resets_at_once_ = false;
  bool small_data_ = false;  // the last 4,096 frames were small
  bool expands_ = false;     // the last 1 MiB of heads took few bytes
  TimePoint refilled_{};
  TimePoint second_{};
  AbuseCounters* counters_ = nullptr;
};

}  // namespace kintsugi::http
