// What a pool does for an origin that is far away: several connections, so that a lost packet does
// not hold up everything, and windows that a round trip does not empty.
#include <algorithm>

#include "net/internal/pool.h"

namespace kintsugi::net {
namespace {

constexpr std::size_t kFarConnections = 4;
constexpr int kHeldTrips = 4;  ///< a connection is there after two or three
constexpr Duration kHeldMore = milliseconds(250);
constexpr std::uint32_t kNearReads = 256U << 10, kMostWindow = 4U << 20, kMostOfWatch = 1U << 20;
constexpr std::uint32_t kBytesPerMillisecond = 53'000;  // 80 ms: kMostWindow

std::uint32_t window_for(Duration round_trip, std::uint32_t most) noexcept {
  const auto wanted =
      std::chrono::duration_cast<milliseconds>(round_trip).count() * kBytesPerMillisecond;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(wanted, kNearReads, most));
}

}  // namespace

http::SessionLimits Pool::limits() const noexcept {
  http::SessionLimits limits;
  limits.connection_window = 16U << 20;
  const bool reads = kind_ == UpstreamClass::kRead;
  if (origin_.is_far() && kind_ != UpstreamClass::kWrite) {
    limits.stream_window =
        window_for(origin_.round_trip.value(), reads ? kMostWindow : kMostOfWatch);
  } else if (reads) {
    limits.stream_window = kNearReads;
  }
  return limits;
}

Pool::Count Pool::count() const noexcept {
  Count count;
  for (const auto& dial : dials_) {
    count.arriving += dial->exclusive == nullptr ? 1U : 0U;
  }
  for (const auto& connection : connections_) {
    if (connection->dedicated) {
      continue;
    }
    if (connection->stage() == Connection::Stage::kHandshake) {
      ++count.arriving;
    } else if (connection->ready()) {
      ++count.ready;
      count.streams += connection->stream_count();
    }
  }
  return count;
}

void Pool::spread(std::size_t more) {
  share_ = kUnshared;
  if (!origin_.is_far() || limit_ == 1) {
    return;
  }
  std::stable_sort(connections_.begin(), connections_.end(),
                   [](const auto& one, const auto& other) {
                     return one->stream_count() < other->stream_count();
                   });
  const Count now = count();
  const std::size_t streams = now.streams + queue_.size() + more;
  const std::size_t wanted = std::min({kFarConnections, streams, params().max_connections});
  std::size_t arriving = now.arriving;
  // One that fails is not tried again before there is a connection more, or another request.
  for (; now.ready + arriving < wanted && origin_.failures_in_a_row == 0 && !closing_; ++arriving) {
    if (now.arriving == arriving) {
      const Duration most = kHeldTrips * origin_.round_trip.value() + kHeldMore;
      hold_until_ = loop_.now() + most;
      hold_timer_.start(most, [this] { dispatch(); });
    }
    start_dial(nullptr);
  }
  // Watches stay where they began, so they wait a little for the connections that come.
  const bool holds = kind_ == UpstreamClass::kWatch && loop_.now() < hold_until_;
  share_ = streams / std::max<std::size_t>(now.ready + (holds ? arriving : 0), 1) + 1;
}

}  // namespace kintsugi::net
