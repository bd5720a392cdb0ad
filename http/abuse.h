#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kintsugi::http {

/// What a peer does that costs us and brings it nothing: the label `kind` of kintsugi_abuse_total.
enum class Abuse : std::uint8_t {
  kReset,         ///< most of many requests reset at once (SE-124)
  kMadeReset,     ///< frames that make us reset a stream (SE-125)
  kContinuation,  ///< a header block in too many frames (SE-127)
  kHpack,         ///< large heads out of few bytes (SE-128)
  kHead,          ///< a head over the limits (SE-084)
  kAuthority,     ///< no authority that names a server (SE-114, SE-115)
  kField,         ///< malformed fields
  kPing,          ///< SE-129
  kSettings,
  kPriority,
  kEmptyData,
  kWindowUpdate,
  kUnread,     ///< answers that are never read (SE-130)
  kSmallData,  ///< SE-131
  kPadding,
  kFraming,   ///< HTTP/1.1 bodies and heads that cannot be told apart (SE-110 to SE-112)
  kSlowBody,  ///< SE-078
  kRefused,   ///< streams beyond the limit (SE-083)
  kUnknown,   ///< frames of unknown types (SE-129)
};
inline constexpr std::size_t kAbuseKinds = 19;

/// "reset", "made_reset", …
[[nodiscard]] std::string_view abuse_name(Abuse kind) noexcept;

/// How often peers did what. Threads: the owning loop.
struct AbuseCounters {
  std::array<std::uint64_t, kAbuseKinds> counts{};
  void add(Abuse kind) noexcept { ++counts[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] std::uint64_t of(Abuse kind) const noexcept {
    return counts[static_cast<std::size_t>(kind)];
  }
};

}  // namespace kintsugi::http
