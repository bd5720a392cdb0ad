#include "workers/runtime/queue/internal/timer_wheel.h"

#include <algorithm>
#include <bit>

namespace kintsugi::workers {

std::uint64_t TimerWheel::due_tick(TimePoint at) const noexcept {
  const std::uint64_t before = tick_of(at - Duration(1));
  return std::max(before + 1, tick_ + 1);
}

std::uint32_t TimerWheel::place(std::uint64_t due) noexcept {
  std::uint32_t level = 0;
  std::uint64_t number = due;
  std::uint64_t current = tick_;
  while (number - current >= 64 && level + 1 < kLevels) {
    ++level;
    number = due >> (6 * level);
    current = tick_ >> (6 * level);
  }
  number = std::min(number, current + 63);
  const auto slot = static_cast<std::uint32_t>(number % 64);
  occupied_[level] |= std::uint64_t{1} << slot;
  return level * 64 + slot;
}

std::optional<std::uint64_t> TimerWheel::next_tick() const noexcept {
  std::optional<std::uint64_t> found;
  for (std::uint32_t level = 0; level < kLevels; ++level) {
    if (occupied_[level] == 0) {
      continue;
    }
    const std::uint64_t after = (tick_ >> (6 * level)) + 1;
    const auto ahead = static_cast<unsigned>(
        std::countr_zero(std::rotr(occupied_[level], static_cast<int>(after % 64))));
    const std::uint64_t tick = (after + ahead) << (6 * level);
    found = std::min(found.value_or(tick), tick);
  }
  return found;
}

std::optional<std::uint32_t> TimerWheel::step(std::uint64_t to) noexcept {
  if (unvisited_ == 0 && to <= tick_) {
    return std::nullopt;
  }
  for (;;) {
    // The highest level first: what it holds was placed earlier.
    while (unvisited_ > 0) {
      const std::uint32_t level = --unvisited_;
      const std::uint64_t number = tick_ >> (6 * level);
      const auto slot = static_cast<std::uint32_t>(number % 64);
      const bool begins = number << (6 * level) == tick_;
      if (begins && ((occupied_[level] >> slot) & 1U) != 0) {
        emptied(level * 64 + slot);
        return level * 64 + slot;
      }
    }
    const std::optional<std::uint64_t> next = next_tick();
    if (!next || *next > to) {
      tick_ = std::max(tick_, to);
      return std::nullopt;
    }
    tick_ = *next;
    unvisited_ = kLevels;
  }
}

std::optional<TimePoint> TimerWheel::next() const noexcept {
  const std::optional<std::uint64_t> found = next_tick();
  return found ? std::optional(TimePoint(kTick * static_cast<std::int64_t>(*found))) : std::nullopt;
}

}  // namespace kintsugi::workers
