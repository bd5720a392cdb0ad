#include "aggregation/watch/merged_watch.h"

#include <algorithm>
#include <utility>

#include "aggregation/asking/jitter.h"
#include "aggregation/asking/shard_answer.h"
#include "aggregation/list/list_plan.h"
#include "aggregation/watch/internal/merged_watch_run.h"
#include "aggregation/watch/internal/watch_answer.h"
#include "aggregation/watch/internal/watch_rights.h"
#include "auth/x509_identity.h"
#include "base/log.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::int64_t kStallSpread = 30;      ///< part of max_stall
constexpr Duration kLastWarning = seconds(2);  ///< before the planned end: a bookmark

}  // namespace

MergedWatch::MergedWatch(Watches& watches, http::ResponseStream& stream,
                         std::shared_ptr<WatchGroup> group, std::unique_ptr<WatchOpening> opening,
                         const MergeQuery& query, std::shared_ptr<Permit> permit,
                         std::string audit_id)
    : Watch(auth::proof_of(stream.peer())),
      shared_(watches.asking),
      down_(stream),
      group_(std::move(group)),
      fsm_(shared_.params, query.partial, query.bookmarks),
      parts_(shared_.loop, *group_),
      feed_(shared_, stream, *group_),
      audit_id_(std::move(audit_id)),
      own_(*this, shared_, *group_, fsm_, parts_, feed_, audit_id_),
      opening_(std::move(opening)),
      timeout_seconds_(query.timeout_seconds),
      initial_events_(query.initial_events),
      permit_(std::move(permit)),
      watches_(watches),
      idle_(shared_.loop),
      end_(shared_.loop),
      doom_(shared_.loop),
      initial_(shared_.loop) {
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
  opening_->find_beginning(
      watches_, *group_, resource_version, initial_events_.value_or(false),
      [this](const WatchOpening::Beginning& beginning) { start_at(beginning); });
}

void MergedWatch::start_at(const WatchOpening::Beginning& beginning) {
  if (beginning.refusal || !beginning.lost.empty()) {
    if (beginning.refusal) {
      refuse(*beginning.refusal);
    } else {
      expire(beginning.lost, Duration{});
    }
    return;
  }
  const std::vector<Member>& members = group_->members();
  if (!std::all_of(members.begin(), members.end(),
                   [this](const Member& member) { return covers(member); })) {
    refuse(shards_unavailable({{"some", "their members have changed"}}, true));
    return;
  }
  const DecodedVersion& at = beginning.at;
  const bool initial = initial_events_.value_or(false);
  const bool at_cursor = at.kind == VersionClass::kCursor;
  group_->handover().note();
  if (at_cursor && !initial &&
      std::any_of(members.begin(), members.end(), [&](const Member& member) {
        return group_->handover().lacks_arrivals(member, at.components[member.slot]);
      })) {
    expire("moved", Duration{});
    return;
  }
  fsm_.on_start({.from_state = initial || (!initial_events_ && !at_cursor),
                 .marks_end = initial && fsm_.wants_bookmarks(),
                 .by_sequence = group_->codec().is_sequence(),
                 .generation = group_->codec().history().current().generation});
  group_->add(*this);
  feed_.skip_log();
  place_parts(at, initial_events_, *group_, parts_, feed_, own_, audit_id_);
  ask_shards();
}

void MergedWatch::ask_shards() {
  if (!parts_.ask_present()) {
    open_own();
    return;
  }
  const Scope& scope = group_->codec().scope();
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

void MergedWatch::open_own() {
  if (opening_ != nullptr) {
    opening_->headers().start(shared_.params.headers_wait, [this] {
      run([this] { perform(fsm_.on_headers_late(parts_.dials())); });
    });
  }
  parts_.open_own();
  if (fsm_.is_following()) {
    initial_.start(shared_.params.give_up, [this] { run([this] { give_up(); }); });
    settle();
  }
}

void MergedWatch::follow() {
  look_at_rights(true);  // who is new is asked about
  follow_members();
}

void MergedWatch::follow_members() {
  if (!fsm_.is_following()) {
    return;
  }
  const std::vector<Member>& now = group_->members();
  const std::uint32_t before = fsm_.on_slots(group_->codec().history().current().generation);
  const WatchParts::Left left = parts_.leave(now);
  if (left.any) {
    fsm_.on_departure(before, shared_.loop.now());
  }
  read_log();  // what the group told of shards that left
  const std::string_view reason =
      fsm_.on_followed(group_->codec().is_sequence(), left.objects, parts_.is_rolled_back(before));
  if (!reason.empty()) {
    expire(reason, watches_.expiry_turn(0, 1));  // not all at once
  }
  for (const Member& member : now) {
    // A client that is about to list again may still have objects of a shard that is back.
    if (const WatchPart* part = parts_.find(member.slot);
        (part == nullptr || part->leaves_at != 0) && member.needed && !fsm_.is_doomed() &&
        covers(member)) {
      // The group has just begun with its present objects: they are for all its readers.
      (void)parts_.add(member, 0, true);
    }
  }
  moved();
  settle();
}

void MergedWatch::look_at_rights(bool admits) {
  if (fsm_.has_ended() || permit_ == nullptr) {
    return;
  }
  permit_->update();
  const WatchRights rights = judge_watch_rights(*permit_, group_->members(), fsm_.is_strict());
  switch (rights.kind) {
    case WatchRights::Kind::kDenied:
      ++shared_.stats.evicted_forbidden;
      deny(permit_->denial(*rights.denied_by), "forbidden");
      return;
    case WatchRights::Kind::kUnreviewed:
      ++shared_.stats.evicted_unreviewed;
      [[fallthrough]];
    case WatchRights::Kind::kRegroup:
    case WatchRights::Kind::kOthers:
      perform(fsm_.on_unreviewed());
      return;
    case WatchRights::Kind::kJoin:
      if (admits) {
        group_->refresh_soon();
      }
      return;
    case WatchRights::Kind::kGoOn:
      return;
  }
}

void MergedWatch::on_slot_refused(std::size_t slot, const http::ResponseHead& head,
                                  const std::string& body) {
  if (const WatchPart* part = parts_.find(slot); part != nullptr && part->attached) {
    on_own_refused(parts_.name_of(*part), head, body);
  }
}

void MergedWatch::on_slot_expired(std::size_t slot, std::string_view reason, Duration delay) {
  if (WatchPart* part = parts_.find(slot); part != nullptr && part->attached) {
    part->attached = false;  // its stream has no successor for this client
    expire(reason, delay);
  }
}

void MergedWatch::on_slot_compared(std::size_t slot, std::uint64_t position) {
  if (const WatchPart* part = parts_.find(slot); part != nullptr && part->component > position) {
    on_slot_expired(slot, "ahead", watches_.expiry_turn(0, 1));
  }
}

void MergedWatch::on_cluster_leaves(std::size_t slot) {
  const WatchPart* part = parts_.find(slot);
  const bool reads = part != nullptr && part->attached;
  if (reads && (!fsm_.has_head() || feed_.is_behind()) && !ClientFeed::reads_log_only(parts_)) {
    expire_moved();
  }
}

void MergedWatch::on_slot_supplied(std::size_t slot) {
  if (parts_.has_own_of(slot)) {
    expire_moved();
  }
}

bool MergedWatch::end_for_memory() noexcept {
  if (!fsm_.tells()) {
    return false;
  }
  cut_off(shared_.stats.evicted_memory);
  return true;
}

TimePoint MergedWatch::on_due(TimePoint now) {
  if (fsm_.bookmark_due() <= now) {
    group_->readers().expect_less();
    perform(fsm_.on_bookmark_due(now));
  }
  return fsm_.bookmark_due();
}

TimePoint MergedWatch::on_stall(TimePoint now) {
  const Action action = fsm_.on_silence(parts_.silent_since(), now);
  if (action.kind == Action::Kind::kNone) {
    return TimePoint::max();
  }
  perform(action);
  return action.at;
}

void MergedWatch::on_drained() noexcept {
  const Action action = fsm_.on_drained();
  if (action.kind != Action::Kind::kNone) {
    perform(action);
    return;
  }
  run([this] {
    parts_.give_credit();
    read_log();
    end_initial_phase();
  });
}

bool MergedWatch::on_own_lost(const MemberWatch& from, std::string_view cause) {
  if (from.half_begun()) {  // objects that it told of may be gone by now (AGG-806)
    begin();
    const Action action = fsm_.on_half_lost();
    if (action.why == MergedWatchFsm::Why::kPresentLost) {
      fail(shards_unavailable({{from.member().name, std::string(cause)}}, true), action.reason);
    } else {
      perform(action);
    }
    return false;
  }
  group_->readers().expect_stall();
  lost(from.member().name, cause);
  return !fsm_.has_ended();
}

void MergedWatch::lost(const std::string& shard, std::string_view cause) {
  const Action action = fsm_.on_shard_lost();
  if (action.kind == Action::Kind::kRefuse) {
    refuse_without({{shard, std::string(cause)}});
  } else {
    perform(action);
  }
}

void MergedWatch::on_own_refused(const std::string& shard, const http::ResponseHead& head,
                                 const std::string& body) {
  using Why = MergedWatchFsm::Why;
  const Action action = fsm_.on_refused(head.status, parts_.all_refuse(), retry_after_of(head));
  if (action.kind == Action::Kind::kPassOn) {
    pass_on(head, body);
  } else if (action.kind == Action::Kind::kFail) {
    fail(action.why == Why::kFuture ? future_of(head, body) : refusal_of(shard, head, body),
         action.reason);
  } else {
    perform(action);
  }
}

void MergedWatch::read_log() {
  if (!fsm_.tells() || parts_.empty()) {
    return;
  }
  const ClientFeed::Read read = feed_.read(parts_, fsm_.is_doomed());
  switch (read) {
    case ClientFeed::Read::kTooLittle:
      cut_off(shared_.stats.evicted_slow);
      return;
    case ClientFeed::Read::kMoved:
    case ClientFeed::Read::kLevelled:
      moved(read == ClientFeed::Read::kMoved);
      return;
    case ClientFeed::Read::kNothing:
      return;
  }
}

void MergedWatch::settle() {
  if (fsm_.is_following() && !parts_.awaits_answer(fsm_.is_unanswered() && fsm_.busy() > 0)) {
    begin();
    end_initial_phase();
  }
}

void MergedWatch::begin() {
  if (fsm_.is_unanswered()) {
    const TimePoint now = shared_.loop.now();
    perform(fsm_.on_answers(parts_.answers(now - shared_.params.headers_wait), now));
  }
}

void MergedWatch::end_initial_phase() {
  if (!fsm_.awaits_present() || !parts_.have_present(fsm_.waives_absent())) {
    return;
  }
  if (fsm_.owes_end_mark()) {
    if (!group_->kind().known()) {  // nothing but absence was heard of any shard
      group_->find_kind();
      return;
    }
    begin();
    read_log();
    if (fsm_.has_ended() || !parts_.have_read_present()) {
      return;
    }
  }
  perform(fsm_.on_present_told());
}

void MergedWatch::give_up() {
  const Action action =
      fsm_.on_present_late(parts_.is_held_back(), group_->kind().known(), shared_.loop.now());
  if (action.kind == Action::Kind::kWait) {
    initial_.start(action.wait, [this] { run([this] { give_up(); }); });
  } else if (action.kind == Action::Kind::kFail) {
    fail(shards_unavailable(parts_.late(), true), action.reason);
  } else {
    perform(action);
  }
}

void MergedWatch::moved(bool by_event) {
  const MergedWatchFsm::Moved what = {
      .slots = parts_.size(),
      .cursor_slots = group_->codec().history().current().uids.size(),
      .by_event = by_event};
  perform(fsm_.on_moved(what, shared_.loop.now()));
}

void MergedWatch::want_bookmark() {
  const bool can_tell = group_->kind().known() && !parts_.is_leaving();
  perform(fsm_.on_bookmark_wanted(group_->handover().moves().owes(), can_tell, shared_.loop.now()));
}

void MergedWatch::send_bookmark(bool initial_end) {
  ++shared_.stats.bookmarks;
  fsm_.on_bookmark_sent(shared_.loop.now());
  await_none();
  feed_.add_bookmark(parts_, initial_end);
  feed_.flush();
}

void MergedWatch::await_idle() {
  idle_.start(about(shared_.params.bookmark_idle), [this] {
    run([this] { want_bookmark(); });
    if (!fsm_.has_ended()) {
      await_idle();
    }
  });
}

void MergedWatch::end_now() noexcept {
  const Action action = fsm_.on_end_wanted(feed_.lacks_repeats(), shared_.loop.now());
  if (action.kind == Action::Kind::kWait) {
    end_.start(action.wait, [this] { end_now(); });
  } else {
    perform(action);
  }
}

void MergedWatch::end_if_silent() {
  idle_.start(Duration(random_between(0, shared_.params.max_stall.count() / kStallSpread)),
              [this] {  // not all clients of the group at once
                if (parts_.silent_since() != TimePoint::max()) {
                  ++shared_.stats.evicted_stall;
                  end_now();
                } else {
                  await_idle();
                }
              });
}

void MergedWatch::deny(const Error& error, std::string_view reason) {
  const Action action = fsm_.on_error();
  if (action.kind == Action::Kind::kNone) {
    return;
  }
  if (error.code() == Errc::kExpired) {
    ++shared_.stats.expired[reason];
  }
  log_info("a merged watch ends with an error",
           {{"reason", reason}, {"path", group_->route().path}, {"errc", errc_name(error.code())}});
  if (action.kind == Action::Kind::kRefuse) {
    refuse(error);
  } else {
    feed_.add(group_->coding().error(error));
    finish();
  }
}

void MergedWatch::perform(const Action& action) {
  using Kind = Action::Kind;
  switch (action.kind) {
    case Kind::kNone:
    case Kind::kTellError:  // deny() has the error
    case Kind::kLookAgain:  // on_stall() says when
      return;
    case Kind::kLook:
      return settle();
    case Kind::kAnswer:
      return begin();
    case Kind::kSendHead:
      return send_head();
    case Kind::kPassOn: {
      const MemberWatch::Refusal* refusal = parts_.stream_of(parts_.all()[action.part])->refusal();
      return pass_on(refusal->head, refusal->body);
    }
    case Kind::kRefuse:
      return refuse_for(action);
    case Kind::kFail:  // of no other reason is the error made here
      return fail(version_expired(), action.reason);
    case Kind::kDoom:
      doom_.start(action.wait, [this, reason = action.reason] {
        run([this, reason] { perform(fsm_.on_doom(reason)); });
      });
      return;
    case Kind::kWait:  // of the head: the others' timers are where they are asked
      opening_->headers().start(
          action.wait, [this] { run([this] { perform(fsm_.on_headers_late(parts_.dials())); }); });
      return;
    case Kind::kInitialEnd:
      initial_.cancel();
      ticket_.reset();
      return action.marks ? send_bookmark(true) : void();
    case Kind::kGiveUp:
      return end_initial_phase();
    case Kind::kBookmark:
      return send_bookmark(false);
    case Kind::kWantBookmark:
      return want_bookmark();
    case Kind::kAwaitBookmark:
      return group_->readers().expect(action.at);
    case Kind::kCut:
      await_none();
      idle_.cancel();
      end_.start(action.wait, [this] { perform(fsm_.on_grace_over()); });
      return;
    case Kind::kReset:
      stop();
      return down_.reset(Errc::kOk);
    case Kind::kEndSilent:
      return end_if_silent();
    case Kind::kWantEnd:
      return end_now();
    case Kind::kEnd:
      want_bookmark();
      return finish();
  }
}

void MergedWatch::refuse_for(const Action& action) {
  using Why = MergedWatchFsm::Why;
  switch (action.why) {
    case Why::kBusy:
      return refuse(shards_busy(fsm_.busy()));
    case Why::kShardAway:
      return refuse_without({{parts_.name_of(parts_.all()[action.part]), "it is away"}});
    case Why::kAllAway:
      return refuse_without(parts_.away());
    default:
      return refuse(shards_unavailable({{"some", "the rights there cannot be checked now"}}, true));
  }
}

void MergedWatch::send_head() {
  opening_.reset();
  send_watch_head(down_, group_->coding().content_type, audit_id_, permit_.get(), parts_);
  watches_.drain.add(*this);
  const Duration life = watch_lifetime(timeout_seconds_);
  if (life > kLastWarning) {
    end_.start(life - kLastWarning, [this] {
      run([this] { want_bookmark(); });
      end_.start(kLastWarning, [this] { end_now(); });
    });
  } else {
    end_.start(life, [this] { end_now(); });
  }
  await_idle();
  feed_.flush();
  read_log();
}

void MergedWatch::cut_off(std::uint64_t& counter) {
  const Action action = fsm_.on_too_much();
  counter += action.kind == Action::Kind::kCut ? 1 : 0;
  perform(action);
}

void MergedWatch::pass_on(const http::ResponseHead& answer, const std::string& body) {
  stop();
  pass_status_on(down_, answer, body, audit_id_);
}

void MergedWatch::refuse(const Error& error) {
  stop();
  if (opening_ != nullptr) {
    serving::send_error(down_, opening_->form(), error);
  }
}

void MergedWatch::finish() {
  const std::string last = feed_.take_rest();
  stop();
  feed_.end(last);
}

void MergedWatch::stop() noexcept {
  if (!fsm_.on_stop()) {
    return;
  }
  leave();
  await_none();
  for (net::Timer* timer : {&idle_, &end_, &doom_, &initial_}) {
    timer->cancel();
  }
  parts_.stop_own();
  if (opening_ != nullptr) {
    opening_->stop();
  }
  if (permit_ != nullptr) {  // it may be what calls
    permit_->hold(nullptr);
    shared_.loop.post([kept = permit_] {});
  }
  group_->remove(*this);
  ticket_.reset();
}

std::unique_ptr<http::RequestHandler> make_merged_watch(Watches& watches, http::RequestHead head,
                                                        http::ResponseStream& stream,
                                                        MergeRoute route, MergeQuery query,
                                                        std::string accept,
                                                        std::shared_ptr<Permit> permit) {
  std::string audit_id(head.headers.get("audit-id"));
  auto opening = std::make_unique<WatchOpening>(serving::AnswerForm::of(head), watches.asking.loop);
  ask_as(head, accept);
  std::shared_ptr<WatchGroup> group = watches.group_of(std::move(head), std::move(route), query);
  auto watch = std::make_unique<MergedWatch>(watches, stream, std::move(group), std::move(opening),
                                             query, std::move(permit), std::move(audit_id));
  watch->start(query.resource_version);
  return watch;
}

void follow_slots(MergedWatch& watch) { watch.follow(); }

}  // namespace kintsugi::aggregation
