#include <algorithm>
#include <utility>

#include "aggregation/asking/jitter.h"
#include "aggregation/asking/shard_answer.h"
#include "aggregation/list/list_plan.h"
#include "aggregation/watch/internal/merged_watch_run.h"
#include "base/memory.h"
#include "base/prefetch.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kWideRoute = 16;     ///< slots; more have rarer bookmarks
constexpr std::int64_t kStallSpread = 30;  ///< part of max_stall

}  // namespace

void MergedWatch::on_drained() noexcept {
  if (evicted_) {
    end_now();
    return;
  }
  for (const Part& part : parts_) {
    if (part.own != nullptr) {
      part.own->give_credit();
    }
  }
  read_log();
  end_initial_phase();
}

void MergedWatch::on_event(MemberWatch& from, const EventFacts& facts,
                           std::string_view event) noexcept {
  Part& part = *part_of(from.member().slot);
  part.component = from.position();
  last_progress_ = shared_.loop.now();
  group_->learn(facts.facts, facts.columns);
  is_stale_ = true;
  if (!takes(from, facts)) {
    return;
  }
  if (facts.columns.empty() || !columns_sent_) {
    own_ +=
        columns_needed(facts.columns) ? with_columns(event, group_->columns()) : std::string(event);
  } else {
    own_ += without_columns(event, facts.columns);
  }
  own_ += group_->coding().separator;
  columns_sent_ = true;
  ++group_->counts().events;
  group_->ring().deliver_to(facts.facts.revision, resumable(), shared_.loop.now());
}

void MergedWatch::on_bookmark(MemberWatch& from, const EventFacts& facts) noexcept {
  part_of(from.member().slot)->component = from.position();
  group_->learn(facts.facts, facts.columns);
  is_stale_ = true;
}

void MergedWatch::on_initial_end(MemberWatch& from) noexcept {
  Part& part = *part_of(from.member().slot);
  part.component = from.position();
  send_own();
  try_attach(part);
  moved();
  end_initial_phase();
}

void MergedWatch::on_batch_end(MemberWatch& from) noexcept {
  send_own();
  if (down_.unsent_bytes() < shared_.params.private_high) {
    from.give_credit();
  }
  Part* part = part_of(from.member().slot);
  if (part != nullptr && part->own.get() == &from) {
    try_attach(*part);
  }
  read_log();
  if (is_stale_) {
    moved();
  }
}

void MergedWatch::arm_idle() {
  idle_.start(about(shared_.params.bookmark_idle), [this] {
    send_bookmark();
    arm_idle();
  });
}

TimePoint MergedWatch::on_stall(TimePoint now) noexcept {
  if (!strict() || !headed_ || done_ || evicted_) {
    return TimePoint::max();
  }
  TimePoint first = TimePoint::max();
  for (const Part& part : parts_) {
    first = std::min(first, silent_since(part));
  }
  if (first == TimePoint::max()) {
    return first;
  }
  const Duration most = shared_.params.max_stall;
  if (now - first < most) {
    return first + most;
  }
  // Not all clients of the group at once.
  idle_.start(Duration(random_between(0, most.count() / kStallSpread)), [this] {
    const bool still = std::any_of(parts_.begin(), parts_.end(), [this](const Part& part) {
      return silent_since(part) != TimePoint::max();
    });
    if (still) {
      ++shared_.stats.evicted_stall;
      end_now();
    } else {
      arm_idle();
    }
  });
  return now + most;
}

void MergedWatch::end_initial_phase() {
  if (initial_over_) {
    return;
  }
  const bool all = std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) {
    const MemberWatch* stream = stream_of(part);
    return stream == nullptr || stream->initial_done() ||
           ((gave_up_ || !strict()) && !stream->half_begun() &&
            stream->state() == MemberWatch::State::kWaiting);
  });
  if (!all || done_) {
    return;
  }
  if (end_bookmark_) {
    if (!group_->kind().known()) {  // nothing but absence was heard of any shard
      group_->find_kind();
      return;
    }
    begin();
    read_log();
    if (done_ || !has_all_present()) {
      return;
    }
  }
  initial_.cancel();
  ticket_.reset();
  initial_over_ = true;
  if (std::exchange(end_bookmark_, false)) {
    emit_bookmark(true);
    send_own();
  }
}

bool MergedWatch::has_all_present() const {
  return std::none_of(parts_.begin(), parts_.end(), [this](const Part& part) {
    const MemberWatch* stream = group_->stream(part.slot);
    return part.attached && stream != nullptr && part.component <= kBegun &&
           stream->position() > kBegun;
  });
}

void MergedWatch::give_up() {
  const bool held = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
    return part.own != nullptr && part.own->is_held_back();
  });
  const Duration quiet = shared_.loop.now() - last_progress_;
  if (held || quiet < shared_.params.give_up) {
    initial_.start(held ? shared_.params.give_up : shared_.params.give_up - quiet,
                   [this] { give_up(); });
    return;
  }
  std::vector<std::pair<std::string, std::string>> late;
  for (const Part& part : parts_) {
    if (const MemberWatch* stream = stream_of(part); stream != nullptr && !stream->initial_done()) {
      late.emplace_back(name_of(part), "its present objects did not come in time");
    }
  }
  if (late.empty()) {
    late.emplace_back("any", "what its objects are is not known");
  }
  if (strict() || !headed_ || !group_->kind().known()) {
    begin();
    fail_with(shards_unavailable(late, true), "initial");
    return;
  }
  gave_up_ = true;
  end_initial_phase();
}

void MergedWatch::read_log() {
  const GroupLog& log = group_->log();
  if (!headed_ || done_ || evicted_ || parts_.empty()) {
    return;
  }
  if (next_ < log.begin()) {
    evict(shared_.stats.evicted_slow);
    return;
  }
  bool sent = false;
  while (next_ < log.end() && down_.unsent_bytes() < shared_.params.private_high) {
    const GroupLog::Index index = next_++;
    const GroupLog::Entry& entry = log.at(index);
    Part* part = part_of(entry.slot);
    if (part != nullptr && part->leaves_at != 0 && index >= part->leaves_at) {  // its shard is back
      parts_.erase(parts_.begin() + (part - parts_.data()));
      part = part_of(entry.slot);
    }
    if (part != nullptr && part->attached && (log.is_current(index) || part->leaves_at != 0)) {
      deliver(*part, index);
      sent = true;
    }
  }
  if (next_ < log.end()) {
    const bool over = log.bytes_from(next_) > shared_.params.queue_high ||
                      log.end() - next_ > shared_.params.queue_high_events;
    if (over && caught_up_) {
      evict(shared_.stats.evicted_slow);
    }
  } else {
    caught_up_ = true;
    for (Part& part : parts_) {
      if (const MemberWatch* stream = group_->stream(part.slot);
          part.attached && stream != nullptr && stream->position() > part.component) {
        part.component = stream->position();
        sent = true;
      }
    }
  }
  std::erase_if(
      parts_, [this](const Part& part) { return part.leaves_at != 0 && next_ >= part.leaves_at; });
  if (sent) {
    moved();
  }
}

void MergedWatch::deliver(Part& part, GroupLog::Index index) {
  const GroupLog::Entry& entry = group_->log().at(index);
  if (part.skips) {
    const bool has_same = !entry.repeats || index < part.repeats_from;
    if (part.component > kBegun &&
        (entry.position < part.component || (entry.position == part.component && has_same))) {
      return;
    }
    part.skips = false;
  }
  part.component = std::max(part.component, entry.position);
  ++group_->counts().events;
  const std::string_view event = entry.bytes.view();
  const std::string_view columns = event.substr(entry.columns_at, entry.columns_size);
  if (columns_needed(columns)) {
    down_.send_data(with_columns(event, group_->columns()), false);
  } else if (columns_sent_ && !columns.empty()) {
    down_.send_data(without_columns(event, columns), false);
  } else {
    down_.send_data(entry.bytes, false);
  }
  columns_sent_ = true;
  if (!reads_all_from_log() || doomed_) {
    group_->ring().deliver_to(entry.revision, resumable(), shared_.loop.now());
  }
}

GroupReader::Queued MergedWatch::queued() const noexcept {
  if (done_ || evicted_) {
    return {};
  }
  const GroupLog& log = group_->log();
  return {log.bytes_from(std::max(next_, log.begin())), down_.unsent_bytes() + own_.size()};
}

bool MergedWatch::end_for_memory() noexcept {
  if (done_ || evicted_ || !headed_) {
    return false;
  }
  evict(shared_.stats.evicted_memory);
  return true;
}

void MergedWatch::evict(std::uint64_t& counter) {
  evicted_ = true;
  ++counter;
  await_none();
  idle_.cancel();
  end_.start(shared_.params.slow_grace, [this] {
    stop();
    down_.reset(Errc::kOk);
  });
}

void MergedWatch::moved() {
  is_stale_ = true;
  if (!bookmarks_ || end_bookmark_ || done_ || !headed_ || evicted_) {
    return;
  }
  const Duration gap =
      parts_.size() > kWideRoute ? shared_.params.bookmark_gap_wide : shared_.params.bookmark_gap;
  const TimePoint now = shared_.loop.now();
  if (last_bookmark_ + gap <= now) {
    send_bookmark();
  } else {
    // While events go on, it leaves with one of them: none is sent for its own sake.
    await_bookmark(now + gap);
  }
}

void MergedWatch::await_bookmark(TimePoint due) {
  if (bookmark_due_ == TimePoint::max()) {
    bookmark_due_ = due;
    group_->expect(due);
  }
}

void MergedWatch::await_none() noexcept {
  if (bookmark_due_ != TimePoint::max()) {
    bookmark_due_ = TimePoint::max();
    group_->expect_less();
  }
}

TimePoint MergedWatch::on_due(TimePoint now) noexcept {
  if (bookmark_due_ <= now) {
    await_none();
    if (is_stale_) {
      send_bookmark();
    }
  }
  return bookmark_due_;
}

void MergedWatch::approach() const noexcept {
  fetch_ahead(parts_.data(), 2);
  fetch_ahead(&down_, 2);
}

void MergedWatch::send_bookmark() {
  const bool leaving = std::any_of(parts_.begin(), parts_.end(),
                                   [](const Part& part) { return part.leaves_at != 0; });
  const bool quiet = bookmark_generation_ == quiet_generation_ && shared_.loop.now() < quiet_until_;
  if (quiet) {
    await_bookmark(quiet_until_);
    return;
  }
  if (group_->owes()) {
    await_bookmark(shared_.loop.now() + shared_.params.bookmark_gap);
    return;
  }
  if (bookmarks_ && !end_bookmark_ && group_->kind().known() && headed_ && !done_ && !leaving &&
      !doomed_) {
    emit_bookmark(false);
    send_own();
  }
}

Components MergedWatch::resumable() const {
  return doomed_ ? Components(group_->codec().history().current().uids.size(), kBegun)
                 : components();
}

Components MergedWatch::components() const {
  Components out(group_->codec().history().current().uids.size());
  for (const Part& part : parts_) {
    out[part.slot] = part.component;
  }
  return out;
}

void MergedWatch::emit_bookmark(bool initial_end) {
  ++shared_.stats.bookmarks;
  last_bookmark_ = shared_.loop.now();
  is_stale_ = false;
  await_none();
  const bool first_of_table = group_->kind().is_table() && !columns_sent_;
  const bool level = std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) {
    const MemberWatch* stream = group_->stream(part.slot);
    return part.attached && stream != nullptr && stream->position() == part.component;
  });
  if (!initial_end && !first_of_table && next_ == group_->log().end() && level) {
    send_own();
    down_.send_data(group_->bookmark(), false);
    return;
  }
  own_ +=
      group_->coding().bookmark(group_->kind(), group_->codec().format(components()), initial_end,
                                first_of_table ? group_->columns() : std::string());
  columns_sent_ = columns_sent_ || (first_of_table && !group_->columns().empty());
}

void MergedWatch::send_own() {
  if (headed_ && !own_.empty() && !done_) {
    down_.send_data(own_, false);
    give_back(own_);
  }
}

}  // namespace kintsugi::aggregation
