#include "aggregation/position/resume_ring.h"

#include <algorithm>
#include <utility>

namespace kintsugi::aggregation {
namespace {

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

}  // namespace kintsugi::aggregation
