#include "shards/internal/informer_fsm.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/log.h"
#include "base/split_mix.h"
#include "base/strings.h"
#include "krm/annotations.h"

namespace kintsugi::shards {
namespace {

using Action = InformerFsm::Action;
using krm::Json;

constexpr unsigned kRefusalsBeforeList = 3;
constexpr int kLongestRetryAfter = 300;

}  // namespace

bool turns_down_watch_list(int status) noexcept {
  switch (status) {
    case 400:
    case 405:
    case 406:
    case 415:
    case 422:
    case 501:
      return true;
    default:
      return false;
  }
}

ObjectHead object_head(const Json& object, std::string_view default_cluster) {
  ObjectHead head;
  head.key.cluster = default_cluster;
  const Json* const meta = object.find("metadata");
  if (meta == nullptr) {
    return head;
  }
  if (const auto cluster = meta->text({"annotations", krm::kClusterAnnotation}); !cluster.empty()) {
    head.key.cluster = cluster;
  }
  head.key.ns = meta->text({"namespace"});
  head.key.name = meta->text({"name"});
  head.uid = meta->text({"uid"});
  head.revision = meta->text({"resourceVersion"});
  return head;
}

ObjectKey object_key(const Json& object, std::string_view default_cluster) {
  return object_head(object, default_cluster).key;
}

void append_key(std::string& out, const ObjectKey& key) {
  out.append(key.cluster).append("|").append(key.ns).append("/").append(key.name);
}

ObjectKey split_key(std::string_view text) noexcept {
  const std::size_t bar = text.find('|');
  const std::size_t slash = text.find('/', bar);
  return {text.substr(0, bar), text.substr(bar + 1, slash - bar - 1), text.substr(slash + 1)};
}

std::uint64_t revision_number(std::string_view text) noexcept {
  if (const auto number = parse_decimal(text); number) {
    return *number;
  }
  return std::hash<std::string_view>{}(text);
}

InformerFsm::InformerFsm(InformerParams params, InformerSink& sink)
    : params_(std::move(params)), sink_(sink), random_(params_.seed) {}

std::uint64_t InformerFsm::random() noexcept { return split_mix(random_); }

std::string InformerFsm::selector() const {
  const std::string& given = params_.reflector.selector;
  return given.empty() ? std::string() : "&" + given;
}

std::string InformerFsm::timeout() noexcept {
  return "&timeoutSeconds=" + std::to_string(300 + random() % 301);
}

Action InformerFsm::start(TimePoint now) { return state_ == State::kIdle ? next(now) : Action{}; }

Action InformerFsm::next(TimePoint now) {
  return revision_.empty() ? list_again(now) : resume(now);
}

void InformerFsm::forget_revision() {
  if (!revision_.empty()) {
    last_.swap(revision_);
    revision_.clear();
  }
}

std::string_view InformerFsm::key_text(const ObjectKey& key) {
  key_.clear();
  append_key(key_, key);
  return key_;
}

Action InformerFsm::list_again(TimePoint now) {
  forget_revision();
  buffer_.clear();
  skipping_ = false;
  keys_.begin_list();
  ++counters_.lists;
  if (reflects()) {
    return begin_reflecting(now);
  }
  return watch_list_works_ ? watch_list(now) : page({}, now);
}

Action InformerFsm::watch_list(TimePoint now) {
  state_ = State::kOpening;
  opened_ = now;
  std::string target = params_.target +
                       "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
                       "&resourceVersionMatch=NotOlderThan";
  if (reflects()) {
    target += "&resourceVersion=";
  }
  return {Action::Kind::kWatch, target + timeout() + selector(), {}};
}

Action InformerFsm::page(std::string_view token, TimePoint now) {
  if (reflects()) {
    return ladder_page(token, now);
  }
  state_ = State::kListing;
  opened_ = now;
  std::string target = params_.target + "?limit=500" + selector();
  if (!token.empty()) {
    target += "&continue=" + percent_encode(token);
  } else if (cached_list_works_) {
    target += "&resourceVersion=0";
  }
  return {Action::Kind::kList, std::move(target), {}};
}

Action InformerFsm::resume(TimePoint now) {
  ++counters_.rewatches;
  state_ = State::kResuming;
  opened_ = now;
  buffer_.clear();
  skipping_ = false;
  return {Action::Kind::kWatch,
          params_.target + "?watch=true&allowWatchBookmarks=true&resourceVersion=" +
              percent_encode(revision_) + timeout() + selector(),
          {}};
}

Action InformerFsm::rest(int retry_after, TimePoint now) {
  if (reflects()) {
    return reflector_rest(retry_after, now);
  }
  state_ = State::kResting;
  ++counters_.failures;
  const auto base =
      std::min<Duration>(params_.rest_min * (1LL << std::min(failures_, 20U)), params_.rest_max);
  ++failures_;
  const auto jitter =
      Duration(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(base.count() + 1)));
  const Duration asked = seconds(std::clamp(retry_after, 0, kLongestRetryAfter));
  return {Action::Kind::kRest,
          {},
          std::max(std::min<Duration>(base + jitter, params_.rest_max), asked)};
}

Action InformerFsm::expired(RelistReason reason, TimePoint now) {
  forget_revision();
  ++counters_.relists[static_cast<std::size_t>(reason)];
  if (reflects()) {
    settle(now);
    healthy_since_.reset();
  }
  return expirations_++ == 0 ? list_again(now) : rest(0, now);
}

Action InformerFsm::refused(int status, int retry_after, TimePoint now) {
  if (status >= 400 && status < 500 && status != 429) {
    sink_.on_refused(status);
  }
  return rest(retry_after, now);
}

Action InformerFsm::on_head(int status, int retry_after, TimePoint now, bool partial) {
  if (state_ != State::kOpening && state_ != State::kResuming) {
    return {};
  }
  const bool opening = state_ == State::kOpening;
  counters_.last_status = status;
  if (reflects()) {
    return status == 200 && opening && partial ? doubt(now) : take_head(status, retry_after, now);
  }
  if (status == 200) {
    state_ = opening ? State::kInitial : State::kWatching;
    opened_ = now;
    return {};
  }
  if (opening && turns_down_watch_list(status)) {
    watch_list_works_ = false;
    return page({}, now);
  }
  if (!opening && status == 410) {
    return expired(RelistReason::kExpired, now);
  }
  if (!opening && ++refusals_ >= kRefusalsBeforeList) {
    refusals_ = 0;
    forget_revision();  // for example a revision that a restored server has not reached
  }
  return refused(status, retry_after, now);
}

Action InformerFsm::on_data(std::string_view bytes, TimePoint now) {
  heard_byte_ = heard_byte_ || !bytes.empty();
  while (!bytes.empty() && (state_ == State::kInitial || state_ == State::kWatching)) {
    const std::size_t newline = bytes.find('\n');
    const std::string_view chunk = bytes.substr(0, newline);
    bytes.remove_prefix(newline == std::string_view::npos ? bytes.size() : newline + 1);
    if (skipping_) {
      skipping_ = newline == std::string_view::npos;
      continue;
    }
    if (buffer_.size() + chunk.size() > params_.max_event_bytes) {
      ++counters_.oversized;
      if (reflects()) {
        return expired(RelistReason::kOversized, now);
      }
      log_warn("watch event is too large and is skipped", {{"target", params_.target}});
      std::string().swap(buffer_);
      skipping_ = newline == std::string_view::npos;
      continue;
    }
    if (newline == std::string_view::npos) {
      buffer_.append(chunk);
      break;
    }
    std::string_view line = chunk;
    if (!buffer_.empty()) {
      buffer_.append(chunk);
      line = buffer_;
    }
    const Verdict verdict = take_event(line, now);
    buffer_.clear();
    if (verdict != Verdict::kOk) {
      return follow(verdict, now);
    }
  }
  return {};
}

Action InformerFsm::follow(Verdict verdict, TimePoint now) {
  switch (verdict) {
    case Verdict::kOk:
      return {};
    case Verdict::kListAgain:
      return expired(reason_, now);
    case Verdict::kFailed:
      return rest(std::exchange(wait_asked_, 0), now);
    case Verdict::kForbidden:
      return forbidden(counters_.last_status);
    case Verdict::kConfirm:
      return list_again(now);
  }
  return {};
}

InformerFsm::Verdict InformerFsm::take_event(std::string_view line, TimePoint now) {
  if (trim(line).empty()) {
    return Verdict::kOk;
  }
  if (reflects()) {
    return take_reflected(line, now);
  }
  const auto parsed = Json::parse(line);
  const Json* object = parsed ? parsed->find("object") : nullptr;
  if (object == nullptr || !object->is_object()) {
    ++counters_.malformed;
    log_warn("watch event is malformed", {{"target", params_.target}});
    forget_revision();
    return Verdict::kFailed;
  }
  const std::string_view type = parsed->text({"type"});
  if (type == "ERROR") {
    return take_error(*object);
  }
  ++counters_.events;
  const ObjectHead head = head_of(*object);
  const std::string_view revision = head.revision;
  if (type == "ADDED" || type == "MODIFIED") {
    upsert(*object, head);
  } else if (type == "DELETED") {
    remove(head);
  } else if (type == "BOOKMARK" && state_ == State::kInitial &&
             object->text({"metadata", "annotations", krm::kInitialEventsEndAnnotation}) ==
                 "true" &&
             !revision.empty()) {
    complete_list();
    state_ = State::kWatching;
    revision_ = revision;
    return Verdict::kOk;
  }
  if (state_ == State::kWatching && !revision.empty()) {
    revision_ = revision;
    failures_ = refusals_ = expirations_ = 0;
  }
  return Verdict::kOk;
}

InformerFsm::Verdict InformerFsm::take_error(const Json& status) {
  const Json* code = status.find("code");
  counters_.last_status = code == nullptr ? 0 : static_cast<int>(code->as_integer());
  const std::string_view reason = status.text({"reason"});
  if (counters_.last_status == 410 || reason == "Expired" || reason == "Gone") {
    return Verdict::kListAgain;
  }
  return Verdict::kFailed;
}

void InformerFsm::upsert(const Json& object, const ObjectHead& head) {
  ObjectKey key = head.key;
  if (!key.name.empty() && keys_.put(key_text(key), revision_number(head.revision), &key.id)) {
    sink_.on_upsert(key, object);
  }
}

void InformerFsm::remove(const ObjectHead& head) {
  ObjectKey key = head.key;
  if (keys_.erase(key_text(key), &key.id)) {
    sink_.on_delete(key);
  }
}

void InformerFsm::complete_list() {
  const std::function<void(std::string_view, KeyTable::Id)> gone = [this](std::string_view text,
                                                                          KeyTable::Id id) {
    ObjectKey key = split_key(text);
    key.id = id;
    sink_.on_delete(key);
  };
  if (unreadable_) {
    ++counters_.doubtful;
  } else {
    keys_.end_list(gone);
  }
  refusals_ = 0;
  if (!reflects()) {
    failures_ = 0;
  }
  synced_ = true;
  sink_.on_synced();
}

Action InformerFsm::on_end(Errc cause, TimePoint now) {
  counters_.last_cause = cause;
  if (reflects()) {
    return take_end(cause, now);
  }
  const bool in_order = cause == Errc::kOk && now - opened_ >= seconds(1);
  switch (state_) {
    case State::kOpening:
    case State::kResuming:
      return rest(0, now);
    case State::kInitial:
      if (in_order) {  // a server that does not know sendInitialEvents
        watch_list_works_ = false;
        return list_again(now);
      }
      return rest(0, now);
    case State::kWatching:
      if (in_order) {
        failures_ = refusals_ = expirations_ = 0;
        return resume(now);
      }
      return rest(0, now);
    default:
      return {};
  }
}

Action InformerFsm::on_page(int status, int retry_after, std::string_view body, TimePoint now,
                            bool partial) {
  if (state_ == State::kProbing) {
    return take_probe(status, retry_after, now);
  }
  if (state_ != State::kListing) {
    return {};
  }
  counters_.last_status = status;
  if (reflects()) {
    return status == 200 ? take_page(body, partial, now)
                         : page_refused(status, retry_after, body, now);
  }
  if (status != 200) {
    return refused(status, retry_after, now);
  }
  auto parsed = Json::parse(body);
  const Json* items = parsed ? parsed->find("items") : nullptr;
  if (items == nullptr) {
    ++counters_.malformed;
    return rest(0, now);
  }
  for (const Json& item : items->items()) {
    upsert(item, head_of(item));
  }
  const std::string_view token = parsed->text({"metadata", "continue"});
  if (!token.empty()) {
    return page(token, now);
  }
  const std::string_view revision = parsed->text({"metadata", "resourceVersion"});
  if (revision.empty()) {
    ++counters_.malformed;
    return rest(0, now);
  }
  complete_list();
  revision_ = revision;
  return resume(now);
}

Action InformerFsm::on_page_failed(Errc cause, TimePoint now) {
  if (state_ != State::kListing && state_ != State::kProbing) {
    return {};
  }
  counters_.last_cause = cause;
  if (reflects()) {
    return page_lost(cause, now);
  }
  if (cause == Errc::kRequestEntityTooLarge && cached_list_works_) {
    cached_list_works_ = false;  // caches ignore `limit`
    return list_again(now);
  }
  return rest(0, now);
}

Action InformerFsm::on_timer(TimePoint now) {
  if (state_ != State::kResting) {
    return reflects() && now >= deadline() ? take_silence(now) : Action{};
  }
  return next(now);
}

Action InformerFsm::relist(std::string_view target, TimePoint now) {
  if (!target.empty()) {
    params_.target = target;
  }
  revision_.clear();
  last_.clear();
  synced_ = listed_ = confirming_ = absent_ = asks_feature_ = false;
  refusal_ = 0;
  params_.reflector.no_watch_list_until = {};
  watch_list_works_ = cached_list_works_ = true;
  failures_ = refusals_ = expirations_ = 0;
  return state_ == State::kIdle ? Action{} : list_again(now);
}

Action InformerFsm::kick(TimePoint now) {
  if (state_ != State::kResting || asked_to_wait_) {
    return {};
  }
  failures_ = 0;
  return next(now);
}

Action InformerFsm::stop() {
  state_ = State::kIdle;
  return {Action::Kind::kCancel, {}, {}};
}

}  // namespace kintsugi::shards
