#include "aggregation/watch/internal/cluster_handover.h"

#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

namespace kintsugi::aggregation {

ClusterHandover::ClusterHandover(Host& host, Watches& watches, ShardQuestion& question,
                                 const std::vector<Member>& members, GroupStreams& streams,
                                 GroupReaders& readers, GroupLog& log)
    : host_(host),
      watches_(watches),
      shared_(watches.asking),
      question_(question),
      members_(members),
      streams_(streams),
      readers_(readers),
      log_(log),
      moves_(shared_, watches.moves, question,
             [this](const ClusterArrival& arrival) { on_arrived(arrival); }) {}

void ClusterHandover::note() {
  const topology::Snapshot& now = shared_.view->current();
  if (std::exchange(moved_away_, now.moved_away(0)) == now.moved_away(0)) {
    return;
  }
  for (auto& [slot, followed] : streams_.slots()) {
    const std::uint64_t count = now.moved_away(followed.stream->member().id);
    if (std::exchange(followed.moved_away, count) == count) {
      continue;
    }
    log_.cut_slot(slot, followed.stream->position());  // a stream of their own tells nothing of it
    readers_.each([at = slot](GroupReader& reader) { reader.on_cluster_leaves(at); });
  }
}

bool ClusterHandover::lacks_arrivals(const Member& member, std::uint64_t position) const {
  return position > kBegun &&
         position < watches_.moves.arrival(member.slot, question_.route.scope) &&
         !log_.serves(member.slot, position);
}

const MemberWatch* ClusterHandover::owners_stream(const Member& member,
                                                  const ObjectFacts& facts) const {
  const std::optional<topology::ShardId> owner = moves_.other_owner(member, facts);
  for (const Member& one : members_) {
    if (owner && one.id == *owner) {
      return streams_.at(one.slot);
    }
  }
  return nullptr;
}

ClusterHandover::OwnEvent ClusterHandover::judge(const Member& member, const EventFacts& event) {
  note();
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
  const KeyIndex* index = owner == nullptr ? nullptr : streams_.whole_index(*owner);
  if (index == nullptr ||
      !moves_.is_told(owner->member().slot, event.facts.cluster, owner->position())) {
    return OwnEvent::kUnsure;
  }
  return index->find(event.facts) == nullptr ? OwnEvent::kGone : OwnEvent::kLeaveOut;
}

void ClusterHandover::on_deleted_unseen(const Member& member, const ObjectFacts& facts,
                                        std::string_view event) {
  if (!moves_.other_owner(member, facts)) {
    // A reader that began after the move may have had it from there.
    if (!is_hidden(facts) && moves_.awaits(member.slot, facts.cluster)) {
      moves_.vanished(member, streams_.at(member.slot)->position(), facts, event);
    }
    return;
  }
  const MemberWatch* owner = owners_stream(member, facts);
  if (owner == nullptr || is_hidden(facts) || moves_.has_left(member.slot, facts.cluster)) {
    return;
  }
  const KeyIndex* index = streams_.whole_index(*owner);
  const bool lacks = index != nullptr ? index->find(facts) == nullptr
                                      : moves_.may_lack(owner->member().slot, facts);
  if (lacks || moves_.awaits(owner->member().slot, facts.cluster)) {
    moves_.vanished(owner->member(), owner->position(), facts, event);
  }
}

void ClusterHandover::on_arrived(const ClusterArrival& arrival) {
  const std::size_t slot = arrival.member.slot;
  note();
  watches_.moves.note_arrival(arrival.member.id, question_.route.scope, arrival.cluster,
                              arrival.revision);
  readers_.each([slot](GroupReader& reader) { reader.on_slot_supplied(slot); });
  if (streams_.at(slot) == nullptr) {
    return;
  }
  if (arrival.revision == 0) {
    host_.expire(slot, "moved");
    return;
  }
  const auto tell = [&](std::uint64_t revision, std::string_view event) {
    ObjectFacts facts;
    facts.revision = revision;
    host_.enter(slot, facts, streams_.at(slot)->position(), event);
  };
  // Who is ahead of the group would skip what is told here, and not get what is left out.
  for (const auto& [other, followed] : streams_.slots()) {
    readers_.each([at = other, position = followed.stream->position()](GroupReader& reader) {
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
  if (KeyIndex* index = streams_.whole_index(*streams_.at(slot)); index != nullptr) {
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
  for (const auto& [other, followed] : streams_.slots()) {
    KeyIndex* index = other == slot ? nullptr : streams_.whole_index(*followed.stream);
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
  if (const std::uint64_t at = streams_.at(slot)->position(); at < arrival.revision) {
    log_.close_range(slot, at, arrival.revision);  // its events in there are left out
  }
  readers_.each([](GroupReader& reader) { reader.on_group_moved(); });
}

}  // namespace kintsugi::aggregation
