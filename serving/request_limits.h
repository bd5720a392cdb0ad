#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/siphash.h"
#include "base/time.h"

namespace kintsugi::serving {

/// What a user, a logical cluster or a shard may have. 0: no limit.
struct LimitRule {
  std::uint32_t rps = 0;         ///< requests a second, in the long run
  std::uint32_t burst = 0;       ///< at once; 0: those of a second
  std::uint32_t concurrent = 0;  ///< requests that run, without watches
  std::uint32_t watches = 0;
  bool operator==(const LimitRule&) const = default;
};
struct RequestLimits {
  LimitRule user{}, cluster{}, shard{};
  std::uint32_t unauthenticated_rps = 0;  ///< per address of clients that nobody knows
  /// Of a logical cluster (SE-093): writes alone by `rps` and `burst`, watches alone by `watches`.
  LimitRule workspace_writes{}, workspace_watches{};
  /// Of a payer; see PayerBounds, which makes them.
  LimitRule payer{}, resource{}, merged{}, merged_streams{}, tunnels{};
  [[nodiscard]] bool any() const noexcept { return !(*this == RequestLimits()); }
  bool operator==(const RequestLimits&) const = default;
};

/// Whose limit.
enum class LimitOf : std::uint8_t {
  kUser,
  kCluster,
  kShard,
  kUnauthenticated,
  kWorkspaceWrites,
  kWorkspaceWatches,
  kPayer,
  kResource,
  kMerged,
  kMergedStreams,
  kTunnels,
  kWorkspaceWriter,   ///< an eighth of kWorkspaceWrites, of one payer; made from that
  kWorkspaceWatcher,  ///< the same of kWorkspaceWatches
  kClusterUser,       ///< of kCluster
  kShardUser,         ///< of kShard
};
inline constexpr std::size_t kLimitsOf = 15;
/// Of what.
enum class LimitKind : std::uint8_t { kRate, kConcurrent, kWatches };

/// Counts what the requests of a process have against `limits.*`: token buckets, requests and
/// watches that run, per user, logical cluster, shard and unknown address. 65,536 buckets at most;
/// one that is full and that no request holds may be forgotten, any other may not (SE-089).
/// Threads: any, without locks. Cost without a limit: one load.
class RequestLimiter {
 public:
  static constexpr std::size_t kBuckets = 65'536;

  /// What one request holds; gives it back when it is destroyed. Threads: one at a time.
  class Pass {
   public:
    Pass() noexcept = default;
    Pass(Pass&& other) noexcept;
    Pass& operator=(Pass&& other) noexcept;
    ~Pass() { give_back(); }
    void give_back() noexcept;
    /// The same, and the tokens of the rates: the request was turned away before anything was done.
    void take_back() noexcept;
    [[nodiscard]] bool is_empty() const noexcept { return limiter_ == nullptr; }

   private:
    friend class RequestLimiter;
    void drop_last() noexcept;
    std::shared_ptr<RequestLimiter> limiter_;
    std::array<std::uint32_t, 8> buckets_{};
    std::array<std::uint32_t, 8> weights_{};
    std::array<LimitOf, 8> of_{};
    std::uint8_t count_ = 0;
    std::uint8_t tokens_ = 0;  // a bit for each bucket that has given one
    bool watch_ = false;
  };

  [[nodiscard]] static std::shared_ptr<RequestLimiter> make(const RequestLimits& limits = {});
  RequestLimiter(const RequestLimiter&) = delete;
  RequestLimiter& operator=(const RequestLimiter&) = delete;

  /// For requests that come from now on. One thread at a time.
  void set(const RequestLimits& limits);
  /// There is a limit of anything.
  [[nodiscard]] bool any() const noexcept { return limited_.load(std::memory_order_acquire) != 0; }
  /// There is a limit of this.
  [[nodiscard]] bool limits(LimitOf of) const noexcept {
    return (limited_.load(std::memory_order_acquire) >> static_cast<unsigned>(of) & 1U) != 0;
  }
  /// Charges a request to one more bucket of `pass`, at most eight in all, all
  /// of one limiter.
  /// @param name  of the user, cluster, shard or address
  /// @param weight  requests that it counts as; one that is heavier than all may be runs alone
  /// @error kTooManyRequests with the name of the limit and when to try again; nothing is charged.
  [[nodiscard]] Expected<void> charge(Pass& pass, LimitOf of, std::string_view name, bool is_watch,
                                      TimePoint now, std::uint32_t weight = 1) noexcept {
    return charge(pass, of, name, is_watch, now, weight, Room::kAll);
  }
  /// The same of a limit that many payers have together, of which no one uses up what is the
  /// others' (SE-005, SE-089, SE-093): the last eighth is for those who have not had an eighth of
  /// all of it. Of what requests hold (concurrent, watches) somebody who is alone has seven
  /// eighths, since he may never give it back; of a rate, all. There is no eighth of fewer than
  /// eight, nor of a burst of one.
  /// @param of  kCluster, kShard, kWorkspaceWrites or kWorkspaceWatches
  /// @param payer  gives his name, where that matters
  template <class Payer>
  [[nodiscard]] Expected<void> charge_shared(Pass& pass, LimitOf of, std::string_view name,
                                             bool is_watch, TimePoint now, Payer&& payer) noexcept {
    if (!limits(of)) {
      return {};
    }
    if (keeps_held(of, is_watch)) {
      return charge_held(pass, of, name, payer(), is_watch, now);
    }
    Expected<void> room = charge(pass, of, name, is_watch, now, 1, Room::kCommon);
    if (!room) {
      room = charge_rest(pass, of, name, payer(), is_watch, now, std::move(room).error());
    }
    return room;
  }
  /// Requests that were refused.
  [[nodiscard]] std::uint64_t refused(LimitOf of, LimitKind kind) const noexcept {
    return refused_[index(of, kind)].load(std::memory_order_relaxed);
  }
  /// "user.rps", …: the label `limit` of metrics; "": there is no such limit.
  [[nodiscard]] static std::string_view name(LimitOf of, LimitKind kind) noexcept;

 private:
  /// How far a limit is used: all but the last eighth, or all. What is short of kCommon is no
  /// refusal yet. kCounted: it is told of the request and neither refuses it nor gives a token.
  enum class Room : std::uint8_t { kAll, kCommon, kCounted };
  static constexpr std::uint32_t kParts = 8;
  struct Bucket {
    std::atomic<std::uint64_t> word = 0;    // tag of the key, and how many requests hold it
    std::atomic<std::int64_t> full_at = 0;  // [ns] when no token is missing any more
    std::atomic<std::uint32_t> running = 0, watches = 0;
  };
  using Buckets = std::array<Bucket, kBuckets>;
  static_assert(std::is_trivially_destructible_v<Buckets>);
  struct Free {
    void operator()(Buckets* buckets) const noexcept { std::free(buckets); }
  };
  struct Rule {
    std::atomic<std::int64_t> interval = 0, tolerance = 0;  // [ns] 0: no rate
    std::atomic<std::uint32_t> concurrent = 0, watches = 0;
  };
  RequestLimiter() = default;
  [[nodiscard]] static constexpr std::size_t index(LimitOf of, LimitKind kind) noexcept {
    return static_cast<std::size_t>(of) * 3 + static_cast<std::size_t>(kind);
  }
  [[nodiscard]] Expected<void> charge(Pass& pass, LimitOf of, std::string_view name, bool is_watch,
                                      TimePoint now, std::uint32_t weight, Room room) noexcept;
  [[nodiscard]] Expected<void> charge_rest(Pass& pass, LimitOf of, std::string_view name,
                                           std::string_view payer, bool is_watch, TimePoint now,
                                           Error common) noexcept;
  [[nodiscard]] Expected<void> charge_held(Pass& pass, LimitOf of, std::string_view name,
                                           std::string_view payer, bool is_watch,
                                           TimePoint now) noexcept;
  /// The limit is of what requests hold, and large enough to have eighths.
  [[nodiscard]] bool keeps_held(LimitOf of, bool is_watch) const noexcept {
    const Rule& rule = rules_[static_cast<std::size_t>(of)];
    return (is_watch ? rule.watches : rule.concurrent).load(std::memory_order_relaxed) >= kParts;
  }
  [[nodiscard]] static std::int64_t take_token(const Rule& rule, Bucket& bucket, std::int64_t now,
                                               Room room) noexcept;
  [[nodiscard]] Bucket* hold(std::uint64_t key, std::int64_t now) noexcept;
  [[nodiscard]] tl::unexpected<Error> refuse(LimitOf of, LimitKind kind, std::int64_t wait,
                                             Room room = Room::kAll) noexcept;
  void set(Rule& rule, const LimitRule& limit, std::uint32_t parts = 1) noexcept;

  const SipKey key_ = SipKey::random();
  std::array<Rule, kLimitsOf> rules_;
  std::atomic<std::uint32_t> limited_ = 0;  // a bit per LimitOf
  std::unique_ptr<Buckets, Free> buckets_;  // made with the first that is counted
  std::array<std::atomic<std::uint64_t>, kLimitsOf * 3> refused_{};
  std::weak_ptr<RequestLimiter> self_;
};

}  // namespace kintsugi::serving
