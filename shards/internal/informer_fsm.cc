#include "shards/internal/informer_fsm.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "krm/annotations.h"

namespace kintsugi::shards {
namespace {

using Action = InformerFsm::Action;
using krm::Json;

constexpr unsigned kRefusalsBeforeList = 3;
constexpr int kLongestRetryAfter = 300;

/// Answers with which servers turn down sendInitialEvents.
bool turns_down_watch_list(int status) {
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

std::string encode_key(const ObjectKey& key) {
  std::string text;
  text.reserve(key.cluster.size() + key.ns.size() + key.name.size() + 2);
  text.append(key.cluster).append("|").append(key.ns).append("/").append(key.name);
  return text;
}

ObjectKey decode_key(std::string_view text) {
  const std::size_t bar = text.find('|');
  const std::size_t slash = text.find('/', bar);
  return {text.substr(0, bar), text.substr(bar + 1, slash - bar - 1), text.substr(slash + 1)};
}

ObjectKey key_of(const Json& object, std::string_view default_cluster) {
  ObjectKey key;
  key.cluster = object.text({"metadata", "annotations", krm::kClusterAnnotation});
  if (key.cluster.empty()) {
    key.cluster = default_cluster;
  }
  key.ns = object.text({"metadata", "namespace"});
  key.name = object.text({"metadata", "name"});
  return key;
}

/// Revisions are opaque; decimal ones keep their value, so that distinct ones never collide.
std::uint64_t revision_number(std::string_view text) {
  if (const auto number = parse_decimal(text); number) {
    return *number;
  }
  return std::hash<std::string_view>{}(text);
}

}  // namespace

InformerFsm::InformerFsm(InformerParams params, InformerSink& sink)
    : params_(std::move(params)), sink_(sink), random_(params_.seed) {}

std::uint64_t InformerFsm::random() noexcept {  // splitmix64
  random_ += 0x9E3779B97F4A7C15U;
  std::uint64_t z = random_;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

std::string InformerFsm::timeout() noexcept {
  return "&timeoutSeconds=" + std::to_string(300 + random() % 301);
}

Action InformerFsm::start(TimePoint now) { return state_ == State::kIdle ? next(now) : Action{}; }

Action InformerFsm::next(TimePoint now) {
  return revision_.empty() ? list_again(now) : resume(now);
}

Action InformerFsm::list_again(TimePoint now) {
  revision_.clear();
  buffer_.clear();
  skipping_ = false;
  keys_.begin_list();
  ++counters_.lists;
  return watch_list_works_ ? watch_list(now) : page({}, now);
}

Action InformerFsm::watch_list(TimePoint now) {
  state_ = State::kOpening;
  opened_ = now;
  return {Action::Kind::kWatch,
          params_.target +
              "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
              "&resourceVersionMatch=NotOlderThan" +
              timeout(),
          {}};
}

Action InformerFsm::page(std::string_view token, TimePoint now) {
  state_ = State::kListing;
  opened_ = now;
  std::string target = params_.target + "?limit=500";
  if (!token.empty()) {
    target += "&continue=" + percent_encode(token);
  } else if (cached_list_works_) {
    target += "&resourceVersion=0";
  }
  return {Action::Kind::kList, std::move(target), {}};
}

Action InformerFsm::resume(TimePoint now) {
  state_ = State::kResuming;
  opened_ = now;
  buffer_.clear();
  skipping_ = false;
  return {Action::Kind::kWatch,
          params_.target + "?watch=true&allowWatchBookmarks=true&resourceVersion=" +
              percent_encode(revision_) + timeout(),
          {}};
}

Action InformerFsm::rest(int retry_after) {
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

Action InformerFsm::expired(TimePoint now) {
  revision_.clear();
  return expirations_++ == 0 ? list_again(now) : rest(0);
}

Action InformerFsm::refused(int status, int retry_after) {
  if (status >= 400 && status < 500 && status != 429) {
    sink_.on_refused(status);
  }
  return rest(retry_after);
}

Action InformerFsm::on_head(int status, int retry_after, TimePoint now) {
  if (state_ != State::kOpening && state_ != State::kResuming) {
    return {};
  }
  const bool opening = state_ == State::kOpening;
  counters_.last_status = status;
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
    return expired(now);
  }
  if (!opening && ++refusals_ >= kRefusalsBeforeList) {
    refusals_ = 0;
    revision_.clear();  // for example a revision that a restored server has not reached
  }
  return refused(status, retry_after);
}

Action InformerFsm::on_data(std::string_view bytes, TimePoint now) {
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
    const Verdict verdict = take_event(line);
    buffer_.clear();
    switch (verdict) {
      case Verdict::kOk:
        break;
      case Verdict::kListAgain:
        return expired(now);
      case Verdict::kFailed:
        return rest(0);
    }
  }
  return {};
}

InformerFsm::Verdict InformerFsm::take_event(std::string_view line) {
  if (trim(line).empty()) {
    return Verdict::kOk;
  }
  const auto parsed = Json::parse(line);
  const Json* object = parsed ? parsed->find("object") : nullptr;
  if (object == nullptr || !object->is_object()) {
    ++counters_.malformed;
    log_warn("watch event is malformed", {{"target", params_.target}});
    revision_.clear();
    return Verdict::kFailed;
  }
  const std::string_view type = parsed->text({"type"});
  if (type == "ERROR") {
    return take_error(*object);
  }
  ++counters_.events;
  const std::string_view revision = object->text({"metadata", "resourceVersion"});
  if (type == "ADDED" || type == "MODIFIED") {
    upsert(*object);
  } else if (type == "DELETED") {
    remove(*object);
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

void InformerFsm::upsert(const Json& object) {
  const ObjectKey key = key_of(object, params_.default_cluster);
  if (key.name.empty()) {
    return;
  }
  const auto revision = revision_number(object.text({"metadata", "resourceVersion"}));
  if (keys_.put(encode_key(key), revision)) {
    sink_.on_upsert(key, object);
  }
}

void InformerFsm::remove(const Json& object) {
  const ObjectKey key = key_of(object, params_.default_cluster);
  if (keys_.erase(encode_key(key))) {
    sink_.on_delete(key);
  }
}

void InformerFsm::complete_list() {
  keys_.end_list([this](std::string_view key) { sink_.on_delete(decode_key(key)); });
  failures_ = refusals_ = 0;
  synced_ = true;
  sink_.on_synced();
}

Action InformerFsm::on_end(Errc cause, TimePoint now) {
  counters_.last_cause = cause;
  const bool in_order = cause == Errc::kOk && now - opened_ >= seconds(1);
  switch (state_) {
    case State::kOpening:
    case State::kResuming:
      return rest(0);
    case State::kInitial:
      if (in_order) {  // a server that does not know sendInitialEvents
        watch_list_works_ = false;
        return list_again(now);
      }
      return rest(0);
    case State::kWatching:
      if (in_order) {
        failures_ = refusals_ = expirations_ = 0;
        return resume(now);
      }
      return rest(0);
    default:
      return {};
  }
}

Action InformerFsm::on_page(int status, int retry_after, std::string_view body, TimePoint now) {
  if (state_ != State::kListing) {
    return {};
  }
  counters_.last_status = status;
  if (status != 200) {
    return refused(status, retry_after);
  }
  auto parsed = Json::parse(body);
  const Json* items = parsed ? parsed->find("items") : nullptr;
  if (items == nullptr) {
    ++counters_.malformed;
    return rest(0);
  }
  for (const Json& item : items->items()) {
    upsert(item);
  }
  const std::string_view token = parsed->text({"metadata", "continue"});
  if (!token.empty()) {
    return page(token, now);
  }
  const std::string_view revision = parsed->text({"metadata", "resourceVersion"});
  if (revision.empty()) {
    ++counters_.malformed;
    return rest(0);
  }
  complete_list();
  revision_ = revision;
  return resume(now);
}

Action InformerFsm::on_page_failed(Errc cause, TimePoint now) {
  if (state_ != State::kListing) {
    return {};
  }
  counters_.last_cause = cause;
  if (cause == Errc::kRequestEntityTooLarge && cached_list_works_) {
    cached_list_works_ = false;  // caches ignore `limit`
    return list_again(now);
  }
  return rest(0);
}

Action InformerFsm::on_timer(TimePoint now) {
  return state_ == State::kResting ? next(now) : Action{};
}

Action InformerFsm::relist(std::string_view target, TimePoint now) {
  if (!target.empty()) {
    params_.target = target;
  }
  revision_.clear();
  synced_ = false;
  watch_list_works_ = cached_list_works_ = true;
  failures_ = refusals_ = expirations_ = 0;
  return state_ == State::kIdle ? Action{} : list_again(now);
}

Action InformerFsm::kick(TimePoint now) {
  if (state_ != State::kResting) {
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
