#include "aggregation/watch/group_log.h"

#include <algorithm>
#include <utility>

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMostRanges = 64;  ///< closed ones of a slot

/// Who has nothing of a slot begins with its present objects; who has some may not (AGG-704): where
/// both were delivered to, nobody can resume.
std::uint64_t least_of(std::uint64_t a, std::uint64_t b) noexcept {
  return (a == 0) != (b == 0) ? kBegun : std::min(a, b);
}

}  // namespace

void ResumeRing::move(std::size_t slot, std::optional<std::uint64_t> position, TimePoint now) {
  add({0, position.value_or(0), now, static_cast<std::uint16_t>(slot),
       position ? Kind::kMove : Kind::kLost});
}

void ResumeRing::deliver(std::size_t slot, std::uint64_t revision, std::uint64_t position,
                         TimePoint now) {
  add({revision, position, now, static_cast<std::uint16_t>(slot), Kind::kShared});
}

void ResumeRing::deliver_to(std::uint64_t revision, const Components& at, TimePoint now) {
  own_.push_back(at);
  add({revision, 0, now, 0, Kind::kOwn});
}

void ResumeRing::apply(Vector& vector, const Entry& entry) {
  if (entry.kind == Kind::kOwn) {
    return;
  }
  if (vector.size() <= entry.slot) {
    vector.resize(entry.slot + std::size_t{1});
  }
  if (entry.kind == Kind::kLost) {
    vector[entry.slot].reset();
  } else {
    vector[entry.slot] = entry.position;
  }
}

void ResumeRing::add(Entry entry) {
  const TimePoint now = entry.when;
  // Room first: a queue that is as long as it may be would double.
  const auto is_over = [&](std::size_t size) {
    return size > limits_.most ||
           (size > limits_.least && entries_.front().when + limits_.age < now);
  };
  while (!entries_.empty() && is_over(entries_.size() + 1)) {
    if (entries_.front().kind == Kind::kOwn) {
      own_.pop_front();
    }
    apply(base_, entries_.front());
    entries_.pop_front();
  }
  entries_.push_back(entry);
}

void ResumeRing::Found::meet(const Found& other) {
  if (!known) {
    *this = other;
  } else if (other.known) {
    for (std::size_t slot = 0; slot < components.size(); ++slot) {
      components[slot] = slot < other.components.size()
                             ? least_of(components[slot], other.components[slot])
                             : kBegun;
    }
  }
}

ResumeRing::Found ResumeRing::find(std::uint64_t revision, const std::vector<bool>& members) const {
  Found found;
  found.components.resize(members.size());
  const auto meet = [&](auto component_of) {
    for (std::size_t slot = 0; slot < members.size(); ++slot) {
      const std::uint64_t at = component_of(slot);
      if (members[slot]) {
        found.components[slot] = found.known ? least_of(found.components[slot], at) : at;
      } else if (at != 0) {  // of a shard that left later: its objects are still there
        found.components[slot] = kBegun;
      }
    }
    found.known = true;
  };
  Vector vector = base_;
  std::size_t own = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    apply(vector, entry);
    if (entry.kind == Kind::kOwn) {
      const Components& at = own_[own++];
      if (entry.revision == revision) {
        meet([&](std::size_t slot) { return slot < at.size() ? at[slot] : 0; });
      }
    } else if (entry.kind == Kind::kShared && entry.revision == revision) {
      // Nobody follows the log entirely while it lacks a member's events: those who got this one
      // are entered with positions of their own.
      bool entire = true;
      for (std::size_t slot = 0; slot < members.size(); ++slot) {
        entire = entire && (!members[slot] || (slot < vector.size() && vector[slot]));
      }
      if (entire) {
        meet([&](std::size_t slot) { return slot < vector.size() ? vector[slot].value_or(0) : 0; });
      }
    }
  }
  return found;
}

GroupLog::Slot& GroupLog::slot_at(std::size_t slot) {
  if (slots_.size() <= slot) {
    slots_.resize(slot + 1);
  }
  return slots_[slot];
}

void GroupLog::begin_slot(std::size_t slot, std::uint64_t position, TimePoint now) {
  slot_at(slot) = {position, end(), {}};
  ring_.move(slot, position, now);
}

void GroupLog::raise_slot(std::size_t slot, std::uint64_t position, TimePoint now) {
  slot_at(slot).floor = position;
  ring_.move(slot, position, now);
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

void GroupLog::leave_slot(std::size_t slot, TimePoint now) {
  end_slot(slot);
  ring_.move(slot, std::nullopt, now);
}

std::optional<std::uint64_t> GroupLog::floor(std::size_t slot) const noexcept {
  return slot < slots_.size() ? slots_[slot].floor : std::nullopt;
}

void GroupLog::append(Entry entry, TimePoint now) {
  if (entry.repeats) {  // between two positions nobody can resume
    ring_.deliver_to(entry.revision, Components(entry.slot + std::size_t{1}, kBegun), now);
  } else {
    ring_.deliver(entry.slot, entry.revision, entry.position, now);
  }
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
