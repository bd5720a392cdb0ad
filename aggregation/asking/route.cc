#include "aggregation/asking/route.h"

#include <algorithm>

#include "aggregation/position/slot_uid.h"

namespace kintsugi::aggregation {

std::vector<Member> members_of(const SlotHistory& slots,
                               const std::vector<const topology::ShardInfo*>& shards) {
  std::vector<Member> out;
  for (const topology::ShardInfo* shard : shards) {
    if (const auto slot = slots.slot_of(slot_uid(shard->spec))) {
      out.push_back({*slot, shard->id, shard->spec.name,
                     shard->spec.plain ? shard->spec.name : std::string()});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Member& a, const Member& b) { return a.slot < b.slot; });
  return out;
}

std::vector<Member> all_members(const SlotHistory& slots, const topology::Snapshot& now) {
  std::vector<const topology::ShardInfo*> shards;
  for (const auto& shard : now.shards()) {
    shards.push_back(shard.get());
  }
  return members_of(slots, shards);
}

bool all_have_slots(const SlotHistory& slots, const topology::Snapshot& now) {
  return std::all_of(now.shards().begin(), now.shards().end(), [&slots](const auto& shard) {
    return slots.slot_of(slot_uid(shard->spec)).has_value();
  });
}

std::vector<bool> member_flags(const SlotHistory& history, const std::vector<Member>& members) {
  std::vector<bool> out(history.current().uids.size());
  for (const Member& member : members) {
    if (member.slot < out.size()) {
      out[member.slot] = true;
    }
  }
  return out;
}

ListQuestion question_of(const MergeRoute& route, const MergeQuery& query) {
  return {route.scope,          route.info.version,   route.info.ns, query.label_selector,
          query.field_selector, query.shard_selector, route.payer};
}

}  // namespace kintsugi::aggregation
