#include "serving/watch_drain.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kintsugi::serving {
namespace {

constexpr Duration kShortestTick = milliseconds(10);
constexpr Duration kYoungest = seconds(1);
constexpr Duration kPerUnproven = milliseconds(5);

}  // namespace

void WatchDrain::add(Watch& watch) noexcept {
  watch.since_ = loop_.now();
  append(watch);
  if (watch.is_unproven() && unproven_ != nullptr) {
    unproven_->end_unproven(*this);
    return;
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

std::size_t WatchDrain::shed(std::size_t most) {
  std::map<std::string, std::vector<std::pair<std::size_t, Watch*>>> behind;
  std::map<std::string, std::size_t> sums;
  for (Watch* watch = head_; watch != nullptr; watch = watch->next_) {
    if (const std::size_t bytes = watch->backlog(); bytes > 0) {
      const std::string payer = watch->payer();
      behind[payer].emplace_back(bytes, watch);
      sums[payer] += bytes;
    }
  }
  std::vector<std::pair<std::size_t, const std::string*>> payers;
  for (const auto& [payer, bytes] : sums) {
    payers.emplace_back(bytes, &payer);
  }
  std::sort(payers.begin(), payers.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : *a.second < *b.second;
  });
  std::size_t ended = 0;
  for (const auto& [bytes, payer] : payers) {
    auto& watches = behind[*payer];
    std::stable_sort(watches.begin(), watches.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [waits, watch] : watches) {
      if (ended == most) {
        return ended;
      }
      remove(*watch);
      watch->end_at_once();
      ++ended;
    }
  }
  return ended;
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
