#include "aggregation/watch/internal/member_watch.h"

#include <optional>
#include <utility>

#include "aggregation/asking/jitter.h"
#include "aggregation/asking/merge_guard.h"
#include "aggregation/asking/shard_answer.h"
#include "aggregation/bytes/cut_event.h"
#include "aggregation/bytes/marker.h"
#include "base/log.h"

namespace kintsugi::aggregation {
namespace {

using Action = MemberWatchFsm::Action;
using Taken = MemberWatchFsm::Taken;

constexpr std::size_t kMaxErrorBody = 64U << 10;

MemberWatchParams machine_params(const MergeParams& params, const ShardQuestion& question) {
  return {params.first_backoff,    params.last_backoff,
          params.reprobe,          params.rights_age,
          question.route.reviewed, question.head.headers.contains("authorization")};
}

}  // namespace

Error event_too_large(const MemberWatch& from, const std::string& key, std::size_t limit) {
  return Error(Errc::kInternal, "an event" + (key.empty() ? key : " of object " + key) +
                                    " of shard " + from.member().name + " is larger than " +
                                    std::to_string(limit) + " bytes");
}

MemberWatch::MemberWatch(Asking& shared, Sink& sink, Member member, ShardQuestion& question,
                         WatchStart start)
    : shared_(shared),
      sink_(&sink),
      member_(std::move(member)),
      question_(question),
      fsm_(machine_params(shared.params, question), start),
      call_(shared.loop, *this),
      splitter_(shared.params.max_event),
      frames_(shared.params.max_event),
      timer_(shared.loop) {}

void MemberWatch::open() {
  if (fsm_.question().initial_events && phase_ == nullptr) {
    InitialPhase::Host& self = *this;
    phase_ = std::make_unique<InitialPhase>(shared_, self, member_, question_, fsm_.question());
  }
  perform(fsm_.on_open(phase_ != nullptr && phase_->prefers_list()));
}

void MemberWatch::reopen() {
  guard_read(
      "watch of a shard that is asked again", [this] { open(); }, [this] { on_fault(); });
}

void MemberWatch::perform(const Action& action, const http::ResponseHead& head,
                          const std::string& body) {
  switch (action.kind) {
    case Action::Kind::kNone:
      return;
    case Action::Kind::kWatch:
      ask();
      return;
    case Action::Kind::kList:
      list(action.reason);
      return;
    case Action::Kind::kRest:
      call_.close();
      timer_.start(jittered(action.wait), [this] { reopen(); });
      return;
    case Action::Kind::kAccepted:
      refusal_.reset();
      sink_->on_accepted(*this);
      return;
    case Action::Kind::kInitialEnd:
      sink_->on_initial_end(*this);
      if (is_live()) {
        open();
      }
      return;
    case Action::Kind::kAbsent:
      tell_absent(action.wait, head, body);
      return;
    case Action::Kind::kRefused:
      tell_refusal(head, body);
      return;
    case Action::Kind::kLost:
      tell_loss(action);
      return;
    case Action::Kind::kExpired:
      end();
      sink_->on_expired(*this);
      return;
  }
}

void MemberWatch::ask() {
  begin_stream();
  error_body_.clear();
  answer_ = {};
  if (shared_.is_refused(member_.id)) {
    perform(fsm_.on_sequence_clash(shared_.loop.now()));
    return;
  }
  const std::string away =
      ask_shard(shared_, question_.route, member_.id, net::UpstreamClass::kWatch,
                question_.watch(fsm_.question(), fsm_.is_narrowed()), call_);
  if (!away.empty()) {
    perform(fsm_.on_unreachable(away, shared_.loop.now()));
  }
}

void MemberWatch::begin_stream() {
  splitter_ = EventSplitter(shared_.params.max_event);
  frames_ = FrameSplitter(shared_.params.max_event);
  credit_ = 0;
}

/// The shard does not tell its present objects by a watch.
void MemberWatch::list(std::string_view reason) {
  call_.close();
  answer_ = {};
  credit_ = 0;
  phase_->list(reason);
}

void MemberWatch::look_again() { perform(fsm_.on_look_again()); }

void MemberWatch::share(std::shared_ptr<StreamHomes> homes, const std::string& key) {
  StreamShare::Stream& self = *this;
  share_ = std::make_unique<StreamShare>(std::move(homes), shared_.loop,
                                         key + '\n' + std::to_string(member_.id), self);
  be_shared();
}

void MemberWatch::be_shared() {
  if (share_ == nullptr || share_->role() != StreamShare::Role::kAlone || !is_live() ||
      !call_.running() || position() <= kBegun) {
    return;
  }
  // What comes first has the columns of a Table: of a stream that has had it they are known.
  if (fsm_.has_spoken() || question_.accept().find("as=Table") == std::string_view::npos) {
    share_->be_live(question_.shape.coding->media_type);
  }
}

void MemberWatch::on_joined() noexcept {
  call_.close();
  begin_stream();
  fsm_.on_joined();
}

void MemberWatch::on_relayed(std::string_view events) noexcept {
  guard_read(
      "events of a stream that loops share", [&] { on_data(events); }, [this] { on_fault(); });
}

void MemberWatch::on_fault() {
  stop();
  sink_->on_fault(*this);
}

void MemberWatch::on_home_lost(bool away) noexcept { perform(fsm_.on_home_lost(away)); }

void MemberWatch::stop() noexcept {
  fsm_.stop();
  end();
}

void MemberWatch::end() noexcept {
  unshare();
  timer_.cancel();
  call_.close();
  if (phase_ != nullptr) {
    phase_->stop();
  }
}

bool MemberWatch::is_connected() const noexcept {
  const shards::ShardClient* client = shared_.client_of(question_.route, member_.id);
  return client != nullptr && client->upstream() != nullptr &&
         client->upstream()->stats(net::UpstreamClass::kWatch).connections > 0;
}

void MemberWatch::give_credit() noexcept {
  const std::size_t bytes = std::exchange(credit_, 0);
  call_.consume(bytes);
  if (phase_ != nullptr && bytes > 0) {
    phase_->consume(bytes);
  }
}

void MemberWatch::on_head(const http::ResponseHead& head) {
  answer_ = head;
  const WatchCoding* coding = coding_of(head.headers.get("content-type"));
  if (head.status != 200 || coding == nullptr) {
    return;  // decided when its Status is there
  }
  if (question_.shape.coding == nullptr) {
    question_.shape.coding = coding;
  } else if (coding != question_.shape.coding) {
    call_.close();
    perform(
        fsm_.on_other_coding("it does not speak " + std::string(question_.shape.coding->media_type),
                             shared_.loop.now()));
    return;
  }
  const Action accepted = fsm_.on_accepted();
  if (phase_ != nullptr) {
    phase_->watch_accepted();
  }
  perform(accepted);
  be_shared();
}

void MemberWatch::on_data(std::string_view bytes) {
  if (state() == State::kOpening) {
    call_.consume(bytes.size());
    if (error_body_.size() < kMaxErrorBody) {
      error_body_ += bytes;
    }
    return;
  }
  credit_ += bytes.size();
  const bool had_spoken = fsm_.has_spoken();
  const auto taken = [this](std::string_view event) { take(event); };
  const EventSplitter::Fault fault =
      question_.shape.coding->protobuf ? frames_.feed(bytes, taken) : splitter_.feed(bytes, taken);
  if (state() == State::kStopped) {
    return;
  }
  if (fault == EventSplitter::Fault::kTooLarge) {
    const std::string key = question_.shape.coding->protobuf
                                ? proto_key_of_beginning(frames_.incomplete())
                                : json_key_of_beginning(splitter_.incomplete());
    stop();
    ++shared_.stats.dropped[{member_.name, "large"}];
    sink_->on_too_large(*this, key);
    return;
  }
  sink_->on_batch_end(*this);
  if (share_ != nullptr && is_live() && fsm_.fault() == MemberWatchFsm::Fault::kNone) {
    if (!had_spoken) {  // later ones would cut short the rest of a relay that was too slow
      be_shared();
    }
    share_->end_batch();
  }
  perform(fsm_.on_batch_end(fault == EventSplitter::Fault::kMalformed, shared_.loop.now()));
}

void MemberWatch::on_list_accepted() { perform(fsm_.on_list_accepted()); }

void MemberWatch::on_listed_bytes(std::size_t count) {
  credit_ += count;
  sink_->on_batch_end(*this);
  perform(fsm_.on_list_batch_end(shared_.loop.now()));
}

void MemberWatch::on_phase_end(const StreamKind& kind, std::uint64_t revision) {
  call_.close();
  const Action ended = fsm_.on_present_told(revision, shared_.is_too_large(member_.id, revision),
                                            shared_.loop.now());
  if (ended.kind == Action::Kind::kInitialEnd) {
    drop_phase();
    EventFacts bookmark;
    bookmark.facts.kind = kind.kind;
    bookmark.facts.api_version = kind.api_version;
    bookmark.facts.revision = revision;
    sink_->on_bookmark(*this, bookmark);
  }
  if (state() != State::kStopped) {
    perform(ended);
  }
}

void MemberWatch::on_phase_absent(const http::ResponseHead& head, const std::string& body) {
  perform(fsm_.on_lacking(), head, body);
}

void MemberWatch::on_phase_refused(const http::ResponseHead& head, const std::string& body) {
  perform(fsm_.on_list_refused(head.status, shared_.loop.now()), head, body);
}

void MemberWatch::on_phase_lost(std::string_view cause) {
  perform(fsm_.on_list_lost(cause, shared_.loop.now()));
}

void MemberWatch::tell_refusal(const http::ResponseHead& head, const std::string& body) {
  const int status = head.status;
  const int retry_after = retry_after_of(head);
  if (status == 403) {
    refusal_ = std::make_unique<Refusal>(Refusal{head, body});
  }
  sink_->on_refused(*this, head, body);
  perform(fsm_.on_refusal_told(status, retry_after, shared_.loop.now()));
}

/// It lacks the resource: asked again now and then.
void MemberWatch::tell_absent(Duration wait, const http::ResponseHead& head,
                              const std::string& body) {
  call_.close();
  unshare();
  drop_phase();
  refusal_.reset();
  timer_.start(jittered(wait), [this] { reopen(); });
  if (head.status == 404) {
    sink_->on_refused(*this, head, body);
  }
  if (state() == State::kAbsent) {
    sink_->on_accepted(*this);
    sink_->on_initial_end(*this);
  }
}

void MemberWatch::tell_loss(const Action& action) {
  if (action.reason == kReasonMalformed) {
    ++shared_.stats.dropped[{member_.name, kReasonMalformed}];
  }
  if (action.often) {
    log_warn("a shard keeps sending what cannot be understood",
             {{"shard", member_.name}, {"cause", action.cause}, {"path", question_.route.path}});
  }
  if (!action.reason.empty()) {
    ++shared_.stats.shard_failures[{member_.name, action.reason}];
  }
  const std::string cause = action.cause.empty() ? "it answers " + std::to_string(action.status)
                                                 : std::string(action.cause);
  call_.close();
  unshare();
  if (phase_ != nullptr) {
    phase_->stop();
  }
  const Action next = fsm_.on_loss_told(sink_->on_lost(*this, cause));
  if (next.kind == Action::Kind::kRest) {
    ++shared_.stats.resyncs[{member_.name, "ended"}];
  }
  perform(next);
}

/// It may be on the stack: it goes in the next turn.
void MemberWatch::drop_phase() {
  if (phase_ != nullptr) {
    phase_->stop();
    shared_.loop.post([kept = std::shared_ptr<InitialPhase>(std::move(phase_))] {});
  }
}

void MemberWatch::on_end(Errc cause) {
  perform(
      fsm_.on_end(cause, answer_.status, judge_answer(answer_, error_body_), shared_.loop.now()));
}

void MemberWatch::take(std::string_view event) {
  if (state() == State::kStopped || fsm_.fault() != MemberWatchFsm::Fault::kNone) {
    return;
  }
  const std::optional<EventFacts> facts = question_.shape.coding->facts(event);
  if (facts && facts->type == EventType::kError) {
    perform(fsm_.on_error_event(question_.shape.coding->error_code(facts->object)));
    return;
  }
  if (!facts || facts->facts.revision == 0) {
    fsm_.on_malformed();
    return;
  }
  const std::uint64_t revision = facts->facts.revision;
  if (shared_.is_too_large(member_.id, revision)) {
    fsm_.on_sequence_event();
    return;
  }
  if (question_.shape.kind.known() && !facts->facts.kind.empty() &&
      facts->facts.kind != question_.shape.kind.kind) {
    fsm_.on_malformed();
    return;
  }
  const Taken taken = fsm_.on_event(facts->type, revision, facts->facts.initial_end);
  switch (taken) {
    case Taken::kNothing:
    case Taken::kMalformed:
      return;
    case Taken::kPresent:
      if (phase_ != nullptr) {
        phase_->heard(*facts);
      }
      mark(*facts, event);
      return;
    case Taken::kLateChange:
      ++shared_.stats.out_of_order[member_.name];
      [[fallthrough]];
    case Taken::kChange:
      pass_on(event, revision);
      mark(*facts, event);
      return;
    case Taken::kReplay:
      if (!is_relayed()) {
        ++shared_.stats.dropped[{member_.name, "replayed"}];
      }
      sink_->on_bookmark(*this, *facts);  // no more than where the stream is (AGG-703)
      return;
    case Taken::kBookmark:
      sink_->on_bookmark(*this, *facts);
      pass_on(event, 0);
      return;
    case Taken::kInitialEnd:
      sink_->on_bookmark(*this, *facts);
      drop_phase();
      if (is_live()) {
        sink_->on_initial_end(*this);
        be_shared();
      }
      pass_on(event, 0);
      return;
  }
}

void MemberWatch::mark(const EventFacts& facts, std::string_view event) {
  std::string room;
  const std::string_view marker = marker_of(shared_.options, member_, facts.facts.cluster, room);
  if (marker.empty()) {
    give(facts, event);
    return;
  }
  if (!question_.shape.coding->protobuf) {
    if (const auto quick = marked_quickly(event, facts, marker)) {
      EventFacts known = facts;
      known.facts.cluster = marker;
      give(known, *quick);
      return;
    }
  }
  const std::string marked = question_.shape.coding->marked(event, marker);
  if (const std::optional<EventFacts> of_marked = question_.shape.coding->facts(marked)) {
    give(*of_marked, marked);
  } else {
    fsm_.on_malformed();
  }
}

/// Before anything is changed in it.
void MemberWatch::pass_on(std::string_view event, std::uint64_t revision) {
  if (share_ != nullptr) {
    share_->add(event, question_.shape.coding->separator, revision);
  }
}

void MemberWatch::unshare() noexcept {
  if (share_ != nullptr) {
    share_->be_lost(fsm_.was_away());
  }
}

void MemberWatch::give(const EventFacts& facts, std::string_view event) {
  if (index_ != nullptr && facts.type == EventType::kDeleted) {
    index_->erase(facts.facts);
  } else if (index_ != nullptr) {
    index_->put(facts.facts, question_.shape.coding->kept(facts.facts.metadata));
  }
  sink_->on_event(*this, facts, event);
}

}  // namespace kintsugi::aggregation
