#include "workers/delivery/agent/status_outbox.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {
namespace {

constexpr Duration kLeastRest = seconds(5), kMostRest = seconds(300);

Duration rest_after(unsigned refusals) {
  return std::min<Duration>(kLeastRest * (1U << std::min(refusals - 1, 10U)), kMostRest);
}

}  // namespace

void StatusOutbox::remove(Line& line, std::size_t at) {
  --items_;
  bytes_ -= line.items[at].payload.size();
  line.items.erase(line.items.begin() + static_cast<std::ptrdiff_t>(at));
}

void StatusOutbox::put(const std::string& uid, Item item) {
  Line& line = lines_[uid];
  const std::size_t first = line.flying ? 1 : 0;
  if (line.items.size() > first && !line.items.back().must) {
    remove(line, line.items.size() - 1);
  }
  if (line.items.size() >= first + params_.of_one) {
    remove(line, first);
    ++dropped_;
  }
  ++items_;
  bytes_ += item.payload.size();
  line.items.push_back(std::move(item));
  if (!line.flying) {
    settle(uid, line);
  }
}

void StatusOutbox::queue(const std::string& uid, Line& line, TimePoint at) {
  if (line.parked) {
    return;
  }
  at = std::max(at, line.rests_until);
  if (std::exchange(line.queued, true)) {
    if (line.at <= at) {
      return;
    }
    waiting_.erase({line.at, uid});
  }
  line.at = at;
  waiting_.emplace(at, uid);
}

/// Lines stay for their rate when nothing waits; not for ever.
void StatusOutbox::sweep(TimePoint now) {
  constexpr std::size_t kSpare = 1'024;
  if (lines_.size() > 2 * items_ + kSpare) {
    std::erase_if(lines_, [now](const auto& one) {
      return one.second.items.empty() && one.second.not_before <= now;
    });
  }
}

void StatusOutbox::settle(const std::string& uid, Line& line) {
  if (!line.items.empty()) {
    queue(uid, line, line.items.front().must ? TimePoint{} : line.not_before);
  }
}

std::optional<StatusOutbox::Sending> StatusOutbox::next(TimePoint now) {
  if (in_flight_ >= params_.in_flight || waiting_.empty() || waiting_.begin()->first > now) {
    return std::nullopt;
  }
  while (!waiting_.empty() && waiting_.begin()->first <= now) {
    const std::string uid = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    Line& line = lines_[uid];
    line.queued = false;
    if (!may_fly(uid, line, now)) {
      continue;
    }
    line.flying = true;
    ++in_flight_;
    line.not_before = now + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(
                                1.0 / std::max(params_.per_second, 0.001)));
    return Sending{uid, &line.items.front()};
  }
  return std::nullopt;
}

/// Else it is queued for later, or parked.
bool StatusOutbox::may_fly(const std::string& uid, Line& line, TimePoint now) {
  const auto at = refused_.find(line.items.front().prefix);
  if (at == refused_.end()) {
    return true;
  }
  Refused& prefix = at->second;
  if (prefix.flying) {
    line.parked = true;
    prefix.parked.push_back(uid);
    return false;
  }
  if (prefix.not_before > now) {
    queue(uid, line, prefix.not_before);
    return false;
  }
  return prefix.flying = true;
}

void StatusOutbox::unpark(Refused& prefix, std::size_t most) {
  for (; most > 0 && !prefix.parked.empty(); --most) {
    const std::string uid = std::move(prefix.parked.front());
    prefix.parked.pop_front();
    Line& line = lines_[uid];
    line.parked = false;
    queue(uid, line, TimePoint{});
  }
}

void StatusOutbox::landed(const std::string& name, Line& line, const std::string& uid,
                          bool accepted, TimePoint now) {
  const auto known = refused_.find(name);
  if (accepted && known == refused_.end()) {
    return;
  }
  Refused& prefix = known == refused_.end() ? refused_[name] : known->second;
  prefix.flying = false;
  if (accepted) {
    line.refusals = prefix.refusals = 0;
    line.rests_until = prefix.not_before = TimePoint{};
    prefix.uids.erase(uid);
  } else {
    line.rests_until = now + rest_after(++line.refusals);
    if (prefix.not_before <= now) {  // once for those that were in flight together
      prefix.not_before = now + rest_after(++prefix.refusals);
    }
    prefix.uids.insert(uid);
  }
  const bool over = prefix.uids.empty();
  unpark(prefix, over ? prefix.parked.size() : 1);
  if (over) {
    refused_.erase(name);
  }
}

std::size_t StatusOutbox::refused() const noexcept {
  std::size_t out = 0;
  for (const auto& [name, prefix] : refused_) {
    out += prefix.uids.size();
  }
  return out;
}

void StatusOutbox::sent(const std::string& uid, int id) { flights_[id] = uid; }

std::optional<std::string> StatusOutbox::acknowledged(int id, bool accepted, TimePoint now) {
  const auto flight = flights_.find(id);
  if (flight == flights_.end()) {
    return std::nullopt;
  }
  std::string uid = flight->second;
  flights_.erase(flight);
  Line& line = lines_[uid];
  line.flying = false;
  --in_flight_;
  landed(std::string(line.items.front().prefix), line, uid, accepted, now);
  if (!accepted) {
    queue(uid, line, TimePoint{});
    return uid;
  }
  remove(line, 0);
  settle(uid, line);
  sweep(now);
  return uid;
}

void StatusOutbox::lost() {
  flights_.clear();
  in_flight_ = 0;
  for (auto& [name, prefix] : refused_) {
    prefix.flying = false;
    unpark(prefix, 1);
  }
  for (auto& [uid, line] : lines_) {
    line.flying = false;
    if (!line.items.empty()) {
      queue(uid, line, TimePoint{});
    }
  }
}

std::optional<TimePoint> StatusOutbox::next_time() const {
  return waiting_.empty() || in_flight_ >= params_.in_flight
             ? std::nullopt
             : std::optional(waiting_.begin()->first);
}

}  // namespace kintsugi::workers
