#include "aggregation/position/move_notes.h"

#include "aggregation/bytes/json_split.h"
#include "aggregation/position/slot_uid.h"

namespace kintsugi::aggregation {

void MoveNotes::leave_out(topology::ShardId shard, const Scope& scope, const std::string& cluster,
                          std::uint64_t revision) const {
  const topology::ShardInfo* info = view_.current().shard(shard);
  if (info != nullptr && !is_system_cluster(cluster)) {
    positions_.moves->leave_out(slot_uid(info->spec), scope, cluster, revision);
  }
}

MoveBook::LeftOut MoveNotes::left_out(topology::ShardId shard, const Scope& scope) const {
  const topology::ShardInfo* info = view_.current().shard(shard);
  return info == nullptr ? MoveBook::LeftOut()
                         : positions_.moves->left_out(slot_uid(info->spec), scope);
}

void MoveNotes::note_arrival(topology::ShardId shard, const Scope& scope,
                             const std::string& cluster, std::uint64_t revision) const {
  if (const topology::ShardInfo* info = view_.current().shard(shard)) {
    positions_.moves->note_arrival(slot_uid(info->spec), scope, cluster,
                                   {revision, positions_.slots->current().generation});
  }
}

std::uint64_t MoveNotes::arrival(std::size_t slot, const Scope& scope) const {
  const std::string& uid = positions_.slots->current().uids[slot];
  const MoveBook::Arrival known = positions_.moves->arrival(uid, scope);
  return known.revision == 0 || positions_.slots->rolled_back_since(uid, known.generation)
             ? 0
             : known.revision;
}

}  // namespace kintsugi::aggregation
