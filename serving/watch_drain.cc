#include "serving/watch_drain.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "serving/payer_bounds.h"
#include "serving/shed_order.h"

namespace kintsugi::serving {
namespace {

constexpr Duration kShortestTick = milliseconds(10);
constexpr Duration kYoungest = seconds(1);
constexpr Duration kPerUnproven = milliseconds(5);
constexpr std::uint32_t kIdleLooks = 8;  ///< within the time that makes a watch idle

}  // namespace

void WatchDrain::add(Watch& watch) noexcept {
  watch.since_ = loop_.now();
  append(watch);
  if (watch.is_unproven() && unproven_ != nullptr) {
    unproven_->end_unproven(*this);
    return;
  }
  if (idle_ > Duration::zero() && !looks_) {
    look_for_idle();
  }
  if (size_ == 1 && draining_) {
    timer_.start(pause_, [this] { tick(); });
  }
}

void WatchDrain::append(Watch& watch) noexcept {
  watch.list_ = this;
  watch.next_ = nullptr;
  watch.previous_ = tail_;
  (tail_ != nullptr ? tail_->next_ : head_) = &watch;
  tail_ = &watch;
  ++size_;
}

void WatchDrain::remove(Watch& watch) noexcept {
  watch.list_ = nullptr;
  (watch.previous_ != nullptr ? watch.previous_->next_ : head_) = watch.next_;
  (watch.next_ != nullptr ? watch.next_->previous_ : tail_) = watch.previous_;
  watch.next_ = watch.previous_ = nullptr;
  --size_;
}

void WatchDrain::start(Duration spread) {
  if (draining_) {
    return;
  }
  draining_ = true;
  pace(spread);
  tick();
}

void WatchDrain::end_when_idle(Duration idle) {
  idle_ = idle;
  if (size_ != 0 && !looks_) {
    look_for_idle();
  }
}

void WatchDrain::look_for_idle() {
  for (Watch* watch = head_; watch != nullptr;) {
    Watch* const next = watch->next_;
    const bool moved = std::exchange(watch->moves_seen_, watch->moves_) != watch->moves_;
    watch->still_ = moved ? 0 : watch->still_ + 1;
    if (watch->still_ > kIdleLooks) {
      remove(*watch);
      watch->end_in_order();
    }
    watch = next;
  }
  looks_ = head_ != nullptr && idle_ > Duration::zero();
  if (looks_) {
    idle_timer_.start(std::max<Duration>(idle_ / kIdleLooks, milliseconds(1)),
                      [this] { look_for_idle(); });
  }
}

std::size_t WatchDrain::shed(std::size_t most, bool all) {
  std::vector<Behind<Watch>> behind;
  for (Watch* watch = head_; watch != nullptr; watch = watch->next_) {
    const std::size_t bytes = watch->backlog();
    if (bytes > 0 && (all || is_bounded(watch->level()))) {
      behind.push_back({bytes, watch->payer(), watch});
    }
  }
  put_in_shed_order(behind);
  behind.resize(std::min(most, behind.size()));
  for (const Behind<Watch>& one : behind) {
    remove(*one.watch);
    one.watch->end_at_once();
  }
  return behind.size();
}

std::size_t WatchDrain::send_away(std::size_t most) noexcept {
  const TimePoint old_enough = loop_.now() - kYoungest;
  std::size_t sent = 0;
  for (Watch* watch = head_; watch != nullptr && sent < most && watch->since_ <= old_enough;) {
    Watch* const next = watch->next_;
    if (watch->is_watch()) {
      remove(*watch);
      watch->release_connection();
      watch->end_in_order();
      ++sent;
    }
    watch = next;
  }
  return sent;
}

void WatchDrain::list(WatchList& into) const {
  for (const Watch* watch = head_; watch != nullptr; watch = watch->next_) {
    if (watch->is_watch()) {
      into.offer(watch->backlog(), watch->since_, [watch](WatchRow& row) { watch->describe(row); });
    }
  }
}

std::size_t WatchDrain::take(WatchDrain& from, const std::function<bool(const Watch&)>& is_meant) {
  const std::size_t waiting = size_;
  for (Watch* watch = from.head_; watch != nullptr;) {
    Watch* const next = watch->next_;
    if (is_meant(*watch)) {
      from.remove(*watch);
      append(*watch);
    }
    watch = next;
  }
  return size_ - waiting;
}

void WatchDrain::end_of(WatchDrain& from, const void* source, Duration spread) {
  if (take(from, [source](const Watch& watch) { return watch.source() == source; }) != 0) {
    pace(spread);
    tick();
  }
}

void WatchDrain::end_unproven(WatchDrain& from) {
  if (take(from, [](const Watch& watch) { return watch.is_unproven(); }) != 0) {
    pace(kPerUnproven * static_cast<Duration::rep>(size_));
    tick();
  }
}

void WatchDrain::pace(Duration spread) noexcept {
  const auto ticks = static_cast<std::size_t>(std::max<Duration::rep>(spread / kShortestTick, 1));
  per_tick_ = size_ / ticks + 1;
  pause_ = std::clamp<Duration>(spread / static_cast<Duration::rep>(size_ / per_tick_ + 1),
                                kShortestTick, kYoungest);
}

// The list is in the order of age: when its head is too young, all are.
void WatchDrain::tick() {
  const TimePoint old_enough = loop_.now() - kYoungest;
  for (std::size_t i = 0; i < per_tick_ && head_ != nullptr && head_->since_ <= old_enough; ++i) {
    Watch& watch = *head_;
    remove(watch);
    watch.end_in_order();
  }
  if (head_ != nullptr) {
    timer_.start(pause_, [this] { tick(); });
  }
}

}  // namespace kintsugi::serving
