#include "workers/messaging/amqp/internal/reconnect_delay.h"

#include <algorithm>

#include "base/split_mix.h"

namespace kintsugi::workers {

ReconnectDelay::ReconnectDelay(Duration least, Duration most, std::uint64_t seed) noexcept
    : least_(std::min(least, most)),
      most_(most),
      first_(std::min(2 * least, most)),
      upper_(first_),
      random_(seed) {}

Duration ReconnectDelay::next() noexcept {
  const double part = static_cast<double>(split_mix(random_) >> 11U) * 0x1p-53;
  const Duration half = upper_ / 2;
  const Duration wait =
      half +
      Duration(static_cast<Duration::rep>(part * static_cast<double>((upper_ - half).count())));
  upper_ = std::min(2 * upper_, most_);
  return std::clamp(wait, least_, most_);
}

}  // namespace kintsugi::workers
