#include "net/internal/timer_wheel.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/guard.h"

namespace kintsugi::net {
namespace {

/// Distance from `start` to the next set bit of a ring of `words` * 64 bits, 0 = start itself;
/// `size` when none is set.
std::uint32_t next_set(const std::uint64_t* words, std::uint32_t size, std::uint32_t start) {
  const std::uint32_t count = size / 64;
  std::uint32_t word = start / 64;
  std::uint64_t bits = words[word] & (~std::uint64_t{0} << (start % 64));
  for (std::uint32_t i = 0; i <= count; ++i) {
    if (bits != 0) {
      const std::uint32_t found = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
      return (found + size - start) % size;
    }
    word = (word + 1) % count;
    bits = words[word];
  }
  return size;
}

}  // namespace

TimerWheel::TimerWheel() { heads_.fill(kNil); }

Loop::TimerId TimerWheel::arm(std::uint64_t deadline, std::function<void()> function) {
  std::uint32_t index = free_;
  if (index == kNil) {
    index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    free_ = nodes_[index].next;
  }
  Node& node = nodes_[index];
  node.deadline = std::max(deadline, current_ + 1);
  node.function = std::move(function);
  insert(index);
  ++armed_;
  return (std::uint64_t{node.generation} << 32) | (std::uint64_t{index} + 1);
}

bool TimerWheel::cancel(Loop::TimerId id) noexcept {
  const std::uint64_t position = id & 0xFFFF'FFFFU;
  if (position == 0 || position > nodes_.size()) {
    return false;
  }
  const auto index = static_cast<std::uint32_t>(position - 1);
  Node& node = nodes_[index];
  if (node.list == kNil || node.generation != static_cast<std::uint32_t>(id >> 32)) {
    return false;
  }
  unlink(index);
  ++node.generation;
  node.next = free_;
  free_ = index;
  --armed_;
  // The captured state may own timers of its own: destroy it last, when the wheel is consistent.
  const std::function<void()> function = std::exchange(node.function, nullptr);
  return true;
}

void TimerWheel::insert(std::uint32_t index) noexcept {
  const std::uint64_t deadline = nodes_[index].deadline;
  if (deadline - current_ <= kNear) {
    not_before_ = std::min(not_before_, deadline);
    append(static_cast<std::uint32_t>(deadline % kNear), index);
  } else {
    not_before_ = std::min(not_before_, deadline >> kNearBits << kNearBits);
    append(kNear + static_cast<std::uint32_t>((deadline >> kNearBits) % kFar), index);
  }
}

void TimerWheel::append(std::uint32_t list, std::uint32_t index) noexcept {
  Node& node = nodes_[index];
  node.list = list;
  const std::uint32_t head = heads_[list];
  if (head == kNil) {
    node.next = node.previous = index;
    heads_[list] = index;
    if (list < kFiring) {
      used_[list / 64] |= std::uint64_t{1} << (list % 64);
    }
    return;
  }
  const std::uint32_t tail = nodes_[head].previous;
  node.next = head;
  node.previous = tail;
  nodes_[tail].next = index;
  nodes_[head].previous = index;
}

void TimerWheel::unlink(std::uint32_t index) noexcept {
  Node& node = nodes_[index];
  const std::uint32_t list = std::exchange(node.list, kNil);
  if (node.next == index) {
    heads_[list] = kNil;
    if (list < kFiring) {
      used_[list / 64] &= ~(std::uint64_t{1} << (list % 64));
    }
    return;
  }
  nodes_[node.previous].next = node.next;
  nodes_[node.next].previous = node.previous;
  if (heads_[list] == index) {
    heads_[list] = node.next;
  }
}

std::uint64_t TimerWheel::next() const noexcept {
  if (armed_ == 0) {
    return kNever;
  }
  if (heads_[kFiring] != kNil) {
    return current_;
  }
  std::uint64_t result = kNever;
  const std::uint32_t near =
      next_set(used_.data(), kNear, static_cast<std::uint32_t>((current_ + 1) % kNear));
  if (near < kNear) {
    result = current_ + 1 + near;
  }
  const std::uint64_t next_block = (current_ >> kNearBits) + 1;
  const std::uint32_t far =
      next_set(used_.data() + kNear / 64, kFar, static_cast<std::uint32_t>(next_block % kFar));
  if (far < kFar) {
    result = std::min(result, (next_block + far) << kNearBits);
  }
  return result;
}

void TimerWheel::advance(std::uint64_t tick) {
  while (true) {
    const std::uint64_t due = not_before_ > tick ? not_before_ : next();
    if (due > tick) {
      not_before_ = due;
      current_ = std::max(current_, tick);
      return;
    }
    current_ = due;
    if (due % kNear == 0) {
      cascade(kNear + static_cast<std::uint32_t>((due >> kNearBits) % kFar));
    }
    fire(static_cast<std::uint32_t>(due % kNear));
  }
}

void TimerWheel::cascade(std::uint32_t far_slot) noexcept {
  std::uint32_t index = heads_[far_slot];
  if (index == kNil) {
    return;
  }
  heads_[far_slot] = kNil;
  used_[far_slot / 64] &= ~(std::uint64_t{1} << (far_slot % 64));
  const std::uint32_t last = nodes_[index].previous;
  while (true) {
    const std::uint32_t following = nodes_[index].next;
    const bool end = index == last;
    // A deadline that is exactly now belongs to the slot which is fired next.
    if (nodes_[index].deadline == current_) {
      append(static_cast<std::uint32_t>(current_ % kNear), index);
    } else {
      insert(index);
    }
    if (end) {
      return;
    }
    index = following;
  }
}

void TimerWheel::fire(std::uint32_t near_slot) {
  // Functions may arm timers for the same slot one round later, so the due ones move to a list of
  // their own first.
  std::uint32_t index = heads_[near_slot];
  if (index == kNil || nodes_[index].deadline > current_) {
    return;
  }
  heads_[kFiring] = index;
  heads_[near_slot] = kNil;
  used_[near_slot / 64] &= ~(std::uint64_t{1} << (near_slot % 64));
  for (const std::uint32_t first = index;;) {
    nodes_[index].list = kFiring;
    index = nodes_[index].next;
    if (index == first) {
      break;
    }
  }
  while (heads_[kFiring] != kNil) {
    index = heads_[kFiring];
    unlink(index);
    Node& node = nodes_[index];
    const std::function<void()> function = std::exchange(node.function, nullptr);
    ++node.generation;
    node.next = free_;
    free_ = index;
    --armed_;
    guarded("timer", function);
  }
}

}  // namespace kintsugi::net
