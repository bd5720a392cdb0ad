#include "store/etcd/internal/members.h"

namespace kintsugi::store::etcd {
namespace {

constexpr Duration kRest = seconds(10);

}  // namespace

bool MemberChoice::is_resting(std::size_t member, TimePoint now) const {
  return failed_at_[member] != TimePoint() && now - failed_at_[member] < kRest;
}

/// The present one; else the next that does not rest; else the one that has rested longest.
std::size_t MemberChoice::pick(TimePoint now) const {
  std::size_t oldest = current_;
  for (std::size_t i = 0; i < failed_at_.size(); ++i) {
    const std::size_t member = (current_ + i) % failed_at_.size();
    if (!is_resting(member, now)) {
      return member;
    }
    oldest = failed_at_[member] < failed_at_[oldest] ? member : oldest;
  }
  return oldest;
}

std::size_t MemberChoice::other_than(std::size_t member, TimePoint now) const {
  for (std::size_t i = 1; i < failed_at_.size(); ++i) {
    const std::size_t other = (member + i) % failed_at_.size();
    if (!is_resting(other, now)) {
      return other;
    }
  }
  return failed_at_.size() > 1 && is_resting(member, now) ? (member + 1) % failed_at_.size()
                                                          : member;
}

void MemberChoice::on_failed(std::size_t member, TimePoint now) {
  failed_at_[member] = now;
  current_ = pick(now);
}

void MemberChoice::on_answered(std::size_t member) { failed_at_[member] = TimePoint(); }

}  // namespace kintsugi::store::etcd
