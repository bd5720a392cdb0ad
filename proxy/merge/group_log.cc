#include "proxy/merge/group_log.h"

#include <algorithm>
#include <utility>

namespace kintsugi::proxy {

void GroupLog::begin_slot(std::size_t slot, std::uint64_t position) {
  if (floors_.size() <= slot) {
    floors_.resize(slot + 1);
  }
  floors_[slot] = position;
}

void GroupLog::end_slot(std::size_t slot) noexcept {
  if (slot < floors_.size()) {
    floors_[slot].reset();
  }
}

std::optional<std::uint64_t> GroupLog::floor(std::size_t slot) const noexcept {
  return slot < floors_.size() ? floors_[slot] : std::nullopt;
}

void GroupLog::append(Entry entry) {
  entry.offset = end_offset_;
  end_offset_ += entry.bytes.size();
  entries_.push_back(std::move(entry));
  trim();
}

GroupLog::Index GroupLog::first_after(std::size_t slot, std::uint64_t position) const noexcept {
  Index first = end();
  for (Index i = end(); i > begin_; --i) {
    const Entry& entry = at(i - 1);
    if (entry.slot != slot) {
      continue;
    }
    if (entry.position <= position) {
      break;
    }
    first = i - 1;
  }
  return first;
}

bool GroupLog::has_events_of(std::size_t slot) const noexcept {
  return std::any_of(entries_.begin(), entries_.end(),
                     [slot](const Entry& entry) { return entry.slot == slot; });
}

void GroupLog::trim() {
  while (entries_.size() > 1 && bytes() > max_bytes_) {
    const Entry& oldest = entries_.front();
    if (oldest.slot < floors_.size() && floors_[oldest.slot]) {
      floors_[oldest.slot] = std::max(*floors_[oldest.slot], oldest.position);
    }
    entries_.pop_front();
    ++begin_;
  }
}

}  // namespace kintsugi::proxy
