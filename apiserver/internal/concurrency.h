#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "apiserver/server.h"

namespace kintsugi::apiserver::internal {

struct Request;

/// What a request counts as while it runs (AM-067).
enum class Pool : std::uint8_t { kNone, kReads, kWrites, kWatchStarts };

/// The pool of a request whose user and path are known: kNone for health checks, proxies,
/// other shards and members of system:masters, which always get an answer.
[[nodiscard]] Pool pool_of(const Request& request) noexcept;

/// How many run, per pool.
using RunningCounts = std::array<std::atomic<std::size_t>, 4>;

/// A place in a pool. It belongs to the work, not to the stream (SE-076): whoever works for a
/// request keeps it. Threads: one at a time; it may outlive the server.
class Seat {
 public:
  Seat() noexcept = default;
  Seat(std::shared_ptr<RunningCounts> counts, Pool pool) noexcept
      : counts_(std::move(counts)), pool_(pool) {}
  Seat(Seat&& other) noexcept : counts_(std::move(other.counts_)), pool_(other.pool_) {}
  Seat& operator=(Seat&& other) noexcept {
    if (this != &other) {
      give_back();
      counts_ = std::move(other.counts_);
      pool_ = other.pool_;
    }
    return *this;
  }
  ~Seat() { give_back(); }
  void give_back() noexcept {
    if (const auto counts = std::exchange(counts_, nullptr)) {
      (*counts)[static_cast<std::size_t>(pool_)].fetch_sub(1, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] Pool pool() const noexcept { return counts_ == nullptr ? Pool::kNone : pool_; }

 private:
  std::shared_ptr<RunningCounts> counts_;
  Pool pool_ = Pool::kNone;
};

/// Counts running requests per pool. Threads: the server's loop.
class Concurrency {
 public:
  explicit Concurrency(const ConcurrencyLimits& limits);
  /// nullopt: the pool is full. kNone always has room.
  [[nodiscard]] std::optional<Seat> try_enter(Pool pool) noexcept;

 private:
  std::array<std::size_t, 4> limits_;
  std::shared_ptr<RunningCounts> running_ = std::make_shared<RunningCounts>();
};

}  // namespace kintsugi::apiserver::internal
