#include "workers/runtime/status/event_recorder.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "workers/runtime/status/conditions.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::size_t kMaxField = 128;
constexpr std::size_t kMaxEventName = 253;

std::uint64_t hash_texts(std::uint64_t seed, std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) {
    seed = XXH3_64bits_withSeed(text.data(), text.size(), seed);
  }
  return seed;
}

/// "<object>.<16 hex digits>", a name that Kubernetes takes.
std::string event_name(std::string_view object, std::uint64_t number) {
  char tail[20];
  std::snprintf(tail, sizeof tail, ".%016llx", static_cast<unsigned long long>(number));
  std::string out;
  for (const char c : object.substr(0, kMaxEventName - 17)) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    const bool joins = c == '-' && !out.empty() && out.back() != '.';
    const bool dot = c == '.' && !out.empty() && out.back() != '.' && out.back() != '-';
    out += upper ? static_cast<char>(c - 'A' + 'a') : plain || joins || dot ? c : 'x';
  }
  while (!out.empty() && (out.back() == '-' || out.back() == '.')) {
    out.pop_back();
  }
  return (out.empty() ? "event" : out) + tail;
}

}  // namespace

template <class Value>
Value* EventRecorder::Recent<Value>::use(std::uint64_t hash) {
  const auto at = index.find(hash);
  if (at == index.end()) {
    return nullptr;
  }
  order.splice(order.end(), order, at->second);
  return &*at->second;
}

template <class Value>
Value& EventRecorder::Recent<Value>::put(Value value) {
  const std::uint64_t hash = value.hash;
  order.push_back(std::move(value));
  index[hash] = std::prev(order.end());
  return order.back();
}

template <class Value>
void EventRecorder::Recent<Value>::erase(std::uint64_t hash) {
  if (const auto at = index.find(hash); at != index.end()) {
    order.erase(at->second);
    index.erase(at);
  }
}

void EventRecorder::end(std::uint64_t series) {
  if (const auto at = series_.index.find(series); at != series_.index.end()) {
    if (at->second->due) {
      due_.erase(*at->second->due);
    }
    series_.erase(series);
  }
}

bool EventRecorder::admit(std::uint64_t object, TimePoint now) {
  Bucket* bucket = objects_.use(object);
  if (bucket == nullptr) {
    while (objects_.size() > 0 && objects_.size() >= params_.max_objects) {
      objects_.erase(objects_.order.front().hash);
    }
    bucket = &objects_.put({object, params_.burst, now});
  }
  const auto refilled = (now - bucket->at) / params_.refill;
  if (refilled > 0) {
    bucket->tokens = static_cast<int>(std::min<std::int64_t>(
        params_.burst, bucket->tokens + static_cast<std::int64_t>(refilled)));
    bucket->at += params_.refill * refilled;
  }
  if (bucket->tokens == params_.burst) {
    bucket->at = now;  // a full one gains nothing while it waits
  }
  if (bucket->tokens == 0) {
    return false;
  }
  --bucket->tokens;
  return true;
}

EventRecorder::Write EventRecorder::make(const Happening& happening, const std::string& note,
                                         std::uint64_t hash, std::int64_t wall_us) const {
  const EventObject& about = happening.about;
  Write write;
  write.create = true;
  write.cluster = about.cluster;
  write.ns = about.ns.empty() ? "default" : about.ns;
  write.name = event_name(about.name, hash);
  Json regarding = Json::object({{"apiVersion", Json(about.api_version)},
                                 {"kind", Json(about.kind)},
                                 {"name", Json(about.name)}});
  if (!about.ns.empty()) {
    regarding["namespace"] = Json(about.ns);
  }
  if (!about.uid.empty()) {
    regarding["uid"] = Json(about.uid);
  }
  const auto field = [](std::string_view text, std::string_view otherwise) {
    return Json(text.empty() ? otherwise : cut_utf8(text, kMaxField));
  };
  write.body =
      Json::object(
          {{"apiVersion", Json("events.k8s.io/v1")},
           {"kind", Json("Event")},
           {"metadata", Json::object({{"name", Json(write.name)}, {"namespace", Json(write.ns)}})},
           {"eventTime", Json(rfc3339_micro(wall_us))},
           {"reportingController", field(params_.controller, "kintsugi.dev/worker")},
           {"reportingInstance", field(params_.instance, "worker")},
           {"action", field(happening.action, "Reconcile")},
           {"reason", field(happening.reason, "Unknown")},
           {"regarding", std::move(regarding)},
           {"note", Json(note)},
           {"type", Json(happening.warning ? "Warning" : "Normal")}})
          .dump();
  return write;
}

std::optional<EventRecorder::Write> EventRecorder::record(const Happening& happening, TimePoint now,
                                                          std::int64_t wall_us) {
  const std::string note = redactor_ != nullptr
                               ? peer_message(happening.note, *redactor_, kMaxMessage)
                               : std::string(cut_utf8(printable(happening.note), kMaxMessage));
  const EventObject& about = happening.about;
  const std::uint64_t object = hash_texts(
      seed_, {about.cluster, about.api_version, about.kind, about.ns, about.name, about.uid});
  const std::uint64_t hash =
      hash_texts(object, {happening.reason, note, happening.warning ? "w" : "n"});
  if (Series* series = series_.use(hash)) {
    if (now - series->last <= params_.series_window) {
      ++series->count;
      series->last = now;
      series->last_wall = wall_us;
      if (!series->due) {
        series->due = due_.emplace(std::max(now, series->next_write), hash);
      }
      return std::nullopt;
    }
    end(hash);
  }
  if (!admit(object, now)) {
    ++dropped_;
    return std::nullopt;
  }
  Write write = make(happening, note, hash_texts(hash ^ ++made_, {"name"}), wall_us);
  Series series;
  series.hash = hash;
  series.cluster = write.cluster;
  series.ns = write.ns;
  series.name = write.name;
  series.last = now;
  series.next_write = now + params_.count_interval;
  series.last_wall = wall_us;
  while (series_.size() > 0 && series_.size() >= params_.max_series) {
    end(series_.order.front().hash);
  }
  series_.put(std::move(series));
  return write;
}

std::optional<EventRecorder::Write> EventRecorder::take_due(TimePoint now) {
  if (due_.empty() || due_.begin()->first > now) {
    return std::nullopt;
  }
  Series& series = *series_.index.at(due_.begin()->second);
  due_.erase(due_.begin());
  series.due.reset();
  series.next_write = now + params_.count_interval;
  constexpr std::int64_t kMost = 2'147'483'647;
  const Json patch = Json::object(
      {{"series", Json::object({{"count", Json(std::min(series.count, kMost))},
                                {"lastObservedTime", Json(rfc3339_micro(series.last_wall))}})}});
  return Write{false, series.cluster, series.ns, series.name, patch.dump()};
}

std::optional<TimePoint> EventRecorder::next_timer() const noexcept {
  return due_.empty() ? std::nullopt : std::optional(due_.begin()->first);
}

void EventRecorder::forget(std::string_view cluster, std::string_view ns, std::string_view name) {
  for (const Series& series : series_.order) {
    if (series.name == name && series.ns == ns && series.cluster == cluster) {
      end(series.hash);
      return;
    }
  }
}

}  // namespace kintsugi::workers
