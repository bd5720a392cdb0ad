#include "aggregation/watch/watch_group.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "aggregation/list/list_probe.h"
#include "base/log.h"
#include "base/memory.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kHeldRest = seconds(1);  // until it is looked again who has a group

}  // namespace

WatchGroup::WatchGroup(Watches& watches, std::string key, http::RequestHead head, MergeRoute route,
                       std::string passed_on)
    : watches_(watches),
      shared_(watches.asking),
      key_(std::move(key)),
      question_{std::move(head), std::move(route), std::move(passed_on), {}},
      codec_(watches.positions.codec(question_.route.scope)),
      members_(question_.route.members()),
      log_(shared_.params.group_log, {.least = shared_.params.resume_events}),
      counts_(shared_.stats.of(question_.route.info.group)),
      readers_(shared_.loop, shared_.params.max_stall),
      streams_(watches, question_, key_, [this](std::size_t slot) { count_collision(slot); }),
      bookmark_(shared_, question_, streams_, readers_),
      handover_(*this, watches, question_, members_, streams_, readers_, log_),
      linger_(shared_.loop) {
  give_back(question_.route.info);  // the first client's question
  linger();                         // it may be refused before it reads
}

void WatchGroup::count_collision(std::size_t slot) {
  const Scope& scope = question_.route.scope;
  for (const Member& member : members_) {
    if (member.slot == slot) {
      ++shared_.stats.collisions_of(
          member.name, scope.group.empty() ? scope.resource : scope.resource + '.' + scope.group);
    }
  }
}

std::string WatchGroup::identity() const { return asked_identity(question_.head); }

void WatchGroup::add(GroupReader& reader) {
  linger_.cancel();
  last_used_ = shared_.loop.now();
  readers_.add(reader);
}

void WatchGroup::remove(GroupReader& reader) noexcept {
  if (!readers_.remove(reader)) {
    return;
  }
  if (waits_for_rights_) {
    refresh_soon();
  }
  if (readers_.count() == 0) {
    linger();
  }
}

void WatchGroup::linger() {
  linger_.start(shared_.params.group_linger, [this] { fall_asleep(); });
}

void WatchGroup::fall_asleep() {
  while (!streams_.slots().empty()) {
    drop(streams_.slots().begin()->first);
  }
  log_.clear();
  // Of one that nobody has read there is nothing to resume at.
  go_in(log_.ring().size() == 0 ? shared_.params.group_linger : ResumeRing::Limits().age);
}

void WatchGroup::go_in(Duration rest) {
  linger_.start(rest, [this] {
    if (weak_from_this().use_count() > 1) {  // who has it may still begin to read
      go_in(kHeldRest);
    } else {
      watches_.groups.erase(watches_.groups.find(key_));  // the last reference: `this` is gone
    }
  });
}

bool WatchGroup::accepted(std::size_t slot) noexcept {
  const FollowedSlot* followed = streams_.find(slot);
  return followed != nullptr && followed->accepted && followed->check == nullptr;
}

void WatchGroup::note(std::string_view what, std::size_t slot) const {
  const MemberWatch* stream = this->stream(slot);
  const std::uint64_t position = stream == nullptr ? 0 : stream->position();
  log_debug(what, {{"slot", std::uint64_t{slot}},
                   {"position", position},
                   {"path", question_.route.path},
                   {"query", question_.passed_on}});
}

void WatchGroup::follow_held(std::size_t slot) {
  FollowedSlot& followed = *streams_.find(slot);
  followed.moved_away = shared_.view->current().moved_away(followed.stream->member().id);
  bookmark_.forget();
  streams_.plan_index(slot);
}

void WatchGroup::begin(const Member& member, WatchStart start) {
  FollowedSlot& followed = streams_.hold(member.slot, streams_.make(*this, member, start));
  followed.accepted = false;
  followed.fresh = true;
  log_.begin_slot(member.slot, start.revision, shared_.loop.now());
  if (start.initial_events) {
    log_.end_slot(member.slot);  // until all of them came nobody may begin here
  }
  note("a group follows a shard", member.slot);
  follow_held(member.slot);
  followed.stream->open();
  handover_.moves().remember(member);
  handover_.moves().follow(members_);  // what was left out there before may be its own by now
}

bool WatchGroup::follow(const Member& member, std::uint64_t position) {
  bookmark_.find_kind();
  const WatchStart start{position, false, false, false};
  if (!follows(member.slot)) {
    begin(member, start);
    return true;
  }
  if (log_.serves(member.slot, position)) {
    check_rights(member);
    return true;
  }
  const bool unused = log_.floor(member.slot) && streams_.find(member.slot)->fresh &&
                      !log_.has_events_of(member.slot);
  if (!unused) {
    return false;
  }
  drop(member.slot);  // nothing has come since: an earlier beginning serves everybody
  begin(member, start);
  return true;
}

void WatchGroup::adopt(std::unique_ptr<MemberWatch> stream) {
  const std::size_t slot = stream->member().slot;
  stream->set_sink(*this);
  FollowedSlot& followed = streams_.hold(slot, std::move(stream));
  followed.accepted = true;
  followed.fresh = false;
  followed.allowed_at = shared_.loop.now();
  log_.begin_slot(slot, followed.stream->position(), shared_.loop.now());
  note("a group takes over a stream", slot);
  follow_held(slot);
  handover_.moves().remember(followed.stream->member());
  handover_.moves().follow(members_);
}

void WatchGroup::drop(std::size_t slot) noexcept {
  if (!follows(slot)) {
    return;
  }
  note("a group leaves a shard", slot);
  const Member member = streams_.drop(slot);
  log_.leave_slot(slot, shared_.loop.now());
  handover_.moves().forget(member);
  bookmark_.forget();
}

void WatchGroup::check_rights(const Member& member) {
  FollowedSlot& followed = *streams_.find(member.slot);
  if (question_.route.reviewed || !followed.accepted || followed.check != nullptr ||
      followed.allowed_at + shared_.params.rights_age > shared_.loop.now()) {
    return;
  }
  const WatchStart start{followed.stream->position(), false, followed.stream->position() == 0,
                         false};
  followed.check = std::make_unique<RightsCheck>(
      [&](MemberWatch::Sink& sink) { return streams_.make(sink, member, start); },
      [this, slot = member.slot](const RightsCheck::Outcome& outcome) {
        on_checked(slot, outcome);
      });
  followed.check->start();
}

void WatchGroup::on_checked(std::size_t slot, const RightsCheck::Outcome& outcome) {
  FollowedSlot& followed = *streams_.find(slot);
  streams_.retire(std::move(followed.check));
  switch (outcome.kind) {
    case RightsCheck::Outcome::Kind::kAllowed:
      followed.allowed_at = shared_.loop.now();
      readers_.each([slot](GroupReader& reader) { reader.on_slot_accepted(slot); });
      return;
    case RightsCheck::Outcome::Kind::kAway:
      readers_.each([&](GroupReader& reader) { reader.on_slot_lost(slot, outcome.body); });
      return;
    case RightsCheck::Outcome::Kind::kRefused:
      readers_.each(
          [&](GroupReader& reader) { reader.on_slot_refused(slot, outcome.head, outcome.body); });
      leave_out(slot);
      return;
  }
}

/// Nothing of a running stream is for its readers any more. Those who stay go on without the shard,
/// which is asked again from where the stream was.
void WatchGroup::leave_out(std::size_t slot) {
  FollowedSlot* followed = streams_.find(slot);
  if (followed == nullptr) {
    return;
  }
  MemberWatch& stream = *followed->stream;
  const std::uint64_t position = stream.position();
  if (readers_.count() == 0 || !stream.initial_done() || position <= kBegun ||
      followed->resync != nullptr) {
    drop(slot);
    return;
  }
  std::unique_ptr<KeyIndex> index = stream.take_index();
  stream.stop();
  const WatchStart start{position, false, false, false};
  streams_.go_on(slot, streams_.make(*this, stream.member(), start), std::move(index));
  followed->accepted = false;
  followed->stream->open();
}

void WatchGroup::look_again() {
  for (const auto& [slot, followed] : streams_.slots()) {
    followed.stream->look_again();
  }
}

GroupReport WatchGroup::report() const {
  GroupReport out;
  out.path = question_.route.path;
  out.route = question_.route.scope.route;
  out.user = std::string(question_.head.headers.get("x-remote-user"));
  out.query = question_.passed_on;
  out.readers = readers_.count();
  out.reviewed = question_.route.reviewed;
  out.api_group = question_.route.info.group;
  out.queue_bytes = readers_.queue_bytes();
  out.callers = readers_.callers();
  out.log_bytes = log_.bytes();
  out.log_events = static_cast<std::size_t>(log_.end() - log_.begin());
  const TimePoint now = shared_.loop.now();
  for (const auto& [slot, followed] : streams_.slots()) {
    const MemberWatch& stream = *followed.stream;
    out.shards.push_back({stream.member().name, stream.position(), state_name(stream.state()),
                          stream.is_relayed(), now - std::min(now, stream.silent_since())});
  }
  return out;
}

void WatchGroup::on_event(MemberWatch& from, const EventFacts& facts, std::string_view event) {
  const std::size_t slot = from.member().slot;
  streams_.find(slot)->fresh = false;
  bookmark_.forget();
  bookmark_.learn(facts.facts, facts.columns);
  if (is_hidden(facts.facts) || handover_.moves().leaves_out(from.member(), facts.facts, event)) {
    if (facts.type == EventType::kDeleted) {
      handover_.on_deleted_unseen(from.member(), facts.facts, event);
    }
    log_.ring().move(slot, from.position(), shared_.loop.now());
    return;
  }
  GroupLog::Entry entry;
  entry.bytes = SharedBytes(event, question_.shape.coding->separator, {});
  entry.revision = facts.facts.revision;
  entry.position = from.position();
  entry.slot = static_cast<std::uint16_t>(slot);
  if (!facts.columns.empty()) {
    entry.columns_at = static_cast<std::uint32_t>(facts.columns.data() - event.data());
    entry.columns_size = static_cast<std::uint32_t>(facts.columns.size());
  }
  log_.append(std::move(entry), shared_.loop.now());
}

void WatchGroup::on_bookmark(MemberWatch& from, const EventFacts& facts) {
  const std::size_t slot = from.member().slot;
  streams_.find(slot)->fresh = false;
  bookmark_.forget();
  bookmark_.learn(facts.facts, facts.columns);
  log_.ring().move(slot, from.position(), shared_.loop.now());
}

void WatchGroup::on_initial_end(MemberWatch& from) {
  bookmark_.forget();
  log_.raise_slot(from.member().slot, from.position(), shared_.loop.now());
  readers_.each([](GroupReader& reader) { reader.on_group_moved(); });
}

void WatchGroup::on_accepted(MemberWatch& from) {
  const std::size_t slot = from.member().slot;
  note("a shard serves a group", slot);
  FollowedSlot& followed = *streams_.find(slot);
  if (followed.lost) {
    followed.lost = false;
    check_head(followed);
  }
  followed.accepted = true;
  followed.allowed_at = shared_.loop.now();
  readers_.each([slot](GroupReader& reader) { reader.on_slot_accepted(slot); });
}

void WatchGroup::on_batch_end(MemberWatch& from) {
  from.give_credit();
  readers_.each([](GroupReader& reader) { reader.on_group_moved(); });
}

bool WatchGroup::on_lost(MemberWatch& from, std::string_view cause) {
  const std::size_t slot = from.member().slot;
  if (from.half_begun()) {  // objects that it told of may be gone by now (AGG-806)
    expire(slot, "initial");
    return false;
  }
  note("a group has lost a shard", slot);
  readers_.expect_stall();
  streams_.find(slot)->lost = true;
  if (!streams_.find(slot)->accepted) {
    readers_.each([slot, cause](GroupReader& reader) { reader.on_slot_lost(slot, cause); });
    if (readers_.count() == 0) {
      drop(slot);
      return false;
    }
  }
  return true;
}

void WatchGroup::on_refused(MemberWatch& from, const http::ResponseHead& head,
                            const std::string& body) {
  const std::size_t slot = from.member().slot;
  readers_.each([&](GroupReader& reader) { reader.on_slot_refused(slot, head, body); });
  // Those who go on without the shard have it back when it lets them.
  const bool is_left_out = head.status == 403 && readers_.count() > 0;
  if (head.status != 404 && head.status != 429 && !is_left_out && follows(slot)) {
    drop(slot);
  }
}

void WatchGroup::on_too_large(MemberWatch& from, const std::string& key) {
  const std::size_t slot = from.member().slot;
  const Error error = event_too_large(from, key, shared_.params.max_event);
  drop(slot);
  readers_.each([&](GroupReader& reader) { reader.on_group_failed(error, "large"); });
}

bool WatchGroup::tells_departure(std::size_t slot, std::uint64_t component,
                                 GroupLog::Index& until) const {
  const auto found = departed_.find(slot);
  if (found == departed_.end() || component > found->second.position) {
    return false;
  }
  until = found->second.until;
  return true;
}

std::vector<Member> WatchGroup::admitted(std::vector<Member> members) {
  waits_for_rights_ = false;
  if (!question_.route.reviewed) {
    return members;
  }
  const auto is_member = [this](const Member& member) {
    return std::any_of(members_.begin(), members_.end(), [&member](const Member& one) {
      return one.slot == member.slot && one.id == member.id;
    });
  };
  std::erase_if(members, [&](const Member& member) {
    const bool waits = !is_member(member) && !readers_.cover(member);
    waits_for_rights_ = waits_for_rights_ || waits;
    return waits;
  });
  return members;
}

void WatchGroup::refresh_soon() {
  if (std::exchange(refreshes_, true)) {
    return;
  }
  shared_.loop.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->refreshes_ = false;
      self->refresh();
      self->readers_.each([](GroupReader& reader) { reader.on_members(); });
    }
  });
}

std::size_t WatchGroup::weigh_queue() noexcept {
  if (queue_bytes_ != 0 || weighed_until_ != log_.end() || weighed_at_ <= last_used_ ||
      std::exchange(own_came_, false)) {
    weighed_until_ = log_.end();
    weighed_at_ = shared_.loop.now();
    queue_bytes_ = readers_.queue_bytes();
  }
  return queue_bytes_;
}

void WatchGroup::learn_objects(MemberWatch& stream) {
  const std::size_t slot = stream.member().slot;
  const FollowedSlot* slot_followed = streams_.find(slot);
  if (slot_followed == nullptr || streams_.whole_index(stream) == nullptr ||
      !log_.serves(slot, stream.position()) || stream.position() < log_.closed_until(slot) ||
      stream.position() > slot_followed->stream->position() || slot_followed->resync != nullptr) {
    return;
  }
  MemberWatch& followed = *slot_followed->stream;
  if (followed.index() != nullptr && !followed.index()->filling()) {
    return;
  }
  std::unique_ptr<KeyIndex> index = stream.take_index();
  for (GroupLog::Index i = log_.first_after(slot, stream.position()); i < log_.end(); ++i) {
    if (log_.at(i).slot != slot) {
      continue;
    }
    std::string_view text = log_.at(i).bytes.view();
    text.remove_suffix(question_.shape.coding->separator.size());
    const std::optional<EventFacts> event = question_.shape.coding->facts(text);
    if (!event) {
      return;
    }
    if (event->type == EventType::kDeleted) {
      index->erase(event->facts);
    } else {
      index->put(event->facts, question_.shape.coding->kept(event->facts.metadata));
    }
  }
  followed.keep_index(std::move(index));
}

void WatchGroup::refresh() {
  std::vector<Member> now = admitted(question_.route.members());
  const std::uint32_t before = codec_.history().current().generation;
  codec_ = watches_.positions.codec(question_.route.scope);
  bookmark_.forget();
  std::vector<std::size_t> gone;
  for (const auto& [slot, followed] : streams_.slots()) {
    const Member& member = followed.stream->member();
    if (std::none_of(now.begin(), now.end(), [&member](const Member& one) {
          return one.slot == member.slot && one.id == member.id;
        })) {
      gone.push_back(slot);
    }
  }
  departed_.clear();
  for (const Member& member : now) {
    const std::string& uid = watches_.positions.slots->current().uids[member.slot];
    if (follows(member.slot) && watches_.positions.slots->rolled_back_since(uid, before)) {
      drop(member.slot);  // its readers are told by themselves
    }
  }
  for (const std::size_t slot : gone) {
    const MemberWatch& stream = *streams_.at(slot);
    if (KeyIndex* index = streams_.whole_index(stream); index != nullptr) {
      // Newer than all that came of the shard, as clients drop what is not.
      const std::uint64_t last = stream.position() + 1;
      index->drain([&](const ObjectFacts& facts, const KeyIndex::Entry& entry) {
        if (!handover_.moves().leaves_out(stream.member(), facts)) {
          enter(slot, facts, stream.position(),
                question_.shape.coding->deleted(question_.shape.kind, facts, last, entry.kept));
        }
      });
      departed_[slot] = {log_.end(), stream.position()};
    }
    drop(slot);
    log_.ring().move(slot, 0, shared_.loop.now());  // who reads on has nothing of it
  }
  for (const Member& member : now) {
    const bool known = std::any_of(members_.begin(), members_.end(), [&member](const Member& one) {
      return one.slot == member.slot && one.id == member.id && one.needed;
    });
    if (!known && member.needed && !follows(member.slot) && readers_.count() > 0) {
      begin(member, WatchStart{0, true, false, false});
    }
  }
  members_ = std::move(now);
  handover_.note();
  handover_.moves().follow(members_);
}

void WatchGroup::check_head(FollowedSlot& followed) {
  const MemberWatch& stream = *followed.stream;
  const std::uint64_t reached = stream.position();
  const std::string uid = watches_.positions.slots->current().uids[stream.member().slot];
  if (followed.head != nullptr || reached <= kBegun || !watches_.rolled_back) {
    return;
  }
  followed.head = std::make_unique<ListProbe>(
      shared_, question_, stream.member().id,
      [this, slot = stream.member().slot, reached, uid](const ListEnvelope& list) {
        std::uint64_t revision = 0;
        const std::string& text = list.resource_version;
        std::from_chars(text.data(), text.data() + text.size(), revision);
        if (revision != 0 && revision < reached) {
          log_warn("a shard is back with an older store",
                   {{"uid", uid}, {"was", std::to_string(reached)}, {"is", text}});
          watches_.rolled_back(uid);
        }
        if (FollowedSlot* asked = streams_.find(slot)) {
          streams_.retire(std::move(asked->head));
        }
      });
  followed.head->start();
}

void WatchGroup::expire(std::size_t slot, std::string_view reason) {
  const bool at_once = streams_.find(slot)->fresh;  // who asked for it just now gets the answer now
  log_warn("events of a shard are lost to merged watches",
           {{"shard", streams_.at(slot)->member().name},
            {"path", question_.route.path},
            {"reason", reason}});
  drop(slot);
  const std::size_t all = std::max<std::size_t>(readers_.count(), 1);
  std::size_t turn = 0;
  readers_.each([&](GroupReader& reader) {
    reader.on_slot_expired(slot, reason, at_once ? Duration{} : watches_.expiry_turn(turn++, all));
  });
}

/// All who read it: nobody knows what of it was taken.
void WatchGroup::on_fault(MemberWatch& from) {
  drop(from.member().slot);
  readers_.each([](GroupReader& reader) { reader.on_reader_fault(); });
}

void WatchGroup::on_expired(MemberWatch& from) {
  const std::size_t slot = from.member().slot;
  if (streams_.whole_index(from) == nullptr) {
    expire(slot, "history");
    return;
  }
  readers_.each([slot, position = from.position()](GroupReader& reader) {
    reader.on_slot_compared(slot, position);
  });
  ++shared_.stats.resyncs[{from.member().name, "history"}];
  log_info("events of a shard are lost, its objects are compared",
           {{"shard", from.member().name}, {"path", question_.route.path}});
  log_.end_slot(slot);  // whoever comes now has to come after this
  FollowedSlot& followed = *streams_.find(slot);
  SlotResync::Sink& sink = *this;
  followed.resync =
      std::make_unique<SlotResync>(shared_, sink, from.member(), question_, from.take_index());
  followed.resync->start();
}

void WatchGroup::enter(std::size_t slot, const ObjectFacts& facts, std::uint64_t position,
                       std::string_view event) {
  GroupLog::Entry entry;
  entry.bytes = SharedBytes(event, question_.shape.coding->separator, {});
  entry.revision = facts.revision;
  entry.position = position;
  entry.slot = static_cast<std::uint16_t>(slot);
  entry.repeats = true;
  log_.append(std::move(entry), shared_.loop.now());
}

void WatchGroup::on_difference(SlotResync& from, const ObjectFacts& facts, std::string_view event) {
  const std::size_t slot = from.member().slot;
  if (!handover_.moves().leaves_out(from.member(), facts)) {
    enter(slot, facts, streams_.at(slot)->position(), event);
  }
}

void WatchGroup::on_resynced(SlotResync& from, std::uint64_t revision) {
  const std::size_t slot = from.member().slot;
  const WatchStart start{revision, false, false, false};
  FollowedSlot& followed =
      streams_.go_on(slot, streams_.make(*this, from.member(), start), from.take_index());
  streams_.retire(std::move(followed.resync));
  log_.raise_slot(slot, revision, shared_.loop.now());
  bookmark_.forget();
  followed.stream->open();
  readers_.each([](GroupReader& reader) { reader.on_group_moved(); });
}

void WatchGroup::on_resync_failed(SlotResync& from) { expire(from.member().slot, "history"); }

ClusterHandover::OwnEvent WatchGroup::judge(const Member& member, const EventFacts& event) {
  own_came_ = true;
  return handover_.judge(member, event);
}

}  // namespace kintsugi::aggregation
