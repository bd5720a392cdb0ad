#include "serving/process_limits.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <thread>

#include "base/cpu_limit.h"
#include "base/metric_families.h"
#include "serving/fair_seats.h"

namespace kintsugi::serving {
namespace {

constexpr std::size_t kShardSeatsPerCore = 200;

/// Rows give two figures, for 2 and for 16 cores.
std::size_t between(std::size_t at_2, std::size_t at_16) noexcept {
  const std::size_t cores = std::clamp(usable_cores(), 2U, 64U);
  return at_2 + (at_16 - at_2) * (cores - 2) / 14;
}

template <class Member>
void by_level(MetricFamilies& out, const std::array<FairQueues::LevelTotals, kLevels>& totals,
              Member member) {
  for (std::size_t i = 0; i < kLevels; ++i) {
    out.sample({level_name(static_cast<Level>(i))}, member(totals[i]));
  }
}

/// As std::lock_guard, of what throws nothing.
class Holding {
 public:
  explicit Holding(std::atomic_flag& held) noexcept : held_(held) {
    while (held_.test_and_set(std::memory_order_acquire)) {
      std::this_thread::yield();
    }
  }
  ~Holding() { held_.clear(std::memory_order_release); }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

 private:
  std::atomic_flag& held_;
};

}  // namespace

ProcessLimits::ProcessLimits(FairLimits seats, const RequestLimits& limits, std::size_t loops,
                             const PayerBounds& bounds, const net::ConnectionLimits& connections)
    : seats_(FairSeats::share_of(seats, loops)),
      loops_(std::max<std::size_t>(loops, 1)),
      requests_(RequestLimiter::make(limits)),
      bounds_(RequestLimiter::make(bounds.rules())),
      connections_(std::make_shared<net::ConnectionBook>(connections)) {}

std::size_t ProcessLimits::seats_of_shard() noexcept { return usable_cores() * kShardSeatsPerCore; }

std::size_t ProcessLimits::seats_at_proxy() noexcept { return between(2'048, 8'192); }

std::size_t ProcessLimits::total_at_proxy() noexcept { return between(4'096, 32'768); }

void ProcessLimits::distribute_by_effective_user(const std::vector<std::string>& users) {
  distributed_ = {users.begin(), users.end()};
}

void ProcessLimits::add(const FairQueues& queues) {
  const Holding lock(held_);
  queues_.push_back(&queues);
}

void ProcessLimits::remove(const FairQueues& queues) noexcept {
  const Holding lock(held_);
  if (std::erase(queues_, &queues) == 0) {
    return;
  }
  for (std::size_t i = 0; i < kLevels; ++i) {
    FairQueues::LevelTotals last = queues.totals(static_cast<Level>(i));
    last.waiting = last.seats = 0;
    gone_[i] += last;
  }
}

std::array<FairQueues::LevelTotals, kLevels> ProcessLimits::totals() const {
  const Holding lock(held_);
  std::array<FairQueues::LevelTotals, kLevels> sum = gone_;
  for (const FairQueues* queues : queues_) {
    for (std::size_t i = 0; i < kLevels; ++i) {
      sum[i] += queues->totals(static_cast<Level>(i));
    }
  }
  return sum;
}

void ProcessLimits::fill(MetricFamilies& out) const {
  fill_connections(out);
  const std::array<FairQueues::LevelTotals, kLevels> all = totals();
  out.gauge("kintsugi_seats_limit",
            "requests that may run at once, at a proxy those of one shard; 0: no limit",
            seats_.seats * loops_);
  out.gauge("kintsugi_seats_total_limit",
            "requests to all shards that a proxy lets run at once; 0: no limit but those of each",
            seats_.total * loops_);
  out.gauge("kintsugi_seats_open",
            "seats that there are now, of all loops and, at a proxy, of all shards: fewer where a "
            "shard is slower than when nothing waits for it",
            open_seats());
  out.gauge(
      "kintsugi_seats",
      "seats by level: taken, and those of its share that others leave it when all are wanted",
      {"level", "state"});
  const std::size_t parts = std::accumulate(seats_.shares.begin(), seats_.shares.end(), 0U);
  for (std::size_t i = 0; i < kLevels; ++i) {
    const std::string_view level = level_name(static_cast<Level>(i));
    out.sample({level, "taken"}, all[i].seats);
    out.sample({level, "share"},
               seats_.seats * seats_.shares[i] / std::max<std::size_t>(parts, 1) * loops_);
  }
  out.gauge("kintsugi_queue_length", "requests that wait for a seat", {"level"});
  by_level(out, all, [](const auto& level) { return level.waiting; });
  out.histogram("kintsugi_queue_seconds",
                "how long requests waited that got a seat later; of one bucket", {"level"});
  by_level(out, all, [](const auto& level) {
    MetricFamilies::Histogram times;
    times.sample_count = level.waited;
    times.sample_sum = std::chrono::duration<double>(level.wait).count();
    times.bucket.push_back({level.waited, std::numeric_limits<double>::infinity()});
    return times;
  });
  out.counter("kintsugi_queue_rejected_total",
              "requests that got no seat: their queue was full, or they waited too long",
              {"level", "reason"});
  for (std::size_t i = 0; i < kLevels; ++i) {
    out.sample({level_name(static_cast<Level>(i)), "full"}, all[i].full);
    out.sample({level_name(static_cast<Level>(i)), "late"}, all[i].late);
  }
}

void ProcessLimits::fill_connections(MetricFamilies& out) const {
  const net::ConnectionLimits limits = connections_->limits();
  out.gauge("kintsugi_connections_limit", "connections that clients may have", limits.process);
  out.gauge("kintsugi_connections_largest_user", "connections of the user who has the most",
            connections_->largest_payer());
  out.gauge("kintsugi_connections_owners", "addresses and users whose connections are counted",
            connections_->owners());
  out.counter("kintsugi_connections_refused_total",
              "connections that were closed, or answered with 429: too many of the process, an "
              "address or a user, or too many new ones of an address",
              {"reason"});
  for (std::size_t i = 0; i < net::ConnectionBook::kReasons; ++i) {
    const auto reason = static_cast<net::ConnectionBook::Reason>(i);
    out.sample({net::ConnectionBook::reason_name(reason)}, connections_->refused(reason));
  }
}

std::uint64_t ProcessLimits::open_seats() const {
  const Holding lock(held_);
  std::uint64_t sum = 0;
  for (const FairQueues* queues : queues_) {
    sum += queues->open_seats();
  }
  return sum;
}

void ProcessLimits::fill_limited(MetricFamilies& out) const {
  for (std::size_t of = 0; of < kLimitsOf; ++of) {
    for (std::size_t kind = 0; kind < 3; ++kind) {
      const auto whose = static_cast<LimitOf>(of);
      const auto what = static_cast<LimitKind>(kind);
      if (const std::string_view name = RequestLimiter::name(whose, what); !name.empty()) {
        out.sample({name}, requests_->refused(whose, what) + bounds_->refused(whose, what));
      }
    }
  }
}

std::string payer_on_behalf(std::string_view payer, std::string_view effective) {
  constexpr std::size_t kMostOfAName = 256;
  std::string out(payer);
  out.append(" for ").append(effective, 0, kMostOfAName);
  return out;
}

}  // namespace kintsugi::serving
