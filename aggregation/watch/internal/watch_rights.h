#pragma once

#include <cstdint>
#include <vector>

#include "aggregation/asking/route.h"
#include "aggregation/rights/permit.h"

namespace kintsugi::aggregation {

/// What the rights of its caller mean for a watch that runs (AGG-905 to AGG-907).
struct WatchRights {
  enum class Kind : std::uint8_t {
    kGoOn,
    kJoin,        ///< it may read members that are new
    kRegroup,     ///< those who read without a member have a group of their own
    kUnreviewed,  ///< of a member that it reads nothing can be said
    kOthers,      ///< from now on the shards have to judge the caller themselves
    kDenied
  };
  Kind kind = Kind::kGoOn;
  const Member* denied_by = nullptr;  ///< kDenied: of permit.members()
};
/// @param permit  as of its last update(). @param read  whom the group of the watch reads
/// @param strict  it does not go on without a member
[[nodiscard]] WatchRights judge_watch_rights(const Permit& permit, const std::vector<Member>& read,
                                             bool strict);

}  // namespace kintsugi::aggregation
