#include <algorithm>
#include <utility>

#include "aggregation/asking/jitter.h"
#include "aggregation/asking/shard_answer.h"
#include "aggregation/list/list_plan.h"
#include "aggregation/watch/internal/merged_watch_run.h"
#include "base/log.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kLastWarning = seconds(2);  ///< before the planned end: a bookmark
constexpr std::int64_t kMinLifetime = 1'800;   ///< [s] of a watch without timeoutSeconds
constexpr std::int64_t kMaxLifetime = 3'600;

Duration lifetime_of(std::int64_t wished) {
  return seconds(wished > 0 ? std::min<std::int64_t>(wished, 86'400)
                            : random_between(kMinLifetime, kMaxLifetime));
}

constexpr std::string_view kForbids = "it answers 403";
using Causes = std::vector<std::pair<std::string, std::string>>;

/// What a running stream is told of a shard that does not let it go on.
Error refusal_of(const std::string& shard, const http::ResponseHead& head,
                 const std::string& body) {
  static constexpr std::pair<int, Errc> kCodes[] = {
      {400, Errc::kBadRequest},    {401, Errc::kUnauthorized},
      {403, Errc::kForbidden},     {405, Errc::kMethodNotAllowed},
      {406, Errc::kNotAcceptable}, {415, Errc::kUnsupportedMediaType},
      {422, Errc::kInvalid}};
  const auto* const code = std::find_if(std::begin(kCodes), std::end(kCodes),
                                        [&head](auto& one) { return one.first == head.status; });
  std::string text = "shard " + shard + " answers " + std::to_string(head.status);
  if (const krm::Json status = status_of(head, body); !status.text({"message"}).empty()) {
    text.append(": ").append(status.text({"message"}));
  }
  Error error(code == std::end(kCodes) ? Errc::kInternal : code->second, text);
  error.edit().http_status = head.status;
  return error;
}

}  // namespace

void MergedWatch::on_slot_lost(std::size_t slot, std::string_view cause) noexcept {
  const Part* part = part_of(slot);
  if (!headed_ && part != nullptr && part->attached) {
    start_without(name_of(*part), cause);
  }
}

void MergedWatch::start_without(const std::string& shard, std::string_view cause) {
  if (strict() && opening_->busy == 0) {
    refuse_without(shard, cause);
  } else {
    settle();
  }
}

void MergedWatch::on_slot_refused(std::size_t slot, const http::ResponseHead& head,
                                  const std::string& body) noexcept {
  if (const Part* part = part_of(slot); part != nullptr && part->attached) {
    refused_by(name_of(*part), head, body);
  }
}

void MergedWatch::on_slot_expired(std::size_t slot, std::string_view reason,
                                  Duration delay) noexcept {
  if (Part* part = part_of(slot); part != nullptr && part->attached) {
    part->attached = false;  // its stream has no successor for this client
    expire(reason, delay);
  }
}

void MergedWatch::on_slot_compared(std::size_t slot, std::uint64_t position) noexcept {
  if (const Part* part = part_of(slot); part != nullptr && part->component > position) {
    on_slot_expired(slot, "ahead", watches_.expiry_turn(0, 1));
  }
}

void MergedWatch::on_cluster_leaves(std::size_t slot) noexcept {
  const Part* part = part_of(slot);
  const bool reads = part != nullptr && part->attached;
  const bool behind = !headed_ || next_ < group_->log().end();
  if (reads && behind && !reads_all_from_log()) {
    expire_moved();
  }
}

void MergedWatch::on_slot_supplied(std::size_t slot) noexcept {
  const bool behind = std::any_of(parts_.begin(), parts_.end(), [slot](const Part& part) {
    return !part.attached && (part.slot == slot || part.component != 0);
  });
  if (behind) {
    expire_moved();
  }
}

bool MergedWatch::takes(const MemberWatch& from, const EventFacts& event) {
  using Kind = WatchGroup::OwnEvent;
  const Kind kind = group_->judge(from.member(), event);
  // What it has of the owner may be newer than what the group knows.
  const bool ahead =
      kind == Kind::kGone && std::any_of(parts_.begin(), parts_.end(), [&](auto& one) {
        return !one.attached && one.own.get() != &from;
      });
  if (kind == Kind::kUnsure || ahead) {
    expire_moved();
    return false;
  }
  return kind != Kind::kLeaveOut;
}

void MergedWatch::expire_moved() {
  if (!done_ && !doomed_) {
    expire("moved", watches_.expiry_turn(0, 1));
  }
}

void MergedWatch::on_accepted(MemberWatch& from) noexcept {
  if (from.state() == MemberWatch::State::kAbsent) {
    try_attach(*part_of(from.member().slot));
  }
  settle();
}

bool MergedWatch::on_lost(MemberWatch& from, std::string_view cause) noexcept {
  if (from.half_begun()) {  // objects that it told of may be gone by now (AGG-806)
    begin();
    const bool can_repeat = from_state_ && !initial_over_;
    fail_with(can_repeat ? shards_unavailable({{from.member().name, std::string(cause)}}, true)
                         : version_expired(),
              "initial");
    return false;
  }
  group_->expect_stall();
  if (!headed_) {
    start_without(from.member().name, cause);
  }
  return !done_;
}

void MergedWatch::on_too_large(MemberWatch& from, const std::string& key) noexcept {
  begin();
  fail_with(event_too_large(from, key, shared_.params.max_event), "large");
}

bool MergedWatch::all_refuse() const noexcept {
  return std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) {
    const MemberWatch* stream = stream_of(part);
    return stream != nullptr &&
           (stream->state() == MemberWatch::State::kAbsent || stream->refusal() != nullptr);
  });
}

void MergedWatch::refused_by(const std::string& shard, const http::ResponseHead& head,
                             const std::string& body) {
  if (head.status == 404 || (head.status == 403 && !strict())) {  // it is left out
    if (!headed_ && all_refuse()) {
      pass_on(head, body);
    }
  } else if (head.status == 429 && !headed_) {  // others may be busier
    opening_->busy = std::max(opening_->busy, retry_after_of(head));
  } else if (!headed_) {
    pass_on(head, body);
  } else if (head.status == 504) {  // the shard has not reached what was asked for
    Error error(Errc::kFutureRevision, std::string(status_of(head, body).text({"message"})));
    error.edit().retry_after_seconds = 1;
    fail_with(error, "refused");
  } else if (head.status == 401) {  // SE-049: who asks again is told so at once
    end_now();
  } else if (head.status != 429) {
    fail_with(refusal_of(shard, head, body), "refused");
  }
}

void MergedWatch::settle() {
  const bool busy = !headed_ && opening_->busy > 0;
  const bool open = std::any_of(parts_.begin(), parts_.end(), [this, busy](const Part& part) {
    const MemberWatch* stream = stream_of(part);
    if (stream != nullptr && (stream->refusal() != nullptr ||
                              (busy && stream->state() == MemberWatch::State::kWaiting))) {
      return false;
    }
    return part.own != nullptr ? part.own->state() == MemberWatch::State::kOpening
                               : !group_->accepted(part.slot);
  });
  if (!open && !done_) {
    begin();
    end_initial_phase();
  }
}

bool MergedWatch::refuses_to_begin() {
  const TimePoint late = shared_.loop.now() - shared_.params.headers_wait;
  Causes away;
  for (const Part& part : parts_) {
    const MemberWatch* stream = stream_of(part);
    const MemberWatch::Refusal* refusal = stream == nullptr ? nullptr : stream->refusal();
    if (refusal != nullptr && (strict() || all_refuse())) {
      pass_on(refusal->head, refusal->body);
      return true;
    }
    if (strict() && silent_since(part) < late) {
      refuse_without(name_of(part), "it is away");
      return true;
    }
    if (refusal != nullptr || state_of(part) == MemberWatch::State::kWaiting) {
      away.emplace_back(name_of(part), refusal != nullptr ? kForbids : "it is away");
    }
  }
  if (opening_->busy > 0) {
    refuse(shards_busy(opening_->busy));
    return true;
  }
  if (!parts_.empty() && away.size() == parts_.size()) {  // an empty stream would be a lie
    ++shared_.stats.failed;
    refuse(shards_unavailable(away, true));
    return true;
  }
  return false;
}

void MergedWatch::begin() {
  if (headed_ || done_) {
    return;
  }
  if (refuses_to_begin()) {
    return;
  }
  headed_ = true;
  opening_.reset();
  begun_at_ = shared_.loop.now();
  http::HeaderList headers;
  headers.add("content-type", group_->coding().content_type);
  headers.add("cache-control", "no-cache, private");
  headers.add("audit-id", audit_id_);
  Warnings warnings;
  if (permit_ != nullptr) {
    for (const Permit::LeftOut& one : permit_->left_out()) {
      warnings.add_missing(one.member.name, one.cause);
    }
  }
  for (const Part& part : parts_) {
    const MemberWatch* stream = stream_of(part);
    if (stream == nullptr) {
      continue;
    }
    if (stream->refusal() != nullptr) {
      warnings.add_missing(name_of(part), kForbids);
    } else if (stream->state() == MemberWatch::State::kWaiting ||
               (stream->state() == MemberWatch::State::kOpening && !stream->is_connected())) {
      warnings.add_missing(name_of(part), "it is away, and joins when it is back");
    } else {
      warnings.add_from(stream->answer().headers);
    }
  }
  warnings.add_to(headers);
  down_.send_head(200, headers, false);
  watches_.drain.add(*this);
  const Duration life = lifetime_of(timeout_seconds_);
  if (life > kLastWarning) {
    end_.start(life - kLastWarning, [this] {
      send_bookmark();
      end_.start(kLastWarning, [this] { end_now(); });
    });
  } else {
    end_.start(life, [this] { end_now(); });
  }
  arm_idle();
  send_own();
  read_log();
}

void MergedWatch::end_in_order() noexcept {
  ++shared_.stats.evicted_drain;
  end_now();
}

void MergedWatch::end_now() noexcept {
  if (done_ || !headed_) {
    return;
  }
  const TimePoint earliest = begun_at_ + shared_.params.min_life;
  if (shared_.loop.now() < earliest) {
    end_.start(earliest - shared_.loop.now(), [this] { end_now(); });
    return;
  }
  if (next_ < group_->log().repeats_until()) {
    fail_with(version_expired(), "behind");
    return;
  }
  send_bookmark();
  finish();
}

void MergedWatch::expire(std::string_view reason, Duration delay) {
  if (delay <= Duration{}) {
    begin();
    fail_with(version_expired(), reason);
    return;
  }
  doomed_ = true;
  doom_.start(delay, [this, reason] {
    begin();
    fail_with(version_expired(), reason);
  });
}

void MergedWatch::fail_with(const Error& error, std::string_view reason) {
  if (done_) {
    return;
  }
  if (error.code() == Errc::kExpired) {
    ++shared_.stats.expired[reason];
  }
  log_info("a merged watch ends with an error",
           {{"reason", reason}, {"path", group_->route().path}, {"errc", errc_name(error.code())}});
  if (!headed_) {
    refuse(error);
    return;
  }
  own_ += group_->coding().error(error);
  finish();
}

void MergedWatch::finish() {
  const std::string last = std::exchange(own_, {});
  stop();
  down_.send_data(last, true);
}

void MergedWatch::pass_on(const http::ResponseHead& answer, const std::string& body) {
  http::HeaderList headers = passed_headers(answer);
  if (answer.status == 504 && !headers.contains("retry-after")) {
    headers.add("retry-after", "1");  // AGG-402
  }
  headers.add("audit-id", audit_id_);
  stop();
  down_.send_head(answer.status, headers, false);
  down_.send_data(body, true);
}

void MergedWatch::stop() noexcept {
  if (std::exchange(done_, true)) {
    return;
  }
  leave();
  await_none();
  for (net::Timer* timer : {&idle_, &end_, &doom_, &initial_}) {
    timer->cancel();
  }
  for (Part& part : parts_) {
    if (part.own != nullptr) {
      retire(std::move(part.own));
    }
  }
  if (opening_ != nullptr) {
    opening_->asked.reset();
    opening_->headers.cancel();
  }
  if (permit_ != nullptr) {  // it may be what calls
    permit_->hold(nullptr);
    shared_.loop.post([kept = permit_] {});
  }
  group_->remove(*this);
  ticket_.reset();
}

}  // namespace kintsugi::aggregation
