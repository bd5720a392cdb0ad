#include "proxy/merge/merge_loop.h"

#include <algorithm>
#include <utility>

#include "krm/status.h"
#include "proxy/answer.h"
#include "proxy/merge/merge_query.h"
#include "proxy/merge/merged_list.h"
#include "proxy/merge/merged_watch.h"

namespace kintsugi::proxy {

void MergeLoop::set_slots(SlotHistoryPtr history) {
  slots = std::move(history);
  follow(true);
}

void MergeLoop::follow(bool shards_changed) {
  if (!shards_changed) {
    // Who holds what changes with every binding: a hundredth of a second of them is one change.
    if (!open.empty() && !follows_) {
      follows_ = true;
      follow_timer_.start(milliseconds(10), [this] { follow(true); });
    }
    return;
  }
  follows_ = false;
  for (MergedWatch* watch : std::vector<MergedWatch*>(open)) {
    if (std::find(open.begin(), open.end(), watch) != open.end()) {
      follow_slots(*watch);
    }
  }
}

shards::ShardClient* client_of(MergeLoop& shared, const MergeRoute& route,
                               topology::ShardId shard) {
  return route.virtual_url ? shared.pool.find_virtual(shard) : shared.pool.find(shard);
}

const std::string& slot_uid(const topology::ShardSpec& shard) noexcept {
  return shard.uid.empty() ? shard.name : shard.uid;
}

std::vector<Member> members_of(const MergeLoop& shared,
                               const std::vector<const topology::ShardInfo*>& shards) {
  std::vector<Member> out;
  for (const topology::ShardInfo* shard : shards) {
    if (const auto slot = shared.slots->slot_of(slot_uid(shard->spec))) {
      out.push_back({*slot, shard->id, shard->spec.name});
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Member& a, const Member& b) { return a.slot < b.slot; });
  return out;
}

bool all_have_slots(const MergeLoop& shared) {
  const auto& shards = shared.view->current().shards();
  return std::all_of(shards.begin(), shards.end(), [&shared](const auto& shard) {
    return shared.slots->slot_of(slot_uid(shard->spec)).has_value();
  });
}

std::vector<Member> all_members(const MergeLoop& shared) {
  std::vector<const topology::ShardInfo*> shards;
  for (const auto& shard : shared.view->current().shards()) {
    shards.push_back(shard.get());
  }
  return members_of(shared, shards);
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

std::unique_ptr<http::RequestHandler> answer_merged(MergeLoop& shared, http::RequestHead head,
                                                    http::ResponseStream& stream,
                                                    MergeRoute route) {
  if (head.method != "GET") {
    return answer_error(head, stream, krm::method_not_allowed());
  }
  const std::optional<std::string> accept = mergeable_accept(head.headers.get("accept"));
  if (!accept) {
    return answer_error(head, stream,
                        Error(Errc::kNotAcceptable,
                              "only the following media types are accepted: application/json"));
  }
  if (!head.protocol.empty()) {
    Error error(Errc::kMethodNotAllowed, "merged reads are not offered over WebSocket");
    error.edit().http_status = 501;
    return answer_error(head, stream, error);
  }
  if (!all_have_slots(shared)) {
    return answer_error(head, stream, not_known_yet());
  }
  Expected<MergeQuery> query = parse_merge_query(route.info);
  if (!query) {
    return answer_error(head, stream, query.error());
  }
  if (query->watch) {
    return make_merged_watch(shared, std::move(head), stream, std::move(route), std::move(*query),
                             *accept);
  }
  return make_merged_list(shared, std::move(head), stream, std::move(route), std::move(*query),
                          *accept);
}

}  // namespace kintsugi::proxy
