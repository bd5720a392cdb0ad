#include "workers/runtime/ring/internal/ring_coordinator_fsm.h"

#include <algorithm>

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMaxLeases = 2 * kMaxRingMembers;
constexpr std::size_t kMaxBuried = 256;

}  // namespace

RingCoordinatorFsm::RingCoordinatorFsm(RingCoordinatorParams params) : params_(std::move(params)) {}

bool RingCoordinatorFsm::released(const Seen& seen) const noexcept {
  // An empty holder alone may be somebody's edit; the member would not know.
  return seen.lease.holder.empty() && seen.report.leaving;
}

TimePoint RingCoordinatorFsm::expiry(const Seen& seen) const noexcept {
  return seen.since + seen.lease.patience(params_.lease_duration);
}

const RingCoordinatorFsm::Seen* RingCoordinatorFsm::lease_of(
    const RingTableMember& member) const noexcept {
  const auto place = leases_.find(member.id);
  return place != leases_.end() && place->second.lease.uid == member.uid ? &place->second : nullptr;
}

void RingCoordinatorFsm::bury(std::string_view uid) {
  if (!buried(uid)) {
    if (buried_.size() == kMaxBuried) {
      buried_.erase(buried_.begin());
    }
    buried_.emplace_back(uid);
    ++counters_.deaths;
  }
  if (const auto place = gone_.find(uid); place != gone_.end()) {
    gone_.erase(place);
  }
}

bool RingCoordinatorFsm::buried(std::string_view uid) const noexcept {
  return std::find(buried_.begin(), buried_.end(), uid) != buried_.end();
}

void RingCoordinatorFsm::note_gone(std::string_view uid, Duration patience, TimePoint now) {
  if (!buried(uid) && gone_.size() < kMaxLeases) {
    gone_.try_emplace(std::string(uid), now + patience);
  }
}

void RingCoordinatorFsm::later(TimePoint when) noexcept { decide_at_ = std::min(decide_at_, when); }

void RingCoordinatorFsm::erase_lease(std::string_view identity, TimePoint now) {
  const auto place = leases_.find(identity);
  if (place == leases_.end()) {
    return;
  }
  const Seen& seen = place->second;
  if (released(seen)) {
    bury(seen.lease.uid);
  } else {
    note_gone(seen.lease.uid, seen.lease.patience(params_.lease_duration), now);
  }
  leases_.erase(place);
  later(now);
}

void RingCoordinatorFsm::take(std::string_view identity, const LeaseRecord& lease, TimePoint now) {
  auto place = leases_.find(identity);
  if (place == leases_.end()) {
    if (leases_.size() >= kMaxLeases) {
      ++counters_.overflow;
      return;
    }
    place = leases_.try_emplace(std::string(identity)).first;
  } else if (place->second.lease.same_writing(lease) || released(place->second)) {
    return;  // what is released stays so; anything else of it is old news
  }
  Seen& seen = place->second;
  const RingReport report = RingReport::read(lease);
  if (seen.lease.uid != lease.uid || seen.lease.holder != lease.holder || seen.report != report ||
      now >= expiry(seen)) {
    later(now);
  }
  if (const auto gone = gone_.find(lease.uid); gone != gone_.end()) {
    gone_.erase(gone);
  }
  seen.lease = lease;
  seen.lease.annotations = {};
  seen.report = report;
  seen.since = now;
  // Outlives the Lease.
  params_.known_epoch = std::max(params_.known_epoch, report.epoch);
  known_generation_ = std::max({known_generation_, report.seen, report.ack});
}

void RingCoordinatorFsm::on_lease_seen(const LeaseRecord& lease, TimePoint now) {
  const std::string_view identity = member_identity(params_.role, lease.name);
  if (identity.empty() || buried(lease.uid)) {
    return;
  }
  const auto place = leases_.find(identity);
  if (place != leases_.end() && place->second.lease.uid != lease.uid) {
    // Which of the two is the younger one a list tells.
    need_list_ = true;
    if (elected_) {
      return;
    }
    leases_.erase(place);
  }
  take(identity, lease, now);
}

void RingCoordinatorFsm::on_lease_gone_seen(std::string_view name, std::string_view uid,
                                            TimePoint now) {
  const std::string_view identity = member_identity(params_.role, name);
  const auto place = leases_.find(identity);
  if (place != leases_.end() && place->second.lease.uid == uid) {
    erase_lease(identity, now);
  }
}

void RingCoordinatorFsm::adopt(RingTable&& table, std::string_view rv) {
  table_ = std::move(table);
  rv_ = rv;
  broken_ = false;
  // Since when the moves of others wait is not known: from now on.
  since_.fill(table_.generation);
  confirm_ = table_.generation;
  decide_at_ = TimePoint::min();
}

void RingCoordinatorFsm::on_ring_seen(std::string_view rv, std::string_view text, TimePoint) {
  if (rv == rv_) {
    return;
  }
  Expected<RingTable> table = RingTable::parse(text);
  if (table && (*table == table_ || *table == under_way_.table)) {
    return;  // our own writing comes back
  }
  const bool follows = table && check_successor(table_, *table).has_value();
  if (!elected_ && follows) {
    adopt(std::move(*table), rv);
  } else if (elected_) {
    need_ring_ = true;
  }
}

void RingCoordinatorFsm::on_ring_gone_seen() { need_ring_ = true; }

void RingCoordinatorFsm::elected(std::int64_t epoch) {
  elected_ = true;
  office_ = epoch;
  listed_ = false;
  need_list_ = true;
  need_ring_ = true;
  doubted_ = 0;
  decide_at_ = TimePoint::min();
  rest_until_ = TimePoint::min();
}

void RingCoordinatorFsm::deposed() {
  elected_ = false;
  above_.clear();
}

void RingCoordinatorFsm::set_weights(const std::array<std::uint32_t, kRingPartitions>& weights) {
  if (weights != weights_) {
    weights_ = weights;
    decide_at_ = TimePoint::min();
  }
}

void RingCoordinatorFsm::on_list(const std::vector<LeaseRecord>& leases, TimePoint now) {
  if (under_way_.kind != RingRequest::Kind::kListLeases) {
    return;
  }
  under_way_ = {};
  need_list_ = false;
  std::vector<std::string_view> there;
  for (const LeaseRecord& lease : leases) {
    const std::string_view identity = member_identity(params_.role, lease.name);
    if (identity.empty() || buried(lease.uid)) {
      continue;
    }
    there.push_back(identity);
    const auto place = leases_.find(identity);
    if (place != leases_.end() && place->second.lease.uid != lease.uid) {
      if (place->second.since >= asked_at_) {
        need_list_ = true;  // perhaps younger than the list
        continue;
      }
      erase_lease(identity, now);
    }
    take(identity, lease, now);
  }
  std::sort(there.begin(), there.end());
  std::vector<std::string> missing;
  for (const auto& [identity, seen] : leases_) {
    if (!std::binary_search(there.begin(), there.end(), std::string_view(identity))) {
      if (seen.since >= asked_at_) {
        need_list_ = true;
      } else {
        missing.push_back(identity);
      }
    }
  }
  for (const std::string& identity : missing) {
    erase_lease(identity, now);
  }
  for (const RingTableMember& member : table_.members) {
    if (lease_of(member) == nullptr && !buried(member.uid)) {
      note_gone(member.uid, params_.lease_duration, now);
    }
  }
  if (!listed_) {
    listed_ = true;
    listed_at_ = now;
  }
  later(now);
}

void RingCoordinatorFsm::on_ring_read(std::string_view rv, std::string_view text, TimePoint now) {
  if (under_way_.kind != RingRequest::Kind::kReadRing) {
    return;
  }
  under_way_ = {};
  need_ring_ = false;
  later(now);
  Expected<RingTable> table = RingTable::parse(text);
  if (table && *table == table_) {
    rv_ = rv;
    broken_ = false;
  } else if (table && check_successor(table_, *table)) {
    adopt(std::move(*table), rv);
  } else {
    rv_ = rv;
    broken_ = true;
    ++counters_.garbage;
  }
}

void RingCoordinatorFsm::on_ring_missing(TimePoint now) {
  if (under_way_.kind != RingRequest::Kind::kReadRing) {
    return;
  }
  under_way_ = {};
  need_ring_ = false;
  rv_.clear();
  broken_ = true;
  later(now);
}

void RingCoordinatorFsm::on_ring_written(std::string_view rv, TimePoint now) {
  if (under_way_.kind != RingRequest::Kind::kCreateRing &&
      under_way_.kind != RingRequest::Kind::kUpdateRing) {
    return;
  }
  RingTable table = std::move(under_way_.table);
  under_way_ = {};
  ++counters_.writes;
  const bool rebuilt = broken_;
  for (std::size_t p = 0; p < kRingPartitions; ++p) {
    const RingSlot& slot = table.slots[p];
    const RingSlot& old = table_.slots[p];
    const auto uid = [](const RingTable& of, std::uint16_t index) {
      return index == kNoMember ? std::string_view() : std::string_view(of.members[index].uid);
    };
    const bool same_owner = uid(table, slot.owner) == uid(table_, old.owner);
    if (!same_owner || uid(table, slot.next) != uid(table_, old.next)) {
      since_[p] = table.generation;
    }
    counters_.moves += same_owner ? 0 : 1;
  }
  if (rebuilt) {
    confirm_ = table.generation;
    ++counters_.rebuilds;
  }
  table_ = std::move(table);
  rv_ = rv;
  broken_ = false;
  later(now);
}

void RingCoordinatorFsm::on_lease_deleted(TimePoint now) {
  if (under_way_.kind != RingRequest::Kind::kDeleteLease) {
    return;
  }
  const RingRequest done = std::move(under_way_);
  under_way_ = {};
  bury(done.uid);
  const auto place = leases_.find(member_identity(params_.role, done.name));
  if (place != leases_.end() && place->second.lease.uid == done.uid) {
    leases_.erase(place);
  }
  later(now);
}

void RingCoordinatorFsm::on_refused(Refusal why, Duration retry_after, TimePoint now) {
  const RingRequest done = std::move(under_way_);
  under_way_ = {};
  if (done.kind == RingRequest::Kind::kNone) {
    return;
  }
  ++(why == Refusal::kConflict ? counters_.conflicts : counters_.failures);
  if (done.kind == RingRequest::Kind::kDeleteLease) {
    // Missing: whoever deleted it, it proves nothing about the time before.
    const std::string_view identity = member_identity(params_.role, done.name);
    need_list_ = true;
    if (const auto place = leases_.find(identity); place != leases_.end()) {
      place->second.retry = now + std::max(retry_after, params_.retry);
    }
    later(now);
  } else if (done.kind != RingRequest::Kind::kListLeases) {
    need_ring_ = true;
  }
  if (why == Refusal::kFailed || retry_after > Duration::zero()) {
    rest_until_ = now + (retry_after > Duration::zero() ? retry_after : params_.retry);
  }
}

RingRequest RingCoordinatorFsm::next_deletion(TimePoint now) {
  RingRequest out;
  const Seen* oldest = nullptr;
  for (const auto& [identity, seen] : leases_) {
    const bool over =
        released(seen) ? listed_ && !broken_ && table_.find(identity, seen.lease.uid) == kNoMember
                       : now >= expiry(seen);
    if (over && now >= seen.retry && (oldest == nullptr || seen.lease.name < oldest->lease.name)) {
      oldest = &seen;
    }
  }
  if (oldest != nullptr) {
    out.kind = RingRequest::Kind::kDeleteLease;
    out.name = oldest->lease.name;
    out.uid = oldest->lease.uid;
    out.rv = oldest->lease.rv;
  }
  return out;
}

TimePoint RingCoordinatorFsm::next_expiry() const noexcept {
  TimePoint out = TimePoint::max();
  for (const auto& [identity, seen] : leases_) {
    if (!released(seen)) {
      out = std::min(out, std::max(expiry(seen), seen.retry));
    }
  }
  return out;
}

RingRequest RingCoordinatorFsm::step(TimePoint now) {
  wake_ = TimePoint::max();
  if (!elected_ || under_way_.kind != RingRequest::Kind::kNone) {
    return {};
  }
  if (now < rest_until_) {
    wake_ = rest_until_;
    return {};
  }
  RingRequest out;
  if (need_list_) {
    out.kind = RingRequest::Kind::kListLeases;
  } else if (need_ring_) {
    out.kind = RingRequest::Kind::kReadRing;
  } else {
    out = next_deletion(now);
  }
  if (out.kind == RingRequest::Kind::kNone && now >= decide_at_) {
    if (std::optional<RingTable> table = decide(now)) {
      out.kind = rv_.empty() ? RingRequest::Kind::kCreateRing : RingRequest::Kind::kUpdateRing;
      out.rv = rv_;
      out.table = std::move(*table);
    } else if (need_list_ || need_ring_) {
      out.kind = need_list_ ? RingRequest::Kind::kListLeases : RingRequest::Kind::kReadRing;
    }
  }
  if (out.kind == RingRequest::Kind::kNone) {
    wake_ = std::min(decide_at_, next_expiry());
  }
  under_way_ = out;
  asked_at_ = now;
  return out;
}

}  // namespace kintsugi::workers
