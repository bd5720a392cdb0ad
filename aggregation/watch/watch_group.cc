#include "aggregation/watch/watch_group.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "aggregation/asking/merge_guard.h"
#include "aggregation/list/list_probe.h"
#include "aggregation/watch/internal/index_fill.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/prefetch.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kAhead = 4;           ///< readers
constexpr Duration kHeldRest = seconds(1);  ///< until it is looked again who has a group

/// Who asks, as the shards are told.
std::string identity_of(const http::RequestHead& head) {
  std::string out;
  for (std::size_t i = 0; i < head.headers.size(); ++i) {
    const auto header = head.headers[i];
    if (header.name.starts_with("x-remote-") || header.name.starts_with("impersonate-") ||
        header.name == "authorization") {
      out += header.name;
      out += ':';
      out += header.value;
      out += '\n';
    }
  }
  return out;
}

}  // namespace

WatchGroup::WatchGroup(Watches& watches, std::string key, http::RequestHead head, MergeRoute route,
                       std::string passed_on)
    : watches_(watches),
      shared_(watches.asking),
      key_(std::move(key)),
      question_{std::move(head), std::move(route), std::move(passed_on), {}},
      codec_(watches.positions.codec(question_.route.scope)),
      members_(question_.route.members()),
      log_(shared_.params.group_log),
      ring_({.least = shared_.params.resume_events}),
      counts_(shared_.stats.of(question_.route.info.group)),
      names_([this](std::size_t slot) { count_collision(slot); }),
      moves_(shared_, watches.moves, question_,
             [this](const ClusterArrival& arrival) { on_cluster_arrived(arrival); }),
      due_(shared_.loop),
      linger_(shared_.loop),
      stall_(shared_.loop) {
  give_back(question_.route.info);  // the first client's question
  linger();                         // it may be refused before it reads
}

WatchGroup::~WatchGroup() {
  for (auto& [slot, followed] : slots_) {
    followed.stream->stop();
  }
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

std::string WatchGroup::identity() const { return identity_of(question_.head); }

void WatchGroup::add(GroupReader& reader) {
  linger_.cancel();
  last_used_ = shared_.loop.now();
  readers_.push_back(&reader);
  ++reader_count_;
}

void WatchGroup::remove(GroupReader& reader) noexcept {
  const auto found = std::find(readers_.begin(), readers_.end(), &reader);
  if (found == readers_.end()) {
    return;
  }
  --reader_count_;
  if (calling_) {
    *found = nullptr;
  } else {
    readers_.erase(found);
  }
  if (waits_for_rights_) {
    refresh_soon();
  }
  if (reader_count_ == 0) {
    linger();
  }
}

void WatchGroup::linger() {
  linger_.start(shared_.params.group_linger, [this] { fall_asleep(); });
}

void WatchGroup::expect(TimePoint due) {
  ++expecting_;
  if (due < due_at_) {
    due_at_ = due;
    due_.start(due - shared_.loop.now(), [this] { be_due(); });
  }
}

void WatchGroup::expect_less() noexcept {
  if (--expecting_ == 0) {
    due_at_ = TimePoint::max();
    due_.cancel();
  }
}

void WatchGroup::be_due() {
  due_at_ = TimePoint::max();
  const TimePoint now = shared_.loop.now();
  TimePoint next = TimePoint::max();
  for_each_reader([&next, now](GroupReader& reader) { next = std::min(next, reader.on_due(now)); });
  if (next < due_at_) {
    due_at_ = next;
    due_.start(next - now, [this] { be_due(); });
  }
}

void WatchGroup::expect_stall() {
  if (!std::exchange(expects_stall_, true)) {
    stall_.start(shared_.params.max_stall, [this] { be_stalled(); });
  }
}

void WatchGroup::be_stalled() {
  const TimePoint now = shared_.loop.now();
  TimePoint next = TimePoint::max();
  for_each_reader(
      [&next, now](GroupReader& reader) { next = std::min(next, reader.on_stall(now)); });
  expects_stall_ = next != TimePoint::max();
  if (expects_stall_) {
    stall_.start(std::max<Duration>(next - now, milliseconds(1)), [this] { be_stalled(); });
  }
}

void WatchGroup::fall_asleep() {
  while (!slots_.empty()) {
    drop(slots_.begin()->first);
  }
  log_.clear();
  // Of one that nobody has read there is nothing to resume at.
  go_in(ring_.size() == 0 ? shared_.params.group_linger : ResumeRing::Limits().age);
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

void WatchGroup::for_each_reader(const std::function<void(GroupReader&)>& call) {
  const bool outermost = !std::exchange(calling_, true);
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    // Among a thousand readers each is far from every cache.
    if (i + 2 * kAhead < readers_.size()) {
      fetch_ahead(readers_[i + 2 * kAhead], 3);
    }
    if (i + kAhead < readers_.size() && readers_[i + kAhead] != nullptr) {
      readers_[i + kAhead]->approach();
    }
    if (readers_[i] != nullptr) {
      GroupReader& reader = *readers_[i];
      guard_read(
          "client of a merged watch", [&] { call(reader); }, [&] { reader.on_reader_fault(); });
    }
  }
  if (outermost) {
    calling_ = false;
    std::erase(readers_, nullptr);
  }
}

std::unique_ptr<MemberWatch> WatchGroup::make_stream(MemberWatch::Sink& sink, const Member& member,
                                                     WatchStart start) {
  auto stream = std::make_unique<MemberWatch>(shared_, sink, member, question_, start);
  const MemberWatch* followed = this->stream(member.slot);
  if (start.initial_events && shared_.options.resync == Resync::kDiff &&
      (followed == nullptr || followed->index() == nullptr)) {
    stream->keep_index(make_index(member));
  }
  return stream;
}

void WatchGroup::hold(std::size_t slot, std::unique_ptr<MemberWatch> stream) {
  if (streams_.size() <= slot) {
    streams_.resize(slot + 1);
  }
  streams_[slot] = stream.get();
  slots_[slot].stream = std::move(stream);
  if (watches_.homes != nullptr) {
    streams_[slot]->share(watches_.homes, key_);
  }
}

bool WatchGroup::accepted(std::size_t slot) const noexcept {
  const auto found = slots_.find(slot);
  return found != slots_.end() && found->second.accepted && found->second.check == nullptr;
}

void WatchGroup::note(std::string_view what, std::size_t slot) const {
  const MemberWatch* stream = this->stream(slot);
  const std::uint64_t position = stream == nullptr ? 0 : stream->position();
  log_debug(what, {{"slot", std::uint64_t{slot}},
                   {"position", position},
                   {"path", question_.route.path},
                   {"query", question_.passed_on}});
}

void WatchGroup::begin(const Member& member, WatchStart start) {
  Slot& followed = slots_[member.slot];
  hold(member.slot, make_stream(*this, member, start));
  followed.accepted = false;
  followed.fresh = true;
  followed.moved_away = shared_.view->current().moved_away(member.id);
  bookmark_ = {};
  log_.begin_slot(member.slot, start.revision);
  if (start.initial_events) {
    log_.end_slot(member.slot);  // until all of them came nobody may begin here
  }
  ring_.move(member.slot, followed.stream->position(), shared_.loop.now());
  note("a group follows a shard", member.slot);
  plan_index(member.slot);
  followed.stream->open();
  moves_.remember(member);
  moves_.follow(members_);  // what was left out there before may be its own by now
}

bool WatchGroup::follow(const Member& member, std::uint64_t position) {
  find_kind();
  const WatchStart start{position, false, false, false};
  if (!follows(member.slot)) {
    begin(member, start);
    return true;
  }
  if (log_.serves(member.slot, position)) {
    check_rights(member);
    return true;
  }
  const bool unused =
      log_.floor(member.slot) && slots_[member.slot].fresh && !log_.has_events_of(member.slot);
  if (!unused) {
    return false;
  }
  drop(member.slot);  // nothing has come since: an earlier beginning serves everybody
  begin(member, start);
  return true;
}

void WatchGroup::adopt(std::unique_ptr<MemberWatch> stream) {
  const std::size_t slot = stream->member().slot;
  Slot& followed = slots_[slot];
  stream->set_sink(*this);
  hold(slot, std::move(stream));
  followed.accepted = true;
  followed.fresh = false;
  followed.allowed_at = shared_.loop.now();
  followed.moved_away = shared_.view->current().moved_away(followed.stream->member().id);
  bookmark_ = {};
  log_.begin_slot(slot, followed.stream->position());
  ring_.move(slot, followed.stream->position(), shared_.loop.now());
  note("a group takes over a stream", slot);
  plan_index(slot);
  moves_.remember(followed.stream->member());
  moves_.follow(members_);
}

void WatchGroup::drop(std::size_t slot) noexcept {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) {
    return;
  }
  note("a group leaves a shard", slot);
  found->second.stream->stop();
  retired_.push_back(std::move(found->second.stream));
  const auto retire = [](auto& one, auto& retired) {
    if (one != nullptr) {
      one->stop();
      retired.push_back(std::move(one));
    }
  };
  retire(found->second.resync, retired_resyncs_);
  retire(found->second.check, retired_checks_);
  retire(found->second.head, retired_probes_);
  retire(found->second.fill, retired_fills_);
  slots_.erase(found);
  streams_[slot] = nullptr;
  log_.end_slot(slot);
  moves_.forget(retired_.back()->member());
  ring_.move(slot, std::nullopt, shared_.loop.now());
  bookmark_ = {};
  bury_later();
}

const WatchCoding& WatchGroup::coding() noexcept {
  if (question_.shape.coding == nullptr) {  // every shard speaks JSON
    const bool json =
        !accept_only(question_.head.headers.get("accept"), json_coding().media_type).empty();
    question_.shape.coding = json ? &json_coding() : &protobuf_coding();
  }
  return *question_.shape.coding;
}

void WatchGroup::bury_later() noexcept {
  shared_.loop.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) {
      self->retired_.clear();
      self->retired_resyncs_.clear();
      self->retired_checks_.clear();
      self->retired_probes_.clear();
      self->retired_fills_.clear();
    }
  });
}

void WatchGroup::check_rights(const Member& member) {
  Slot& followed = slots_[member.slot];
  if (question_.route.reviewed || !followed.accepted || followed.check != nullptr ||
      followed.allowed_at + shared_.params.rights_age > shared_.loop.now()) {
    return;
  }
  const WatchStart start{followed.stream->position(), false, followed.stream->position() == 0,
                         false};
  followed.check = std::make_unique<RightsCheck>(
      [&](MemberWatch::Sink& sink) { return make_stream(sink, member, start); },
      [this, slot = member.slot](const RightsCheck::Outcome& outcome) {
        on_checked(slot, outcome);
      });
  followed.check->start();
}

void WatchGroup::on_checked(std::size_t slot, const RightsCheck::Outcome& outcome) {
  Slot& followed = slots_[slot];
  if (followed.check != nullptr) {
    retired_checks_.push_back(std::move(followed.check));
    bury_later();
  }
  switch (outcome.kind) {
    case RightsCheck::Outcome::Kind::kAllowed:
      followed.allowed_at = shared_.loop.now();
      for_each_reader([slot](GroupReader& reader) { reader.on_slot_accepted(slot); });
      return;
    case RightsCheck::Outcome::Kind::kAway:
      for_each_reader([&](GroupReader& reader) { reader.on_slot_lost(slot, outcome.body); });
      return;
    case RightsCheck::Outcome::Kind::kRefused:
      for_each_reader(
          [&](GroupReader& reader) { reader.on_slot_refused(slot, outcome.head, outcome.body); });
      leave_out(slot);
      return;
  }
}

/// Nothing of a running stream is for its readers any more. Those who stay go on without the shard,
/// which is asked again from where the stream was.
void WatchGroup::leave_out(std::size_t slot) {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) {
    return;
  }
  Slot& followed = found->second;
  const std::uint64_t position = followed.stream->position();
  if (reader_count_ == 0 || !followed.stream->initial_done() || position <= kBegun ||
      followed.resync != nullptr) {
    drop(slot);
    return;
  }
  const Member member = followed.stream->member();
  std::unique_ptr<KeyIndex> index = followed.stream->take_index();
  followed.stream->stop();
  retired_.push_back(std::move(followed.stream));
  hold(slot, make_stream(*this, member, WatchStart{position, false, false, false}));
  followed.stream->keep_index(std::move(index));
  followed.stream->finish_initial();
  followed.accepted = false;
  followed.stream->open();
  bury_later();
}

void WatchGroup::learn(const ObjectFacts& facts, std::string_view columns) {
  if (!question_.shape.kind.known() && !facts.kind.empty()) {
    question_.shape.kind = {std::string(facts.kind), std::string(facts.api_version)};
  }
  if (columns_.empty()) {
    columns_ = columns;
    question_.shape.kind.cells = std::max<std::size_t>(count_columns(columns), 1);
  }
}

void WatchGroup::look_again() {
  for (const auto& [slot, followed] : slots_) {
    followed.stream->look_again();
  }
}

void WatchGroup::find_kind() {
  if (question_.shape.kind.known() || kind_probe_ != nullptr) {
    return;
  }
  kind_probe_ = std::make_unique<ListProbe>(
      shared_, question_, std::nullopt, [this](const ListEnvelope& list) {
        if (!question_.shape.kind.known()) {
          question_.shape.kind = {list.kind, list.api_version};
          if (list.kind.ends_with("List")) {
            question_.shape.kind.kind.resize(list.kind.size() - 4);
          }
        }
        if (columns_.empty()) {
          learn({}, list.columns);
        }
        for_each_reader([](GroupReader& reader) { reader.on_group_moved(); });
        shared_.loop.post([weak = weak_from_this()] {
          if (const auto self = weak.lock()) {
            self->kind_probe_.reset();
          }
        });
      });
  kind_probe_->start();
}

const SharedBytes& WatchGroup::bookmark() {
  if (bookmark_.empty() || codec_.is_sequence()) {
    Components components(codec_.history().current().uids.size());
    for (const auto& [slot, followed] : slots_) {
      components[slot] = followed.stream->position();
    }
    // The number of a vector grows when later vectors have got theirs: a reader may have had one.
    std::string cursor = codec_.format(components);
    if (bookmark_.empty() || cursor != bookmark_cursor_) {
      bookmark_ = SharedBytes(coding().bookmark(question_.shape.kind, cursor, false, {}));
      bookmark_cursor_ = std::move(cursor);
    }
  }
  return bookmark_;
}

GroupReport WatchGroup::report() const {
  GroupReport out;
  out.path = question_.route.path;
  out.route = question_.route.scope.route;
  out.user = std::string(question_.head.headers.get("x-remote-user"));
  out.query = question_.passed_on;
  out.readers = reader_count_;
  out.reviewed = question_.route.reviewed;
  out.api_group = question_.route.info.group;
  out.queue_bytes = queue_bytes();
  std::set<std::string_view> callers;
  for (const GroupReader* reader : readers_) {
    if (reader != nullptr) {
      callers.insert(reader->caller());
    }
  }
  out.callers = callers.size();
  out.log_bytes = log_.bytes();
  out.log_events = static_cast<std::size_t>(log_.end() - log_.begin());
  const TimePoint now = shared_.loop.now();
  for (const auto& [slot, followed] : slots_) {
    const MemberWatch& stream = *followed.stream;
    out.shards.push_back({stream.member().name, stream.position(), state_name(stream.state()),
                          stream.is_relayed(), now - std::min(now, stream.silent_since())});
  }
  return out;
}

void WatchGroup::on_event(MemberWatch& from, const EventFacts& facts, std::string_view event) {
  const std::size_t slot = from.member().slot;
  slots_[slot].fresh = false;
  bookmark_ = {};
  learn(facts.facts, facts.columns);
  if (is_hidden(facts.facts) || moves_.leaves_out(from.member(), facts.facts, event)) {
    if (facts.type == EventType::kDeleted) {
      on_deleted_unseen(from.member(), facts.facts, event);
    }
    ring_.move(slot, from.position(), shared_.loop.now());
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
  ring_.deliver(slot, entry.revision, entry.position, shared_.loop.now());
  log_.append(std::move(entry));
}

void WatchGroup::on_bookmark(MemberWatch& from, const EventFacts& facts) {
  const std::size_t slot = from.member().slot;
  slots_[slot].fresh = false;
  bookmark_ = {};
  learn(facts.facts, facts.columns);
  ring_.move(slot, from.position(), shared_.loop.now());
}

void WatchGroup::on_initial_end(MemberWatch& from) {
  bookmark_ = {};
  log_.raise_slot(from.member().slot, from.position());
  ring_.move(from.member().slot, from.position(), shared_.loop.now());
  for_each_reader([](GroupReader& reader) { reader.on_group_moved(); });
}

void WatchGroup::on_accepted(MemberWatch& from) {
  const std::size_t slot = from.member().slot;
  note("a shard serves a group", slot);
  Slot& followed = slots_[slot];
  if (followed.lost) {
    followed.lost = false;
    check_head(followed);
  }
  followed.accepted = true;
  followed.allowed_at = shared_.loop.now();
  for_each_reader([slot](GroupReader& reader) { reader.on_slot_accepted(slot); });
}

void WatchGroup::on_batch_end(MemberWatch& from) {
  from.give_credit();
  for_each_reader([](GroupReader& reader) { reader.on_group_moved(); });
}

bool WatchGroup::on_lost(MemberWatch& from, std::string_view cause) {
  const std::size_t slot = from.member().slot;
  if (from.half_begun()) {  // objects that it told of may be gone by now (AGG-806)
    expire(slot, "initial");
    return false;
  }
  note("a group has lost a shard", slot);
  expect_stall();
  slots_[slot].lost = true;
  if (!slots_[slot].accepted) {
    for_each_reader([slot, cause](GroupReader& reader) { reader.on_slot_lost(slot, cause); });
    if (reader_count_ == 0) {
      drop(slot);
      return false;
    }
  }
  return true;
}

void WatchGroup::on_refused(MemberWatch& from, const http::ResponseHead& head,
                            const std::string& body) {
  const std::size_t slot = from.member().slot;
  for_each_reader([&](GroupReader& reader) { reader.on_slot_refused(slot, head, body); });
  // Those who go on without the shard have it back when it lets them.
  const bool is_left_out = head.status == 403 && reader_count_ > 0;
  if (head.status != 404 && head.status != 429 && !is_left_out && follows(slot)) {
    drop(slot);
  }
}

void WatchGroup::on_too_large(MemberWatch& from, const std::string& key) {
  const std::size_t slot = from.member().slot;
  const Error error = event_too_large(from, key, shared_.params.max_event);
  drop(slot);
  for_each_reader([&](GroupReader& reader) { reader.on_group_failed(error, "large"); });
}

std::shared_ptr<WatchGroup> group_of(Watches& watches, http::RequestHead head, MergeRoute route,
                                     const MergeQuery& query) {
  const Scope& scope = route.scope;
  std::string key;
  for (const std::string_view part :
       std::initializer_list<std::string_view>{scope.route, scope.group, scope.resource, route.path,
                                               query.passed_on, head.headers.get("accept")}) {
    key += part;
    key += '\n';
  }
  key += route.reviewed ? "reviewed\n" + route.share_key : "caller\n" + identity_of(head);
  if (const auto found = watches.groups.find(key); found != watches.groups.end()) {
    return found->second;
  }
  auto group = std::make_shared<WatchGroup>(watches, std::move(key), std::move(head),
                                            std::move(route), query.passed_on);
  watches.groups.emplace(group->key(), group);
  watches.keep_house();
  return group;
}

}  // namespace kintsugi::aggregation
