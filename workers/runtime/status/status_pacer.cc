#include "workers/runtime/status/status_pacer.h"

#include <utility>

namespace kintsugi::workers {

void StatusPacer::note_write(std::string_view key, Object& object, bool transition, TimePoint now) {
  object.next = now + params_.interval;
  object.transition = false;
  if (transition) {
    object.next_ready = object.next;
  }
  timers_.push_back({object.next, std::string(key)});
}

void StatusPacer::drop_body(Object& object) noexcept {
  if (object.body) {
    --held_;
    held_bytes_ -= object.body->size();
    object.body.reset();
  }
}

std::optional<std::string> StatusPacer::offer(std::string_view key, std::string body,
                                              bool ready_transition, TimePoint now) {
  auto at = objects_.find(key);
  if (at == objects_.end()) {
    if (objects_.size() >= params_.max_objects) {
      ++unpaced_;
      return body;
    }
    at = objects_.emplace(std::string(key), Object{}).first;
    at->second.next = at->second.next_ready = now;
  }
  Object& object = at->second;
  drop_body(object);
  object.transition = object.transition || ready_transition;
  if (now >= object.next || (ready_transition && now >= object.next_ready)) {
    note_write(key, object, object.transition, now);
    return body;
  }
  if (held_bytes_ + body.size() > params_.max_bytes) {
    ++unpaced_;
    note_write(key, object, object.transition, now);
    return body;
  }
  ++held_;
  held_bytes_ += body.size();
  object.body = std::move(body);
  return std::nullopt;
}

std::optional<StatusPacer::Due> StatusPacer::take_due(TimePoint now) {
  while (!timers_.empty() && timers_.front().at <= now) {
    Timer timer = std::move(timers_.front());
    timers_.pop_front();
    const auto at = objects_.find(timer.key);
    if (at == objects_.end() || at->second.next != timer.at) {
      continue;  // a later write has its own
    }
    Object& object = at->second;
    if (!object.body) {
      objects_.erase(at);
      continue;
    }
    const bool transition = object.transition;
    std::string body = std::move(*object.body);
    object.body = std::string();
    held_bytes_ -= body.size();
    drop_body(object);
    note_write(timer.key, object, transition, now);
    return Due{std::move(timer.key), std::move(body)};
  }
  return std::nullopt;
}

void StatusPacer::withdraw(std::string_view key) {
  if (const auto at = objects_.find(key); at != objects_.end()) {
    drop_body(at->second);
  }
}

std::optional<TimePoint> StatusPacer::next_timer() const noexcept {
  return timers_.empty() ? std::nullopt : std::optional(timers_.front().at);
}

}  // namespace kintsugi::workers
