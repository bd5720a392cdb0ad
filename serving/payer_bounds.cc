#include "serving/payer_bounds.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/cpu_limit.h"

namespace kintsugi::serving {
namespace {

/// Rows give two figures, for 2 and for 16 cores.
std::uint32_t between(std::uint32_t at_2, std::uint32_t at_16) noexcept {
  const std::uint32_t cores = std::clamp(usable_cores(), 2U, 64U);
  return at_2 + (at_16 - at_2) / 14 * (cores - 2);
}

/// All of them, or none.
Expected<void> kept(Expected<void> room, RequestLimiter::Pass& pass) noexcept {
  if (!room) {
    pass.give_back();
  }
  return room;
}

}  // namespace

PayerBounds PayerBounds::usual() noexcept {
  return {.watches = between(5'000, 50'000),
          .watches_per_resource = 200,
          .merged_reads = between(32, 256),
          .merged_streams = between(1'024, 8'192),
          .tunnels = 256};
}

PayerBounds PayerBounds::or_else(const PayerBounds& other) const noexcept {
  const auto pick = [](std::uint32_t own, std::uint32_t its) { return own != 0 ? own : its; };
  return {.watches = pick(watches, other.watches),
          .watches_per_resource = pick(watches_per_resource, other.watches_per_resource),
          .merged_reads = pick(merged_reads, other.merged_reads),
          .merged_streams = pick(merged_streams, other.merged_streams),
          .tunnels = pick(tunnels, other.tunnels)};
}

RequestLimits PayerBounds::rules() const noexcept {
  RequestLimits out;
  out.payer.watches = watches;
  out.resource.watches = watches_per_resource;
  out.merged.concurrent = merged_reads;
  out.merged_streams.concurrent = merged_streams;
  out.tunnels.concurrent = tunnels;
  return out;
}

std::uint32_t* OpenLimits::member(std::string_view key) noexcept {
  const std::array<std::uint32_t*, kKeys.size()> members{&connections,
                                                         &connections_per_address,
                                                         &connections_per_user,
                                                         &payers.watches,
                                                         &payers.watches_per_resource,
                                                         &payers.merged_reads,
                                                         &payers.merged_streams,
                                                         &payers.tunnels};
  const auto* const found = std::find(kKeys.begin(), kKeys.end(), key);
  return found == kKeys.end() ? nullptr : members[static_cast<std::size_t>(found - kKeys.begin())];
}

net::ConnectionLimits OpenLimits::of_connections() const noexcept {
  return net::connection_limits(connections, connections_per_address, connections_per_user);
}

Expected<void> admit_watch(RequestLimiter& limiter, RequestLimiter::Pass& pass,
                           std::string_view payer, std::string_view what, TimePoint now) {
  Expected<void> room = limiter.charge(pass, LimitOf::kPayer, payer, true, now);
  if (room && limiter.limits(LimitOf::kResource)) {
    std::string both(payer);
    both.append(1, '\n').append(what);
    room = limiter.charge(pass, LimitOf::kResource, both, true, now);
  }
  return kept(std::move(room), pass);
}

Expected<void> admit_merged(RequestLimiter& limiter, RequestLimiter::Pass& pass,
                            std::string_view payer, std::uint32_t streams, TimePoint now) noexcept {
  Expected<void> room = limiter.charge(pass, LimitOf::kMerged, payer, false, now);
  if (room) {
    room = limiter.charge(pass, LimitOf::kMergedStreams, payer, false, now, streams);
  }
  return kept(std::move(room), pass);
}

Expected<void> admit_tunnel(RequestLimiter& limiter, RequestLimiter::Pass& pass,
                            std::string_view payer, TimePoint now) noexcept {
  return limiter.charge(pass, LimitOf::kTunnels, payer, false, now);
}

}  // namespace kintsugi::serving
