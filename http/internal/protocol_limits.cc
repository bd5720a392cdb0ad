#include "http/internal/protocol_limits.h"

#include <algorithm>

namespace kintsugi::http {
namespace {

constexpr std::uint32_t kFrame = 1000;
struct Rate {
  std::uint32_t burst, per_millisecond;
  Abuse abuse;
};
/// By Kind; SE-129, for the last one SE-124.
constexpr std::array<Rate, 7> kRates = {{{100 * kFrame, 10, Abuse::kPing},
                                         {100 * kFrame, 10, Abuse::kSettings},
                                         {100 * kFrame, 10, Abuse::kPriority},
                                         {100 * kFrame, 10, Abuse::kEmptyData},
                                         {100 * kFrame, 10, Abuse::kWindowUpdate},
                                         {100 * kFrame, 10, Abuse::kUnknown},
                                         {1'000 * kFrame, 33, Abuse::kRefused}}};
constexpr std::int64_t kLongest = 60'000;  ///< [ms] fills every bucket
constexpr std::uint32_t kManyRequests = 200;
constexpr std::uint32_t kDataFrames = 4'096, kDataGlitch = 256, kSmall = 64;
constexpr std::uint32_t kWindow = 1U << 20;
constexpr std::uint64_t kExpansion = 32;
/// Fields that a client sends with every request come from its table, too: only large heads count.
constexpr std::uint64_t kLargeHead = 16 * 1024;

}  // namespace

ProtocolLimits::ProtocolLimits(std::uint32_t max_glitches) noexcept : max_glitches_(max_glitches) {
  static_assert(kRates.size() == kKinds);
  for (std::size_t i = 0; i < kKinds; ++i) {
    tokens_[i] = kRates[i].burst;
  }
}

void ProtocolLimits::set_now(TimePoint now) noexcept {
  if (!has_time_) {
    has_time_ = true;
    refilled_ = second_ = now;
    requests_ = resets_ = 0;
    return;
  }
  if (now - second_ >= seconds(1)) {
    second_ = now;
    requests_ = resets_ = 0;
  }
  const auto passed = std::chrono::duration_cast<milliseconds>(now - refilled_).count();
  if (passed <= 0) {
    return;
  }
  refilled_ += milliseconds(passed);
  const auto time = static_cast<std::uint32_t>(std::min<std::int64_t>(passed, kLongest));
  for (std::size_t i = 0; i < kKinds; ++i) {
    tokens_[i] = std::min(tokens_[i] + time * kRates[i].per_millisecond, kRates[i].burst);
  }
}

void ProtocolLimits::take(Kind kind) noexcept {
  if (!has_time_) {
    return;
  }
  std::uint32_t& tokens = tokens_[static_cast<std::size_t>(kind)];
  if (tokens < kFrame) {
    ++floods_;
    glitch(kRates[static_cast<std::size_t>(kind)].abuse);
  } else {
    tokens -= kFrame;
  }
}

void ProtocolLimits::on_reset(std::int32_t id) noexcept {
  if (requests_ == 0 || id < first_) {
    return;
  }
  ++resets_;
  if (has_time_ && !spare_resets_ && !resets_at_once_ && requests_ >= kManyRequests &&
      resets_ > requests_ / 2) {
    resets_at_once_ = true;
    count(Abuse::kReset);
  }
}

void ProtocolLimits::on_data(std::uint32_t payload, std::uint32_t padding) noexcept {
  padding_ += padding;
  padded_ += payload + padding;
  if (padded_ >= kWindow) {
    if (padding_ > padded_ / 2) {
      glitch(Abuse::kPadding);
    }
    padding_ = padded_ = 0;
  }
  data_bytes_ += payload;
  if (++data_frames_ >= kDataFrames) {
    small_data_ = data_bytes_ < kDataFrames * kSmall;
    data_frames_ = data_bytes_ = 0;
  }
  if (small_data_ && data_frames_ % kDataGlitch == 0) {
    glitch(Abuse::kSmallData);
  }
}

void ProtocolLimits::on_block(std::uint64_t wire, std::uint64_t decoded) noexcept {
  if (decoded < kLargeHead) {
    return;
  }
  heads_wire_ += wire;
  heads_decoded_ += decoded;
  if (heads_decoded_ >= kWindow) {
    expands_ = heads_decoded_ / kExpansion > heads_wire_;
    heads_wire_ = heads_decoded_ = 0;
  }
  if (expands_) {
    glitch(Abuse::kHpack);
  }
}

}  // namespace kintsugi::http
