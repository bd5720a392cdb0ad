#include "apiserver/internal/concurrency.h"

#include <limits>
#include <string_view>

#include "apiserver/internal/health.h"
#include "apiserver/internal/request.h"
#include "auth/own_roles.h"
#include "auth/user.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t limit_of(std::size_t configured) noexcept {
  return configured == 0 ? std::numeric_limits<std::size_t>::max() : configured;
}

}  // namespace

Pool pool_of(const Request& request) noexcept {
  if (is_health_path(request.info.path) || request.user.in_group(auth::kGroupMasters) ||
      request.user.in_group(auth::kGroupOwnProxy) || request.user.in_group(auth::kGroupOwnShard)) {
    return Pool::kNone;
  }
  if (request.info.verb == "watch") {
    return Pool::kWatchStarts;
  }
  const std::string_view method = request.head.method;
  const bool reads = method == "GET" || method == "HEAD" || method == "OPTIONS";
  return reads ? Pool::kReads : Pool::kWrites;
}

Concurrency::Concurrency(const ConcurrencyLimits& limits)
    : limits_{limit_of(0), limit_of(limits.reads), limit_of(limits.writes),
              limit_of(limits.watch_starts)} {}

std::optional<Seat> Concurrency::try_enter(Pool pool) noexcept {
  const auto index = static_cast<std::size_t>(pool);
  if ((*running_)[index].load(std::memory_order_relaxed) >= limits_[index]) {
    return std::nullopt;
  }
  (*running_)[index].fetch_add(1, std::memory_order_relaxed);
  return Seat(running_, pool);
}

}  // namespace kintsugi::apiserver::internal
