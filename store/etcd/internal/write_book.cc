#include "store/etcd/internal/write_book.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kintsugi::store::etcd {
namespace {

using Kind = WriteAction::Kind;

WriteAction make_action(Kind kind, std::uint64_t number = 0, Revision revision = 0) {
  WriteAction action;
  action.kind = kind;
  action.number = number;
  action.revision = revision;
  return action;
}

Error with_retry(Errc code, std::string message) {
  Error error(code, std::move(message));
  error.edit().retry_after_seconds = 1;
  return error;
}

}  // namespace

Error WriteBook::may_have_happened() {
  return with_retry(Errc::kTimeout,
                    "etcd did not say whether the write was done: it may have happened");
}

void WriteBook::set(Write& write, State state) noexcept {
  in_flight_ += is_flying(state) ? 1U : 0U;
  in_flight_ -= is_flying(write.state) ? 1U : 0U;
  write.state = state;
}

void WriteBook::ready(const std::vector<std::uint64_t>& numbers) {
  for (const std::uint64_t number : numbers) {
    set(writes_.find(number)->second, State::kReady);
    ready_.push_back(number);
  }
}

void WriteBook::need_seat(WriteActions& out) {
  if (!std::exchange(seat_asked_, true)) {
    out.push_back(make_action(Kind::kTakeSeat));
  }
}

void WriteBook::send(TimePoint now, WriteActions& out) {
  while (!resting_.empty()) {
    const auto found = writes_.find(resting_.front());
    if (found != writes_.end() && found->second.state == State::kResting) {
      if (found->second.again_at > now) {
        break;
      }
      set(found->second, State::kReady);
      ready_.push_front(found->first);
    }
    resting_.pop_front();
  }
  if (ready_.empty()) {
    return;
  }
  if (seat_ == 0) {
    need_seat(out);
  }
  while (!seat_asked_ && !ready_.empty() && in_flight_ < params_.window) {
    const std::uint64_t number = ready_.front();
    ready_.pop_front();
    const auto found = writes_.find(number);
    if (found == writes_.end() || found->second.state != State::kReady) {
      continue;
    }
    set(found->second, State::kSent);
    found->second.seat = seat_;
    found->second.is_blind = false;
    flying_.push_back(number);
    out.push_back(make_action(Kind::kSend, number));
  }
}

void WriteBook::remove(std::uint64_t number) {
  const auto found = writes_.find(number);
  if (found == writes_.end()) {
    return;
  }
  if (is_flying(found->second.state)) {
    --in_flight_;
  }
  writes_.erase(found);
  std::erase(flying_, number);
  std::vector<std::uint64_t> next;
  order_.remove(number, next);
  ready(next);
}

void WriteBook::answer(std::uint64_t number, Expected<CommitResult> result, WriteActions& out) {
  remove(number);
  WriteAction action = make_action(Kind::kAnswer, number);
  action.result = std::move(result);
  out.push_back(std::move(action));
}

void WriteBook::forget(std::uint64_t number, TimePoint now, WriteActions& out) {
  remove(number);
  send(now, out);
}

void WriteBook::succeed(std::uint64_t number, Revision revision, WriteActions& out) {
  stats_.resolved += writes_.find(number)->second.was_unknown ? 1U : 0U;
  answer(number, CommitResult{revision, false, 0, 0, {}}, out);
}

void WriteBook::add(std::uint64_t number, std::vector<KeyUse> uses, TimePoint now,
                    TimePoint deadline, WriteActions& out) {
  Write& write = writes_[number];
  write.deadline = deadline;
  deadlines_.emplace_back(deadline, number);
  std::vector<std::uint64_t> next;
  order_.add(number, std::move(uses), next);
  ready(next);
  send(now, out);
}

void WriteBook::make_unknown(std::uint64_t number, Write& write, WriteActions& out) {
  stats_.unknown += write.was_unknown ? 0U : 1U;
  write.was_unknown = true;
  if (write.is_blind) {
    need_seat(out);  // before anything else of its keys is sent
    answer(number, fail(may_have_happened()), out);
    return;
  }
  set(write, State::kUnknown);
  if (write.seat != seat_ && !seat_asked_) {
    // The seat has changed since it was sent: it is fenced already.
    set(write, State::kFenced);
    write.revision = seat_;
    out.push_back(make_action(Kind::kAwait, 0, seat_));
    return;
  }
  need_seat(out);
}

void WriteBook::on_verdict(std::uint64_t number, const Verdict& verdict, bool writes, TimePoint now,
                           WriteActions& out) {
  const auto found = writes_.find(number);
  if (found == writes_.end() || found->second.state != State::kSent) {
    return;
  }
  Write& write = found->second;
  switch (verdict.kind) {
    case Verdict::Kind::kDone:
      if (!writes) {
        answer(number, CommitResult{position_, false, 0, 0, {}}, out);
        break;
      }
      set(write, State::kDone);
      write.revision = verdict.revision;
      break;
    case Verdict::Kind::kConflict:
      set(write, State::kConflicted);
      write.revision = verdict.revision;
      write.conflict = {0, true, verdict.op, verdict.actual, {}};
      if (position_ < verdict.revision) {
        out.push_back(make_action(Kind::kAwait, 0, verdict.revision));
      }
      break;
    case Verdict::Kind::kSeatGone:
      if (write.seat == seat_ && !seat_asked_) {
        need_seat(out);  // somebody else has sat down on it
      }
      set(write, State::kReady);
      std::erase(flying_, number);
      ready_.push_front(number);
      break;
    case Verdict::Kind::kDeleteAgain:
      if (++write.deletes >= params_.delete_tries) {
        answer(number, fail(Errc::kOverloaded, "the key changes faster than it can be deleted"),
               out);
        break;
      }
      set(write, State::kReady);
      std::erase(flying_, number);
      ready_.push_front(number);
      break;
    case Verdict::Kind::kMalformed:
      make_unknown(number, write, out);
      break;
  }
  on_published(position_, now, out);
}

void WriteBook::on_failure(std::uint64_t number, const AnswerClass& what, TimePoint now,
                           WriteActions& out) {
  const auto found = writes_.find(number);
  if (found == writes_.end() || found->second.state != State::kSent) {
    return;
  }
  Write& write = found->second;
  if (write.seen != 0) {  // it was done, whatever is said of it
    set(write, State::kDone);
    write.revision = write.seen;
    on_published(position_, now, out);
    return;
  }
  const bool was_lost = write.is_blind && what.error == Errc::kFull;  // if it was done
  if (what.outcome == AnswerClass::Outcome::kUnknown || was_lost) {
    make_unknown(number, write, out);
  } else if (what.error != Errc::kOk) {
    answer(number, fail(with_retry(what.error, "etcd refused the write")), out);
  } else {
    Duration pause = params_.first_pause;
    for (unsigned i = 0; i < write.pauses && pause < params_.last_pause; ++i) {
      pause *= 2;
    }
    ++write.pauses;
    set(write, State::kResting);
    std::erase(flying_, number);
    write.again_at = now + std::min(pause, params_.last_pause);
    resting_.push_back(number);
  }
  on_published(position_, now, out);
}

void WriteBook::on_seen(std::uint64_t number, Revision revision) {
  if (const auto found = writes_.find(number); found != writes_.end()) {
    found->second.seen = revision;
  }
}

void WriteBook::on_published(Revision position, TimePoint now, WriteActions& out) {
  position_ = std::max(position_, position);
  const std::vector<std::uint64_t> flying = flying_;
  for (const std::uint64_t number : flying) {
    const auto found = writes_.find(number);
    if (found == writes_.end()) {
      continue;
    }
    Write& write = found->second;
    if (write.seen != 0 && write.seen <= position_) {
      succeed(number, write.seen, out);
    } else if (write.state == State::kDone && write.revision <= position_) {
      succeed(number, write.revision, out);
    } else if (write.state == State::kConflicted && write.revision <= position_) {
      const CommitResult conflict = write.conflict;
      answer(number, conflict, out);
    } else if (write.state == State::kFenced && write.revision <= position_) {
      ++stats_.resolved;
      write.was_unknown = false;
      set(write, State::kReady);
      std::erase(flying_, number);
      ready_.push_front(number);
    }
  }
  send(now, out);
}

void WriteBook::on_seat(Revision revision, TimePoint now, WriteActions& out) {
  seat_ = revision;
  seat_asked_ = false;
  for (auto& [number, write] : writes_) {
    if (write.state == State::kUnknown) {
      set(write, State::kFenced);
      write.revision = revision;
    }
  }
  if (position_ < revision) {
    out.push_back(make_action(Kind::kAwait, 0, revision));
  }
  on_published(position_, now, out);
}

void WriteBook::on_resync(TimePoint now, WriteActions& out) {
  std::vector<std::uint64_t> lost;
  for (auto& [number, write] : writes_) {
    if (write.state == State::kUnknown || write.state == State::kFenced) {
      lost.push_back(number);
    } else if (write.state == State::kSent) {
      write.is_blind = true;
    }
  }
  for (const std::uint64_t number : lost) {
    answer(number, fail(may_have_happened()), out);
  }
  send(now, out);
}

void WriteBook::expire(std::uint64_t number, const Write& write, WriteActions& out) {
  switch (write.state) {
    case State::kDone: {
      ++stats_.durable_unseen;
      const Revision revision = write.revision;
      succeed(number, revision, out);
      break;
    }
    case State::kConflicted: {
      const CommitResult conflict = write.conflict;
      answer(number, conflict, out);
      break;
    }
    case State::kSent:
    case State::kUnknown:
    case State::kFenced:
      need_seat(out);  // before anything else of its keys is sent
      answer(number, fail(may_have_happened()), out);
      break;
    default:
      answer(number, fail(with_retry(Errc::kUnavailable, "etcd cannot be reached")), out);
      break;
  }
}

void WriteBook::on_time(TimePoint now, WriteActions& out) {
  while (!deadlines_.empty()) {
    const auto [deadline, number] = deadlines_.front();
    const auto found = writes_.find(number);
    if (found != writes_.end()) {
      if (deadline > now) {
        break;
      }
      expire(number, found->second, out);
    }
    deadlines_.pop_front();
  }
  send(now, out);
}

std::optional<TimePoint> WriteBook::next_time() const {
  std::optional<TimePoint> next;
  if (!deadlines_.empty()) {
    next = deadlines_.front().first;
  }
  for (const std::uint64_t number : resting_) {
    const auto found = writes_.find(number);
    if (found != writes_.end() && found->second.state == State::kResting) {
      next = next ? std::min(*next, found->second.again_at) : found->second.again_at;
      break;
    }
  }
  return next;
}

void WriteBook::stop(WriteActions& out) {
  while (!writes_.empty()) {
    answer(writes_.begin()->first, fail(Errc::kClosed), out);
  }
  ready_.clear();
}

}  // namespace kintsugi::store::etcd
