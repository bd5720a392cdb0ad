#include "aggregation/merge_loop.h"

#include <algorithm>
#include <utility>

#include "aggregation/bytes/json_split.h"
#include "aggregation/documents/document_cache.h"
#include "aggregation/jitter.h"
#include "aggregation/list/merged_list.h"
#include "aggregation/merge_query.h"
#include "aggregation/reviewed_read.h"
#include "aggregation/rights/reviewer.h"
#include "aggregation/watch/merged_watch.h"
#include "aggregation/watch/watch_group.h"
#include "aggregation/watch/watch_socket.h"
#include "http/web_socket.h"
#include "krm/status.h"
#include "serving/answer.h"

namespace kintsugi::aggregation {

bool asks_partial(const MergeOptions& options, const http::HeaderList& headers) {
  return options.policy == MissingShards::kPartial ||
         (options.allow_partial && headers.get("x-kintsugi-partial") == "true");
}

std::string_view marker_of(const MergeOptions& options, const Member& member,
                           std::string_view cluster, std::string& room) {
  if (!member.marker.empty() || !options.qualify_system || !is_system_cluster(cluster)) {
    return member.marker;
  }
  room.assign(member.name).append(1, ':').append(cluster);
  return room;
}

namespace {

constexpr std::size_t kListsFirst = 4'096;
constexpr Duration kRefusal = seconds(30);

std::string list_key(topology::ShardId shard, const Scope& scope) {
  return std::to_string(shard) + '\n' + scope.route + '\n' + scope.group + '\n' + scope.resource;
}

}  // namespace

void MergeLoop::list_first(topology::ShardId shard, const Scope& scope, Duration duration) {
  if (lists_first_.size() >= kListsFirst) {
    std::erase_if(lists_first_, [this](const auto& one) { return one.second <= loop.now(); });
  }
  if (lists_first_.size() < kListsFirst) {
    lists_first_[list_key(shard, scope)] = loop.now() + duration;
  }
}

bool MergeLoop::lists_first(topology::ShardId shard, const Scope& scope) const {
  const auto found =
      lists_first_.empty() ? lists_first_.end() : lists_first_.find(list_key(shard, scope));
  return found != lists_first_.end() && found->second > loop.now();
}

void MergeLoop::leave_out(topology::ShardId shard, const Scope& scope, const std::string& cluster,
                          std::uint64_t revision) {
  const topology::ShardInfo* info = view->current().shard(shard);
  if (info != nullptr && !is_system_cluster(cluster)) {
    moves->leave_out(slot_uid(info->spec), scope, cluster, revision);
  }
}

MoveBook::LeftOut MergeLoop::left_out(topology::ShardId shard, const Scope& scope) const {
  const topology::ShardInfo* info = view->current().shard(shard);
  return info == nullptr ? MoveBook::LeftOut() : moves->left_out(slot_uid(info->spec), scope);
}

void MergeLoop::note_arrival(topology::ShardId shard, const Scope& scope,
                             const std::string& cluster, std::uint64_t revision) {
  if (const topology::ShardInfo* info = view->current().shard(shard)) {
    moves->note_arrival(slot_uid(info->spec), scope, cluster,
                        {revision, slots->current().generation});
  }
}

std::uint64_t MergeLoop::arrival(const Member& member, const Scope& scope) const {
  const std::string& uid = slots->current().uids[member.slot];
  const MoveBook::Arrival known = moves->arrival(uid, scope);
  return known.revision == 0 || slots->rolled_back_since(uid, known.generation) ? 0
                                                                                : known.revision;
}

bool MergeLoop::is_too_large(topology::ShardId shard, std::uint64_t revision) {
  const bool by_number = options.sequence || slots->current().uids.size() > kMaxVectorSlots;
  if (revision < kFirstSequence || !by_number) {
    return false;
  }
  refused_[shard] = loop.now() + kRefusal;
  return true;
}

bool MergeLoop::is_refused(topology::ShardId shard) const {
  const auto found = refused_.empty() ? refused_.end() : refused_.find(shard);
  return found != refused_.end() && found->second > loop.now();
}

void MergeLoop::start_reviews() { reviewer = std::make_shared<Reviewer>(*this); }

void MergeLoop::set_slots(SlotHistoryPtr history) {
  slots = std::move(history);
  follow(true);
  late_slots.look();
}

void MergeLoop::follow(bool shards_changed) {
  if (!shards_changed) {
    // Who holds what changes with every binding: a hundredth of a second of them is one change.
    if (!groups.empty() && !follows_) {
      follows_ = true;
      follow_timer_.start(milliseconds(10), [this] { follow(true); });
    }
    return;
  }
  follows_ = false;
  if (reviewer != nullptr) {
    reviewer->follow_shards();
  }
  for (const auto& [key, group] : std::map(groups)) {
    group->refresh();
  }
  for (MergedWatch* watch : std::vector<MergedWatch*>(open)) {
    if (std::find(open.begin(), open.end(), watch) != open.end()) {
      follow_slots(*watch);
    }
  }
}

Duration MergeLoop::expiry_turn(std::size_t turn, std::size_t all) {
  const std::int64_t step = params.expire_spread.count() / static_cast<std::int64_t>(all);
  const Duration wished(step * static_cast<std::int64_t>(turn) + random_between(0, step));
  const Duration least = std::chrono::duration_cast<Duration>(seconds(1)) / params.expire_rate;
  last_expiry_ = std::max(last_expiry_ + least, loop.now() + wished);
  return last_expiry_ - loop.now();
}

void MergeLoop::look_for_resources() {
  const std::uint64_t now = documents == nullptr ? 0 : documents->changes();
  if (std::exchange(discovery_seen_, now) != now) {
    for (const auto& [key, group] : groups) {
      group->look_again();
    }
  }
}

void MergeLoop::keep_house() {
  if (std::exchange(keeps_house_, true)) {
    return;
  }
  house_timer_.start(seconds(1), [this] {
    keeps_house_ = false;
    look_for_resources();
    limit_indexes();
    limit_queues();
    if (!groups.empty()) {
      keep_house();
    }
  });
}

void MergeLoop::limit_indexes() {
  std::size_t bytes = 0;
  std::vector<WatchGroup*> by_use;
  for (const auto& [key, group] : groups) {
    bytes += group->index_bytes();
    by_use.push_back(group.get());
  }
  index_bytes = bytes;
  if (bytes <= params.index_bytes) {
    return;
  }
  std::sort(by_use.begin(), by_use.end(), [](const WatchGroup* a, const WatchGroup* b) {
    return a->last_used() < b->last_used();
  });
  for (WatchGroup* group : by_use) {
    bytes -= group->index_bytes();
    group->forget_objects();
    if (bytes <= params.index_bytes) {
      return;
    }
  }
}

void MergeLoop::limit_queues() {
  std::size_t bytes = 0;
  for (const auto& [key, group] : groups) {
    bytes += group->weigh_queue();
  }
  if (!queue_share_) {
    queue_share_.emplace(queue_budget);
  }
  std::size_t excess = queue_share_->set(bytes);
  if (excess == 0) {
    return;
  }
  std::vector<std::pair<std::size_t, GroupReader*>> by_distance;
  for (const auto& [key, group] : groups) {
    for (GroupReader* reader : group->readers()) {
      if (reader != nullptr) {
        const GroupReader::Queued queued = reader->queued();
        by_distance.emplace_back(queued.shared + queued.own, reader);
      }
    }
  }
  std::sort(by_distance.begin(), by_distance.end(), std::greater<>());
  for (const auto& [distance, reader] : by_distance) {
    if (distance == 0 || excess == 0) {
      return;
    }
    if (reader->end_for_memory()) {
      excess -= std::min(excess, distance);
    }
  }
}

ResumeRing::Found MergeLoop::find_delivery(const std::string& key, std::uint64_t revision,
                                           const std::vector<bool>& members) const {
  const auto group = groups.find(key);
  return group == groups.end() ? ResumeRing::Found()
                               : group->second->ring().find(revision, members);
}

std::vector<GroupReport> MergeLoop::report_groups() const {
  std::vector<GroupReport> out;
  for (const auto& [key, group] : groups) {
    if (!group->asleep()) {
      out.push_back(group->report());
    }
  }
  return out;
}

shards::ShardClient* client_of(MergeLoop& shared, const MergeRoute& route,
                               topology::ShardId shard) {
  topology::ShardPool* pool = route.reviewed ? shared.own_pool : &shared.pool;
  if (pool == nullptr) {
    return nullptr;
  }
  return route.virtual_url ? pool->find_virtual(shard) : pool->find(shard);
}

const std::string& slot_uid(const topology::ShardSpec& shard) noexcept {
  return shard.uid.empty() ? shard.name : shard.uid;
}

std::vector<Member> members_of(const MergeLoop& shared,
                               const std::vector<const topology::ShardInfo*>& shards) {
  std::vector<Member> out;
  for (const topology::ShardInfo* shard : shards) {
    if (const auto slot = shared.slots->slot_of(slot_uid(shard->spec))) {
      out.push_back({*slot, shard->id, shard->spec.name,
                     shard->spec.plain ? shard->spec.name : std::string()});
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

ListQuestion question_of(const MergeRoute& route, const MergeQuery& query) {
  return {route.scope,          route.info.version,   route.info.ns,
          query.label_selector, query.field_selector, query.shard_selector};
}

std::unique_ptr<http::RequestHandler> when_slots_are_known(
    MergeLoop& shared, std::shared_ptr<const http::RequestHead> head, http::ResponseStream& stream,
    std::optional<std::uint32_t> generation,
    std::function<std::unique_ptr<http::RequestHandler>()> ask) {
  const auto is_early = [&shared, named = generation.value_or(0)] {
    return named > shared.slots->current().generation || !all_have_slots(shared);
  };
  if (!is_early()) {
    return ask();
  }
  const auto late = [&shared, head = std::move(head), &stream, ask = std::move(ask)] {
    return all_have_slots(shared) ? ask()
                                  : serving::answer_error(*head, stream, serving::not_known_yet());
  };
  return shared.late_slots.has_room() ? shared.late_slots.hold(is_early, late) : late();
}

namespace {

/// What the request names and nobody here knows yet.
std::optional<std::uint32_t> named_by(const MergeLoop& shared, const MergeRoute& route,
                                      const MergeQuery& query) {
  if (query.watch || query.continue_token.empty()) {
    return named_generation(query.resource_version);
  }
  const Expected<MergedContinue> token =
      decode_continue(query.continue_token, question_of(route, query), shared.keys);
  return token ? std::optional(token->generation) : std::nullopt;
}

std::unique_ptr<http::RequestHandler> answer_query(MergeLoop& shared, http::RequestHead head,
                                                   http::ResponseStream& stream, MergeRoute route,
                                                   MergeQuery query, std::string accept) {
  if (query.watch) {
    const bool socket = http::asks_for_web_socket(head);
    const MakeWatch make = [&](http::RequestHead asked, http::ResponseStream& to) {
      return route.reviews != nullptr
                 ? answer_reviewed(shared, std::move(asked), to, std::move(route), std::move(query),
                                   std::move(accept))
                 : make_merged_watch(shared, std::move(asked), to, std::move(route),
                                     std::move(query), std::move(accept));
    };
    return socket ? answer_over_socket(shared.loop, std::move(head), stream, make)
                  : make(std::move(head), stream);
  }
  head.protocol.clear();  // lists ignore it, as servers do
  if (route.reviews != nullptr) {
    return answer_reviewed(shared, std::move(head), stream, std::move(route), std::move(query),
                           std::move(accept));
  }
  return make_merged_list(shared, std::move(head), stream, std::move(route), std::move(query),
                          std::move(accept));
}

}  // namespace

std::unique_ptr<http::RequestHandler> answer_merged(MergeLoop& shared, http::RequestHead head,
                                                    http::ResponseStream& stream,
                                                    MergeRoute route) {
  if (head.method != "GET") {
    return serving::answer_error(head, stream, krm::method_not_allowed());
  }
  const bool socket = http::asks_for_web_socket(head);
  const std::optional<std::string> accept = mergeable_accept(head.headers.get("accept"), !socket);
  if (!accept) {
    return serving::answer_error(head, stream, not_mergeable(!socket));
  }
  if (!head.protocol.empty() && !socket) {
    Error error(Errc::kMethodNotAllowed, "merged reads are offered over no such protocol");
    error.edit().http_status = 501;
    return serving::answer_error(head, stream, error);
  }
  Expected<MergeQuery> query = parse_merge_query(route.info);
  if (!query) {
    return serving::answer_error(head, stream, query.error());
  }
  query->partial = asks_partial(shared.options, head.headers);
  if (query->watch) {
    if (query->initial_events && !shared.options.watch_list) {  // AGG-805
      return serving::answer_error(
          head, stream,
          krm::invalid("meta.k8s.io", "ListOptions", "",
                       {krm::field_forbidden("sendInitialEvents",
                                             "sendInitialEvents is forbidden for watch unless the "
                                             "WatchList feature gate is enabled")}));
    }
  }
  const std::optional<std::uint32_t> named = named_by(shared, route, *query);
  struct Question {
    http::RequestHead head;
    MergeRoute route;
    MergeQuery query;
    std::string accept;
  };
  auto kept = std::make_shared<Question>(
      Question{std::move(head), std::move(route), std::move(*query), *accept});
  const std::shared_ptr<const http::RequestHead> asked(kept, &kept->head);
  return when_slots_are_known(shared, asked, stream, named, [&shared, &stream, kept] {
    return answer_query(shared, std::move(kept->head), stream, std::move(kept->route),
                        std::move(kept->query), std::move(kept->accept));
  });
}

}  // namespace kintsugi::aggregation
