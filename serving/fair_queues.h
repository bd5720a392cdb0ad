#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace kintsugi::serving {

/// Who asks, as far as it decides whose turn it is (SE-070). Who is exempt has no level: he is
/// never made to wait.
enum class Level : std::uint8_t {
  kSystem,    ///< servers of the installation
  kOperator,  ///< who runs it
  kTenant,    ///< every other verified identity
  kUnknown,   ///< nobody that is known
};
inline constexpr std::size_t kLevels = 4;
/// "system", …: the label `level` of metrics.
[[nodiscard]] std::string_view level_name(Level level) noexcept;

/// What one loop lets run and wait (SE-070 to SE-074, SE-080).
struct FairLimits {
  std::size_t seats = 0;  ///< that run at once, of all levels; 0: all run
  /// Of all queues that share a SeatTotal, as those of a proxy's shards do; 0: what each has.
  std::size_t total = 0;
  /// Of the seats, in parts of their sum. What a level leaves idle, others borrow.
  std::array<std::uint32_t, kLevels> shares{20, 10, 65, 5};
  std::uint32_t spared = 5;  ///< [% of the seats] that nobody borrows from kOperator
  std::size_t queues = 128;  ///< of each level
  std::size_t hand = 6;      ///< queues that one payer can get into
  std::size_t queue_length = 50;
  std::size_t queue_bytes = std::size_t{1} << 20;
  /// As few seats as it may learn that are enough (SeatWindow); 0: it always has `seats`. Of seats
  /// that were learned a quarter more are for newcomers, whose hands are idle but for a third: they
  /// do not wait until somebody else is done. And as long as newcomers come, others who fill their
  /// hands have an eighth of the seats, so that what is begun for a newcomer is not behind all that
  /// was begun for them (SE-005).
  std::size_t least = 0;
  /// That a loop begins in one of its turns; others wait for the next one even if seats are free,
  /// so that whoever comes then is not behind all that has come before. 0: all.
  std::size_t per_turn = 0;
  Duration wait = seconds(15);         ///< the longest
  Duration block = milliseconds(100);  ///< so long a wide request that is next stops narrower ones
  bool operator==(const FairLimits&) const = default;
};

/// Seats that several FairQueues of one thread have together (SE-080).
struct SeatTotal {
  std::size_t most = 0;   ///< 0: any number
  std::size_t taken = 0;  ///< of all levels
  std::size_t operators = 0;
  bool was_short = false;  ///< somebody found none; whoever gives one back says so to all
};

/// Whose request it is: hashes under a key that clients do not know.
struct Flow {
  Level level = Level::kTenant;
  std::uint64_t payer = 0;    ///< decides on the hand
  std::uint64_t cluster = 0;  ///< takes turns among the payer's
};

/// Seats and who waits for them: shuffle-sharded fair queues as in Kubernetes' API priority and
/// fairness. A payer is dealt a hand of queues and waits in the shortest of them, so that one who
/// asks for everything fills those and no others; the queues of a level share its seats by the time
/// that their work takes, and in a queue payers, then their clusters, take turns.
///
/// A machine without I/O: after enter() of one that waits, and after leave(), seats may be free;
/// whoever drives it calls next() until nobody is left, and expired() when next_deadline() has
/// come. Threads: one. Cost: a request that need not wait, one look at its hand; one that waits, a
/// look at its queue if others than its payer wait there, and for each seat a look at the queues in
/// which somebody waits.
class FairQueues {
 public:
  static constexpr std::size_t kMostInHand = 16;  ///< queues of a payer
  /// How much of a payer's hand is in use when his request comes.
  enum class Crowd : std::uint8_t {
    kNewcomer,  ///< less than a third
    kUsual,
    kHeavy,  ///< all of it
  };
  /// A request's place, which must not move. Leaves when it is destroyed.
  class Ticket {
   public:
    Ticket() noexcept = default;
    ~Ticket() {
      if (queues_ != nullptr) {
        queues_->leave(*this, queues_->now_);
      }
    }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    [[nodiscard]] bool runs() const noexcept { return queues_ != nullptr && runs_; }
    [[nodiscard]] bool waits() const noexcept { return queues_ != nullptr && !runs_; }
    /// When it came, or when it got its seat.
    [[nodiscard]] TimePoint since() const noexcept { return since_; }

   private:
    friend class FairQueues;
    FairQueues* queues_ = nullptr;  // null: it is nowhere
    Ticket* previous_ = nullptr;    // of its queue, or of those that run
    Ticket* next_ = nullptr;
    Ticket* earlier_ = nullptr;  // of those that wait, by until_
    Ticket* later_ = nullptr;
    Flow flow_;
    bool runs_ = false;
    Crowd crowd_ = Crowd::kUsual;
    std::uint32_t queue_ = 0;  // or kNoQueue
    std::size_t width_ = 1, bytes_ = 0;
    TimePoint since_{}, until_{};
    std::optional<TimePoint> blocked_;  // it is next, and too wide, since
    std::uint64_t order_ = 0;           // in which they came
    std::uint64_t turn_ = 0;            // of its payer, in the queue
    std::uint64_t cluster_turn_ = 0;    // of its cluster, among its payer's
    double charged_ = 0;                // [seat-seconds]
  };
  struct Ask {
    std::size_t width = 1;            ///< seats; more than there are, are all
    std::size_t bytes = 0;            ///< that are kept while it waits
    Duration wait = Duration::max();  ///< FairLimits::wait is the most
    bool queues = false;              ///< it waits for its turn although a seat is free
  };
  enum class Entry : std::uint8_t { kRuns, kWaits, kFull };

  /// @param random  for the times that refused clients are told
  /// @param total  of all queues that have it; outlives them. Null: these have no others.
  explicit FairQueues(const FairLimits& limits, std::uint64_t random = 1,
                      SeatTotal* total = nullptr);
  ~FairQueues();  ///< tickets that are left are nowhere
  FairQueues(const FairQueues&) = delete;
  FairQueues& operator=(const FairQueues&) = delete;

  /// @param ticket  is nowhere. kFull: neither it nor its queue has changed; never as long as no
  /// more run and wait than there are seats by the limits, be they fewer just now.
  [[nodiscard]] Entry enter(Ticket& ticket, const Flow& flow, const Ask& ask, TimePoint now);
  /// A seat, whoever asks: as long as there are plenty nobody needs to be charged for his.
  void run_at_once(Ticket& ticket, Level level, TimePoint now) noexcept;
  /// It has run, or does not want to any more.
  void leave(Ticket& ticket, TimePoint now) noexcept;
  /// Gives a seat to one that waits; nullptr: there is none for anybody.
  [[nodiscard]] Ticket* next(TimePoint now) noexcept;
  /// Throws one out that has waited too long; nullptr: nobody has.
  [[nodiscard]] Ticket* expired(TimePoint now) noexcept;
  /// When to call next() and expired() again, if nothing happens until then; nullopt: nobody waits.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const noexcept;
  /// Of the next requests; those that run or wait stay. The number of queues does not change.
  void set_limits(const FairLimits& limits) noexcept;
  /// The same, of the seats alone. @param seats  not 0
  void set_seats(std::size_t seats) noexcept;
  /// FairLimits::seats as they are now. Any thread.
  [[nodiscard]] std::uint64_t open_seats() const noexcept { return open_; }
  /// For one that was refused: when a place in its queue can be free [whole seconds], 1 to 30.
  [[nodiscard]] std::uint32_t retry_after(Level level) noexcept;

  struct LevelTotals {
    std::uint64_t waiting = 0;         ///< requests
    std::uint64_t seats = 0;           ///< taken
    std::uint64_t served = 0;          ///< got a seat
    std::uint64_t full = 0, late = 0;  ///< found no place, waited too long
    std::uint64_t waited = 0;          ///< of `served`: not at once
    Duration wait{};                   ///< of these, in all
    LevelTotals& operator+=(const LevelTotals& other) noexcept;
  };
  /// Any thread; each number is right, their sums may be of two moments.
  [[nodiscard]] LevelTotals totals(Level level) const noexcept;
  [[nodiscard]] const FairLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] std::size_t seats_taken() const noexcept { return taken_; }
  /// So few are taken, here and in all, that it does not matter whose request gets one.
  [[nodiscard]] bool has_plenty() const noexcept {
    return waiting_ == 0 && taken_ < limits_.seats / 2 &&
           (total_ == nullptr || total_->most == 0 || total_->taken < total_->most / 2);
  }
  [[nodiscard]] bool has_waiting() const noexcept { return waiting_ > 0; }
  /// Everybody who runs or waits. Whoever got a seat by run_at_once() has no payer.
  struct Seen {
    Flow flow;
    bool runs = false;
    std::size_t width = 1;
  };
  template <class Visit>
  void visit(Visit visit) const {
    for (const Ticket* ticket = running_; ticket != nullptr; ticket = ticket->next_) {
      visit(Seen{ticket->flow_, true, ticket->width_});
    }
    for (const Group& group : levels_) {
      for (const Queue& queue : group.queues) {
        for (const Ticket* ticket = queue.first; ticket != nullptr; ticket = ticket->next_) {
          visit(Seen{ticket->flow_, false, ticket->width_});
        }
      }
    }
  }
  [[nodiscard]] static Level level_of(const Ticket& ticket) noexcept { return ticket.flow_.level; }

 private:
  /// Counts on the machine's thread alone, and is read by any.
  class Count {
   public:
    Count& operator+=(std::uint64_t more) noexcept {
      value_.store(*this + more, std::memory_order_relaxed);
      return *this;
    }
    Count& operator-=(std::uint64_t less) noexcept {
      value_.store(*this - less, std::memory_order_relaxed);
      return *this;
    }
    Count& operator++() noexcept { return *this += 1; }
    Count& operator--() noexcept { return *this -= 1; }
    operator std::uint64_t() const noexcept { return value_.load(std::memory_order_relaxed); }

   private:
    std::atomic<std::uint64_t> value_ = 0;
  };
  struct LevelStats {
    Count waiting, seats, served, full, late, waited, wait_ns;
  };
  static constexpr std::uint32_t kNoQueue = ~std::uint32_t{0};
  struct Queue {
    Ticket* first = nullptr;
    Ticket* last = nullptr;
    std::size_t length = 0, width = 0, bytes = 0;  // of what waits
    std::size_t running = 0;                       // requests
    double tag = 0;  // virtual time [seat-seconds] at which its next request begins
    /// All that wait are of one payer and one cluster, so that they go in the order in which they
    /// came.
    bool plain = true;
  };
  struct Newcomer {
    std::uint64_t payer = 0;
    TimePoint when;
  };
  struct Hand {
    std::uint64_t payer = 0;
    std::size_t size = 0;                             // 0: not dealt yet
    std::array<std::uint32_t, kMostInHand> queues{};  // as dealt, each once
  };
  struct Group {
    std::vector<Queue> queues;
    std::vector<std::uint64_t> busy;  // a bit for each queue in which somebody waits
    double now = 0;                   // virtual
    double mean = 0.003;              // service time [s]
    LevelStats stats;
  };

  [[nodiscard]] Group& group(const Ticket& ticket) noexcept {
    return levels_[static_cast<std::size_t>(ticket.flow_.level)];
  }
  void deal(std::uint64_t payer) noexcept;
  [[nodiscard]] std::uint32_t choose(const Group& group, std::uint64_t payer) noexcept;
  [[nodiscard]] bool fits(std::size_t level, std::size_t width, Crowd crowd,
                          std::uint64_t payer) const noexcept;
  [[nodiscard]] Crowd crowd_of(const Group& group) const noexcept;
  [[nodiscard]] std::size_t spared(std::size_t level, std::size_t seats,
                                   std::size_t operators) const noexcept;
  void count_seats(const Ticket& ticket, bool more) noexcept;
  [[nodiscard]] Ticket* next_of(std::size_t level, TimePoint now) noexcept;
  [[nodiscard]] static Ticket* head(Queue& queue) noexcept;
  void count_turns(Ticket& ticket, const Queue& queue) const noexcept;
  void wait(Ticket& ticket, Queue& queue) noexcept;
  void take_out(Ticket& ticket, Queue& queue) noexcept;
  void run(Ticket& ticket, TimePoint now) noexcept;
  void sit(Ticket& ticket, TimePoint now) noexcept;

  FairLimits limits_;
  Hand hand_;  // of the payer who came last
  std::array<Group, kLevels> levels_;
  Count open_;
  std::size_t most_ = 0;    // seats by the limits
  SeatTotal* const total_;  // or null
  std::size_t taken_ = 0, waiting_ = 0;
  std::size_t heavy_ = 0;                      // of taken_, by those who fill their hands
  std::optional<Newcomer> newcomer_;           // the last one
  std::array<std::size_t, kLevels> shares_{};  // of limits_.seats
  Ticket* soonest_ = nullptr;                  // of all that wait, by until_
  Ticket* latest_ = nullptr;
  std::optional<TimePoint> unblock_;  // when a narrow one may pass a wide one
  Ticket* running_ = nullptr;
  TimePoint now_{};  // the last that was told
  std::uint64_t last_order_ = 0;
  std::uint64_t random_;
};

}  // namespace kintsugi::serving
