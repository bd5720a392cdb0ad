#include "kinds/controllers/internal/event_expiry.h"

#include <algorithm>
#include <chrono>

#include "base/time.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

apiserver::ObjectKey key_of(std::string_view cluster, std::string_view ns, std::string_view name) {
  return {std::string(cluster), "", "events", std::string(ns), std::string(name)};
}

/// The newest time that stands in an event, 0 without.
std::int64_t last_seen(const Json& event) {
  std::int64_t newest = 0;
  for (const std::string_view text :
       {event.text({"metadata", "creationTimestamp"}), event.text({"lastTimestamp"}),
        event.text({"eventTime"}), event.text({"series", "lastObservedTime"})}) {
    newest = std::max(newest, parse_rfc3339_utc(text).value_or(0));
  }
  return newest;
}

}  // namespace

std::optional<std::int64_t> parse_rfc3339_utc(std::string_view text) {
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' ||
      text[16] != ':' || text.back() != 'Z') {
    return std::nullopt;
  }
  const auto year = parse_decimal<int>(text.substr(0, 4));
  const auto month = parse_decimal<unsigned>(text.substr(5, 2));
  const auto day = parse_decimal<unsigned>(text.substr(8, 2));
  const auto hour = parse_decimal<std::int64_t>(text.substr(11, 2));
  const auto minute = parse_decimal<std::int64_t>(text.substr(14, 2));
  const auto second = parse_decimal<std::int64_t>(text.substr(17, 2));
  if (!year || !month || !day || !hour || !minute || !second) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month),
                                         std::chrono::day(*day)};
  if (!date.ok()) {
    return std::nullopt;
  }
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((days * 24 + *hour) * 60 + *minute) * 60 + *second;
}

EventExpiry::EventExpiry(const apiserver::ControllerContext& context, std::int64_t life,
                         std::function<std::int64_t()> now)
    : apiserver::ControllerBase(context, "event-expiry"),
      life_(life),
      now_(std::move(now)),
      timer_(context.loop) {
  if (!now_) {
    now_ = [] { return unix_seconds(); };
  }
}

void EventExpiry::start() {
  follow("", "events", [this](const apiserver::ApiServer::Change& change) {
    const std::string key = key_of(change.cluster, change.ns, change.name).pack();
    if (change.object == nullptr) {
      forget(key);
    } else {
      track(key, now_() + life_);
    }
  });
}

void EventExpiry::add_cluster(std::string_view cluster) {
  reader().list(cluster, "", "events", "", [&](const Json& event) {
    track(key_of(cluster, event.text({"metadata", "namespace"}), event.text({"metadata", "name"}))
              .pack(),
          last_seen(event) + life_);
    return true;
  });
}

void EventExpiry::remove_cluster(std::string_view cluster) {
  const std::string prefix = std::string(cluster) + "/";
  std::erase_if(order_, [&](const auto& entry) { return entry.second.starts_with(prefix); });
  std::erase_if(due_, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

void EventExpiry::track(const std::string& key, std::int64_t due) {
  forget(key);
  due_.emplace(key, due);
  order_.emplace(due, key);
  arm();
}

void EventExpiry::forget(const std::string& key) {
  if (const auto known = due_.find(key); known != due_.end()) {
    order_.erase({known->second, key});
    due_.erase(known);
  }
}

void EventExpiry::arm() {
  if (armed_ || order_.empty()) {
    return;
  }
  armed_ = true;
  timer_.start(seconds(10), [this] {
    armed_ = false;
    tick();
    arm();
  });
}

void EventExpiry::tick() {
  const std::int64_t now = now_();
  for (auto entry = order_.begin(); entry != order_.end() && entry->first <= now; ++entry) {
    queue_.add(entry->second);
  }
}

void EventExpiry::process(const std::string& text, Finished finished) {
  const auto known = due_.find(text);
  if (known == due_.end() || known->second > now_()) {
    finished(true);
    return;
  }
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  const std::optional<Json> event = get(key);
  if (!event) {
    forget(text);
    finished(true);
    return;
  }
  remove(key, apiserver::uid_of(*event),
         [this, text, finished = std::move(finished)](Expected<Json> result) {
           if (!result && result.error().code() == Errc::kNotFound) {
             forget(text);
           }
           finished(apiserver::is_gone(result));
         });
}

}  // namespace kintsugi::kinds
