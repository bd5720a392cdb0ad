#include <algorithm>
#include <utility>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/list/list_plan.h"
#include "aggregation/watch/internal/merged_watch_run.h"
#include "auth/x509_identity.h"
#include "base/log.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kTableComes = seconds(5);       ///< a table of slots after a change of members
constexpr Duration kLastDial = milliseconds(500);  ///< for a connection after headers_wait

Error too_many_at_once() {
  Error error(Errc::kTooManyRequests, "too many watches ask for the present objects at once");
  error.edit().retry_after_seconds = 1;
  return error;
}

}  // namespace

MergedWatch::MergedWatch(Watches& watches, http::RequestHead head, http::ResponseStream& stream,
                         MergeRoute route, const MergeQuery& query, const std::string& accept,
                         std::shared_ptr<Permit> permit)
    : Watch(auth::proof_of(stream.peer())),
      shared_(watches.asking),
      down_(stream),
      bookmarks_(query.bookmarks),
      partial_(query.partial),
      audit_id_(head.headers.get("audit-id")),
      opening_(std::make_unique<Opening>(serving::AnswerForm::of(head), shared_.loop)),
      timeout_seconds_(query.timeout_seconds),
      initial_events_(query.initial_events),
      permit_(std::move(permit)),
      watches_(watches),
      idle_(shared_.loop),
      end_(shared_.loop),
      doom_(shared_.loop),
      initial_(shared_.loop) {
  ask_as(head, accept);
  group_ = group_of(watches_, std::move(head), std::move(route), query);
  watches_.open.push_back(this);
  ++group_->counts().watches;
  ++shared_.stats.watches_begun;
}

MergedWatch::~MergedWatch() {
  stop();
  std::erase(watches_.open, this);
  --group_->counts().watches;
}

void MergedWatch::start(const std::string& resource_version) {
  if (permit_ != nullptr) {
    Permit::Holder& self = *this;
    permit_->hold(&self);
  }
  if (group_->members().empty()) {
    refuse(shards_unavailable({{"none", "no shard is known"}}, true));
    return;
  }
  const CursorCodec& codec = group_->codec();
  const std::vector<bool> flags = member_flags(codec.history(), group_->members());
  const DecodedVersion version = codec.decode(resource_version, flags);
  const bool initial = initial_events_.value_or(false);
  if (version.kind == VersionClass::kMalformed) {
    refuse(version_malformed(resource_version));
    return;
  }
  if (version.kind == VersionClass::kNative && !initial) {
    resume_at_event(version.native, flags);
  } else {
    start_at(version);
  }
}

void MergedWatch::start_at(const DecodedVersion& version) {
  const CursorCodec& codec = group_->codec();
  const bool initial = initial_events_.value_or(false);
  if (version.kind == VersionClass::kUnknown || version.kind == VersionClass::kFuture ||
      !version.departed.empty() || (version.kind == VersionClass::kNative && !initial)) {
    begin();
    fail_with(version_expired(), version.reason.empty() ? "native" : version.reason);
    return;
  }
  if (!std::all_of(group_->members().begin(), group_->members().end(),
                   [this](const Member& member) { return covers(member); })) {
    refuse(shards_unavailable({{"some", "their members have changed"}}, true));
    return;
  }
  group_->note_moves();
  if (version.kind == VersionClass::kCursor && !initial &&
      std::any_of(group_->members().begin(), group_->members().end(), [&](const Member& member) {
        return group_->lacks_arrivals(member, version.components[member.slot]);
      })) {
    begin();
    fail_with(version_expired(), "moved");
    return;
  }
  end_bookmark_ = initial && bookmarks_;
  from_state_ = initial || (!initial_events_ && version.kind != VersionClass::kCursor);
  bookmark_generation_ = codec.history().current().generation;
  by_sequence_ = codec.is_sequence();
  group_->add(*this);
  next_ = group_->log().end();
  parts_.reserve(group_->members().size());
  for (const Member& member : group_->members()) {
    const std::uint64_t component =
        version.kind == VersionClass::kCursor ? version.components[member.slot] : 0;
    if (member.needed || component != 0) {
      parts_.push_back(part_for(member, component, false));
      place(parts_.back(), member, initial, version.kind == VersionClass::kZero);
    }
  }
  const bool lists = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
    return part.own != nullptr && part.component == 0;
  });
  if (!lists) {
    open_own();
    return;
  }
  const Scope& scope = codec.scope();
  const auto answered = [this](ReadGate::Answer answer) {
    if (answer == ReadGate::Answer::kGo) {
      open_own();
    } else {
      refuse(too_many_at_once());
    }
  };
  ticket_ = watches_.initial_gate->enter(
      shared_.loop,
      {.scope = scope.route + '\n' + scope.group + '\n' + scope.resource,
       .identity = permit_ ? permit_->caller() : group_->identity()},
      ReadGate::kInitialPatience, answered);
  if (ticket_ == nullptr) {
    answered(ReadGate::Answer::kTurnedAway);
  } else if (ticket_->may_go()) {
    answered(ReadGate::Answer::kGo);
  }
}

void MergedWatch::follow() {
  look_at_rights(true);  // who is new is asked about
  follow_members();
}

void MergedWatch::follow_members() {
  if (done_) {
    return;
  }
  const std::vector<Member>& now = group_->members();
  const std::uint32_t generation = bookmark_generation_;
  bookmark_generation_ = group_->codec().history().current().generation;
  bool lost_objects = false;
  bool departs = false;
  std::erase_if(parts_, [&](Part& part) {
    const bool stays = std::any_of(now.begin(), now.end(), [&part](const Member& member) {
      return member.slot == part.slot && member.id == part.id;
    });
    if (stays || part.leaves_at != 0) {
      return false;
    }
    departs = true;
    GroupLog::Index until = 0;
    if (part.attached && group_->tells_departure(part.slot, part.component, until)) {
      part.leaves_at = until;
      return false;
    }
    lost_objects = lost_objects || part.component != 0;
    if (part.own != nullptr) {
      retire(std::move(part.own));
    }
    return true;
  });
  if (departs) {
    // Its component becomes zero: never within one generation (AGG-504). The table that says so
    // is on its way, unless a Partition was edited.
    quiet_generation_ = generation;
    quiet_until_ = shared_.loop.now() + kTableComes;
  }
  read_log();  // what the group told of shards that left
  const SlotHistory& slots = group_->codec().history();
  for (const Part& part : parts_) {
    if (part.component != 0 && part.leaves_at == 0 &&
        slots.rolled_back_since(slots.current().uids[part.slot], generation)) {
      expire("rollback", watches_.expiry_turn(0, 1));
    }
  }
  if (group_->codec().is_sequence() != by_sequence_ && !doomed_) {
    expire("sequence", watches_.expiry_turn(0, 1));  // no cursor is newer than the last (AGG-504)
  }
  if (lost_objects) {
    // What the client has of that shard it can only lose by listing again; not all at once.
    expire("removed", watches_.expiry_turn(0, 1));
  }
  for (const Member& member : now) {
    // A client that is about to list again may still have objects of a shard that is back.
    if (const Part* part = part_of(member.slot);
        (part == nullptr || part->leaves_at != 0) && member.needed && !doomed_ && covers(member)) {
      // The group has just begun with its present objects: they are for all its readers.
      parts_.push_back(part_for(member, 0, true));
    }
  }
  moved();
  settle();
}

void MergedWatch::open_own() {
  if (!headed_) {
    opening_->headers.start(shared_.params.headers_wait, [this] {
      const bool dials = std::any_of(parts_.begin(), parts_.end(), [this](const Part& part) {
        const MemberWatch* stream = stream_of(part);
        return stream != nullptr && stream->state() == MemberWatch::State::kOpening &&
               !stream->is_connected();
      });
      if (dials) {  // it is about to fail rather than silent
        opening_->headers.start(kLastDial, [this] { begin(); });
      } else {
        begin();
      }
    });
  }
  for (std::size_t i = 0; i < parts_.size() && !done_; ++i) {
    if (parts_[i].own != nullptr) {
      parts_[i].own->open();
    }
  }
  if (!done_) {
    initial_.start(shared_.params.give_up, [this] { give_up(); });
    settle();
  }
}

MergedWatch::Part* MergedWatch::part_of(std::size_t slot) noexcept {
  for (Part& part : parts_) {
    if (part.slot == slot) {
      return &part;
    }
  }
  return nullptr;
}

std::string MergedWatch::name_of(const Part& part) const {
  for (const Member& member : group_->members()) {
    if (member.slot == part.slot) {
      return member.name;
    }
  }
  return {};
}

void MergedWatch::resume_at_event(std::uint64_t revision, const std::vector<bool>& flags) {
  auto found = opening_->asked.emplace().guard([this, size = flags.size()](ResumeRing::Found at) {
    if (done_) {
      return;
    }
    const auto unfit = [](std::uint64_t component) { return component == kBegun; };
    DecodedVersion version;
    version.kind = VersionClass::kNative;
    if (at.known && at.components.size() == size &&
        size == group_->codec().history().current().uids.size() &&
        std::none_of(at.components.begin(), at.components.end(), unfit)) {
      version.kind = VersionClass::kCursor;
      version.components = std::move(at.components);
    }
    start_at(version);
  });
  if (watches_.find_deliveries) {
    watches_.find_deliveries(group_->key(), revision, flags, found);
  } else {
    found(watches_.find_delivery(group_->key(), revision, flags));
  }
}

void MergedWatch::place(Part& part, const Member& member, bool initial, bool any_state) {
  WatchStart from;
  from.revision = part.component;
  from.any_state = any_state;
  from.initial_events = initial || part.component == 0;
  if (initial_events_ == std::optional(false) && part.component == 0) {
    from.initial_events = false;
    from.recent = true;
  }
  if (!from.initial_events && !from.recent && group_->follow(member, part.component)) {
    attach(part);
    return;
  }
  part.component = from.initial_events ? 0 : from.revision;
  if (!from.initial_events) {
    group_->find_kind();
  }
  part.own = group_->make_stream(*this, member, from);
  note("a watch has a stream of its own", part);
}

void MergedWatch::note(std::string_view what, const Part& part) const {
  log_debug(what, {{"slot", std::uint64_t{part.slot}},
                   {"component", part.component},
                   {"audit", audit_id_},
                   {"path", group_->route().path}});
}

void MergedWatch::attach(Part& part) {
  note("a watch reads the log of its group", part);
  part.attached = true;
  part.skips = true;
  const GroupLog& log = group_->log();
  const std::size_t slot = part.slot;
  const GroupLog::Index first = log.first_after(slot, part.component);
  if (!headed_) {  // nothing can be sent yet; what others have is skipped again
    next_ = std::min(next_, first);
    return;
  }
  for (GroupLog::Index i = first; i < next_; ++i) {
    if (log.at(i).slot == slot) {
      deliver(part, i);
    }
  }
}

void MergedWatch::try_attach(Part& part) {
  if (part.own == nullptr || done_) {
    return;
  }
  const bool absent = part.own->state() == MemberWatch::State::kAbsent;
  if (!absent && (!part.own->is_live() || part.own->position() <= kBegun)) {
    return;
  }
  const std::size_t slot = part.slot;
  if (!group_->follows(slot)) {
    part.own->give_credit();
    group_->adopt(std::move(part.own));
    part.attached = true;
    if (std::none_of(parts_.begin(), parts_.end(),
                     [&part](const Part& one) { return &one != &part && one.attached; })) {
      next_ = group_->log().end();
    }
    return;
  }
  if (absent) {
    if (group_->stream(slot)->state() == MemberWatch::State::kAbsent) {
      retire(std::move(part.own));
      part.attached = true;
      part.skips = true;
    }
    return;
  }
  if (group_->log().serves(slot, part.component) &&
      group_->log().bytes_from(group_->log().first_after(slot, part.component)) <=
          shared_.params.private_high) {
    group_->learn_objects(*part.own);
    retire(std::move(part.own));
    part.repeats_from = group_->log().end();  // it was told by its own stream
    attach(part);
  }
}

std::unique_ptr<http::RequestHandler> make_merged_watch(Watches& watches, http::RequestHead head,
                                                        http::ResponseStream& stream,
                                                        MergeRoute route, MergeQuery query,
                                                        std::string accept,
                                                        std::shared_ptr<Permit> permit) {
  auto watch = std::make_unique<MergedWatch>(watches, std::move(head), stream, std::move(route),
                                             query, accept, std::move(permit));
  watch->start(query.resource_version);
  return watch;
}

void follow_slots(MergedWatch& watch) { watch.follow(); }

}  // namespace kintsugi::aggregation
