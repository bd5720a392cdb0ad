#include "aggregation/watch/internal/merged_watch_fsm.h"

#include <algorithm>
#include <utility>

#include "aggregation/position/cursor.h"

namespace kintsugi::aggregation {
namespace {

using Action = MergedWatchFsm::Action;
using Kind = Action::Kind;

constexpr std::size_t kWideRoute = 16;             ///< slots; more have rarer bookmarks
constexpr Duration kLastDial = milliseconds(500);  ///< for a connection after headers_wait
constexpr Duration kTableComes = seconds(5);       ///< a table of slots after a change of members

}  // namespace

std::string_view state_name(MergedWatchFsm::State state) noexcept {
  static constexpr std::string_view kNames[] = {"starting", "asking",  "initial",
                                                "live",     "cut off", "ended"};
  return kNames[static_cast<std::size_t>(state)];
}

void MergedWatchFsm::on_start(const Start& start) noexcept {
  if (state_ != State::kStarting) {
    return;
  }
  state_ = State::kAsking;
  from_state_ = start.from_state;
  marks_end_ = start.marks_end;
  by_sequence_ = start.by_sequence;
  generation_ = start.generation;
}

Action MergedWatchFsm::on_answers(const Answers& answers, TimePoint now) noexcept {
  if (!is_unanswered()) {
    return {};
  }
  const std::size_t silent = partial_ ? Answers::kNone : answers.silent;
  const bool refusal_counts = !partial_ || answers.all_refuse;
  if (refusal_counts && answers.refused != Answers::kNone && answers.refused <= silent) {
    return {.kind = Kind::kPassOn, .part = answers.refused};
  }
  if (silent != Answers::kNone) {
    return {.kind = Kind::kRefuse, .why = Why::kShardAway, .part = silent};
  }
  if (busy_ > 0) {
    return {.kind = Kind::kRefuse, .why = Why::kBusy};
  }
  if (answers.all_away) {  // an empty stream would be a lie
    return {.kind = Kind::kRefuse, .why = Why::kAllAway};
  }
  state_ = present_ == Present::kTold ? State::kLive : State::kInitial;
  begun_at_ = now;
  return {.kind = Kind::kSendHead};
}

Action MergedWatchFsm::on_headers_late(bool dials) noexcept {
  if (!is_unanswered()) {
    return {};
  }
  if (dials && !std::exchange(dialed_, true)) {  // it is about to fail rather than silent
    return {.kind = Kind::kWait, .wait = kLastDial};
  }
  return {.kind = Kind::kAnswer};
}

Action MergedWatchFsm::on_shard_lost() noexcept {
  if (state_ != State::kAsking) {
    return {};
  }
  return partial_ || busy_ > 0 ? Action{.kind = Kind::kLook}
                               : Action{.kind = Kind::kRefuse, .why = Why::kShardAway};
}

Action MergedWatchFsm::on_half_lost() const noexcept {
  if (!is_following()) {
    return {};
  }
  const bool can_repeat = from_state_ && present_ != Present::kTold;
  return {.kind = Kind::kFail,
          .why = can_repeat ? Why::kPresentLost : Why::kExpired,
          .reason = "initial"};
}

Action MergedWatchFsm::on_refused(int status, bool all_refuse, int retry_after) noexcept {
  if (!is_following()) {
    return {};
  }
  const bool is_left_out = status == 404 || (status == 403 && partial_);
  if (state_ == State::kAsking) {
    if (status == 429) {  // others may be busier
      busy_ = std::max(busy_, retry_after);
      return {};
    }
    return is_left_out && !all_refuse ? Action() : Action{.kind = Kind::kPassOn};
  }
  if (is_left_out || status == 429) {
    return {};
  }
  if (status == 401) {  // SE-049: who asks again is told so at once
    return {.kind = Kind::kWantEnd};
  }
  return {.kind = Kind::kFail,
          .why = status == 504 ? Why::kFuture : Why::kShardStatus,
          .reason = "refused"};
}

Action MergedWatchFsm::on_silence(TimePoint since, TimePoint now) const noexcept {
  if (partial_ || !tells() || since == TimePoint::max()) {
    return {};
  }
  if (now - since < params_.max_stall) {
    return {.kind = Kind::kLookAgain, .at = since + params_.max_stall};
  }
  return {.kind = Kind::kEndSilent, .at = now + params_.max_stall};
}

Action MergedWatchFsm::on_present_told() noexcept {
  if (!is_following() || present_ == Present::kTold) {
    return {};
  }
  // Who has lost events already would take the end for a place to come back to.
  if (marks_end_ && (is_unanswered() || doomed_)) {
    return {};
  }
  present_ = Present::kTold;
  state_ = state_ == State::kInitial ? State::kLive : state_;
  return {.kind = Kind::kInitialEnd, .marks = std::exchange(marks_end_, false)};
}

Action MergedWatchFsm::on_present_late(bool held_back, bool kind_known, TimePoint now) noexcept {
  if (!is_following() || present_ == Present::kTold) {
    return {};
  }
  const Duration quiet = now - last_progress_;
  if (held_back || quiet < params_.give_up) {
    return {.kind = Kind::kWait, .wait = held_back ? params_.give_up : params_.give_up - quiet};
  }
  if (!partial_ || is_unanswered() || !kind_known) {
    return {.kind = Kind::kFail, .why = Why::kPresentLate, .reason = "initial"};
  }
  present_ = Present::kGivenUp;
  return {.kind = Kind::kGiveUp};
}

bool MergedWatchFsm::has_long_cursors(const Moved& what) const noexcept {
  return !by_sequence_ && what.cursor_slots > kMaxFullSlots;
}

Duration MergedWatchFsm::gap_of(const Moved& what) const noexcept {
  if (has_long_cursors(what)) {  // no more bytes a second than with kMaxFullSlots
    const std::size_t times = (what.cursor_slots + kMaxFullSlots - 1) / kMaxFullSlots;
    return params_.bookmark_gap_wide * static_cast<std::int64_t>(times);
  }
  return what.slots > kWideRoute ? params_.bookmark_gap_wide : params_.bookmark_gap;
}

Action MergedWatchFsm::on_moved(const Moved& what, TimePoint now) noexcept {
  stale_ = true;
  if (!bookmarks_ || marks_end_ || !tells() || (!what.by_event && has_long_cursors(what))) {
    return {};
  }
  const Duration gap = gap_of(what);
  if (last_bookmark_ + gap <= now) {
    return {.kind = Kind::kWantBookmark};
  }
  // While events go on, it leaves with one of them: none is sent for its own sake.
  return await_bookmark(now + gap);
}

Action MergedWatchFsm::on_bookmark_wanted(bool owes, bool can_tell, TimePoint now) noexcept {
  if (!may_mark()) {
    return {};
  }
  if (generation_ == quiet_generation_ && now < quiet_until_) {
    return await_bookmark(quiet_until_);
  }
  if (owes) {
    return await_bookmark(now + params_.bookmark_gap);
  }
  return {.kind = can_tell ? Kind::kBookmark : Kind::kNone};
}

Action MergedWatchFsm::on_bookmark_due(TimePoint now) noexcept {
  if (due_ > now) {
    return {};
  }
  due_ = TimePoint::max();
  return {.kind = stale_ ? Kind::kWantBookmark : Kind::kNone};
}

void MergedWatchFsm::on_bookmark_sent(TimePoint now) noexcept {
  last_bookmark_ = now;
  stale_ = false;
}

Action MergedWatchFsm::await_bookmark(TimePoint due) noexcept {
  if (due_ != TimePoint::max()) {
    return {};
  }
  due_ = due;
  return {.kind = Kind::kAwaitBookmark, .at = due};
}

bool MergedWatchFsm::forget_bookmark() noexcept {
  return std::exchange(due_, TimePoint::max()) != TimePoint::max();
}

std::uint32_t MergedWatchFsm::on_slots(std::uint32_t generation) noexcept {
  return std::exchange(generation_, generation);
}

void MergedWatchFsm::on_departure(std::uint32_t before, TimePoint now) noexcept {
  // Its component becomes zero: never within one generation (AGG-504). The table that says so is on
  // its way, unless a Partition was edited.
  quiet_generation_ = before;
  quiet_until_ = now + kTableComes;
}

std::string_view MergedWatchFsm::on_followed(bool by_sequence, bool lost_objects,
                                             bool rolled_back) const noexcept {
  if (!is_following() || doomed_) {
    return {};
  }
  if (lost_objects) {  // what the client has of that shard it can only lose by listing again
    return "removed";
  }
  if (by_sequence != by_sequence_) {  // no cursor is newer than the last (AGG-504)
    return "sequence";
  }
  return rolled_back ? "rollback" : std::string_view();
}

Action MergedWatchFsm::on_unreviewed() const noexcept {
  if (state_ == State::kEnded) {
    return {};
  }
  return is_unanswered() ? Action{.kind = Kind::kRefuse, .why = Why::kUnreviewed}
                         : Action{.kind = Kind::kWantEnd};
}

Action MergedWatchFsm::on_expired(std::string_view reason, Duration delay) noexcept {
  if (state_ == State::kEnded) {
    return {};
  }
  if (delay <= Duration{}) {
    return {.kind = Kind::kFail, .why = Why::kExpired, .reason = reason};
  }
  if (std::exchange(doomed_, true)) {  // its turn comes before that
    return {};
  }
  return {.kind = Kind::kDoom, .reason = reason, .wait = delay};
}

Action MergedWatchFsm::on_doom(std::string_view reason) const noexcept {
  return state_ == State::kEnded || !doomed_
             ? Action()
             : Action{.kind = Kind::kFail, .why = Why::kExpired, .reason = reason};
}

Action MergedWatchFsm::on_too_much() noexcept {
  if (!tells()) {
    return {};
  }
  state_ = State::kCutOff;
  return {.kind = Kind::kCut, .wait = params_.slow_grace};
}

Action MergedWatchFsm::on_grace_over() const noexcept {
  return {.kind = state_ == State::kCutOff ? Kind::kReset : Kind::kNone};
}

Action MergedWatchFsm::on_drained() const noexcept {
  return {.kind = state_ == State::kCutOff ? Kind::kWantEnd : Kind::kNone};
}

Action MergedWatchFsm::on_end_wanted(bool lacks, TimePoint now) const noexcept {
  if (!has_head()) {
    return {};
  }
  const TimePoint earliest = begun_at_ + params_.min_life;  // AGG-1303
  if (now < earliest) {
    return {.kind = Kind::kWait, .wait = earliest - now};
  }
  return lacks ? Action{.kind = Kind::kFail, .why = Why::kExpired, .reason = "behind"}
               : Action{.kind = Kind::kEnd};
}

Action MergedWatchFsm::on_error() const noexcept {
  if (state_ == State::kEnded) {
    return {};
  }
  return {.kind = is_unanswered() ? Kind::kRefuse : Kind::kTellError};
}

bool MergedWatchFsm::on_stop() noexcept {
  return std::exchange(state_, State::kEnded) != State::kEnded;
}

}  // namespace kintsugi::aggregation
