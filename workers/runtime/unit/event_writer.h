#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>

#include "base/time.h"
#include "net/loop.h"
#include "net/task.h"
#include "workers/runtime/status/event_recorder.h"
#include "workers/runtime/unit/unit.h"

namespace kintsugi::workers {

/// How many events are written: 200 at once, then 10 a second; those about what is well only while
/// more than half of that is left, so that a thousand new objects do not silence a fault. No
/// clock. Threads: one at a time.
class EventPace {
 public:
  [[nodiscard]] bool may(bool warning, TimePoint now);
  /// One is written.
  void take() noexcept { --tokens_; }

 private:
  static constexpr std::int64_t kMost = 200;
  static constexpr Duration kRefill = milliseconds(100);
  std::int64_t tokens_ = kMost;
  TimePoint at_{};
};

/// Writes events of one unit's objects, one after the other and beside what reconciles: nothing
/// waits for an event, and one may be lost. What waits is bounded by EventPace. Limits besides:
/// those of EventRecorder. Source: RT-83. Threads: the unit's loop's. Lifetime: the unit outlives
/// it.
class EventWriter {
 public:
  /// What an event may be written by, asked when it is sent.
  using StepOf = std::function<Step()>;
  EventWriter(Unit& unit, EventRecorder::Params params);
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void tell(const EventObject& about, const Tale& tale, const StepOf& step);
  /// Told, and not written.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_ + events_.dropped(); }
  /// Requests that were answered.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }

 private:
  struct Waiting {
    StepOf step;
    EventRecorder::Write event;
  };
  [[nodiscard]] net::Task<> send();
  void put(StepOf step, EventRecorder::Write event);
  void put_counts();
  void wait_for_counts(TimePoint now);

  Unit& unit_;
  EventRecorder events_;
  EventPace pace_;
  std::uint64_t dropped_ = 0, sent_ = 0;
  std::deque<Waiting> waiting_;
  std::unordered_map<std::string, StepOf> written_;  // whose an event is, for its count
  bool sending_ = false;
  net::Timer counts_;
  net::Job job_;
};

}  // namespace kintsugi::workers
