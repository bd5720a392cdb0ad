// The part of RingCoordinatorFsm that makes the next table.
#include <algorithm>
#include <utility>

#include "workers/runtime/placement/ring_policy.h"
#include "workers/runtime/ring/internal/ring_coordinator_fsm.h"

namespace kintsugi::workers {

static_assert(kPartitions == kRingPartitions && kNobody == kNoMember);

struct RingCoordinatorFsm::Candidate {
  RingTableMember member;
  bool leaving = false;
  std::uint64_t ack = 0;
};

struct RingCoordinatorFsm::Draft {
  std::vector<Candidate> members;
  std::vector<std::uint16_t> places;  // of the members of table_; kNoMember: dead
  Owners wanted{};
  RingTable table;
  [[nodiscard]] std::uint16_t place(std::uint16_t old) const noexcept {
    return old == kNoMember ? kNoMember : places[old];
  }
};

bool RingCoordinatorFsm::reports_contradict() const noexcept {
  return std::any_of(leases_.begin(), leases_.end(), [this](const auto& entry) {
    const RingReport& report = entry.second.report;
    return report.seen > table_.generation || report.ack > table_.generation ||
           (report.rejected != 0 && report.rejected == table_.generation);
  });
}

bool RingCoordinatorFsm::first_ever() const noexcept {
  return office_ == 1 && rv_.empty() && highest_epoch() == 0 && highest_generation() == 0 &&
         gone_.empty() && buried_.empty();
}

std::uint32_t RingCoordinatorFsm::highest_epoch() const noexcept {
  return std::max(params_.known_epoch, table_.highest_epoch());
}

std::uint64_t RingCoordinatorFsm::highest_generation() const noexcept {
  std::uint64_t out = std::max(table_.generation, known_generation_);
  for (const auto& [identity, seen] : leases_) {
    out = std::max({out, seen.report.seen, seen.report.ack, seen.report.rejected});
  }
  return out;
}

void RingCoordinatorFsm::gather(Draft& draft, TimePoint now) {
  using State = RingTableMember::State;
  draft.places.assign(table_.members.size(), kNoMember);
  const auto add = [&draft](Candidate&& candidate) {
    draft.members.push_back(std::move(candidate));
    return static_cast<std::uint16_t>(draft.members.size() - 1);
  };
  for (std::size_t i = 0; i < table_.members.size(); ++i) {
    Candidate candidate{table_.members[i]};
    const std::string& uid = candidate.member.uid;
    if (const Seen* seen = lease_of(candidate.member)) {
      if (released(*seen)) {
        continue;
      }
      candidate.leaving =
          seen->report.leaving || seen->lease.holder != candidate.member.id || now >= expiry(*seen);
      candidate.ack = seen->report.ack;
    } else {
      if (buried(uid)) {
        continue;
      }
      const auto until = gone_.find(uid);
      if (until == gone_.end()) {
        need_list_ = true;
      } else if (now >= until->second) {
        continue;
      }
      candidate.leaving = true;
    }
    draft.places[i] = add(std::move(candidate));
  }
  std::vector<Candidate> joining;
  for (const auto& [identity, seen] : leases_) {
    const RingTableMember member{identity, seen.lease.uid, State::kActive};
    if (seen.lease.holder == identity && !seen.report.leaving && now < expiry(seen) &&
        table_.find(member.id, member.uid) == kNoMember) {
      joining.push_back({member, false, seen.report.ack});
    }
  }
  std::sort(joining.begin(), joining.end(),
            [](const Candidate& a, const Candidate& b) { return a.member.id < b.member.id; });
  const bool unsettled = broken_ || table_.has_ownerless();
  for (Candidate& candidate : joining) {
    if (draft.members.size() < kMaxRingMembers) {
      // What an older table gave it is not known.
      candidate.member.state = unsettled && !first_ever() ? State::kUnconfirmed : State::kActive;
      (void)add(std::move(candidate));
    }
  }
  for (Candidate& candidate : draft.members) {
    State& state = candidate.member.state;
    if (broken_ && !first_ever()) {
      state = State::kUnconfirmed;
    } else if (state != State::kUnconfirmed || candidate.ack >= confirm_) {
      state = candidate.leaving ? State::kLeaving : State::kActive;
    }
  }
  // Those whose time is over are of no use any more, except to this decision.
  for (auto entry = gone_.begin(); entry != gone_.end();) {
    if (entry->second > now) {
      later(entry->second);
      ++entry;
    } else {
      bury(std::string((entry++)->first));
    }
  }
}

// Owners as assign() wants them, with what is on its way counted as arrived.
void RingCoordinatorFsm::wish(Draft& draft, TimePoint now) {
  std::vector<RingMember> members;
  for (const Candidate& candidate : draft.members) {
    members.push_back({candidate.member.id, candidate.member.uid, candidate.leaving});
  }
  Owners current{};
  for (std::size_t p = 0; p < kRingPartitions; ++p) {
    const std::uint16_t next = draft.place(table_.slots[p].next);
    current[p] =
        next != kNoMember && !members[next].leaving ? next : draft.place(table_.slots[p].owner);
  }
  const auto above = members_above_limit(members, weights_, current);
  std::vector<std::uint16_t> relieve;
  StringMap<TimePoint> still;
  for (const std::uint16_t index : above) {
    const auto known = above_.find(members[index].uid);
    const TimePoint since = known == above_.end() ? now : known->second;
    if (now - since >= params_.over_limit) {
      relieve.push_back(index);
      still[members[index].uid] = now;  // whether it helped is seen after as long again
      later(now + params_.over_limit);
    } else {
      still[members[index].uid] = since;
      later(since + params_.over_limit);
    }
  }
  above_ = std::move(still);
  draft.wanted = assign(members, weights_, current, relieve);
}

bool RingCoordinatorFsm::may_fill(const Draft& draft, TimePoint now) {
  const TimePoint watched = listed_at_ + params_.lease_duration;
  if (now < watched) {
    later(watched);
    return false;
  }
  return gone_.empty() &&
         std::none_of(draft.members.begin(), draft.members.end(), [](const Candidate& candidate) {
           return candidate.member.state == RingTableMember::State::kUnconfirmed;
         });
}

bool RingCoordinatorFsm::new_epoch(RingSlot& slot, std::uint64_t above) {
  if (above >= kMaxRingEpoch) {
    ++counters_.exhausted;
    return false;
  }
  slot.epoch = static_cast<std::uint32_t>(above + 1);
  return true;
}

void RingCoordinatorFsm::fill_slots(Draft& draft, TimePoint now) {
  const bool first = broken_ && first_ever();
  const bool fill = table_.has_ownerless() && !broken_ && may_fill(draft, now);
  const std::uint32_t all_above = highest_epoch();
  for (std::size_t p = 0; p < kRingPartitions; ++p) {
    const RingSlot& old = table_.slots[p];
    const std::uint16_t wanted = draft.wanted[p];
    const std::uint16_t owner = draft.place(old.owner);
    RingSlot& slot = draft.table.slots[p];
    slot = {owner, kNoMember, old.epoch};
    if (broken_) {
      slot.owner = first ? wanted : kNoMember;
      slot.next = first ? kNoMember : wanted;
      (void)new_epoch(slot, all_above);
    } else if (owner == wanted) {
      continue;
    } else if (owner != kNoMember) {
      const bool given_up =
          wanted == draft.place(old.next) && draft.members[owner].ack >= since_[p];
      if (given_up && new_epoch(slot, old.epoch)) {
        slot.owner = wanted;
      } else {
        slot.next = wanted;
      }
    } else if (old.owner != kNoMember || fill) {
      if (new_epoch(slot, old.epoch)) {
        slot.owner = wanted;
      }
    } else {
      slot.next = wanted;
    }
  }
}

// What peers of the owners made them ask for (RT-54).
void RingCoordinatorFsm::raise_epochs(Draft& draft) {
  for (std::size_t i = 0; i < draft.members.size(); ++i) {
    const Seen* seen = lease_of(draft.members[i].member);
    if (seen == nullptr) {
      continue;
    }
    for (const auto& [partition, epoch] : seen->report.raise) {
      RingSlot& slot = draft.table.slots[partition];
      if (slot.owner == i && slot.epoch <= epoch) {
        (void)new_epoch(slot, epoch);
      }
    }
  }
}

std::optional<RingTable> RingCoordinatorFsm::decide(TimePoint now) {
  decide_at_ = TimePoint::max();
  if (!broken_ && reports_contradict()) {
    if (doubted_ != table_.generation) {
      doubted_ = table_.generation;
      need_ring_ = true;
      later(now);
      return std::nullopt;
    }
    broken_ = true;
    ++counters_.garbage;
  }
  Draft draft;
  gather(draft, now);
  const bool anybody = std::any_of(draft.members.begin(), draft.members.end(),
                                   [](const Candidate& candidate) { return !candidate.leaving; });
  if (!anybody) {
    return std::nullopt;
  }
  if (highest_generation() >= kMaxRingGeneration || (broken_ && highest_epoch() >= kMaxRingEpoch)) {
    ++counters_.exhausted;
    return std::nullopt;
  }
  wish(draft, now);
  for (const Candidate& candidate : draft.members) {
    draft.table.members.push_back(candidate.member);
  }
  fill_slots(draft, now);
  raise_epochs(draft);
  draft.table.generation = table_.generation;
  if (!broken_ && draft.table == table_) {
    return std::nullopt;
  }
  draft.table.generation = (broken_ ? highest_generation() : table_.generation) + 1;
  return std::move(draft.table);
}

}  // namespace kintsugi::workers
