#include "aggregation/watch/internal/member_watch_fsm.h"

#include <algorithm>
#include <utility>

#include "aggregation/position/cursor.h"

namespace kintsugi::aggregation {
namespace {

using Action = MemberWatchFsm::Action;
using Kind = Action::Kind;

constexpr Duration kLongestRest = seconds(30);      ///< that a busy shard may ask for
constexpr Duration kMalformedWindow = seconds(60);  ///< the third time in it waits longest

/// Label of kintsugi_shard_failures_total.
std::string_view reason_of(Errc cause) noexcept {
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

std::string_view reason_of_status(int status) noexcept {
  return status == 401 ? "identity" : "status";
}

}  // namespace

std::string_view state_name(MemberWatchFsm::State state) noexcept {
  static constexpr std::string_view kNames[] = {"opening", "initial", "live",   "live",
                                                "waiting", "absent",  "stopped"};
  return kNames[static_cast<std::size_t>(state)];
}

MemberWatchFsm::MemberWatchFsm(const MemberWatchParams& params, const WatchStart& start) noexcept
    : params_(params),
      start_(start),
      position_(start.initial_events ? 0 : start.revision),
      backoff_(params.first_backoff) {}

Action MemberWatchFsm::on_open(bool by_list) noexcept {
  if (state_ == State::kStopped) {
    return {};
  }
  state_ = State::kOpening;
  fault_ = Fault::kNone;
  return start_.initial_events && by_list ? list_instead("known") : Action{.kind = Kind::kWatch};
}

Action MemberWatchFsm::on_unreachable(std::string_view cause, TimePoint now) noexcept {
  if (state_ != State::kOpening) {
    return {};
  }
  loss_.away = true;
  return lose(cause, 0, "connect", now);
}

Action MemberWatchFsm::on_sequence_clash(TimePoint now) noexcept {
  return is_asked() ? lose(kTooLargeVersions, 0, "sequence", now) : Action();
}

Action MemberWatchFsm::on_accepted() noexcept {
  if (state_ != State::kOpening) {
    return {};
  }
  if (start_.initial_events) {
    state_ = State::kInitial;
  } else {
    state_ = running();
    present_ = Present::kAll;
  }
  be_heard();
  return {.kind = Kind::kAccepted};
}

Action MemberWatchFsm::on_other_coding(std::string_view cause, TimePoint now) noexcept {
  if (state_ != State::kOpening) {
    return {};
  }
  return std::exchange(narrowed_, true) ? lose(cause, 0, "status", now)
                                        : Action{.kind = Kind::kRest};
}

Action MemberWatchFsm::on_look_again() noexcept {
  return {.kind = state_ == State::kAbsent ? Kind::kRest : Kind::kNone};
}

MemberWatchFsm::Taken MemberWatchFsm::on_event(EventType type, std::uint64_t revision,
                                               bool initial_end) noexcept {
  if (fault_ != Fault::kNone || !is_open()) {
    return Taken::kNothing;
  }
  if (type == EventType::kUnknown) {
    fault_ = Fault::kMalformed;
    return Taken::kMalformed;
  }
  spoken_ = true;
  const bool initial = state_ == State::kInitial;
  if (type == EventType::kBookmark) {
    if (!initial || initial_end) {
      position_ = std::max(position_, revision);
    }
    if (!initial || !initial_end) {
      return Taken::kBookmark;
    }
    start_.initial_events = false;
    present_ = Present::kAll;
    state_ = running();
    return Taken::kInitialEnd;
  }
  if (initial) {
    present_ = std::max(present_, Present::kSome);
    position_ = std::max(position_, kBegun);
    return Taken::kPresent;
  }
  if (state_ == State::kCatchingUp) {
    if (revision <= position_) {
      return Taken::kReplay;
    }
    state_ = State::kLive;
  }
  if (revision < position_) {
    return Taken::kLateChange;
  }
  position_ = revision;
  return Taken::kChange;
}

void MemberWatchFsm::on_malformed() noexcept {
  if (fault_ == Fault::kNone && is_open()) {
    fault_ = Fault::kMalformed;
  }
}

void MemberWatchFsm::on_sequence_event() noexcept {
  if (fault_ == Fault::kNone && is_open()) {
    fault_ = Fault::kSequence;
  }
}

Action MemberWatchFsm::on_error_event(std::int64_t code) noexcept {
  if (fault_ != Fault::kNone || !is_open()) {
    return {};
  }
  spoken_ = true;
  if (code == 410) {
    return expire();
  }
  // Servers whose etcd cannot tell how far it is accept what they then refuse.
  const bool no_initial =
      state_ == State::kInitial && position_ == 0 && code != 0 && code != 429 && code != 503;
  fault_ = no_initial    ? Fault::kNoInitial
           : code == 403 ? Fault::kDenied
                         : Fault::kMalformed;  // both: again from where it was
  return {};
}

Action MemberWatchFsm::on_batch_end(bool cut, TimePoint now) noexcept {
  if (!is_open()) {
    return {};
  }
  if (fault_ == Fault::kNoInitial) {
    return list_instead("refused");
  }
  if (fault_ == Fault::kDenied) {
    return lose("it has ended the watch with 403", 0, {}, now);
  }
  return fault_ != Fault::kNone || cut ? lose_broken("its events cannot be understood", now)
                                       : Action();
}

Action MemberWatchFsm::on_end(Errc cause, int status, ShardVerdict verdict,
                              TimePoint now) noexcept {
  if (!is_asked()) {
    return {};
  }
  loss_.away = loss_.away || cause != Errc::kOk || status >= 500;
  if (state_ == State::kOpening && status != 0) {
    return refuse(status, verdict, now);
  }
  if (is_open() && cause == Errc::kUnreachable) {
    return lose("it answers no ping", 0, "ping", now);
  }
  return lose(cause == Errc::kOk ? "it ended the stream" : errc_name(cause), 0, reason_of(cause),
              now);
}

Action MemberWatchFsm::refuse(int status, ShardVerdict verdict, TimePoint now) noexcept {
  if (const Action excused = excuse(status, now); excused.kind != Kind::kNone) {
    return excused;
  }
  switch (verdict) {
    case ShardVerdict::kAbsent:
      // Else the resource is gone, and the client still has its objects.
      return position_ == 0 ? be_absent() : expire();
    case ShardVerdict::kExpired:
      return expire();
    case ShardVerdict::kFinal:
      return start_.initial_events && (status == 400 || status == 422) ? list_instead("refused")
                                                                       : tell_refusal(status);
    default:
      return status == 401 && params_.bearer ? tell_refusal(status)
                                             : lose({}, status, reason_of_status(status), now);
  }
}

Action MemberWatchFsm::excuse(int status, TimePoint now) noexcept {
  if (status != 403) {
    return {};
  }
  if (params_.reviewed) {
    return lose("it refuses the proxy's own credential", 0, "identity", now);
  }
  if (!loss_.away || loss_.refused) {
    return {};
  }
  if (loss_.denied_since == TimePoint::max()) {
    loss_.denied_since = now;
    backoff_ = params_.first_backoff;
  }
  return now - loss_.denied_since >= params_.rights_age ? Action() : lose({}, 403, "status", now);
}

Action MemberWatchFsm::tell_refusal(int status) noexcept {
  loss_.refused = loss_.refused || status == 403;
  return {.kind = Kind::kRefused, .status = status};
}

Action MemberWatchFsm::on_refusal_told(int status, int retry_after, TimePoint now) noexcept {
  if (!is_asked()) {
    return {};
  }
  if (status == 403) {
    rest_ = params_.reprobe;
  } else if (status == 429) {
    rest_ = std::min<Duration>(seconds(retry_after), kLongestRest);
  }
  return lose({}, status, reason_of_status(status), now);
}

Action MemberWatchFsm::lose(std::string_view cause, int status, std::string_view reason,
                            TimePoint now) noexcept {
  state_ = State::kWaiting;
  fault_ = Fault::kNone;
  loss_.since = std::min(loss_.since, now);
  return {.kind = Kind::kLost, .cause = cause, .status = status, .reason = reason};
}

Action MemberWatchFsm::lose_broken(std::string_view cause, TimePoint now) noexcept {
  if (fault_ == Fault::kSequence) {
    return on_sequence_clash(now);
  }
  const bool often = malformed_[0] != TimePoint() && malformed_[0] + kMalformedWindow > now;
  backoff_ = often ? params_.last_backoff : backoff_;
  malformed_ = {malformed_[1], now};
  Action action = lose(cause, 0, kReasonMalformed, now);
  action.often = often;
  return action;
}

Action MemberWatchFsm::on_loss_told(bool again) noexcept {
  if (!again || state_ != State::kWaiting) {
    return {};
  }
  if (present_ == Present::kAll && position_ > kBegun) {
    resume();
  }
  const Duration wait = std::max(backoff_, std::exchange(rest_, {}));
  backoff_ = std::min(backoff_ * 2, params_.last_backoff);
  return {.kind = Kind::kRest, .wait = wait};
}

Action MemberWatchFsm::list_instead(std::string_view reason) noexcept {
  fault_ = Fault::kNone;
  return {.kind = Kind::kList, .reason = reason};
}

Action MemberWatchFsm::expire() noexcept {
  stop();
  return {.kind = Kind::kExpired};
}

Action MemberWatchFsm::on_list_accepted() noexcept {
  if (state_ != State::kOpening || !brings_present()) {
    return {};
  }
  state_ = State::kInitial;
  be_heard();
  return {.kind = Kind::kAccepted};
}

Action MemberWatchFsm::on_list_batch_end(TimePoint now) noexcept {
  return brings_present() && fault_ != Fault::kNone
             ? lose_broken("its list cannot be understood", now)
             : Action();
}

Action MemberWatchFsm::on_present_told(std::uint64_t revision, bool clash, TimePoint now) noexcept {
  if (state_ != State::kInitial) {
    return {};
  }
  if (clash) {
    return on_sequence_clash(now);
  }
  position_ = std::max(position_, revision);
  resume();
  present_ = Present::kAll;
  state_ = State::kCatchingUp;
  return {.kind = Kind::kInitialEnd};
}

Action MemberWatchFsm::on_lacking() noexcept { return brings_present() ? be_absent() : Action(); }

Action MemberWatchFsm::be_absent() noexcept {
  state_ = State::kAbsent;
  fault_ = Fault::kNone;
  present_ = Present::kAll;
  start_ = WatchStart{0, true, false, false};
  be_heard();
  return {.kind = Kind::kAbsent, .wait = params_.reprobe};
}

Action MemberWatchFsm::on_list_refused(int status, TimePoint now) noexcept {
  if (!brings_present()) {
    return {};
  }
  const Action excused = excuse(status, now);
  return excused.kind != Kind::kNone ? excused : tell_refusal(status);
}

Action MemberWatchFsm::on_list_lost(std::string_view cause, TimePoint now) noexcept {
  return brings_present() ? lose(cause, 0, "initial", now) : Action();
}

void MemberWatchFsm::on_joined() noexcept {
  state_ = state_ == State::kLive ? State::kCatchingUp : state_;
}

Action MemberWatchFsm::on_home_lost(bool away) noexcept {
  if (!is_live()) {
    return {};
  }
  loss_.away = loss_.away || away;
  resume();
  return on_open(false);
}

bool MemberWatchFsm::is_half_told() const noexcept {
  return present_ == Present::kSome || (start_.initial_events && position_ == kBegun);
}

void MemberWatchFsm::be_heard() noexcept {
  backoff_ = params_.first_backoff;
  loss_ = {};
}

}  // namespace kintsugi::aggregation
