#include "net/work_queue.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace kintsugi::net {
namespace {

constexpr Duration kFirstRetry = milliseconds(5);
constexpr Duration kLastRetry = seconds(300);

/// Spread by the key, so that what failed together does not come back together.
Duration back_off(const std::string& key, std::uint32_t failures) {
  const Duration pause =
      std::min<Duration>(kLastRetry, kFirstRetry * (1LL << std::min(failures, 20U)));
  const std::size_t spread = (std::hash<std::string>{}(key) + failures * 7919U) % 401U;
  return pause * static_cast<std::int64_t>(800 + spread) / 1'000;
}

}  // namespace

WorkQueue::WorkQueue(Loop& loop, Work work, std::size_t parallel)
    : loop_(loop),
      work_(std::move(work)),
      parallel_(parallel),
      alive_(std::make_shared<WorkQueue*>(this)) {}

WorkQueue::~WorkQueue() { *alive_ = nullptr; }

void WorkQueue::add(std::string_view key) {
  auto [found, added] = items_.try_emplace(std::string(key));
  if (found->second.queued) {
    return;
  }
  found->second.queued = true;
  found->second.added = loop_.now();
  if (found->second.running) {
    return;  // finish() puts it back
  }
  waiting_.emplace_back(key);
  pump_soon();
}

void WorkQueue::pump_soon() {
  if (waiting_.empty() || std::exchange(pump_posted_, true)) {
    return;
  }
  loop_.post([alive = alive_] {
    if (WorkQueue* self = *alive) {
      self->pump_posted_ = false;
      self->pump();
    }
  });
}

void WorkQueue::park(std::string_view key) {
  const auto found = items_.find(std::string(key));
  if (found == items_.end() || !found->second.running || found->second.parked) {
    return;
  }
  found->second.parked = true;
  --running_;
  ++parked_;
  pump_soon();
}

void WorkQueue::add_after(std::string_view key, Duration delay) {
  loop_.after(delay, [alive = alive_, key = std::string(key)] {
    if (WorkQueue* self = *alive) {
      self->add(key);
    }
  });
}

void WorkQueue::add_once_after(std::string_view key, Duration delay) {
  const TimePoint due = loop_.now() + delay;
  auto [look, added] = looks_.try_emplace(std::string(key), due);
  if (!added && look->second <= due) {
    return;
  }
  look->second = due;
  loop_.after(delay, [alive = alive_, key = std::string(key), due] {
    WorkQueue* self = *alive;
    if (self == nullptr) {
      return;
    }
    const auto found = self->looks_.find(key);
    if (found != self->looks_.end() && found->second == due) {
      self->looks_.erase(found);
      self->add(key);
    }
  });
}

void WorkQueue::pump() {
  while (running_ < parallel_ && !waiting_.empty()) {
    const std::string key = std::move(waiting_.front());
    waiting_.pop_front();
    Item& item = items_[key];
    item.queued = false;
    item.running = true;
    item.begun = loop_.now();
    item.seen = item.failures == 0 ? item.added : item.seen;
    ++running_;
    work_(key, [alive = alive_, key](bool ok) {
      if (WorkQueue* self = *alive) {
        self->finish(key, ok);
      }
    });
  }
}

void WorkQueue::finish(const std::string& key, bool ok) {
  const auto found = items_.find(key);
  if (found == items_.end() || !found->second.running) {
    return;
  }
  Item& item = found->second;
  item.running = false;
  --(std::exchange(item.parked, false) ? parked_ : running_);
  times_.work.add(loop_.now() - item.begun);
  if (ok) {
    times_.lag.add(loop_.now() - item.seen);
  }
  item.failures = ok ? 0 : item.failures + 1;
  const bool again = item.queued;
  if (!ok && !again) {
    add_once_after(key, back_off(key, item.failures - 1));
  } else if (again) {
    const TimePoint since = item.added;
    item.queued = false;
    add(key);
    item.added = since;
  } else {
    items_.erase(found);
  }
  pump_soon();
}

}  // namespace kintsugi::net
