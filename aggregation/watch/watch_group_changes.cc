// WatchGroup: members that come and go, and shards whose history is lost or older.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "aggregation/list/list_probe.h"
#include "aggregation/watch/internal/index_fill.h"
#include "aggregation/watch/watch_group.h"
#include "base/log.h"

namespace kintsugi::aggregation {

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
  const auto is_covered = [this](const Member& member) {
    return std::all_of(readers_.begin(), readers_.end(), [&member](const GroupReader* reader) {
      return reader == nullptr || reader->covers(member);
    });
  };
  std::erase_if(members, [&](const Member& member) {
    const bool waits = !is_member(member) && !is_covered(member);
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
      self->for_each_reader([](GroupReader& reader) { reader.on_members(); });
    }
  });
}

std::unique_ptr<KeyIndex> WatchGroup::make_index(const Member& member) {
  return member.marker.empty() ? std::make_unique<KeyIndex>()
                               : std::make_unique<KeyIndex>(names_, member.slot);
}

KeyIndex* WatchGroup::whole_index(const MemberWatch& stream) const {
  // Rows with whole objects cannot be made of what an index knows.
  const bool whole_rows = question_.shape.kind.is_table() &&
                          question_.passed_on.find("&includeObject=Object") != std::string::npos;
  KeyIndex* const index = stream.index();
  return index != nullptr && !index->filling() && stream.initial_done() &&
                 question_.shape.kind.known() && !whole_rows
             ? index
             : nullptr;
}

void WatchGroup::forget_objects() noexcept {
  for (auto& [slot, followed] : slots_) {
    followed.stream->keep_index(nullptr);
  }
  names_.clear();
}

std::size_t WatchGroup::index_bytes() const noexcept {
  std::size_t sum = names_.bytes();
  for (const auto& [slot, followed] : slots_) {
    sum += followed.stream->index() == nullptr ? 0 : followed.stream->index()->bytes();
  }
  return sum;
}

std::size_t WatchGroup::queue_bytes() const noexcept {
  std::size_t farthest = 0, own = 0;
  for (const GroupReader* reader : readers_) {
    if (reader != nullptr) {
      const GroupReader::Queued queued = reader->queued();
      farthest = std::max(farthest, queued.shared);
      own += queued.own;
    }
  }
  return farthest + own;
}

std::size_t WatchGroup::weigh_queue() noexcept {
  if (queue_bytes_ != 0 || weighed_until_ != log_.end() || weighed_at_ <= last_used_ ||
      std::exchange(own_came_, false)) {
    weighed_until_ = log_.end();
    weighed_at_ = shared_.loop.now();
    queue_bytes_ = queue_bytes();
  }
  return queue_bytes_;
}

void WatchGroup::plan_index(std::size_t slot) {
  Slot& followed = slots_[slot];
  if (shared_.options.resync != Resync::kDiff || shared_.params.index_after <= Duration{} ||
      followed.stream->index() != nullptr) {
    return;
  }
  followed.fill = std::make_unique<IndexFill>(
      watches_, [this, slot] { return streams_[slot]; },
      [this](const Member& member) { return make_index(member); }, question_);
  followed.fill->start();
}

void WatchGroup::learn_objects(MemberWatch& stream) {
  const std::size_t slot = stream.member().slot;
  const auto found = slots_.find(slot);
  if (found == slots_.end() || whole_index(stream) == nullptr ||
      !log_.serves(slot, stream.position()) || stream.position() < log_.closed_until(slot) ||
      stream.position() > found->second.stream->position() || found->second.resync != nullptr) {
    return;
  }
  MemberWatch& followed = *found->second.stream;
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
  bookmark_ = {};
  std::vector<std::size_t> gone;
  for (const auto& [slot, followed] : slots_) {
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
    const MemberWatch& stream = *slots_[slot].stream;
    if (KeyIndex* index = whole_index(stream); index != nullptr) {
      // Newer than all that came of the shard, as clients drop what is not.
      const std::uint64_t last = stream.position() + 1;
      index->drain([&](const ObjectFacts& facts, const KeyIndex::Entry& entry) {
        if (!moves_.leaves_out(stream.member(), facts)) {
          enter(slot, facts, stream.position(),
                question_.shape.coding->deleted(question_.shape.kind, facts, last, entry.kept));
        }
      });
      departed_[slot] = {log_.end(), stream.position()};
    }
    drop(slot);
    ring_.move(slot, 0, shared_.loop.now());  // who reads on has nothing of it
  }
  for (const Member& member : now) {
    const bool known = std::any_of(members_.begin(), members_.end(), [&member](const Member& one) {
      return one.slot == member.slot && one.id == member.id && one.needed;
    });
    if (!known && member.needed && !follows(member.slot) && reader_count_ > 0) {
      begin(member, WatchStart{0, true, false, false});
    }
  }
  members_ = std::move(now);
  note_moves();
  moves_.follow(members_);
}

void WatchGroup::note_moves() {
  const topology::Snapshot& now = shared_.view->current();
  if (std::exchange(moved_away_, now.moved_away(0)) == now.moved_away(0)) {
    return;
  }
  for (auto& [slot, followed] : slots_) {
    const std::uint64_t count = now.moved_away(followed.stream->member().id);
    if (std::exchange(followed.moved_away, count) == count) {
      continue;
    }
    log_.cut_slot(slot, followed.stream->position());  // a stream of their own tells nothing of it
    for_each_reader([at = slot](GroupReader& reader) { reader.on_cluster_leaves(at); });
  }
}

bool WatchGroup::lacks_arrivals(const Member& member, std::uint64_t position) const {
  return position > kBegun &&
         position < watches_.moves.arrival(member.slot, question_.route.scope) &&
         !log_.serves(member.slot, position);
}

const MemberWatch* WatchGroup::owners_stream(const Member& member, const ObjectFacts& facts) const {
  const std::optional<topology::ShardId> owner = moves_.other_owner(member, facts);
  for (const Member& one : members_) {
    if (owner && one.id == *owner) {
      return stream(one.slot);
    }
  }
  return nullptr;
}

WatchGroup::OwnEvent WatchGroup::judge(const Member& member, const EventFacts& event) {
  own_came_ = true;
  note_moves();
  if (is_hidden(event.facts)) {
    return OwnEvent::kLeaveOut;
  }
  if (!moves_.leaves_out(member, event.facts)) {
    return OwnEvent::kTell;
  }
  if (event.type != EventType::kDeleted) {
    return OwnEvent::kLeaveOut;
  }
  // The group may have been told before the cluster moved, and nothing of it comes any more.
  const MemberWatch* owner = owners_stream(member, event.facts);
  const KeyIndex* index = owner == nullptr ? nullptr : whole_index(*owner);
  if (index == nullptr ||
      !moves_.is_told(owner->member().slot, event.facts.cluster, owner->position())) {
    return OwnEvent::kUnsure;
  }
  return index->find(event.facts) == nullptr ? OwnEvent::kGone : OwnEvent::kLeaveOut;
}

void WatchGroup::on_deleted_unseen(const Member& member, const ObjectFacts& facts,
                                   std::string_view event) {
  if (!moves_.other_owner(member, facts)) {
    // A reader that began after the move may have had it from there.
    if (!is_hidden(facts) && moves_.awaits(member.slot, facts.cluster)) {
      moves_.vanished(member, stream(member.slot)->position(), facts, event);
    }
    return;
  }
  const MemberWatch* owner = owners_stream(member, facts);
  if (owner == nullptr || is_hidden(facts) || moves_.has_left(member.slot, facts.cluster)) {
    return;
  }
  const KeyIndex* index = whole_index(*owner);
  const bool lacks = index != nullptr ? index->find(facts) == nullptr
                                      : moves_.may_lack(owner->member().slot, facts);
  if (lacks || moves_.awaits(owner->member().slot, facts.cluster)) {
    moves_.vanished(owner->member(), owner->position(), facts, event);
  }
}

void WatchGroup::on_cluster_arrived(const ClusterArrival& arrival) {
  const std::size_t slot = arrival.member.slot;
  note_moves();
  watches_.moves.note_arrival(arrival.member.id, question_.route.scope, arrival.cluster,
                              arrival.revision);
  for_each_reader([slot](GroupReader& reader) { reader.on_slot_supplied(slot); });
  if (!follows(slot)) {
    return;
  }
  if (arrival.revision == 0) {
    expire(slot, "moved");
    return;
  }
  const auto tell = [&](std::uint64_t revision, std::string_view event) {
    ObjectFacts facts;
    facts.revision = revision;
    enter(slot, facts, streams_[slot]->position(), event);
  };
  // Who is ahead of the group would skip what is told here, and not get what is left out.
  for (const auto& [other, followed] : slots_) {
    for_each_reader([at = other, position = followed.stream->position()](GroupReader& reader) {
      reader.on_slot_compared(at, position);
    });
  }
  std::unordered_set<std::string> gone;
  const auto tell_gone = [&](const ObjectFacts& facts, const KeyIndex::Entry& entry) {
    if (!arrival.has(facts) && gone.insert(ClusterArrival::key(facts)).second) {
      tell(arrival.revision, question_.shape.coding->deleted(question_.shape.kind, facts,
                                                             arrival.revision, entry.kept));
    }
  };
  if (KeyIndex* index = whole_index(*streams_[slot]); index != nullptr) {
    // What the list is ahead of: the events until there are left out.
    index->each_of_cluster(arrival.cluster,
                           [&](const ObjectFacts& facts, const KeyIndex::Entry& entry) {
                             if (entry.revision <= arrival.revision) {
                               tell_gone(facts, entry);
                             }
                           });
    for (const ClusterArrival::Event& one : arrival.objects) {  // its stream may not be there yet
      const std::optional<EventFacts> event = question_.shape.coding->facts(one.text);
      const KeyIndex::Entry* known = event ? index->find(event->facts) : nullptr;
      if (event && (known == nullptr || known->revision < event->facts.revision)) {
        index->put(event->facts, question_.shape.coding->kept(event->facts.metadata));
      }
    }
  }
  for (const auto& [other, followed] : slots_) {
    KeyIndex* index = other == slot ? nullptr : whole_index(*followed.stream);
    bool had = false;
    if (index != nullptr) {
      index->drain_cluster(arrival.cluster,
                           [&](const ObjectFacts& facts, const KeyIndex::Entry& entry) {
                             had = true;
                             tell_gone(facts, entry);
                           });
    }
    if (had) {
      moves_.left_from(other, arrival.cluster);
    }
  }
  for (const ClusterArrival::Event& event : arrival.vanished) {
    const std::optional<EventFacts> facts = question_.shape.coding->facts(event.text);
    if (facts && gone.insert(ClusterArrival::key(facts->facts)).second) {
      tell(event.revision, event.text);
    }
  }
  for (const auto* events : {&arrival.objects, &arrival.later}) {
    for (const ClusterArrival::Event& event : *events) {
      tell(event.revision, event.text);
    }
  }
  if (const std::uint64_t at = streams_[slot]->position(); at < arrival.revision) {
    log_.close_range(slot, at, arrival.revision);  // its events in there are left out
  }
  for_each_reader([](GroupReader& reader) { reader.on_group_moved(); });
}

void WatchGroup::check_head(Slot& followed) {
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
        if (const auto found = slots_.find(slot); found != slots_.end()) {
          retired_probes_.push_back(std::move(found->second.head));
          bury_later();
        }
      });
  followed.head->start();
}

void WatchGroup::expire(std::size_t slot, std::string_view reason) {
  const bool at_once = slots_[slot].fresh;  // who asked for it just now gets the answer now
  log_warn("events of a shard are lost to merged watches",
           {{"shard", slots_[slot].stream->member().name},
            {"path", question_.route.path},
            {"reason", reason}});
  drop(slot);
  const std::size_t all = std::max<std::size_t>(reader_count_, 1);
  std::size_t turn = 0;
  for_each_reader([&](GroupReader& reader) {
    reader.on_slot_expired(slot, reason, at_once ? Duration{} : watches_.expiry_turn(turn++, all));
  });
}

/// All who read it: nobody knows what of it was taken.
void WatchGroup::on_fault(MemberWatch& from) {
  drop(from.member().slot);
  for_each_reader([](GroupReader& reader) { reader.on_reader_fault(); });
}

void WatchGroup::on_expired(MemberWatch& from) {
  const std::size_t slot = from.member().slot;
  if (whole_index(from) == nullptr) {
    expire(slot, "history");
    return;
  }
  for_each_reader([slot, position = from.position()](GroupReader& reader) {
    reader.on_slot_compared(slot, position);
  });
  ++shared_.stats.resyncs[{from.member().name, "history"}];
  log_info("events of a shard are lost, its objects are compared",
           {{"shard", from.member().name}, {"path", question_.route.path}});
  log_.end_slot(slot);  // whoever comes now has to come after this
  Slot& followed = slots_[slot];
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
  // Between two positions nobody can resume.
  ring_.deliver_to(facts.revision, Components(slot + 1, kBegun), shared_.loop.now());
  log_.append(std::move(entry));
}

void WatchGroup::on_difference(SlotResync& from, const ObjectFacts& facts, std::string_view event) {
  const std::size_t slot = from.member().slot;
  if (!moves_.leaves_out(from.member(), facts)) {
    enter(slot, facts, slots_[slot].stream->position(), event);
  }
}

void WatchGroup::on_resynced(SlotResync& from, std::uint64_t revision) {
  const std::size_t slot = from.member().slot;
  const Member member = from.member();
  Slot& followed = slots_[slot];
  retired_.push_back(std::move(followed.stream));
  std::unique_ptr<KeyIndex> index = from.take_index();
  retired_resyncs_.push_back(std::move(followed.resync));
  hold(slot, make_stream(*this, member, WatchStart{revision, false, false, false}));
  followed.stream->keep_index(std::move(index));
  followed.stream->finish_initial();
  log_.raise_slot(slot, revision);
  ring_.move(slot, revision, shared_.loop.now());
  bookmark_ = {};
  followed.stream->open();
  for_each_reader([](GroupReader& reader) { reader.on_group_moved(); });
  bury_later();
}

void WatchGroup::on_resync_failed(SlotResync& from) { expire(from.member().slot, "history"); }

}  // namespace kintsugi::aggregation
