// MergedWatch: the reviews that it lives by (AGG-905 to AGG-907).
#include <algorithm>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/watch/internal/merged_watch_run.h"

namespace kintsugi::aggregation {

bool MergedWatch::covers(const Member& member) const noexcept {
  return permit_ == nullptr || permit_->right_of(member) == Right::kAllowed;
}

std::string_view MergedWatch::caller() const noexcept {
  return permit_ == nullptr ? std::string_view() : permit_->caller();
}

void MergedWatch::end_or_refuse() {
  if (headed_) {
    end_now();
  } else {
    refuse(shards_unavailable({{"some", "the rights there cannot be checked now"}}, true));
  }
}

void MergedWatch::look_at_rights(bool admits) {
  if (done_ || permit_ == nullptr) {
    return;
  }
  permit_->update();
  if (!permit_->is_for_all()) {  // the client comes back, and is read as itself
    end_or_refuse();
    return;
  }
  const std::vector<Member>& read = group_->members();
  bool is_new = false;
  bool regroups = false;
  bool unreviewed = false;
  for (const Member& member : permit_->members()) {
    const bool is_read = std::any_of(read.begin(), read.end(), [&member](const Member& one) {
      return one.slot == member.slot && one.id == member.id;
    });
    const bool is_out = !is_read && permit_->leaves_out(member);
    const Right right = permit_->right_of(member);
    if (right == Right::kDenied && !is_out && (is_read || strict())) {
      ++shared_.stats.evicted_forbidden;
      fail_with(permit_->denial(member), "forbidden");
      return;
    }
    unreviewed = unreviewed || (is_read && right == Right::kUnavailable);
    // Those who read without a member have a group of their own.
    regroups = regroups || (is_out && right == Right::kAllowed) ||
               (!is_read && !is_out && right == Right::kDenied);
    is_new = is_new || (!is_read && !is_out && right == Right::kAllowed);
  }
  if (unreviewed || regroups) {
    shared_.stats.evicted_unreviewed += unreviewed ? 1 : 0;
    end_or_refuse();
  } else if (is_new && admits) {
    group_->refresh_soon();
  }
}

}  // namespace kintsugi::aggregation
