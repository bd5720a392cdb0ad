#include "serving/request_limits.h"

#include <algorithm>
#include <cassert>
#include <mutex>
#include <new>
#include <string>
#include <utility>

namespace kintsugi::serving {
namespace {

constexpr std::uint64_t kHolders = (std::uint64_t{1} << 24U) - 1;
constexpr std::size_t kProbes = 16;
constexpr int kTries = 8;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::uint32_t kMade = 1U << 31;  // of RequestLimiter::limited_: there are buckets

/// Of those who make buckets, which is done once, with the first that is counted: 2 MiB that most
/// processes never need.
std::mutex making;

/// Whose part of a limit of many one of them has.
constexpr LimitOf part_of(LimitOf of) noexcept {
  switch (of) {
    case LimitOf::kCluster:
      return LimitOf::kClusterUser;
    case LimitOf::kShard:
      return LimitOf::kShardUser;
    case LimitOf::kWorkspaceWatches:
      return LimitOf::kWorkspaceWatcher;
    default:
      return LimitOf::kWorkspaceWriter;
  }
}

std::string of_payer(std::string_view name, std::string_view payer) {
  std::string both(name);
  both.append(1, '\n').append(payer);
  return both;
}

std::int64_t nanoseconds_of(TimePoint time) noexcept {
  return std::chrono::duration_cast<Duration>(time.time_since_epoch()).count();
}

}  // namespace

RequestLimiter::Pass::Pass(Pass&& other) noexcept
    : limiter_(std::move(other.limiter_)),
      buckets_(other.buckets_),
      weights_(other.weights_),
      of_(other.of_),
      count_(std::exchange(other.count_, std::uint8_t{0})),
      tokens_(other.tokens_),
      watch_(other.watch_) {}

RequestLimiter::Pass& RequestLimiter::Pass::operator=(Pass&& other) noexcept {
  if (this != &other) {
    give_back();
    limiter_ = std::move(other.limiter_);
    buckets_ = other.buckets_;
    weights_ = other.weights_;
    of_ = other.of_;
    count_ = std::exchange(other.count_, std::uint8_t{0});
    tokens_ = other.tokens_;
    watch_ = other.watch_;
  }
  return *this;
}

void RequestLimiter::Pass::give_back() noexcept {
  if (limiter_ == nullptr) {
    return;
  }
  for (std::size_t i = 0; i < count_; ++i) {
    Bucket& bucket = (*limiter_->buckets_)[buckets_[i]];
    (watch_ ? bucket.watches : bucket.running).fetch_sub(weights_[i], std::memory_order_relaxed);
    bucket.word.fetch_sub(1, std::memory_order_release);
  }
  count_ = 0;
  limiter_.reset();
}

void RequestLimiter::Pass::drop_last() noexcept {
  --count_;
  const Rule& rule = limiter_->rules_[static_cast<std::size_t>(of_[count_])];
  Bucket& bucket = (*limiter_->buckets_)[buckets_[count_]];
  if ((tokens_ >> count_ & 1U) != 0) {
    bucket.full_at.fetch_sub(rule.interval.load(std::memory_order_relaxed),
                             std::memory_order_relaxed);
  }
  (watch_ ? bucket.watches : bucket.running).fetch_sub(weights_[count_], std::memory_order_relaxed);
  bucket.word.fetch_sub(1, std::memory_order_release);
  if (count_ == 0) {
    limiter_.reset();
  }
}

void RequestLimiter::Pass::take_back() noexcept {
  while (count_ > 0) {
    drop_last();
  }
}

std::shared_ptr<RequestLimiter> RequestLimiter::make(const RequestLimits& limits) {
  std::shared_ptr<RequestLimiter> made(new RequestLimiter());
  made->self_ = made;
  made->set(limits);
  return made;
}

std::string_view RequestLimiter::name(LimitOf of, LimitKind kind) noexcept {
  constexpr std::array<std::string_view, kLimitsOf * 3> kNames{"user.rps",
                                                               "user.concurrent",
                                                               "user.watches",
                                                               "cluster.rps",
                                                               "cluster.concurrent",
                                                               "cluster.watches",
                                                               "shard.rps",
                                                               "shard.concurrent",
                                                               "shard.watches",
                                                               "unauthenticated.rps",
                                                               "",
                                                               "",
                                                               "workspace.writes",
                                                               "",
                                                               "",
                                                               "",
                                                               "",
                                                               "workspace.watches",
                                                               "",
                                                               "",
                                                               "watches_per_user",
                                                               "",
                                                               "",
                                                               "watches_per_resource",
                                                               "",
                                                               "merged_per_user",
                                                               "",
                                                               "",
                                                               "merged_streams_per_user",
                                                               "",
                                                               "",
                                                               "tunnels_per_user"};
  return kNames[index(of, kind)];
}

/// @param parts  it is one of so many
void RequestLimiter::set(Rule& rule, const LimitRule& limit, std::uint32_t parts) noexcept {
  const std::int64_t interval = limit.rps == 0 ? 0 : kSecond / limit.rps * parts;
  const std::int64_t burst = (limit.burst == 0 ? limit.rps : limit.burst) / parts;
  rule.tolerance.store((std::max<std::int64_t>(burst, 1) - 1) * interval,
                       std::memory_order_relaxed);
  rule.interval.store(interval, std::memory_order_relaxed);
  const auto part = [parts](std::uint32_t all) {
    return all == 0 ? 0U : std::max(all / parts, 1U);
  };
  rule.concurrent.store(part(limit.concurrent), std::memory_order_relaxed);
  rule.watches.store(part(limit.watches), std::memory_order_relaxed);
}

void RequestLimiter::set(const RequestLimits& limits) {
  const std::array<LimitRule, kLimitsOf> all{limits.user,
                                             limits.cluster,
                                             limits.shard,
                                             LimitRule{.rps = limits.unauthenticated_rps},
                                             limits.workspace_writes,
                                             limits.workspace_watches,
                                             limits.payer,
                                             limits.resource,
                                             limits.merged,
                                             limits.merged_streams,
                                             limits.tunnels,
                                             limits.workspace_writes,
                                             limits.workspace_watches,
                                             limits.cluster,
                                             limits.shard};
  std::uint32_t limited = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_part = i >= static_cast<std::size_t>(LimitOf::kWorkspaceWriter);
    set(rules_[i], all[i], is_part ? kParts : 1);
    limited |= all[i] == LimitRule() ? 0U : 1U << i;
  }
  const std::lock_guard lock(making);
  limited_.store(limited | (limited_.load(std::memory_order_relaxed) & kMade),
                 std::memory_order_release);
}

/// The bucket of a key, which stays its own until it is let go; nullptr: all that it may have are
/// others'. Two threads that come with a new key at the same time may each make one: the second is
/// not found again.
RequestLimiter::Bucket* RequestLimiter::hold(std::uint64_t key, std::int64_t now) noexcept {
  const std::uint64_t tag = key >> 24U | 1U;
  const std::size_t first = key % kBuckets;
  for (int tries = 0; tries < kTries; ++tries) {
    Bucket* free = nullptr;
    std::uint64_t free_word = 0;
    for (std::size_t i = 0; i < kProbes; ++i) {
      Bucket& bucket = (*buckets_)[(first + i) % kBuckets];
      std::uint64_t word = bucket.word.load(std::memory_order_acquire);
      while (word >> 24U == tag) {
        if (bucket.word.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel)) {
          return &bucket;
        }
      }
      const bool is_full = bucket.full_at.load(std::memory_order_relaxed) <= now;
      if (free == nullptr && (word & kHolders) == 0 && is_full) {
        free = &bucket;
        free_word = word;
      }
    }
    if (free == nullptr) {
      return nullptr;
    }
    // It was full, and so is a new one: there is nothing to reset.
    if (free->word.compare_exchange_strong(free_word, tag << 24U | 1U, std::memory_order_acq_rel)) {
      return free;
    }
  }
  return nullptr;
}

Expected<void> RequestLimiter::charge_rest(Pass& pass, LimitOf of, std::string_view name,
                                           std::string_view payer, bool is_watch, TimePoint now,
                                           Error common) noexcept {
  if (charge(pass, part_of(of), of_payer(name, payer), is_watch, now)) {
    Expected<void> room = charge(pass, of, name, is_watch, now);
    if (!room) {
      pass.drop_last();
    }
    return room;
  }
  const LimitKind kind = is_watch ? LimitKind::kWatches : LimitKind::kRate;
  refused_[index(of, kind)].fetch_add(1, std::memory_order_relaxed);
  return fail(std::move(common));
}

/// Where it counts what a payer holds from the first on, not only of the last eighth.
Expected<void> RequestLimiter::charge_held(Pass& pass, LimitOf of, std::string_view name,
                                           std::string_view payer, bool is_watch,
                                           TimePoint now) noexcept {
  const LimitOf part = part_of(of);
  const LimitKind kind = is_watch ? LimitKind::kWatches : LimitKind::kConcurrent;
  if (!charge(pass, part, of_payer(name, payer), is_watch, now, 1, Room::kCounted)) {
    return refuse(of, kind, kSecond);  // no bucket is free
  }
  const auto own = static_cast<std::uint8_t>(pass.count_ - 1);
  Expected<void> room = charge(pass, of, name, is_watch, now, 1, Room::kCommon);
  if (room) {
    return room;
  }
  const Rule& rule = rules_[static_cast<std::size_t>(part)];
  Bucket& bucket = (*buckets_)[pass.buckets_[own]];
  const std::uint32_t holds =
      (is_watch ? bucket.watches : bucket.running).load(std::memory_order_relaxed);
  const std::uint32_t most =
      (is_watch ? rule.watches : rule.concurrent).load(std::memory_order_relaxed);
  if (holds > most || take_token(rule, bucket, nanoseconds_of(now), Room::kAll) > 0) {
    refused_[index(of, holds > most ? kind : LimitKind::kRate)].fetch_add(
        1, std::memory_order_relaxed);
  } else {
    pass.tokens_ = static_cast<std::uint8_t>(pass.tokens_ | 1U << own);
    room = charge(pass, of, name, is_watch, now);
  }
  if (!room) {
    pass.drop_last();
  }
  return room;
}

tl::unexpected<Error> RequestLimiter::refuse(LimitOf of, LimitKind kind, std::int64_t wait,
                                             Room room) noexcept {
  refused_[index(of, kind)].fetch_add(room == Room::kAll ? 1 : 0, std::memory_order_relaxed);
  std::string text = "Too many requests: limits.";
  text.append(name(of, kind)).append(" is reached, please try again later.");
  Error error(Errc::kTooManyRequests, std::move(text));
  const std::int64_t whole = (wait + kSecond - 1) / kSecond;
  error.edit().retry_after_seconds = static_cast<int>(std::clamp<std::int64_t>(whole, 1, 3'600));
  return fail(std::move(error));
}

/// @returns 0: the bucket has given one; else after how long it has one [ns]
std::int64_t RequestLimiter::take_token(const Rule& rule, Bucket& bucket, std::int64_t now,
                                        Room room) noexcept {
  const std::int64_t interval = rule.interval.load(std::memory_order_relaxed);
  std::int64_t full_at = bucket.full_at.load(std::memory_order_relaxed);
  while (interval != 0) {
    const std::int64_t from = std::max(full_at, now);
    const std::int64_t tolerance = rule.tolerance.load(std::memory_order_relaxed);
    const std::int64_t kept = room == Room::kCommon ? tolerance / kParts : 0;
    const std::int64_t wait = from - now - (tolerance - kept);
    if (wait > 0) {
      return wait;
    }
    if (bucket.full_at.compare_exchange_weak(full_at, from + interval, std::memory_order_relaxed)) {
      break;
    }
  }
  return 0;
}

Expected<void> RequestLimiter::charge(Pass& pass, LimitOf of, std::string_view name, bool is_watch,
                                      TimePoint now, std::uint32_t weight, Room room) noexcept {
  if (!limits(of) || pass.count_ == pass.buckets_.size()) {
    return {};
  }
  assert(pass.limiter_ == nullptr || pass.limiter_.get() == this);
  if ((limited_.load(std::memory_order_acquire) & kMade) == 0) {
    const std::lock_guard lock(making);
    if (buckets_ == nullptr) {
      // Untouched pages are no memory yet.
      buckets_.reset(static_cast<Buckets*>(std::calloc(1, sizeof(Buckets))));
    }
    if (buckets_ == nullptr) {
      return refuse(of, LimitKind::kRate, kSecond);
    }
    limited_.fetch_or(kMade, std::memory_order_release);
  }
  Rule& rule = rules_[static_cast<std::size_t>(of)];
  const std::int64_t time = nanoseconds_of(now);
  const std::uint64_t key = siphash({key_.low ^ static_cast<std::uint64_t>(of), key_.high}, name);
  Bucket* bucket = hold(key, time);
  if (bucket == nullptr) {
    return refuse(of, LimitKind::kRate, kSecond);
  }
  const LimitKind kind = is_watch ? LimitKind::kWatches : LimitKind::kConcurrent;
  std::atomic<std::uint32_t>& running = is_watch ? bucket->watches : bucket->running;
  std::uint32_t most = (is_watch ? rule.watches : rule.concurrent).load(std::memory_order_relaxed);
  most -= room == Room::kCommon ? most / kParts : 0;
  const std::uint32_t others = running.fetch_add(weight, std::memory_order_relaxed);
  const auto give_up = [&] {
    running.fetch_sub(weight, std::memory_order_relaxed);
    bucket->word.fetch_sub(1, std::memory_order_release);
  };
  if (room != Room::kCounted && others != 0 && others + weight > most && most != 0) {
    give_up();
    return refuse(of, kind, kSecond, room);
  }
  if (room != Room::kCounted) {
    if (const std::int64_t wait = take_token(rule, *bucket, time, room); wait > 0) {
      give_up();
      return refuse(of, LimitKind::kRate, wait, room);
    }
  }
  const unsigned bit = 1U << pass.count_;
  pass.tokens_ =
      static_cast<std::uint8_t>(room == Room::kCounted ? pass.tokens_ & ~bit : pass.tokens_ | bit);
  pass.limiter_ = self_.lock();
  pass.watch_ = is_watch;
  pass.weights_[pass.count_] = weight;
  pass.of_[pass.count_] = of;
  pass.buckets_[pass.count_++] = static_cast<std::uint32_t>(bucket - buckets_->data());
  return {};
}

}  // namespace kintsugi::serving
