#include "store/etcd/internal/lease_book.h"

#include <algorithm>

namespace kintsugi::store::etcd {

using Kind = LeaseAction::Kind;

void LeaseBook::ask(Kind kind, TimePoint now, LeaseActions& out) {
  asked_ = kind;
  sent_at_ = now;
  out.push_back({kind, known_.value_or(LeaseRecord())});
}

/// One that was left in order, or is ours by an answer that did not come, waits for nobody.
TimePoint LeaseBook::takeover_at() const {
  return known_->holder.empty() || known_->holder == self_ ? changed_at_
                                                           : changed_at_ + params_.takeover_after;
}

void LeaseBook::lose(TimePoint now, LeaseActions& out) {
  held_ = false;
  changed_at_ = now;
  out.push_back({Kind::kLost, {}});
}

void LeaseBook::on_found(LeaseRecord found, TimePoint now, LeaseActions& out) {
  asked_.reset();
  if (held_ && found.epoch != known_->epoch) {
    lose(now, out);
  }
  if (!known_ || found.record != known_->record || found.epoch != known_->epoch) {
    known_ = std::move(found);
    changed_at_ = now;
  }
  next_at_ = now;
  on_time(now, out);
}

void LeaseBook::on_written(std::uint64_t revision, TimePoint now, LeaseActions& out) {
  const bool is_taken = asked_ == Kind::kTake;
  asked_.reset();
  if (!is_taken && !held_) {
    return on_failed(now, out);  // it came too late: the record is ours, but not the duty
  }
  known_ = LeaseRecord{revision, is_taken ? revision : known_->epoch, self_};
  changed_at_ = now;
  valid_until_ = sent_at_ + params_.valid_for;
  next_at_ = sent_at_ + params_.renew_every;
  if (is_taken && now < valid_until_) {
    held_ = true;
    out.push_back({Kind::kHeld, *known_});
  }
  on_time(now, out);
}

void LeaseBook::on_failed(TimePoint now, LeaseActions& out) {
  asked_.reset();
  next_at_ = now + params_.retry;
  on_time(now, out);
}

void LeaseBook::on_record(std::uint64_t revision, std::string holder, TimePoint now,
                          LeaseActions& out) {
  if (!known_ || revision <= known_->record || holder == self_) {
    return;  // what is ours is told by answers
  }
  if (held_) {
    lose(now, out);
  }
  known_->record = revision;
  known_->holder = std::move(holder);
  changed_at_ = now;
  next_at_ = now;
  on_time(now, out);
}

void LeaseBook::on_epoch(std::uint64_t revision, TimePoint now, LeaseActions& out) {
  if (!known_ || revision <= known_->epoch || asked_ == Kind::kTake) {
    return;
  }
  if (held_) {
    lose(now, out);
  }
  known_->epoch = revision;
}

void LeaseBook::on_time(TimePoint now, LeaseActions& out) {
  if (held_ && now >= valid_until_) {
    lose(now, out);
  }
  if (asked_ || now < next_at_) {
    return;
  }
  if (held_) {
    next_at_ = now + params_.renew_every;
    ask(Kind::kRenew, now, out);
  } else if (!known_) {
    ask(Kind::kLook, now, out);
  } else if (now >= takeover_at()) {
    ask(Kind::kTake, now, out);
  } else {
    next_at_ = takeover_at();
  }
}

void LeaseBook::release(LeaseActions& out) {
  if (std::exchange(held_, false)) {
    out.push_back({Kind::kRelease, *known_});
  }
}

std::optional<TimePoint> LeaseBook::next_time() const {
  if (asked_) {
    return held_ ? std::optional(valid_until_) : std::nullopt;
  }
  return held_ ? std::min(next_at_, valid_until_) : next_at_;
}

}  // namespace kintsugi::store::etcd
