#include "aggregation/watch/internal/group_log.h"

#include <algorithm>
#include <utility>

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMostRanges = 64;  ///< closed ones of a slot

}  // namespace

GroupLog::Slot& GroupLog::slot_at(std::size_t slot) {
  if (slots_.size() <= slot) {
    slots_.resize(slot + 1);
  }
  return slots_[slot];
}

void GroupLog::begin_slot(std::size_t slot, std::uint64_t position) {
  slot_at(slot) = {position, end(), {}};
}

void GroupLog::raise_slot(std::size_t slot, std::uint64_t position) {
  slot_at(slot).floor = position;
}

void GroupLog::cut_slot(std::size_t slot, std::uint64_t position) {
  Slot& one = slot_at(slot);
  const Index first = first_after(slot, position);
  const bool repeats = first != end() && at(first).position == position;
  if (one.floor) {
    one.floor = std::max(*one.floor, position + (repeats ? 1 : 0));
  }
}

void GroupLog::close_range(std::size_t slot, std::uint64_t from, std::uint64_t to) {
  Slot& one = slot_at(slot);
  if (!one.closed.empty() && from <= one.closed.back().second) {
    // What came between two arrivals repeats the first position too, or is after it.
    one.closed.back().second = std::max(one.closed.back().second, to);
    return;
  }
  one.closed.emplace_back(from, to);
  if (one.closed.size() > kMostRanges) {
    one.floor = one.floor ? std::max(*one.floor, one.closed.front().second) : one.floor;
    one.closed.erase(one.closed.begin());
  }
}

void GroupLog::end_slot(std::size_t slot) noexcept {
  if (slot < slots_.size()) {
    slots_[slot].floor.reset();
  }
}

std::optional<std::uint64_t> GroupLog::floor(std::size_t slot) const noexcept {
  return slot < slots_.size() ? slots_[slot].floor : std::nullopt;
}

void GroupLog::append(Entry entry) {
  entry.offset = end_offset_;
  end_offset_ += entry.bytes.size();
  repeats_until_ = entry.repeats ? end() + 1 : repeats_until_;
  entries_.push_back(std::move(entry));
  trim();
}

void GroupLog::clear() noexcept {
  begin_ = end();
  entries_.clear();
}

bool GroupLog::serves(std::size_t slot, std::uint64_t position) const noexcept {
  const std::optional<std::uint64_t> from = floor(slot);
  return from && position >= *from &&
         std::none_of(slots_[slot].closed.begin(), slots_[slot].closed.end(),
                      [position](const auto& range) {
                        return position > range.first && position < range.second;
                      });
}

std::uint64_t GroupLog::closed_until(std::size_t slot) const noexcept {
  return slot < slots_.size() && !slots_[slot].closed.empty() ? slots_[slot].closed.back().second
                                                              : 0;
}

GroupLog::Index GroupLog::first_after(std::size_t slot, std::uint64_t position) const noexcept {
  Index first = end();
  for (Index i = end(); i > begin_; --i) {
    const Entry& entry = at(i - 1);
    if (entry.slot != slot) {
      continue;
    }
    if (entry.position < position || !is_current(i - 1)) {
      break;
    }
    if (entry.position > position || entry.repeats) {
      first = i - 1;
    }
  }
  return first;
}

bool GroupLog::has_events_of(std::size_t slot) const noexcept {
  for (Index i = end(); i > begin_ && slot < slots_.size() && i > slots_[slot].since; --i) {
    if (at(i - 1).slot == slot) {
      return true;
    }
  }
  return false;
}

void GroupLog::trim() {
  while (entries_.size() > 1 && bytes() > max_bytes_) {
    const Entry& oldest = entries_.front();
    if (std::optional<std::uint64_t>& floor = slot_at(oldest.slot).floor;
        floor && is_current(begin_)) {
      // Who is exactly there lacks one that repeats it.
      floor = std::max(*floor, oldest.position + (oldest.repeats ? 1 : 0));
    }
    entries_.pop_front();
    ++begin_;
  }
}

}  // namespace kintsugi::aggregation
