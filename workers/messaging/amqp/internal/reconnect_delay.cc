#include "workers/messaging/amqp/internal/reconnect_delay.h"

#include <algorithm>

namespace kintsugi::workers {

ReconnectDelay::ReconnectDelay(Duration least, Duration most, std::uint64_t seed) noexcept
    : least_(std::min(least, most)),
      most_(most),
      first_(std::min(2 * least, most)),
      upper_(first_),
      random_(seed) {}

Duration ReconnectDelay::next() noexcept {
  // SplitMix64.
  std::uint64_t bits = random_ += 0x9E3779B97F4A7C15U;
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
  bits ^= bits >> 31U;
  const double part = static_cast<double>(bits >> 11U) * 0x1p-53;
  const Duration half = upper_ / 2;
  const Duration wait =
      half +
      Duration(static_cast<Duration::rep>(part * static_cast<double>((upper_ - half).count())));
  upper_ = std::min(2 * upper_, most_);
  return std::clamp(wait, least_, most_);
}

}  // namespace kintsugi::workers
