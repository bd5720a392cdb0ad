#include "store/etcd/internal/sync_book.h"

#include <algorithm>
#include <utility>

namespace kintsugi::store::etcd {

using Kind = SyncAction::Kind;

void SyncBook::add(std::uint64_t number, std::optional<Revision> revision, TimePoint now,
                   TimePoint deadline, SyncActions& out) {
  Waiter& waiter = waiters_[number];
  waiter.deadline = deadline;
  deadlines_.emplace(deadline, number);
  if (revision) {
    expect(number, waiter, *revision, now, out);
  } else {
    next_.push_back(number);
    start_head(now, out);
  }
}

void SyncBook::start_head(TimePoint now, SyncActions& out) {
  if (reading_ || next_.empty() || (head_at_ && *head_at_ > now)) {
    return;
  }
  reading_ = true;
  const TimePoint oldest = now - params_.between_heads * params_.saved_heads;
  head_at_ = std::max(head_at_.value_or(oldest), oldest) + params_.between_heads;
  joined_ = std::exchange(next_, {});
  out.push_back({Kind::kReadHead, 0, 0});
}

bool SyncBook::drop(std::uint64_t number) {
  const auto found = waiters_.find(number);
  if (found == waiters_.end()) {
    return false;
  }
  deadlines_.erase({found->second.deadline, number});
  waiters_.erase(found);
  return true;
}

void SyncBook::expect(std::uint64_t number, Waiter& waiter, Revision target, TimePoint now,
                      SyncActions& out) {
  if (target <= position_) {
    drop(number);
    out.push_back({Kind::kDone, number, position_});
    return;
  }
  waiter.target = target;
  targets_.emplace(target, number);
  if (!nudge_at_) {
    nudge_at_ = now + params_.first_nudge;
  }
}

void SyncBook::on_head(Revision head, TimePoint now, SyncActions& out) {
  reading_ = false;
  for (const std::uint64_t number : std::exchange(joined_, {})) {
    if (const auto found = waiters_.find(number); found != waiters_.end()) {
      expect(number, found->second, head, now, out);
    }
  }
  start_head(now, out);
}

void SyncBook::on_head_failed(TimePoint now) {
  reading_ = false;
  next_.insert(next_.begin(), joined_.begin(), joined_.end());
  joined_.clear();
  head_at_ = now + params_.head_retry;
}

void SyncBook::on_position(Revision position, SyncActions& out) {
  position_ = std::max(position_, position);
  while (!targets_.empty() && targets_.begin()->first <= position_) {
    const std::uint64_t number = targets_.begin()->second;
    targets_.erase(targets_.begin());
    if (drop(number)) {
      out.push_back({Kind::kDone, number, position_});
    }
  }
  if (targets_.empty()) {
    nudge_at_.reset();
  }
}

void SyncBook::on_time(TimePoint now, SyncActions& out) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const std::uint64_t number = deadlines_.begin()->second;
    if (const auto target = waiters_.find(number)->second.target) {
      const auto [from, to] = targets_.equal_range(*target);
      targets_.erase(std::find_if(from, to, [&](const auto& one) { return one.second == number; }));
    }
    drop(number);
    out.push_back({Kind::kExpired, number, position_});
  }
  if (targets_.empty()) {
    nudge_at_.reset();
  } else if (nudge_at_ && *nudge_at_ <= now) {
    nudge_at_ = now + params_.next_nudge;
    out.push_back({Kind::kNudge, 0, 0});
  }
  std::erase_if(next_, [this](std::uint64_t number) { return waiters_.count(number) == 0; });
  start_head(now, out);
}

std::optional<TimePoint> SyncBook::next_time() const {
  std::optional<TimePoint> next = nudge_at_;
  const auto consider = [&next](TimePoint at) { next = next ? std::min(*next, at) : at; };
  if (!reading_ && !next_.empty() && head_at_) {
    consider(*head_at_);
  }
  if (!deadlines_.empty()) {
    consider(deadlines_.begin()->first);
  }
  return next;
}

std::vector<std::uint64_t> SyncBook::take_all() {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, waiter] : waiters_) {
    numbers.push_back(number);
  }
  waiters_.clear();
  targets_.clear();
  deadlines_.clear();
  joined_.clear();
  next_.clear();
  return numbers;
}

}  // namespace kintsugi::store::etcd
