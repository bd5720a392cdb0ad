#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "workers/runtime/queue/duration_histogram.h"
#include "workers/runtime/queue/internal/entry_lists.h"
#include "workers/runtime/queue/internal/entry_table.h"
#include "workers/runtime/queue/internal/queue_key.h"
#include "workers/runtime/queue/internal/retry_bucket.h"
#include "workers/runtime/queue/internal/seeded_random.h"
#include "workers/runtime/queue/internal/timer_wheel.h"

namespace kintsugi::workers {

/// Levels of RT-41.
enum class Priority : std::int8_t {
  kInitial = -100,  ///< initial list, periodic work
  kRetry = 0,
  kLive = 100,  ///< the object changed, or something that it waits for
};

/// What a reconcile ended with (docs/spec/worker-runtime.md, section 6).
struct Outcome {
  enum class Kind : std::uint8_t { kDone, kRequeueAfter, kPeriodic, kError, kTerminal };
  Kind kind = Kind::kDone;
  Duration delay{};

  [[nodiscard]] static Outcome done() noexcept { return {}; }
  /// Succeeded so far; again after that time, at kRetry.
  [[nodiscard]] static Outcome requeue_after(Duration delay) noexcept {
    return {Kind::kRequeueAfter, delay};
  }
  /// Done; again after the interval ± 10 %, at kInitial (RT-46).
  [[nodiscard]] static Outcome periodic(Duration interval) noexcept {
    return {Kind::kPeriodic, interval};
  }
  [[nodiscard]] static Outcome error() noexcept { return {Kind::kError, {}}; }
  /// Not again until the object changes.
  [[nodiscard]] static Outcome terminal() noexcept { return {Kind::kTerminal, {}}; }
};

/// The keyed work queue of one controller of one unit (RT-40 to RT-47): a set of keys that are
/// ready, waiting for a time, or being worked on. No clock, no thread, no I/O; time must not run
/// backwards. Cost: all O(1), no allocation per key. Memory per key beyond its texts: 41 to 48
/// bytes where keys share (cluster, namespace), whose text is kept once; 59 to 68 where no two do.
/// `bench_work_queue` measures it. Threads: one at a time.
class KeyedQueue {
 public:
  struct Params {
    Duration retry_base = milliseconds(5);     ///< × 2ⁿ, ± 20 %
    Duration retry_cap = seconds(300);         ///< of the delay with its jitter
    Duration retry_period = milliseconds(20);  ///< of the shared bucket: 50/s
    int retry_burst = 500;
  };
  /// @param seed  of jitter and hash; random, since clients choose the keys.
  KeyedQueue(const Params& params, std::uint64_t seed, TimePoint now);
  KeyedQueue(const KeyedQueue&) = delete;
  KeyedQueue& operator=(const KeyedQueue&) = delete;

  /// Work to be done now. A queued key keeps its place or is raised to a higher level; one that is
  /// worked on follows once afterwards; one that waits for its time is pulled forward, but after an
  /// error by kLive alone, which also ends its row of errors.
  /// @returns false: a part of the key is longer than 255 bytes (counted), or shut down.
  bool add(const QueueKey& key, Priority priority, TimePoint now);
  /// Work to be done after a delay, 10 ms resolution, never early. Of several times of one key the
  /// first holds; a key that is ready or backs off after an error stays as it is, and a row of
  /// errors goes on. @returns as add().
  bool add_after(const QueueKey& key, Duration delay, Priority priority, TimePoint now);
  /// A key's periodic work starts: the first run comes uniformly within the interval, at kInitial;
  /// the reconciles that follow end with Outcome::periodic (RT-46).
  bool add_periodic(const QueueKey& key, Duration interval, TimePoint now);

  struct Item {
    QueueKey key;  ///< the queue's texts, until done()
    Priority priority;
    std::uint32_t failures;    ///< errors in a row before this run, at most 255
    std::uint32_t run;         ///< for done()
    std::uint32_t generation;  ///< for done()
  };
  /// The next key to work on: first in, first out of the highest level, every 10th time of the
  /// lowest. Fires timers first. nullopt: nothing is ready.
  [[nodiscard]] std::optional<Item> pop(TimePoint now);
  /// Ends the run of a key; every item of pop() needs it, also after shutdown. An add in between
  /// makes the key ready at once, whatever the outcome; an add of a level below kLive does not cut
  /// the delay after an error. @returns false: that run has ended already; nothing happens.
  bool done(const Item& item, const Outcome& outcome, TimePoint now);

  /// When advance() or pop() should be called again, at the latest; nullopt: when something was
  /// added. May be earlier than the first timer by up to the width of its wheel's slot.
  [[nodiscard]] std::optional<TimePoint> next_timer() const noexcept;
  /// Keys of kInitial stay where they are until false: memory is short (RT-5).
  void hold_initial(bool hold) noexcept { held_ = hold; }
  /// Makes ready what is due. @returns whether a key may be taken.
  bool advance(TimePoint now);
  [[nodiscard]] bool ready() const noexcept;  ///< pop() would give one

  /// Drops all keys and takes no more (RT-47). What is worked on ends by done().
  void shut_down() noexcept;
  [[nodiscard]] bool is_shut_down() const noexcept { return shut_down_; }

  /// For the families of section 12.
  struct Counts {
    std::array<std::uint64_t, 3> depth{};  ///< ready, by level: kInitial, kRetry, kLive
    std::uint64_t delayed = 0;             ///< wait for a time
    std::uint64_t throttled = 0;           ///< retries whose time has come, but no token
    std::uint64_t running = 0;
    std::uint64_t adds = 0;     ///< keys that became ready, or were to follow their run
    std::uint64_t retries = 0;  ///< delays begun by add_after, kRequeueAfter and kError
    std::uint64_t refused = 0;  ///< keys too long
    DurationHistogram queue_duration;
    DurationHistogram work_duration;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  struct Unfinished {
    Duration sum{};  ///< of the runs that have not ended
    Duration longest{};
  };
  /// O(runs).
  [[nodiscard]] Unfinished unfinished(TimePoint now) const noexcept;
  /// Keys that it knows: ready, waiting, worked on.
  [[nodiscard]] std::size_t size() const noexcept { return table_.size(); }
  /// Of all that it holds, texts included; without sizeof(KeyedQueue).
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return table_.memory_bytes(); }

 private:
  using Id = EntryTable::Id;
  struct Run {
    Id entry = EntryTable::kNone;
    std::uint32_t generation = 0;
    TimePoint start{};
  };

  void make_ready(Id id, TimePoint now) noexcept;
  void enlist(Id id) noexcept;
  void follow(Id id, TimePoint now) noexcept;
  void wait_until(Id id, std::uint64_t due) noexcept;
  void unwait(Id id) noexcept;
  void fire(Id id, TimePoint now) noexcept;
  void feed_throttled(TimePoint now) noexcept;
  void back_off(Id id, TimePoint now) noexcept;
  [[nodiscard]] Id take_ready(std::uint8_t level) noexcept;
  [[nodiscard]] Duration retry_delay(std::uint8_t failures) noexcept;

  Params params_;
  SeededRandom random_;
  EntryTable table_;
  EntryLists lists_;
  TimerWheel wheel_;
  RetryBucket bucket_;
  std::vector<Run> runs_;
  std::vector<std::uint32_t> free_runs_;
  std::uint64_t pops_ = 0;
  bool shut_down_ = false, held_ = false;
  Counts counts_;
};

}  // namespace kintsugi::workers
