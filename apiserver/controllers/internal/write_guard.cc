#include "apiserver/controllers/internal/write_guard.h"

#include <algorithm>
#include <functional>

namespace kintsugi::apiserver {
namespace {

using krm::Json;

constexpr Duration kFirstPause = milliseconds(5);
constexpr Duration kLastPause = seconds(10);
constexpr Duration kRestFor = seconds(300);
constexpr std::size_t kSame = 3;  // the third time in one state is a loop

std::size_t digest(const Json& value) { return std::hash<std::string>{}(value.dump()); }

/// What the object is, without what every write changes.
std::size_t state_of(const Json& object) {
  Json state = object;
  if (Json* metadata = state.at({"metadata"})) {
    for (const char* member : {"resourceVersion", "managedFields", "generation"}) {
      metadata->erase(member);
    }
  }
  Json* conditions = state.at({"status", "conditions"});
  if (conditions != nullptr && conditions->is_array()) {
    std::erase_if(conditions->edit_items(),
                  [](const Json& condition) { return condition.text({"type"}) == "Stalled"; });
    for (Json& condition : conditions->edit_items()) {
      condition.erase("lastTransitionTime");
    }
    if (conditions->size() == 0) {
      state.at({"status"})->erase("conditions");
    }
  }
  return digest(state);
}

/// What users decide.
std::size_t cause_of(const Json& object) {
  Json cause = Json::object();
  for (const char* member : {"spec", "data", "rules", "subjects"}) {
    if (const Json* value = object.find(member)) {
      cause[member] = *value;
    }
  }
  if (const Json* labels = object.at({"metadata", "labels"})) {
    cause["labels"] = *labels;
  }
  cause["deleted"] = object.text({"metadata", "deletionTimestamp"});
  cause["uid"] = object.text({"metadata", "uid"});
  return digest(cause);
}

}  // namespace

WriteGuard::Verdict WriteGuard::ask(std::string_view key, const Json& object, TimePoint now) {
  forget(now);
  Entry& entry = entries_[std::string(key)];
  entry.is_new = false;
  while (!entry.writes.empty() && now - entry.writes.front().first > kWindow) {
    entry.writes.pop_front();
  }
  const std::size_t state = state_of(object);
  const auto& loop = entry.loop;
  if (entry.rests && entry.cause == cause_of(object) &&
      std::find(loop.begin(), loop.end(), state) != loop.end()) {
    if (now < entry.again) {
      return Verdict::kRest;
    }
    entry.again = now + kRestFor;
    return Verdict::kWrite;
  }
  entry.rests = false;
  if (entry.writes.size() >= kFree) {
    const auto same = std::count_if(entry.writes.begin(), entry.writes.end(),
                                    [state](const auto& write) { return write.second == state; });
    if (static_cast<std::size_t>(same) + 1 >= kSame) {
      entry.loop.clear();
      for (const auto& write : entry.writes) {
        entry.loop.push_back(write.second);
      }
      entry.again = now + kRestFor;
      entry.cause = cause_of(object);
      entry.rests = entry.is_new = true;
      return Verdict::kRest;
    }
    const std::size_t more = std::min<std::size_t>(entry.writes.size() - kFree, 20);
    const Duration pause = std::min<Duration>(kLastPause, kFirstPause * (1LL << more));
    if (now - entry.writes.back().first < pause) {
      return Verdict::kLater;
    }
  }
  entry.writes.emplace_back(now, state);
  return Verdict::kWrite;
}

bool WriteGuard::rests(std::string_view key) const noexcept {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.rests;
}

bool WriteGuard::rests_newly(std::string_view key) const noexcept {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.is_new;
}

std::size_t WriteGuard::resting() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const auto& entry) { return entry.second.rests; }));
}

void WriteGuard::forget(TimePoint now) {
  if (now - swept_ < kWindow) {
    return;
  }
  swept_ = now;
  std::erase_if(entries_, [&](const auto& entry) {
    return !entry.second.rests &&
           (entry.second.writes.empty() || now - entry.second.writes.back().first > kWindow);
  });
}

}  // namespace kintsugi::apiserver
