// The rules of InformerFsm that ReflectorRules turn on.
#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/strings.h"
#include "krm/annotations.h"
#include "shards/internal/informer_fsm.h"
#include "shards/internal/page_scan.h"

namespace kintsugi::shards {
namespace {

using Action = InformerFsm::Action;
using krm::Json;

constexpr Duration kFirstByteWithin = seconds(10);
constexpr Duration kEventWithin = seconds(150);
constexpr Duration kRememberedFor = std::chrono::minutes(10);
constexpr Duration kHealthyAfter = std::chrono::minutes(2);
constexpr Duration kProbeEvery = seconds(30);
constexpr Duration kShortestWatch = seconds(1);
constexpr unsigned kRefusalsBeforeList = 3;
constexpr unsigned kWaitsThatAreNoError = 5;
constexpr int kLongestRetryAfter = 300;
constexpr std::size_t kDeletesInDoubt = 100;
/// Answers 404 in a row before what is cached counts as gone, about 12 s: a proxy that has just
/// begun knows no path yet.
constexpr unsigned kAbsencesInDoubt = 6;
constexpr std::size_t kMostDepth = 256;
constexpr std::size_t kLongestName = 253;
constexpr std::string_view kSystemPrefix = "system:";
// Nobody's projection has it, and it is often more than half of an object.
constexpr std::array<std::string_view, 3> kUnreadOfEvents = {"object", "metadata", "managedFields"};
constexpr std::array<std::string_view, 2> kUnreadOfItems = {"metadata", "managedFields"};

bool can_be_keyed(std::string_view name) noexcept {
  return name.size() <= kLongestName && name.find('\0') == std::string_view::npos;
}

/// Of a LIST at a revision that the server has not reached.
bool is_too_new(int status, std::string_view body) noexcept {
  return status >= 400 && (body.find("ResourceVersionTooLarge") != std::string_view::npos ||
                           body.find("oo large resource version") != std::string_view::npos);
}

}  // namespace

InformerParams reflector_params(std::string target, std::string kind) {
  InformerParams params;
  params.target = std::move(target);
  params.max_event_bytes = 16U << 20U;
  params.rest_min = milliseconds(800);
  params.rest_max = seconds(30);
  params.reflector.on = true;
  params.reflector.kind = std::move(kind);
  return params;
}

std::string_view relist_reason_name(RelistReason reason) noexcept {
  constexpr std::array<std::string_view, kRelistReasons> kNames = {
      "expired", "server", "reset", "oversized", "malformed", "refused", "guard"};
  return kNames[static_cast<std::size_t>(reason)];
}

bool InformerFsm::watch_list_allowed(TimePoint now) const noexcept {
  return now >= params_.reflector.no_watch_list_until ||
         params_.reflector.no_watch_list_until == TimePoint();
}

void InformerFsm::avoid_watch_list(TimePoint now) noexcept {
  params_.reflector.no_watch_list_until = now + kRememberedFor;
}

Action InformerFsm::begin_reflecting(TimePoint now) {
  before_ = keys_.size();
  unreadable_ = asks_feature_ = false;
  if (confirming_) {
    return climb(Rung::kStored, now);
  }
  if (listed_) {
    return climb(last_.empty() || !cached_list_works_ ? Rung::kStored : Rung::kAtCursor, now);
  }
  return watch_list_allowed(now) ? watch_list(now) : climb(Rung::kCached, now);
}

Action InformerFsm::climb(Rung rung, TimePoint now) {
  rung_ = rung == Rung::kCached && !cached_list_works_ ? Rung::kStored : rung;
  keys_.begin_list();
  unreadable_ = false;
  return page({}, now);
}

Action InformerFsm::ladder_page(std::string_view token, TimePoint now) {
  state_ = State::kListing;
  opened_ = now;
  first_page_ = token.empty();
  std::string target = params_.target;
  if (!first_page_) {
    target += "?limit=500&continue=" + percent_encode(token);
  } else {
    switch (rung_) {
      case Rung::kCached:
        target += "?limit=500&resourceVersion=0";
        break;
      case Rung::kAtCursor:
        target += "?resourceVersion=" + percent_encode(last_);
        break;
      case Rung::kStored:
        target += "?limit=500&resourceVersion=";
        break;
      case Rung::kUnpaged:
        target += "?resourceVersion=";
        break;
    }
  }
  return {Action::Kind::kList, target + selector(), {}};
}

void InformerFsm::settle(TimePoint now) noexcept {
  if (healthy_since_ && now - *healthy_since_ >= kHealthyAfter) {
    failures_ = expirations_ = 0;
  }
}

Action InformerFsm::reflector_rest(int retry_after, TimePoint now) {
  settle(now);
  healthy_since_.reset();
  state_ = State::kResting;
  asked_to_wait_ = retry_after > 0;
  const auto up_to = [this](Duration most) {
    return Duration(
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most.count() + 1)));
  };
  if (asked_to_wait_) {
    if (++asked_waits_ >= kWaitsThatAreNoError) {
      ++failures_;
      ++counters_.failures;
    }
    const Duration asked = seconds(std::min(retry_after, kLongestRetryAfter));
    return {Action::Kind::kRest, {}, asked + up_to(asked / 5)};
  }
  asked_waits_ = 0;
  const auto most =
      std::min<Duration>(params_.rest_min * (1LL << std::min(failures_, 20U)), params_.rest_max);
  ++failures_;
  ++counters_.failures;
  return {Action::Kind::kRest, {}, up_to(most)};
}

Action InformerFsm::forbidden(int status) {
  refusal_ = status;
  ++counters_.failures;
  sink_.on_refused(status);
  state_ = State::kResting;
  asked_to_wait_ = false;
  return {Action::Kind::kRest, {}, kProbeEvery};
}

Action InformerFsm::absence(TimePoint now) {
  if (keys_.size() != 0 && ++refusals_ < kAbsencesInDoubt) {
    return doubt(now);
  }
  keys_.begin_list();
  unreadable_ = false;
  if (needs_confirmation()) {
    return list_again(now);
  }
  revision_.clear();
  last_.clear();
  listed_ = asks_feature_ = false;
  refusal_ = 0;
  if (!absent_ || keys_.size() != 0) {
    absent_ = true;
    complete_list();
  }
  state_ = State::kResting;
  asked_to_wait_ = false;
  return {Action::Kind::kRest, {}, kProbeEvery};
}

Action InformerFsm::doubt(TimePoint now) {
  ++counters_.doubtful;
  return rest(0, now);
}

bool InformerFsm::needs_confirmation() {
  if (std::exchange(confirming_, false) || unreadable_) {
    return false;
  }
  const std::size_t gone = keys_.unseen();
  if (gone <= kDeletesInDoubt || gone * 2 <= before_) {
    return false;
  }
  ++counters_.guarded;
  ++counters_.relists[static_cast<std::size_t>(RelistReason::kGuard)];
  confirming_ = true;
  return true;
}

Action InformerFsm::take_head(int status, int retry_after, TimePoint now) {
  const bool opening = state_ == State::kOpening;
  if (status == 200) {
    state_ = opening ? State::kInitial : State::kWatching;
    opened_ = heard_at_ = now;
    heard_byte_ = heard_event_ = false;
    refusal_ = 0;
    refusals_ = asked_waits_ = 0;
    if (!healthy_since_) {
      healthy_since_ = now;
    }
    return {};
  }
  if (status == 401 || status == 403) {
    return forbidden(status);
  }
  if (opening && (status == 404 || turns_down_watch_list(status))) {
    asks_feature_ = status == 404;
    if (!asks_feature_) {
      avoid_watch_list(now);
    }
    return climb(Rung::kCached, now);
  }
  if (!opening && (status == 410 || status == 404)) {
    return expired(status == 410 ? RelistReason::kExpired : RelistReason::kRefused, now);
  }
  const bool busy = status == 429 || status == 503;
  if (!opening && !busy && ++refusals_ >= kRefusalsBeforeList) {
    refusals_ = 0;
    forget_revision();
    ++counters_.relists[static_cast<std::size_t>(RelistReason::kRefused)];
  }
  return refused(status, retry_after, now);
}

Action InformerFsm::take_end(Errc cause, TimePoint now) {
  const bool lasted = now - opened_ >= kShortestWatch;
  switch (state_) {
    case State::kOpening:
    case State::kResuming:
      return rest(0, now);
    case State::kInitial:
      if (cause == Errc::kOk && lasted) {  // a server that does not know sendInitialEvents
        avoid_watch_list(now);
        return list_again(now);
      }
      return rest(0, now);
    case State::kWatching:
      if (cause == Errc::kReset) {
        return expired(RelistReason::kReset, now);
      }
      return lasted || heard_event_ ? resume(now) : rest(0, now);
    default:
      return {};
  }
}

TimePoint InformerFsm::deadline() const noexcept {
  if (!reflects() || (state_ != State::kInitial && state_ != State::kWatching)) {
    return TimePoint::max();
  }
  return state_ == State::kInitial && !heard_byte_ ? opened_ + kFirstByteWithin
                                                   : heard_at_ + kEventWithin;
}

Action InformerFsm::take_silence(TimePoint now) {
  if (heard_byte_ || state_ == State::kWatching) {
    ++counters_.silences;
  }
  if (state_ == State::kWatching) {
    return resume(now);
  }
  state_ = State::kProbing;
  return {Action::Kind::kList, params_.target + "?limit=1" + selector(), {}};
}

Action InformerFsm::take_probe(int status, int retry_after, TimePoint now) {
  counters_.last_status = status;
  if (status == 200) {
    avoid_watch_list(now);
    return climb(Rung::kCached, now);
  }
  if (status == 401 || status == 403) {
    return forbidden(status);
  }
  return status == 404 ? climb(Rung::kCached, now) : refused(status, retry_after, now);
}

Action InformerFsm::take_page(std::string_view body, bool partial, TimePoint now) {
  refusal_ = 0;
  asked_waits_ = 0;
  if (partial) {
    return doubt(now);
  }
  const auto page_text = scan_page(body);
  Json::ParseReport report;
  const Expected<Json> frame =
      page_text ? Json::parse(page_text->frame, {kMostDepth, true}, &report) : Json();
  const Json* const items = frame ? frame->find("items") : nullptr;
  const bool whole = items != nullptr && (items->is_array() || items->is_null());
  if (!whole || !report.duplicate_fields.empty()) {
    ++counters_.malformed;
    return doubt(now);
  }
  const std::string_view revision = frame->text({"metadata", "resourceVersion"});
  const std::string_view token = frame->text({"metadata", "continue"});
  if (revision.empty()) {
    const bool nothing = page_text->items.empty() && token.empty() && first_page_;
    return nothing && keys_.size() == 0 ? absence(now) : doubt(now);
  }
  for (const std::string_view item : page_text->items) {
    take_item(item);
  }
  if (!token.empty()) {
    return page(token, now);
  }
  if (needs_confirmation()) {
    return list_again(now);
  }
  if (std::exchange(asks_feature_, false)) {
    avoid_watch_list(now);
  }
  complete_list();
  listed_ = true;
  absent_ = false;
  revision_ = revision;
  return resume(now);
}

Action InformerFsm::page_refused(int status, int retry_after, std::string_view body,
                                 TimePoint now) {
  if (status == 401 || status == 403) {
    return forbidden(status);
  }
  if (status == 404 && first_page_) {
    sink_.on_refused(status);
    return absence(now);
  }
  if (status == 410 && !first_page_) {
    return climb(Rung::kUnpaged, now);
  }
  const bool unusable = status == 410 || status == 400 || status == 422 || is_too_new(status, body);
  if (unusable && (rung_ == Rung::kAtCursor || rung_ == Rung::kCached)) {
    last_.clear();
    return climb(Rung::kStored, now);
  }
  return refused(status, retry_after, now);
}

Action InformerFsm::page_lost(Errc cause, TimePoint now) {
  if (state_ == State::kListing && cause == Errc::kRequestEntityTooLarge && cached_list_works_ &&
      (rung_ == Rung::kAtCursor || rung_ == Rung::kCached)) {
    cached_list_works_ = false;
    return climb(Rung::kStored, now);
  }
  return rest(0, now);
}

bool InformerFsm::is_foreign(const Json& object) const noexcept {
  const std::string_view kind = object.text({"kind"});
  return !params_.reflector.kind.empty() && !kind.empty() && kind != params_.reflector.kind;
}

bool InformerFsm::admit(const ObjectHead& head, bool duplicates) {
  const ObjectKey& key = head.key;
  if (key.cluster.substr(0, kSystemPrefix.size()) == kSystemPrefix) {
    return false;
  }
  const bool whole = !key.name.empty() && !head.uid.empty() && !head.revision.empty();
  if (whole && !duplicates && can_be_keyed(key.name) && can_be_keyed(key.ns)) {
    return true;
  }
  ++counters_.dropped;
  keys_.touch(key_text(key));
  return false;
}

void InformerFsm::take_item(std::string_view text) {
  Json::ParseReport report;
  const auto item = Json::parse(text, {kMostDepth, true, kUnreadOfItems}, &report);
  if (!item || !item->is_object()) {
    ++counters_.malformed;
    unreadable_ = true;
    return;
  }
  if (is_foreign(*item)) {
    ++counters_.foreign;
    return;
  }
  const ObjectHead head = head_of(*item);
  if (admit(head, !report.duplicate_fields.empty())) {
    upsert(*item, head);
  }
}

InformerFsm::Verdict InformerFsm::take_reflected(std::string_view line, TimePoint now) {
  Json::ParseReport report;
  const auto event = Json::parse(line, {kMostDepth + 1, true, kUnreadOfEvents}, &report);
  const Json* const object = event ? event->find("object") : nullptr;
  if (!event && (!is_valid_utf8(line) || event.error().message() == "exceeded max depth")) {
    ++counters_.malformed;
    unreadable_ = true;
    return Verdict::kOk;
  }
  if (object == nullptr || !object->is_object()) {
    ++counters_.malformed;
    ++counters_.relists[static_cast<std::size_t>(RelistReason::kMalformed)];
    forget_revision();
    return Verdict::kFailed;
  }
  const std::string_view type = event->text({"type"});
  if (type == "ERROR") {
    return take_reflected_error(*object);
  }
  const bool bookmark = type == "BOOKMARK";
  const bool deleted = type == "DELETED";
  if (!bookmark && !deleted && type != "ADDED" && type != "MODIFIED") {
    ++counters_.unknown_types;
    return Verdict::kOk;
  }
  if (is_foreign(*object)) {
    ++counters_.foreign;
    return Verdict::kOk;
  }
  ++counters_.events;
  heard_at_ = now;
  heard_event_ = true;
  const ObjectHead head = head_of(*object);
  if (!bookmark) {
    if (!admit(head, !report.duplicate_fields.empty())) {
      return Verdict::kOk;
    }
    deleted ? remove(head) : upsert(*object, head);
  }
  const std::string_view revision = head.revision;
  if (revision.empty()) {
    return Verdict::kOk;
  }
  if (state_ == State::kInitial) {
    const std::string_view end =
        object->text({"metadata", "annotations", krm::kInitialEventsEndAnnotation});
    if (!bookmark || end != "true") {
      return Verdict::kOk;
    }
    if (needs_confirmation()) {
      return Verdict::kConfirm;
    }
    complete_list();
    listed_ = true;
    absent_ = false;
    state_ = State::kWatching;
    revision_ = revision;
  } else if (bookmark || params_.reflector.one_shard) {
    revision_ = revision;
  }
  return Verdict::kOk;
}

InformerFsm::Verdict InformerFsm::take_reflected_error(const Json& status) {
  const Json* const code = status.find("code");
  counters_.last_status = code == nullptr ? 0 : static_cast<int>(code->as_integer());
  const std::string_view reason = status.text({"reason"});
  if (counters_.last_status == 410 || reason == "Expired" || reason == "Gone") {
    reason_ = RelistReason::kExpired;
    return Verdict::kListAgain;
  }
  switch (counters_.last_status) {
    case 401:
    case 403:
      return Verdict::kForbidden;
    case 500:
    case 503:
      reason_ = RelistReason::kServer;
      return Verdict::kListAgain;
    case 429: {
      const Json* const wait = status.at({"details", "retryAfterSeconds"});
      wait_asked_ = wait == nullptr ? 0
                                    : static_cast<int>(std::clamp<std::int64_t>(
                                          wait->as_integer(), 0, kLongestRetryAfter));
      return Verdict::kFailed;
    }
    default:
      return Verdict::kFailed;
  }
}

}  // namespace kintsugi::shards
