#include "shards/internal/fault_log.h"

#include <utility>

namespace kintsugi::shards {
namespace {

constexpr Duration kPause = seconds(1);  ///< between two lines about silence

}  // namespace

FaultLog& FaultLog::of_process() {
  static FaultLog log;
  return log;
}

bool FaultLog::note(std::string_view server, State state, TimePoint now) {
  const std::scoped_lock lock(mutex_);
  const auto known = servers_.find(server);
  if (known == servers_.end() && state == State::kUp) {
    return false;
  }
  Told& told = known != servers_.end() ? known->second : servers_[std::string(server)];
  if (state == State::kUp) {
    return std::exchange(told.state, state) == State::kDown;
  }
  if (state <= told.state) {
    return false;
  }
  if (state == State::kSilent) {
    if (told.silent_at != TimePoint() && now - told.silent_at < kPause) {
      return false;
    }
    told.silent_at = now;
  }
  told.state = state;
  return true;
}

}  // namespace kintsugi::shards
