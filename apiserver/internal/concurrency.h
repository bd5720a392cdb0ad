#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "apiserver/server.h"

namespace kintsugi::apiserver::internal {

struct Request;

/// What a request counts as while it runs (AM-067).
enum class Pool : std::uint8_t { kNone, kReads, kWrites, kWatchStarts };

/// The pool of a request whose user and path are known: kNone for health checks and for members of
/// system:masters, which always get an answer.
[[nodiscard]] Pool pool_of(const Request& request) noexcept;

/// Counts running requests per pool. Threads: the server's loop.
class Concurrency {
 public:
  explicit Concurrency(const ConcurrencyLimits& limits) noexcept;
  /// False: the pool is full. kNone always has room.
  [[nodiscard]] bool try_enter(Pool pool) noexcept;
  void leave(Pool pool) noexcept { --running_[static_cast<std::size_t>(pool)]; }

 private:
  std::array<std::size_t, 4> limits_;
  std::array<std::size_t, 4> running_{};
};

}  // namespace kintsugi::apiserver::internal
