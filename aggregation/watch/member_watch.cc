#include "aggregation/watch/member_watch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "aggregation/bytes/cut_event.h"
#include "aggregation/bytes/marker.h"
#include "aggregation/shard_answer.h"
#include "aggregation/watch/jitter.h"
#include "base/log.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMaxErrorBody = 64U << 10;
constexpr Duration kLongestRest = seconds(30);      ///< that a busy shard may ask for
constexpr Duration kMalformedWindow = seconds(60);  ///< the third time in it waits longest

/// Label of kintsugi_shard_failures_total.
std::string_view reason_of(Errc cause) {
  switch (cause) {
    case Errc::kOk:
      return {};  // streams end
    case Errc::kTls:
      return "tls";
    case Errc::kTimeout:
    case Errc::kDeadline:
      return "timeout";
    default:
      return "connect";
  }
}

}  // namespace

Error event_too_large(const MemberWatch& from, const std::string& key, std::size_t limit) {
  return Error(Errc::kInternal, "an event" + (key.empty() ? key : " of object " + key) +
                                    " of shard " + from.member().name + " is larger than " +
                                    std::to_string(limit) + " bytes");
}

std::string_view state_name(MemberWatch::State state) noexcept {
  static constexpr std::string_view kNames[] = {"opening", "initial", "live",
                                                "waiting", "absent",  "stopped"};
  return kNames[static_cast<std::size_t>(state)];
}

MemberWatch::MemberWatch(MergeLoop& shared, Sink& sink, Member member,
                         const http::RequestHead& head, const MergeRoute& route,
                         const std::string& passed_on, StreamShape& shape, WatchStart start)
    : shared_(shared),
      sink_(&sink),
      member_(std::move(member)),
      head_(head),
      route_(route),
      passed_on_(passed_on),
      shape_(shape),
      start_(start),
      call_(shared.loop, *this),
      splitter_(shared.params.max_event),
      frames_(shared.params.max_event),
      timer_(shared.loop),
      position_(start.initial_events ? 0 : start.revision),
      backoff_(shared.params.first_backoff) {}

void MemberWatch::open() {
  if (start_.initial_events && phase_ == nullptr) {
    InitialPhase::Host& self = *this;
    phase_ = std::make_unique<InitialPhase>(shared_, self, member_, head_, route_, passed_on_,
                                            shape_, start_);
  }
  if (start_.initial_events && phase_->prefers_list()) {
    state_ = State::kOpening;
    list_instead("known");
    return;
  }
  http::RequestHead head = head_;
  head.target = route_.path + watch_query(start_, passed_on_);
  if (narrowed_) {
    head.headers.set("accept", accept_only(head_.headers.get("accept"), shape_.coding->media_type));
  }
  splitter_ = EventSplitter(shared_.params.max_event);
  frames_ = FrameSplitter(shared_.params.max_event);
  error_body_.clear();
  answer_ = {};
  credit_ = 0;
  broken_ = refuses_ = too_large_ = false;
  state_ = State::kOpening;
  resumed_ = start_.revision != 0;
  if (shared_.is_refused(member_.id)) {
    lose(kTooLargeVersions, "sequence");
    return;
  }
  shards::ShardClient* client = client_of(shared_, route_, member_.id);
  if (client == nullptr || !call_.open(*client, net::UpstreamClass::kWatch, std::move(head))) {
    loss_.away = true;
    lose(client == nullptr ? "not known yet" : client->cause(), "connect");
  }
}

void MemberWatch::look_again() {
  if (state_ == State::kAbsent) {
    timer_.start(Duration{}, [this] { open(); });
  }
}

void MemberWatch::share(std::shared_ptr<StreamHomes> homes, const std::string& key) {
  StreamShare::Stream& self = *this;
  share_ = std::make_unique<StreamShare>(std::move(homes), shared_.loop,
                                         key + '\n' + std::to_string(member_.id), self);
  be_shared();
}

void MemberWatch::be_shared() {
  if (share_ == nullptr || share_->role() != StreamShare::Role::kAlone || state_ != State::kLive ||
      !call_.running() || position_ <= kBegun) {
    return;
  }
  // What comes first has the columns of a Table: of a stream that has had it they are known.
  if (has_spoken_ || head_.headers.get("accept").find("as=Table") == std::string_view::npos) {
    share_->be_live(shape_.coding->media_type);
  }
}

void MemberWatch::on_joined() noexcept {
  call_.close();
  splitter_ = EventSplitter(shared_.params.max_event);
  frames_ = FrameSplitter(shared_.params.max_event);
  credit_ = 0;
  resumed_ = true;
}

void MemberWatch::on_relayed(std::string_view events) noexcept { on_data(events); }

void MemberWatch::on_home_lost(bool away) noexcept {
  loss_.away = loss_.away || away;
  start_ = WatchStart{position_, false, false, false};
  open();
}

void MemberWatch::stop() noexcept {
  state_ = State::kStopped;
  unshare();
  timer_.cancel();
  call_.close();
  if (phase_ != nullptr) {
    phase_->stop();
  }
}

bool MemberWatch::is_connected() const noexcept {
  const shards::ShardClient* client = client_of(shared_, route_, member_.id);
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

void MemberWatch::on_head(const http::ResponseHead& head) noexcept {
  answer_ = head;
  const WatchCoding* coding = coding_of(head.headers.get("content-type"));
  if (head.status != 200 || coding == nullptr) {
    return;  // decided when its Status is there
  }
  if (shape_.coding == nullptr) {
    shape_.coding = coding;
  } else if (coding != shape_.coding) {
    call_.close();
    if (std::exchange(narrowed_, true)) {
      lose("it does not speak " + std::string(shape_.coding->media_type), "status");
    } else {
      timer_.start(Duration{}, [this] { open(); });
    }
    return;
  }
  state_ = start_.initial_events ? State::kInitial : State::kLive;
  initial_done_ = initial_done_ || !start_.initial_events;
  be_heard();
  if (phase_ != nullptr) {
    phase_->watch_accepted();
  }
  sink_->on_accepted(*this);
  be_shared();
}

void MemberWatch::be_heard() noexcept {
  backoff_ = shared_.params.first_backoff;
  loss_ = {};
  refusal_.reset();
}

void MemberWatch::on_data(std::string_view bytes) noexcept {
  if (state_ == State::kOpening) {
    call_.consume(bytes.size());
    if (error_body_.size() < kMaxErrorBody) {
      error_body_ += bytes;
    }
    return;
  }
  credit_ += bytes.size();
  const bool had_spoken = has_spoken_;
  const auto taken = [this](std::string_view event) { take(event); };
  const EventSplitter::Fault fault =
      shape_.coding->protobuf ? frames_.feed(bytes, taken) : splitter_.feed(bytes, taken);
  if (state_ == State::kStopped) {
    return;
  }
  if (fault == EventSplitter::Fault::kTooLarge) {
    const std::string key = shape_.coding->protobuf ? proto_key_of_beginning(frames_.incomplete())
                                                    : json_key_of_beginning(splitter_.incomplete());
    stop();
    ++shared_.stats.dropped[{member_.name, "large"}];
    sink_->on_too_large(*this, key);
    return;
  }
  sink_->on_batch_end(*this);
  if (share_ != nullptr && state_ == State::kLive && !broken_) {
    if (!had_spoken) {  // later ones would cut short the rest of a relay that was too slow
      be_shared();
    }
    share_->end_batch();
  }
  if (state_ != State::kStopped && refuses_) {
    list_instead("refused");
  } else if (state_ != State::kStopped && (broken_ || fault == EventSplitter::Fault::kMalformed)) {
    call_.close();
    lose_broken("its events cannot be understood");
  }
}

/// The shard does not tell its present objects by a watch.
void MemberWatch::list_instead(std::string_view reason) {
  call_.close();
  answer_ = {};
  credit_ = 0;
  broken_ = refuses_ = too_large_ = false;
  phase_->list(reason);
}

void MemberWatch::on_list_accepted() noexcept {
  if (state_ == State::kOpening) {
    state_ = State::kInitial;
    be_heard();
    sink_->on_accepted(*this);
  }
}

void MemberWatch::on_listed_bytes(std::size_t count) noexcept {
  credit_ += count;
  sink_->on_batch_end(*this);
  if (state_ != State::kStopped && broken_) {
    phase_->stop();
    lose_broken("its list cannot be understood");
  }
}

void MemberWatch::on_phase_end(const StreamKind& kind, std::uint64_t revision) noexcept {
  call_.close();
  if (shared_.is_too_large(member_.id, revision)) {
    lose(kTooLargeVersions, "sequence");
    return;
  }
  drop_phase();
  position_ = std::max(position_, revision);
  start_ = WatchStart{position_, false, false, false};
  initial_done_ = true;
  state_ = State::kLive;
  EventFacts bookmark;
  bookmark.facts.kind = kind.kind;
  bookmark.facts.api_version = kind.api_version;
  bookmark.facts.revision = revision;
  sink_->on_bookmark(*this, bookmark);
  if (state_ == State::kLive) {
    sink_->on_initial_end(*this);
  }
  if (state_ == State::kLive) {
    open();
  }
}

void MemberWatch::on_phase_refused(const http::ResponseHead& head,
                                   const std::string& body) noexcept {
  if (!refuses_own(head) && !may_have_started(head)) {
    tell_refusal(head, body);
  }
}

void MemberWatch::tell_refusal(const http::ResponseHead& head, const std::string& body) {
  const int status = head.status;
  if (status == 403) {
    refusal_ = std::make_unique<Refusal>(Refusal{head, body});
    rest_ = shared_.params.reprobe;
  } else if (status == 429) {
    rest_ = std::min<Duration>(seconds(retry_after_of(head)), kLongestRest);
  }
  sink_->on_refused(*this, head, body);
  if (state_ != State::kStopped) {
    lose("it answers " + std::to_string(status), status == 401 ? "identity" : "status");
  }
}

/// It lacks the resource: asked again now and then.
void MemberWatch::be_absent(const http::ResponseHead& head, const std::string& body) {
  call_.close();
  unshare();
  drop_phase();
  state_ = State::kAbsent;
  initial_done_ = true;
  be_heard();
  start_ = WatchStart{0, true, false, false};
  timer_.start(jittered(shared_.params.reprobe), [this] { open(); });
  if (head.status == 404) {
    sink_->on_refused(*this, head, body);
  }
  if (state_ == State::kAbsent) {
    sink_->on_accepted(*this);
    sink_->on_initial_end(*this);
  }
}

/// It may be on the stack: it goes in the next turn.
void MemberWatch::drop_phase() {
  if (phase_ != nullptr) {
    phase_->stop();
    shared_.loop.post([kept = std::shared_ptr<InitialPhase>(std::move(phase_))] {});
  }
}

void MemberWatch::on_end(Errc cause) noexcept {
  const bool was_open = state_ == State::kInitial || state_ == State::kLive;
  loss_.away = loss_.away || cause != Errc::kOk || answer_.status >= 500;
  if (state_ == State::kOpening && answer_.status != 0) {
    refuse();
  } else if (was_open && cause == Errc::kUnreachable) {
    lose("it answers no ping", "ping");
  } else {
    lose(cause == Errc::kOk ? "it ended the stream" : errc_name(cause), reason_of(cause));
  }
}

bool MemberWatch::refuses_own(const http::ResponseHead& head) {
  if (!route_.reviewed || head.status != 403) {
    return false;
  }
  lose("it refuses the proxy's own credential", "identity");
  return true;
}

bool MemberWatch::may_have_started(const http::ResponseHead& head) {
  if (head.status != 403 || !loss_.away || refusal_ != nullptr) {
    return false;
  }
  const TimePoint now = shared_.loop.now();
  if (loss_.denied_since == TimePoint::max()) {
    loss_.denied_since = now;
    backoff_ = shared_.params.first_backoff;
  }
  if (now - loss_.denied_since >= shared_.params.rights_age) {
    return false;
  }
  lose("it answers 403", "status");
  return true;
}

void MemberWatch::refuse() {
  if (refuses_own(answer_) || may_have_started(answer_)) {
    return;
  }
  switch (judge_answer(answer_, error_body_)) {
    case ShardVerdict::kAbsent:
      if (position_ != 0) {
        stop();
        sink_->on_expired(*this);  // the resource is gone, and the client still has its objects
        return;
      }
      be_absent(answer_, error_body_);
      return;
    case ShardVerdict::kExpired:
      stop();
      sink_->on_expired(*this);
      return;
    case ShardVerdict::kFinal:
      if (start_.initial_events && phase_ != nullptr &&
          (answer_.status == 400 || answer_.status == 422)) {
        list_instead("refused");
        return;
      }
      tell_refusal(answer_, error_body_);
      return;
    default:
      if (answer_.status == 401 && head_.headers.contains("authorization")) {
        tell_refusal(answer_, error_body_);  // the caller's own token
        return;
      }
      lose("it answers " + std::to_string(answer_.status),
           answer_.status == 401 ? "identity" : "status");
  }
}

void MemberWatch::take(std::string_view event) {
  if (state_ == State::kStopped || broken_) {
    return;
  }
  const std::optional<EventFacts> facts = shape_.coding->facts(event);
  if (!facts || (facts->type != EventType::kError && facts->facts.revision == 0)) {
    broken_ = true;
    return;
  }
  if (facts->type != EventType::kError && shared_.is_too_large(member_.id, facts->facts.revision)) {
    too_large_ = broken_ = true;
    return;
  }
  const bool foreign = shape_.kind.known() && facts->type != EventType::kError &&
                       !facts->facts.kind.empty() && facts->facts.kind != shape_.kind.kind;
  if (foreign || facts->type == EventType::kUnknown) {
    broken_ = true;
    return;
  }
  has_spoken_ = true;
  const std::uint64_t revision = facts->facts.revision;
  switch (facts->type) {
    case EventType::kError:
      take_error(facts->object);
      return;
    case EventType::kBookmark:
      if (state_ == State::kLive || facts->facts.initial_end) {
        position_ = std::max(position_, revision);
      }
      sink_->on_bookmark(*this, *facts);
      if (state_ == State::kInitial && facts->facts.initial_end) {
        drop_phase();
        state_ = State::kLive;
        start_.initial_events = false;
        initial_done_ = true;
        sink_->on_initial_end(*this);
        be_shared();
      }
      pass_on(event, 0);
      return;
    default:
      break;
  }
  if (state_ == State::kInitial) {
    if (phase_ != nullptr) {
      phase_->heard(*facts);
    }
    delivered_ = true;
    position_ = position_ == 0 ? kBegun : position_;
  } else {
    if (resumed_ && revision <= position_) {
      if (!is_relayed()) {
        ++shared_.stats.dropped[{member_.name, "replayed"}];
      }
      sink_->on_bookmark(*this, *facts);  // a replay (AGG-703): no more than where the stream is
      return;
    }
    resumed_ = false;
    if (revision < position_) {
      ++shared_.stats.out_of_order[member_.name];
    }
    position_ = std::max(position_, revision);
    pass_on(event, revision);
  }
  std::string room;
  const std::string_view marker = marker_of(shared_.options, member_, facts->facts.cluster, room);
  if (marker.empty()) {
    give(*facts, event);
    return;
  }
  if (!shape_.coding->protobuf) {
    if (const auto quick = marked_quickly(event, *facts, marker)) {
      EventFacts known = *facts;
      known.facts.cluster = marker;
      give(known, *quick);
      return;
    }
  }
  const std::string marked = shape_.coding->marked(event, marker);
  if (const std::optional<EventFacts> of_marked = shape_.coding->facts(marked)) {
    give(*of_marked, marked);
  } else {
    broken_ = true;
  }
}

/// Before anything is changed in it.
void MemberWatch::pass_on(std::string_view event, std::uint64_t revision) {
  if (share_ != nullptr) {
    share_->add(event, shape_.coding->separator, revision);
  }
}

void MemberWatch::unshare() noexcept {
  if (share_ != nullptr) {
    share_->be_lost(loss_.away);
  }
}

void MemberWatch::give(const EventFacts& facts, std::string_view event) {
  if (index_ != nullptr && facts.type == EventType::kDeleted) {
    index_->erase(facts.facts);
  } else if (index_ != nullptr) {
    index_->put(facts.facts, shape_.coding->kept(facts.facts.metadata));
  }
  sink_->on_event(*this, facts, event);
}

void MemberWatch::take_error(std::string_view object) {
  const std::int64_t code = shape_.coding->error_code(object);
  if (code == 410) {
    stop();
    sink_->on_expired(*this);
    return;
  }
  // Servers whose etcd cannot tell how far it is accept what they then refuse.
  refuses_ = state_ == State::kInitial && !delivered_ && phase_ != nullptr && code != 0 &&
             code != 429 && code != 503;
  broken_ = true;  // any other failure: from where it was
}

void MemberWatch::lose_broken(std::string_view cause) {
  if (too_large_) {
    lose(kTooLargeVersions, "sequence");
    return;
  }
  ++shared_.stats.dropped[{member_.name, "malformed"}];
  const TimePoint now = shared_.loop.now();
  if (malformed_[0] != TimePoint() && malformed_[0] + kMalformedWindow > now) {
    backoff_ = shared_.params.last_backoff;
    log_warn("a shard keeps sending what cannot be understood",
             {{"shard", member_.name}, {"cause", cause}, {"path", route_.path}});
  }
  malformed_ = {malformed_[1], now};
  lose(cause, "malformed");
}

void MemberWatch::lose(std::string_view cause, std::string_view reason) {
  if (!reason.empty()) {
    ++shared_.stats.shard_failures[{member_.name, reason}];
  }
  const std::string kept(cause);  // clients change their texts
  call_.close();
  unshare();
  if (phase_ != nullptr) {
    phase_->stop();
  }
  state_ = State::kWaiting;
  if (loss_.since == TimePoint::max()) {
    loss_.since = shared_.loop.now();
  }
  if (!sink_->on_lost(*this, kept) || state_ == State::kStopped) {
    return;
  }
  ++shared_.stats.resyncs[{member_.name, "ended"}];
  if (initial_done_ && position_ > kBegun) {
    start_ = WatchStart{position_, false, false, false};
  }
  timer_.start(jittered(std::max(backoff_, std::exchange(rest_, {}))), [this] { open(); });
  backoff_ = std::min(backoff_ * 2, shared_.params.last_backoff);
}

}  // namespace kintsugi::aggregation
