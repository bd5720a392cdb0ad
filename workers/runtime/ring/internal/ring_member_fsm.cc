#include "workers/runtime/ring/internal/ring_member_fsm.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {

RingMemberFsm::RingMemberFsm(std::string identity, std::uint32_t known_epoch)
    : identity_(std::move(identity)), known_epoch_(known_epoch) {}

void RingMemberFsm::stop(std::size_t partition, Events& out) {
  Held& held = holds_[partition];
  out.push_back({RingEvent::Kind::kStop, static_cast<PartitionId>(partition), held.epoch});
  draining_ -= held.state == Hold::kDraining ? 1 : 0;
  held.state = Hold::kNone;
  --held_;
}

// What may be said of the accepted table after a change.
void RingMemberFsm::settle() {
  if (draining_ == 0) {
    ack_ = table_.generation;
  }
  std::erase_if(raise_, [this](const auto& entry) {
    return !holds(entry.first) || holds_[entry.first].epoch > entry.second;
  });
}

void RingMemberFsm::apply(TimePoint now, Events& out) {
  me_ = uid_.empty() ? kNoMember : table_.find(identity_, uid_);
  taken_ = me_ != kNoMember && table_.members[me_].state == RingTableMember::State::kUnconfirmed;
  for (std::size_t p = 0; p < kRingPartitions; ++p) {
    const RingSlot& slot = table_.slots[p];
    Held& held = holds_[p];
    const bool mine = me_ != kNoMember && slot.owner == me_;
    const bool wanted = mine && !leaving_ && (slot.next == kNoMember || slot.next == me_);
    taken_ = taken_ || (mine && !wanted);
    TimePoint& named = named_[p];
    if (me_ == kNoMember || (!mine && slot.next != me_)) {
      named = {};
    } else if (!mine && slot.owner != kNoMember && named == TimePoint()) {
      named = now;
    }
    if (held.state != Hold::kNone && !mine && slot.owner != kNoMember) {
      stop(p, out);  // somebody else's already
    } else if (held.state == Hold::kActive && !wanted) {
      held.state = Hold::kDraining;
      held.until = now + kDrainLimit;
      ++draining_;
      out.push_back({RingEvent::Kind::kDrain, static_cast<PartitionId>(p), held.epoch});
    } else if (held.state == Hold::kActive && held.epoch != slot.epoch) {
      held.epoch = slot.epoch;
      out.push_back({RingEvent::Kind::kEpoch, static_cast<PartitionId>(p), held.epoch});
    } else if (held.state == Hold::kNone && wanted) {
      held.state = Hold::kActive;
      held.epoch = slot.epoch;
      ++held_;
      if (named != TimePoint()) {
        handovers_.add(now - std::exchange(named, {}));
      }
      out.push_back({RingEvent::Kind::kStart, static_cast<PartitionId>(p), held.epoch});
    }
  }
  settle();
}

Expected<void> RingMemberFsm::on_table(const RingTable& table, TimePoint now, Events& out) {
  if (table == table_) {
    return {};
  }
  if (Expected<void> follows = check_successor(table_, table); !follows) {
    rejected_ = table.generation;
    return follows;
  }
  table_ = table;
  rejected_ = 0;
  apply(now, out);
  return {};
}

void RingMemberFsm::on_lease_held(std::string_view uid, TimePoint now, Events& out) {
  if (uid != uid_) {
    on_lease_lost(out);
    uid_ = uid;
  }
  apply(now, out);
}

void RingMemberFsm::on_lease_lost(Events& out) {
  uid_.clear();
  me_ = kNoMember;
  for (std::size_t p = 0; p < kRingPartitions; ++p) {
    if (holds_[p].state != Hold::kNone) {
      stop(p, out);
    }
  }
  settle();
}

void RingMemberFsm::on_drained(PartitionId partition, TimePoint now, Events& out) {
  if (partition >= kRingPartitions || holds_[partition].state != Hold::kDraining) {
    return;
  }
  holds_[partition].state = Hold::kNone;
  --held_;
  --draining_;
  // The move may have been called off meanwhile.
  const RingSlot& slot = table_.slots[partition];
  if (me_ != kNoMember && slot.owner == me_ && slot.next == kNoMember && !leaving_) {
    apply(now, out);
  } else {
    settle();
  }
}

void RingMemberFsm::on_timer(TimePoint now, Events& out) {
  if (draining_ == 0) {
    return;
  }
  bool stopped = false;
  for (std::size_t p = 0; p < kRingPartitions; ++p) {
    if (holds_[p].state == Hold::kDraining && now >= holds_[p].until) {
      stop(p, out);
      stopped = true;
    }
  }
  if (stopped) {
    apply(now, out);
  }
}

void RingMemberFsm::on_peer_epoch(PartitionId partition, std::uint32_t epoch) {
  if (partition >= kRingPartitions || epoch >= kMaxRingEpoch) {
    return;
  }
  known_epoch_ = std::max(known_epoch_, epoch);
  if (!holds(partition) || epoch <= holds_[partition].epoch) {
    return;
  }
  const auto place = std::find_if(raise_.begin(), raise_.end(), [partition](const auto& entry) {
    return entry.first == partition;
  });
  if (place != raise_.end()) {
    place->second = std::max(place->second, epoch);
  } else if (raise_.size() < RingReport::kMaxRaises) {
    raise_.emplace_back(partition, epoch);  // else the peer will say it again
  }
}

void RingMemberFsm::leave(TimePoint now, Events& out) {
  leaving_ = true;
  apply(now, out);
}

TimePoint RingMemberFsm::wake() const noexcept {
  TimePoint out = TimePoint::max();
  if (draining_ != 0) {
    for (const Held& held : holds_) {
      if (held.state == Hold::kDraining) {
        out = std::min(out, held.until);
      }
    }
  }
  return out;
}

RingReport RingMemberFsm::report() const {
  RingReport out;
  out.ack = ack_;
  out.seen = table_.generation;
  out.rejected = rejected_;
  out.epoch = std::max(known_epoch_, table_.highest_epoch());
  out.leaving = leaving_;
  out.raise = raise_;
  return out;
}

bool RingMemberFsm::report_urgent() const noexcept {
  return taken_ || leaving_ || rejected_ != 0 || !raise_.empty();
}

}  // namespace kintsugi::workers
