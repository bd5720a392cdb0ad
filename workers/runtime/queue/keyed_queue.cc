#include "workers/runtime/queue/keyed_queue.h"

#include <algorithm>

namespace kintsugi::workers {
namespace {

// Lists: the levels, retries without a token, slots of the wheel.
constexpr std::uint32_t kLevels = 3;
constexpr std::uint32_t kThrottled = kLevels;
constexpr std::uint32_t kWheel = kThrottled + 1;
constexpr std::uint32_t kLists = kWheel + TimerWheel::kSlots;

constexpr std::uint8_t kRetryLevel = 1;
constexpr std::uint8_t kLiveLevel = 2;
constexpr std::array<Priority, kLevels> kPriorities = {Priority::kInitial, Priority::kRetry,
                                                       Priority::kLive};
constexpr std::uint64_t kLowestEvery = 10;

// Flags of an entry. Ready: none of kDirty, kWaiting, kLine.
constexpr std::uint8_t kRunning = 1;  // between pop and done
constexpr std::uint8_t kDirty = 2;    // and follows afterwards
constexpr std::uint8_t kWaiting = 4;  // in the wheel, also while it runs
constexpr std::uint8_t kBackOff = 8;  // waits after an error
constexpr std::uint8_t kLine = 16;    // waits for a token

constexpr Duration kLongest = std::chrono::hours(24 * 365);

std::uint8_t level_of(Priority priority) noexcept {
  return priority == Priority::kLive ? kLiveLevel : priority == Priority::kRetry ? kRetryLevel : 0;
}

std::uint64_t ns_of(TimePoint at) noexcept {
  return static_cast<std::uint64_t>(at.time_since_epoch().count());
}

Duration since(std::uint64_t when, TimePoint now) noexcept {
  return Duration(static_cast<Duration::rep>(ns_of(now) - when));
}

TimePoint later(TimePoint now, Duration delay) noexcept {
  return now + std::clamp(delay, Duration::zero(), kLongest);
}

}  // namespace

KeyedQueue::KeyedQueue(const Params& params, std::uint64_t seed, TimePoint now)
    : params_(params),
      random_(seed),
      table_(random_.next()),
      lists_(table_, kLists),
      wheel_(now),
      bucket_(params.retry_period, params.retry_burst, now) {}

void KeyedQueue::enlist(Id id) noexcept {
  const std::uint8_t level = table_[id].level;
  lists_.push_back(level, id);
  ++counts_.depth[level];
}

void KeyedQueue::make_ready(Id id, TimePoint now) noexcept {
  table_[id].when = ns_of(now);
  ++counts_.adds;
  enlist(id);
}

void KeyedQueue::follow(Id id, TimePoint now) noexcept {
  QueueEntry& entry = table_[id];
  entry.flags |= kDirty;
  entry.when = ns_of(now);
  ++counts_.adds;
}

void KeyedQueue::wait_until(Id id, std::uint64_t due) noexcept {
  QueueEntry& entry = table_[id];
  entry.flags |= kWaiting;
  entry.when = due;
  lists_.push_back(kWheel + wheel_.place(due), id);
  ++counts_.delayed;
}

void KeyedQueue::unwait(Id id) noexcept {
  QueueEntry& entry = table_[id];
  if ((entry.flags & (kWaiting | kLine)) != 0) {
    // A slot that became empty is found so when its time comes.
    lists_.remove(id);
    --((entry.flags & kWaiting) != 0 ? counts_.delayed : counts_.throttled);
  }
  entry.flags &= static_cast<std::uint8_t>(~(kWaiting | kLine | kBackOff));
}

bool KeyedQueue::add(const QueueKey& key, Priority priority, TimePoint now) {
  if (shut_down_) {
    return false;
  }
  if (!EntryTable::fits(key)) {
    ++counts_.refused;
    return false;
  }
  const std::uint8_t level = level_of(priority);
  const auto [id, is_new] = table_.find_or_make(key);
  QueueEntry& entry = table_[id];
  if (is_new) {
    entry.level = level;
    make_ready(id, now);
    return true;
  }
  if (level == kLiveLevel) {
    entry.failures = 0;
  } else if ((entry.flags & kBackOff) != 0) {
    return true;
  }
  const bool waits = (entry.flags & (kWaiting | kLine)) != 0;
  if ((entry.flags & kRunning) != 0) {
    const bool has_level = waits || (entry.flags & kDirty) != 0;
    entry.level = has_level ? std::max(entry.level, level) : level;
    unwait(id);
    if ((entry.flags & kDirty) == 0) {
      follow(id, now);
    }
  } else if (waits) {
    unwait(id);
    entry.level = std::max(entry.level, level);
    make_ready(id, now);
  } else if (level > entry.level) {
    lists_.remove(id);
    --counts_.depth[entry.level];
    entry.level = level;
    enlist(id);
  }
  return true;
}

bool KeyedQueue::add_after(const QueueKey& key, Duration delay, Priority priority, TimePoint now) {
  if (delay <= Duration::zero() || shut_down_) {
    return add(key, priority, now);
  }
  if (!EntryTable::fits(key)) {
    ++counts_.refused;
    return false;
  }
  ++counts_.retries;
  const std::uint8_t level = level_of(priority);
  const std::uint64_t due = wheel_.due_tick(later(now, delay));
  const auto [id, is_new] = table_.find_or_make(key);
  QueueEntry& entry = table_[id];
  if (is_new || (entry.flags & (kRunning | kDirty | kWaiting)) == kRunning) {
    entry.level = level;
    wait_until(id, due);
  } else if ((entry.flags & (kWaiting | kBackOff)) == kWaiting) {
    entry.level = std::max(entry.level, level);
    if (due < entry.when) {
      unwait(id);
      wait_until(id, due);
    }
  }
  return true;
}

bool KeyedQueue::add_periodic(const QueueKey& key, Duration interval, TimePoint now) {
  const Duration first = random_.between(Duration(1), interval);
  const std::uint64_t retries = counts_.retries;
  const bool taken = add_after(key, first, Priority::kInitial, now);
  counts_.retries = retries;
  return taken;
}

EntryTable::Id KeyedQueue::take_ready(std::uint8_t level) noexcept {
  const Id id = lists_.front(level);
  if (id != EntryTable::kNone) {
    lists_.remove(id);
    --counts_.depth[level];
  }
  return id;
}

std::optional<KeyedQueue::Item> KeyedQueue::pop(TimePoint now) {
  if (!advance(now)) {
    return std::nullopt;
  }
  const bool lowest_first = (pops_ + 1) % kLowestEvery == 0;
  Id id = EntryTable::kNone;
  const std::uint8_t lowest = held_ ? 1 : 0;
  for (std::uint8_t i = 0; id == EntryTable::kNone; ++i) {
    id = take_ready(lowest_first ? static_cast<std::uint8_t>(lowest + i)
                                 : static_cast<std::uint8_t>(kLevels - 1 - i));
  }
  ++pops_;
  QueueEntry& entry = table_[id];
  counts_.queue_duration.add(since(entry.when, now));
  entry.flags = kRunning;
  if (free_runs_.empty()) {
    free_runs_.push_back(static_cast<std::uint32_t>(runs_.size()));
    runs_.emplace_back();
  }
  const std::uint32_t number = free_runs_.back();
  free_runs_.pop_back();
  Run& run = runs_[number];
  run.entry = id;
  run.start = now;
  ++counts_.running;
  return Item{table_.key(id), kPriorities[entry.level], entry.failures, number, run.generation};
}

bool KeyedQueue::done(const Item& item, const Outcome& outcome, TimePoint now) {
  if (item.run >= runs_.size() || runs_[item.run].entry == EntryTable::kNone ||
      runs_[item.run].generation != item.generation) {
    return false;
  }
  Run& run = runs_[item.run];
  const Id id = run.entry;
  counts_.work_duration.add(now - run.start);
  run.entry = EntryTable::kNone;
  ++run.generation;
  free_runs_.push_back(item.run);
  --counts_.running;

  QueueEntry& entry = table_[id];
  entry.flags &= static_cast<std::uint8_t>(~kRunning);
  const bool failed = outcome.kind == Outcome::Kind::kError;
  if (!failed) {
    entry.failures = 0;
  }
  if (shut_down_) {
    table_.erase(id);
  } else if ((entry.flags & kDirty) != 0 && (!failed || entry.level == kLiveLevel)) {
    entry.flags &= static_cast<std::uint8_t>(~kDirty);
    enlist(id);
  } else if (failed) {
    back_off(id, now);
  } else if (outcome.kind == Outcome::Kind::kRequeueAfter ||
             outcome.kind == Outcome::Kind::kPeriodic) {
    const bool periodic = outcome.kind == Outcome::Kind::kPeriodic;
    const Duration tenth = outcome.delay / 10;
    const Duration delay =
        periodic ? random_.between(outcome.delay - tenth, outcome.delay + tenth) : outcome.delay;
    counts_.retries += periodic ? 0U : 1U;
    const std::uint8_t level = periodic ? std::uint8_t{0} : kRetryLevel;
    const std::uint64_t due = wheel_.due_tick(later(now, delay));
    const bool waits = (entry.flags & kWaiting) != 0;
    entry.level = waits ? std::max(entry.level, level) : level;
    if (!waits || due < entry.when) {
      unwait(id);
      wait_until(id, due);
    }
  } else if ((entry.flags & kWaiting) == 0) {
    table_.erase(id);
  }
  return true;
}

Duration KeyedQueue::retry_delay(std::uint8_t failures) noexcept {
  Duration delay = params_.retry_base;
  for (std::uint8_t i = 0; i < failures && delay < params_.retry_cap; ++i) {
    delay *= 2;
  }
  delay = std::min(delay, params_.retry_cap);
  const Duration fifth = delay / 5;
  return random_.between(delay - fifth, std::min(delay + fifth, params_.retry_cap));
}

void KeyedQueue::back_off(Id id, TimePoint now) noexcept {
  QueueEntry& entry = table_[id];
  ++counts_.retries;
  std::uint64_t due = wheel_.due_tick(later(now, retry_delay(entry.failures)));
  if (entry.failures < 255) {
    ++entry.failures;
  }
  // A live change that was announced for an earlier time keeps that.
  const bool announced = (entry.flags & kWaiting) != 0 && entry.level == kLiveLevel;
  if (announced && entry.when < due) {
    return;
  }
  unwait(id);
  entry.flags = kBackOff;
  entry.level = kRetryLevel;
  wait_until(id, due);
}

void KeyedQueue::fire(Id id, TimePoint now) noexcept {
  QueueEntry& entry = table_[id];
  const bool retry = (entry.flags & kBackOff) != 0;
  entry.flags &= static_cast<std::uint8_t>(~kWaiting);
  --counts_.delayed;
  if ((entry.flags & kRunning) != 0) {
    follow(id, now);
  } else if (retry) {
    entry.flags |= kLine;
    lists_.push_back(kThrottled, id);
    ++counts_.throttled;
  } else {
    make_ready(id, now);
  }
}

void KeyedQueue::feed_throttled(TimePoint now) noexcept {
  while (!lists_.empty(kThrottled) && bucket_.try_take(now)) {
    const Id id = lists_.front(kThrottled);
    unwait(id);
    make_ready(id, now);
  }
}

bool KeyedQueue::advance(TimePoint now) {
  const std::uint64_t to = TimerWheel::tick_of(now);
  while (const std::optional<std::uint32_t> slot = wheel_.step(to)) {
    Id id = lists_.take_all(kWheel + *slot);
    while (id != EntryTable::kNone) {
      const Id next = table_[id].next;
      if (table_[id].when <= wheel_.tick()) {
        fire(id, now);
      } else {
        lists_.push_back(kWheel + wheel_.place(table_[id].when), id);
      }
      id = next;
    }
  }
  feed_throttled(now);
  return ready();
}

bool KeyedQueue::ready() const noexcept {
  return (held_ ? 0 : counts_.depth[0]) + counts_.depth[1] + counts_.depth[2] > 0;
}

std::optional<TimePoint> KeyedQueue::next_timer() const noexcept {
  std::optional<TimePoint> next = wheel_.next();
  if (!lists_.empty(kThrottled)) {
    const TimePoint token = bucket_.next_token();
    next = next ? std::min(*next, token) : token;
  }
  return next;
}

KeyedQueue::Unfinished KeyedQueue::unfinished(TimePoint now) const noexcept {
  Unfinished out;
  for (const Run& run : runs_) {
    if (run.entry != EntryTable::kNone) {
      const Duration time = std::max(now - run.start, Duration::zero());
      out.sum += time;
      out.longest = std::max(out.longest, time);
    }
  }
  return out;
}

void KeyedQueue::shut_down() noexcept {
  shut_down_ = true;
  for (std::uint32_t list = 0; list < kLists; ++list) {
    for (Id id = lists_.take_all(list); id != EntryTable::kNone;) {
      const Id next = table_[id].next;
      if ((table_[id].flags & kRunning) != 0) {
        table_[id].flags = kRunning;
      } else {
        table_.erase(id);
      }
      id = next;
    }
    if (list >= kWheel) {
      wheel_.emptied(list - kWheel);
    }
  }
  counts_.depth = {};
  counts_.delayed = 0;
  counts_.throttled = 0;
}

}  // namespace kintsugi::workers
