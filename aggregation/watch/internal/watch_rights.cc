#include "aggregation/watch/internal/watch_rights.h"

#include <algorithm>

namespace kintsugi::aggregation {

WatchRights judge_watch_rights(const Permit& permit, const std::vector<Member>& read, bool strict) {
  using Kind = WatchRights::Kind;
  if (!permit.is_for_all()) {  // the client comes back, and is read as itself
    return {Kind::kOthers};
  }
  bool is_new = false, regroups = false, unreviewed = false;
  for (const Member& member : permit.members()) {
    const bool is_read = std::any_of(read.begin(), read.end(), [&member](const Member& one) {
      return one.slot == member.slot && one.id == member.id;
    });
    const bool is_out = !is_read && permit.leaves_out(member);
    const Right right = permit.right_of(member);
    if (right == Right::kDenied && !is_out && (is_read || strict)) {
      return {Kind::kDenied, &member};
    }
    unreviewed = unreviewed || (is_read && right == Right::kUnavailable);
    regroups = regroups || (is_out && right == Right::kAllowed) ||
               (!is_read && !is_out && right == Right::kDenied);
    is_new = is_new || (!is_read && !is_out && right == Right::kAllowed);
  }
  if (unreviewed) {
    return {Kind::kUnreviewed};
  }
  return {regroups ? Kind::kRegroup : is_new ? Kind::kJoin : Kind::kGoOn};
}

}  // namespace kintsugi::aggregation
