// ListRun: what the answers of shards mean for the list (AGG-1001).
#include <algorithm>
#include <utility>

#include "aggregation/list/internal/list_run.h"
#include "base/log.h"
#include "krm/protobuf.h"
#include "krm/status.h"

namespace kintsugi::aggregation {
namespace {

using Kind = ListStep::Kind;

constexpr std::size_t kMaxErrorBody = 32U << 10;  // within a stream's window
constexpr std::string_view kPageExpired =
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list.";

/// Label of a connection's failure.
std::string_view reason_of(Errc cause) noexcept {
  switch (cause) {
    case Errc::kTls:
      return "tls";
    case Errc::kDeadline:
      return "timeout";
    default:
      return "connect";
  }
}

}  // namespace

void ListRun::on_part_head(ListPart& part) {
  if (part.answered()) {
    const std::string_view type = media_type(part.head().headers.get("content-type"));
    if (type != "application/json" && type != krm::kProtobufMediaType) {
      lose(part, "its answer is neither JSON nor protobuf", "malformed");
      return;
    }
    warnings_.add_from(part.head().headers);
  }
  on_part_moved(part);
}

void ListRun::on_part_moved(ListPart& part) {
  if (done_) {
    return;
  }
  const bool broken = part.ended() && part.end_cause() != Errc::kOk;
  if (broken && !part.headed() &&
      shared_.sends_again(route_, part.member.id, part.end_cause(), part.repeats)) {
    ++part.repeats;
    part.rest(Duration{}, [this, &part] { ask(part); });
    return;
  }
  if (broken && (!part.headed() || part.answered())) {
    lose(part, errc_name(part.end_cause()), reason_of(part.end_cause()));
  } else if (part.answered()) {
    settle();
  } else if (part.ended() || part.waiting().size() >= kMaxErrorBody) {
    judge(part);  // its Status tells what to do
  }
}

void ListRun::on_part_late(ListPart& part) {
  constexpr std::string_view kCause = "no answer in time";
  Causes late;
  for (const auto& each : parts_) {
    if (each->asked() && !each->headed()) {
      late.emplace_back(each->member.name, kCause);
    }
  }
  if (decided_ || late.empty() || may_miss(part)) {
    lose(part, kCause, "timeout");
    return;
  }
  for (const auto& [shard, cause] : late) {
    ++shared_.stats.shard_failures[{shard, "timeout"}];
  }
  ++shared_.stats.failed;
  refuse(shards_unavailable(late, false));
}

void ListRun::judge(ListPart& part) {
  const int status = part.head().status;
  if (status == 429) {
    be_patient(part);
    return;
  }
  if (status != 404 && end_page_before(part)) {
    return;  // who asks for the next page is told
  }
  if (status == 401 && head_.headers.contains("authorization")) {
    pass_on(part);  // the caller's own token
    return;
  }
  if (status == 403 && route_.reviewed) {
    lose(part, "it refuses the proxy's own credential", "identity");
    return;
  }
  switch (judge_answer(part.head(), part.waiting())) {
    case ShardVerdict::kAbsent:
      part.absent = true;
      leave_out(part);
      return;
    case ShardVerdict::kFinal:
      if (status == 403 && may_miss(part)) {
        miss(part, "it answers 403");
      } else {
        pass_on(part);
      }
      return;
    case ShardVerdict::kExpired:
      expire(part);
      return;
    default:
      lose(part, "it answers " + std::to_string(status), status == 401 ? "identity" : "status");
  }
}

void ListRun::be_patient(ListPart& part) {
  const int wait = retry_after_of(part.head());
  longest_wait_ = std::max(longest_wait_, wait);
  if (!part.rested && shared_.loop.now() + seconds(wait) < begun_at_ + time_allowed()) {
    part.rested = true;
    part.rest(seconds(wait), [this, &part] { ask(part); });
  } else if (!end_page_before(part)) {
    fail_with(shards_busy(longest_wait_));
  }
}

// Not when an earlier page had its objects: the client would never learn of those that it misses.
bool ListRun::may_miss(const ListPart& part) const {
  return query_.partial && !decided_ && !(plan_.from_token && part.step.pin != 0);
}

void ListRun::miss(ListPart& part, const std::string& cause) {
  part.missing = true;
  missing_.emplace_back(part.member.name, cause);
  warnings_.add_missing(part.member.name, cause);
  leave_out(part);
}

void ListRun::leave_out(ListPart& part) {
  part.close();
  part.finished = true;
  part.step.kind = Kind::kSkip;
  part.step.pin = 0;
  components_[part.member.slot] = 0;
  const bool any_left = std::any_of(parts_.begin(), parts_.end(), [](const auto& each) {
    return each->step.kind != Kind::kSkip || (!each->absent && !each->missing);
  });
  if (decided_ || any_left) {
    settle();
  } else {
    end_without_shards(part);
  }
}

void ListRun::end_without_shards(ListPart& last) {
  if (missing_.empty()) {
    pass_on(last);  // none of them serves the resource
    return;
  }
  const auto is_forbidden = [](const auto& part) {
    return part->missing && part->head().status == 403;
  };
  const auto forbidden = std::count_if(parts_.begin(), parts_.end(), is_forbidden);
  if (static_cast<std::size_t>(forbidden) == missing_.size()) {
    pass_on(**std::find_if(parts_.begin(), parts_.end(), is_forbidden));
  } else {
    refuse(shards_unavailable(missing_, false));
  }
}

void ListRun::lose(ListPart& part, std::string_view cause, std::string_view reason) {
  if (done_) {
    return;
  }
  const std::string text(cause);  // clients change their texts
  ++shared_.stats.failed;
  ++shared_.stats.shard_failures[{part.member.name, reason}];
  log_warn("a shard fails a merged list",
           {{"shard", part.member.name}, {"cause", text}, {"path", route_.path}});
  if (may_miss(part)) {
    miss(part, text);
  } else if (!end_page_before(part)) {
    fail_with(shards_unavailable({{part.member.name, text}}, false));
  }
}

bool ListRun::end_page_before(ListPart& part) {
  const bool can = decided_ && plan_.limit > 0 && count_ > 0 && part.items == 0 &&
                   part.step.pin != 0 && parts_[current_].get() == &part;
  if (can) {
    part.close();
    member_token_.clear();
    finish();
  }
  return can;
}

void ListRun::pass_on(ListPart& part) {
  if (output_.started()) {
    fail_with(Error(Errc::kUnavailable, "a shard refuses to go on"));
    return;
  }
  const int status = part.head().status;
  if (!part.ended()) {
    Error error(Errc::kInternal, "shard " + part.member.name + " answers with too many bytes");
    error.edit().http_status = status;
    refuse(error);
    return;
  }
  http::HeaderList headers = passed_headers(part.head());
  const std::string body = part.waiting();
  if (status == 504 && !headers.contains("retry-after")) {
    headers.add("retry-after", "1");  // AGG-402
  }
  stop(status);
  headers.add("audit-id", head_.headers.get("audit-id"));
  down_.send_head(status, headers, false);
  down_.send_data(body, true);
}

void ListRun::expire(ListPart& part) {
  Error error = version_expired();
  const krm::Json status = status_of(part.head(), part.waiting());
  const std::string fresh(status.text({"metadata", "continue"}));
  const bool begun = part.step.query.find("continue=") != std::string::npos;
  const bool can_go_on = begun ? !fresh.empty() : !plan_.inconsistent;
  if (plan_.from_token && can_go_on && !lists_.positions.keys.empty()) {
    MergedContinue token = next_token(index_of(part));
    token.inconsistent = true;
    token.member_token = fresh;
    error.edit().message = kPageExpired;
    error.edit().continue_token = encode_continue(token, question(), lists_.positions.keys.front());
  }
  ++shared_.stats.expired["history"];
  fail_with(error);
}

}  // namespace kintsugi::aggregation
