#include "http/internal/protocol_limits.h"

#include <algorithm>

namespace kintsugi::http {
namespace {

constexpr std::uint32_t kFrame = 1000;
constexpr std::uint32_t kBurst = 100 * kFrame;
constexpr std::uint32_t kPerMillisecond = 10;

}  // namespace

ProtocolLimits::ProtocolLimits(std::uint32_t max_glitches) noexcept : max_glitches_(max_glitches) {
  tokens_.fill(kBurst);
}

void ProtocolLimits::set_now(TimePoint now) noexcept {
  if (!has_time_) {
    has_time_ = true;
    refilled_ = now;
    return;
  }
  const auto passed = std::chrono::duration_cast<milliseconds>(now - refilled_).count();
  if (passed <= 0) {
    return;
  }
  refilled_ += milliseconds(passed);
  const auto gain = static_cast<std::uint32_t>(
      std::min<std::int64_t>(passed, kBurst / kPerMillisecond) * kPerMillisecond);
  for (std::uint32_t& tokens : tokens_) {
    tokens = std::min(tokens + gain, kBurst);
  }
}

void ProtocolLimits::take(Kind kind) noexcept {
  if (!has_time_) {
    return;
  }
  std::uint32_t& tokens = tokens_[static_cast<std::size_t>(kind)];
  if (tokens < kFrame) {
    glitch();
  } else {
    tokens -= kFrame;
  }
}

}  // namespace kintsugi::http
