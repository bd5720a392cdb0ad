#include "workers/runtime/lease/lease_fsm.h"

#include <algorithm>

namespace kintsugi::workers {
namespace {

constexpr unsigned kReleaseTries = 3;
constexpr unsigned kMostDoublings = 2;

std::int64_t whole_seconds(Duration time) noexcept {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

}  // namespace

Expected<void> validate(const LeaseParams& params) {
  if (params.name.empty() || params.identity.empty()) {
    return fail(Errc::kConfig, "lease: name and identity must not be empty");
  }
  if (params.renew <= Duration::zero() || params.renew >= params.give_up) {
    return fail(Errc::kConfig, "lease: renew must be above 0 and below give_up");
  }
  if (params.give_up >= params.duration) {
    return fail(Errc::kConfig, "lease: give_up must be below duration");
  }
  if (params.duration > kMaxLeaseDuration ||
      Duration(seconds(whole_seconds(params.duration))) != params.duration) {
    return fail(Errc::kConfig, "lease: duration must be whole seconds, at most 3600");
  }
  if (params.retry <= Duration::zero() || params.retry > params.give_up) {
    return fail(Errc::kConfig, "lease: retry must be above 0 and at most give_up");
  }
  if (params.request_timeout <= Duration::zero() || params.request_timeout >= params.give_up) {
    return fail(Errc::kConfig, "lease: request_timeout must be above 0 and below give_up");
  }
  return {};
}

LeaseFsm::LeaseFsm(LeaseParams params)
    : params_(std::move(params)), floor_(params_.epoch_floor), random_(params_.seed | 1U) {}

// xorshift64*: + 0 … 20 %.
Duration LeaseFsm::rest() noexcept {
  random_ ^= random_ >> 12U;
  random_ ^= random_ << 25U;
  random_ ^= random_ >> 27U;
  const std::uint64_t share = (random_ * 2'685'821'657'736'338'717U) >> 44U;  // of 2^20
  const Duration base = params_.retry;
  return base + base / 5 * static_cast<std::int64_t>(share) / (1 << 20);
}

// The record cannot belong to another one from then on.
TimePoint LeaseFsm::free_at() const noexcept {
  if (!exists_) {
    return absent_until_;
  }
  if (record_.holder.empty() || record_.holder == params_.identity) {
    return TimePoint::min();
  }
  return seen_ + record_.patience(params_.duration);
}

void LeaseFsm::note(LeaseRecord&& record, TimePoint now) {
  if (!exists_ || !record.same_writing(record_)) {
    seen_ = now;
  }
  floor_ = std::max(floor_, std::min(record.transitions, kMaxLeaseEpoch));
  record_ = std::move(record);
  exists_ = true;
}

void LeaseFsm::note_missing() {
  if (exists_) {
    // Who held it may not know yet.
    absent_until_ = free_at();
  }
  exists_ = false;
}

void LeaseFsm::lose(LeaseAction::Change& change) {
  state_ = State::kCandidate;
  change = LeaseAction::Change::kLost;
  ++counters_.lost;
}

void LeaseFsm::finish(LeaseAction::Change& change) {
  state_ = State::kDone;
  change = LeaseAction::Change::kReleased;
}

void LeaseFsm::ask(LeaseAction& out, TimePoint now) {
  out.request = LeaseAction::Request::kGet;
  out.timeout = params_.request_timeout;
  under_way_ = Purpose::kLook;
  sent_ = now;
}

void LeaseFsm::write(LeaseAction& out, Purpose purpose, std::string_view holder, TimePoint now) {
  out.request = exists_ ? LeaseAction::Request::kUpdate : LeaseAction::Request::kCreate;
  out.timeout = params_.request_timeout;
  LeaseWrite& body = out.write;
  body.name = params_.name;
  body.holder = holder;
  body.duration_s = purpose == Purpose::kRelease ? 1 : whole_seconds(params_.duration);
  body.transitions = written_epoch_;
  body.acquisition = purpose == Purpose::kAcquire;
  if (exists_) {
    body.rv = record_.rv;
    body.uid = record_.uid;
    body.acquire_time = record_.acquire_time;
    body.annotations = record_.annotations;
  }
  for (const auto& [key, value] : notes_) {
    const auto place = std::lower_bound(
        body.annotations.begin(), body.annotations.end(), key,
        [](const auto& entry, const std::string& wanted) { return entry.first < wanted; });
    if (place != body.annotations.end() && place->first == key) {
      place->second = value;
    } else {
      body.annotations.emplace(place, key, value);
    }
  }
  urgent_ = false;
  under_way_ = purpose;
  sent_ = now;
}

void LeaseFsm::acquire(LeaseAction& out, TimePoint now) {
  if (floor_ >= kMaxLeaseEpoch) {
    ++counters_.exhausted;
    next_ = now + params_.duration;
    return;
  }
  written_epoch_ = floor_ + 1;
  write(out, Purpose::kAcquire, params_.identity, now);
}

void LeaseFsm::renew(LeaseAction& out, TimePoint now) {
  written_epoch_ = std::max(epoch_, raise_above_ + 1);
  write(out, Purpose::kRenew, params_.identity, now);
}

void LeaseFsm::give_back(LeaseAction& out, TimePoint now) {
  written_epoch_ = epoch_;
  ++release_tries_;
  write(out, Purpose::kRelease, "", now);
}

void LeaseFsm::plan_candidate(LeaseAction& out, TimePoint now) {
  if (now < next_) {
    return;
  }
  if (look_) {
    ask(out, now);
    return;
  }
  if (now >= free_at()) {
    acquire(out, now);
  } else {
    ask(out, now);
  }
}

bool LeaseFsm::due(TimePoint now) const noexcept {
  return now >= next_ || (failures_ == 0 && conflicts_ == 0 && (urgent_ || raise_above_ >= epoch_));
}

void LeaseFsm::plan(LeaseAction& out, TimePoint now) {
  switch (state_) {
    case State::kIdle:
    case State::kDone:
      return;
    case State::kCandidate:
      plan_candidate(out, now);
      return;
    case State::kHolder:
      if (due(now)) {
        look_ ? ask(out, now) : renew(out, now);
      }
      return;
    case State::kReleasing:
      if (release_tries_ >= kReleaseTries || now > guard_end()) {
        finish(out.change);
      } else if (now >= next_) {
        look_ ? ask(out, now) : give_back(out, now);
      }
      return;
  }
}

TimePoint LeaseFsm::next_wake() const noexcept {
  switch (state_) {
    case State::kIdle:
    case State::kDone:
      return TimePoint::max();
    case State::kCandidate:
      if (under_way_ != Purpose::kNone) {
        return TimePoint::max();
      }
      return next_;
    case State::kHolder: {
      // One tick behind the guard: then it is lost.
      const TimePoint end = guard_end() + Duration(1);
      return under_way_ == Purpose::kNone ? std::min(next_, end) : end;
    }
    case State::kReleasing:
      return under_way_ == Purpose::kNone ? std::min(next_, guard_end() + Duration(1))
                                          : TimePoint::max();
  }
  return TimePoint::max();
}

LeaseAction LeaseFsm::step(TimePoint now) {
  LeaseAction out;
  out.change = change_;
  change_ = LeaseAction::Change::kNone;
  if (state_ == State::kHolder && now > guard_end()) {
    lose(out.change);
  }
  if (under_way_ == Purpose::kNone) {
    plan(out, now);
  }
  out.wake = next_wake();
  return out;
}

LeaseAction LeaseFsm::start(TimePoint now) {
  if (state_ == State::kIdle) {
    state_ = State::kCandidate;
    next_ = now;
  }
  return step(now);
}

LeaseAction LeaseFsm::on_found(LeaseRecord record, TimePoint now) {
  if (under_way_ != Purpose::kLook) {
    return step(now);
  }
  under_way_ = Purpose::kNone;
  failures_ = 0;
  look_ = false;
  const bool ours = record.holder == params_.identity;
  const bool mine = ours && record.uid == held_uid_;
  note(std::move(record), now);
  if (state_ == State::kHolder) {
    if (!mine) {
      lose(change_);
    } else if (record_.transitions > epoch_ && record_.transitions < kMaxLeaseEpoch) {
      raise_above_ = std::max(raise_above_, record_.transitions);  // a raise that got no answer
    }
    next_ = now;
  } else if (state_ == State::kReleasing) {
    if (!ours) {
      finish(change_);
    }
    next_ = now;
  } else if (now >= free_at()) {
    next_ = now;
  } else {
    conflicts_ = 0;
    next_ = std::min(now + rest(), free_at());
  }
  return step(now);
}

LeaseAction LeaseFsm::on_missing(TimePoint now) {
  if (under_way_ == Purpose::kNone) {
    return step(now);
  }
  under_way_ = Purpose::kNone;
  failures_ = 0;
  look_ = false;
  if (state_ == State::kHolder) {
    // Nobody else can have got it while our own record was young.
    exists_ = false;
    absent_until_ = TimePoint::min();
    lose(change_);
  } else if (state_ == State::kReleasing) {
    finish(change_);
  } else {
    note_missing();
  }
  next_ = now;
  if (now < free_at()) {
    next_ = std::min(now + rest(), free_at());
  }
  return step(now);
}

LeaseAction LeaseFsm::on_written(LeaseRecord record, TimePoint now) {
  const Purpose purpose = std::exchange(under_way_, Purpose::kNone);
  if (purpose == Purpose::kNone || purpose == Purpose::kLook) {
    return step(now);
  }
  failures_ = 0;
  conflicts_ = 0;
  const bool kept = record.transitions == written_epoch_ &&
                    record.holder == (purpose == Purpose::kRelease ? "" : params_.identity);
  note(std::move(record), now);
  look_ = !kept;
  next_ = now;
  if (!kept) {
    ++counters_.failures;
    next_ = now + rest();
    return step(now);
  }
  if (purpose == Purpose::kRelease) {
    finish(change_);
    return step(now);
  }
  if (purpose == Purpose::kAcquire && state_ == State::kCandidate) {
    if (now > sent_ + params_.give_up) {
      return step(now);  // too old to count; the own record is acquired once more
    }
    state_ = State::kHolder;
    change_ = LeaseAction::Change::kAcquired;
    ++counters_.acquired;
    epoch_ = written_epoch_;
    held_uid_ = record_.uid;
    last_success_ = sent_;
    next_ = sent_ + params_.renew;
  } else if (state_ == State::kHolder) {
    ++counters_.renewed;
    last_success_ = std::max(last_success_, sent_);
    if (written_epoch_ > epoch_) {
      epoch_ = written_epoch_;
      change_ = LeaseAction::Change::kRaised;
    }
    next_ = sent_ + params_.renew;
  } else if (state_ == State::kReleasing && purpose == Purpose::kAcquire) {
    epoch_ = written_epoch_;
    last_success_ = sent_;
  }
  return step(now);
}

LeaseAction LeaseFsm::on_conflict(TimePoint now) {
  if (std::exchange(under_way_, Purpose::kNone) == Purpose::kNone) {
    return step(now);
  }
  ++counters_.conflicts;
  look_ = true;
  // At once once, then with a rest.
  next_ = conflicts_ == 0 ? now : now + rest();
  ++conflicts_;
  return step(now);
}

LeaseAction LeaseFsm::on_failed(Duration retry_after, TimePoint now) {
  if (std::exchange(under_way_, Purpose::kNone) == Purpose::kNone) {
    return step(now);
  }
  ++counters_.failures;
  look_ = true;
  Duration wait = rest();
  if (state_ == State::kCandidate) {
    wait *= 1 << std::min(failures_, kMostDoublings);
  }
  ++failures_;
  next_ = now + (retry_after > Duration::zero() ? retry_after : wait);
  return step(now);
}

LeaseAction LeaseFsm::on_timer(TimePoint now) { return step(now); }

LeaseAction LeaseFsm::on_observed(const LeaseRecord& record, TimePoint now) {
  if (state_ == State::kCandidate && under_way_ == Purpose::kNone && failures_ == 0) {
    note(LeaseRecord(record), now);
    look_ = false;
    next_ = std::max(now, free_at());  // while events come nobody has to ask
  }
  return step(now);
}

LeaseAction LeaseFsm::on_observed_deleted(TimePoint now) {
  if (under_way_ == Purpose::kNone && failures_ == 0 && state_ != State::kIdle) {
    look_ = true;
    next_ = std::min(next_, now);
  }
  return step(now);
}

LeaseAction LeaseFsm::on_peer_epoch(std::int64_t epoch, TimePoint now) {
  if (epoch >= kMaxLeaseEpoch) {
    ++counters_.epochs_refused;
    return step(now);
  }
  floor_ = std::max(floor_, epoch);
  if (state_ == State::kHolder && epoch > epoch_) {
    raise_above_ = std::max(raise_above_, epoch);
  }
  return step(now);
}

LeaseAction LeaseFsm::annotate(std::string_view key, std::string_view value, bool urgent,
                               TimePoint now) {
  const auto place = std::find_if(notes_.begin(), notes_.end(),
                                  [key](const auto& entry) { return entry.first == key; });
  if (place == notes_.end()) {
    notes_.emplace_back(key, value);
  } else if (place->second != value) {
    place->second = value;
  } else {
    return step(now);
  }
  urgent_ = urgent_ || urgent;
  return step(now);
}

LeaseAction LeaseFsm::hurry(TimePoint now) {
  urgent_ = true;
  return step(now);
}

LeaseAction LeaseFsm::release(TimePoint now) {
  if (state_ == State::kHolder) {
    state_ = State::kReleasing;
    next_ = now;
  } else if (state_ == State::kCandidate && under_way_ == Purpose::kAcquire) {
    state_ = State::kReleasing;
    last_success_ = sent_;
    next_ = now;
  } else if (state_ == State::kIdle || state_ == State::kCandidate) {
    finish(change_);
  }
  return step(now);
}

}  // namespace kintsugi::workers
