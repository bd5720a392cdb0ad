#include "proxy/merge/group_log.h"

#include <algorithm>
#include <utility>

namespace kintsugi::proxy {

GroupLog::Slot& GroupLog::slot_at(std::size_t slot) {
  if (slots_.size() <= slot) {
    slots_.resize(slot + 1);
  }
  return slots_[slot];
}

void GroupLog::begin_slot(std::size_t slot, std::uint64_t position) {
  slot_at(slot) = {position, end()};
}

void GroupLog::raise_slot(std::size_t slot, std::uint64_t position) {
  slot_at(slot).floor = position;
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

GroupLog::Index GroupLog::first_after(std::size_t slot, std::uint64_t position) const noexcept {
  Index first = end();
  for (Index i = end(); i > begin_; --i) {
    const Entry& entry = at(i - 1);
    if (entry.slot != slot) {
      continue;
    }
    if (entry.position <= position || !is_current(i - 1)) {
      break;
    }
    first = i - 1;
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
      floor = std::max(*floor, oldest.position);
    }
    entries_.pop_front();
    ++begin_;
  }
}

}  // namespace kintsugi::proxy
