#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/asking/merge_params.h"
#include "aggregation/asking/merge_query.h"
#include "aggregation/bytes/json_split.h"
#include "aggregation/position/continue_token.h"
#include "aggregation/position/cursor.h"
#include "krm/request_info.h"
#include "serving/fair_queues.h"
#include "topology/snapshot.h"

/// Which shards a merged read is about, and where it is asked of them.
namespace kintsugi::aggregation {

struct ReviewPlan;

/// A shard of the route, by its slot.
struct Member {
  std::size_t slot = 0;
  topology::ShardId id = 0;
  std::string name;
  /// Logical cluster that its objects are marked with; "": they say themselves (AGG-1502).
  std::string marker = {};
  /// False: it holds nothing of what is read now; it is asked only by who has read it before.
  bool needed = true;
  bool operator==(const Member&) const = default;
};

/// What an object gets as its marker: its plain server's name, or "<shard>:<cluster>" if it is
/// of a cluster that every shard has and these are qualified; "": it stays as it is. @param room
/// what the answer may be kept in
[[nodiscard]] inline std::string_view marker_of(const MergeOptions& options, const Member& member,
                                                std::string_view cluster, std::string& room) {
  if (!member.marker.empty() || !options.qualify_system || !is_system_cluster(cluster)) {
    return member.marker;
  }
  room.assign(member.name).append(1, ':').append(cluster);
  return room;
}

/// Whose turn a merged read waits for where there is more to do than can be done at once, as other
/// requests do (SE-071, SE-072).
struct MergeCaller {
  serving::Level level = serving::Level::kTenant;
  std::string payer = {}, cluster = {};
};

/// Where a merged request goes.
struct MergeRoute {
  Scope scope;
  krm::RequestInfo info;  ///< below "clusters/*"
  /// Path of the collection for every shard, below its base URL, without a query.
  std::string path;
  bool virtual_url = false;  ///< below the shards' virtual workspace URLs
  std::string payer = {};    ///< whose its continue tokens are: token_payer()
  MergeCaller caller = {};   ///< who is charged; of streams that callers share, who began them
  /// The shards that it covers now, by slot. Asked again when the topology changes.
  std::function<std::vector<Member>()> members;
  /// The caller has to be allowed this first (AGG-904); null: shards judge the caller themselves.
  std::shared_ptr<const ReviewPlan> reviews = {};
  /// @{ It was: the shards are asked with the proxy's own credential.
  bool reviewed = false;
  std::string share_key = {};  ///< "", or which members were left out: groups do not mix them
  std::vector<std::pair<std::string, std::string>> left_out = {};  ///< shard, cause
  /// @}
};

/// What a continue token of this list is good for.
[[nodiscard]] ListQuestion question_of(const MergeRoute& route, const MergeQuery& query);

/// These shards by slot; those that have no slot yet are left out.
[[nodiscard]] std::vector<Member> members_of(const SlotHistory& slots,
                                             const std::vector<const topology::ShardInfo*>& shards);
/// All shards by slot.
[[nodiscard]] std::vector<Member> all_members(const SlotHistory& slots,
                                              const topology::Snapshot& now);
/// Every shard has its slot: else a merged read would leave objects out.
[[nodiscard]] bool all_have_slots(const SlotHistory& slots, const topology::Snapshot& now);
/// By slot of the current table.
[[nodiscard]] std::vector<bool> member_flags(const SlotHistory& history,
                                             const std::vector<Member>& members);

}  // namespace kintsugi::aggregation
