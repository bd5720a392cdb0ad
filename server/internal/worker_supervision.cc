#include "server/internal/worker_supervision.h"

#include <algorithm>

namespace kintsugi::server {

void RestartPolicy::on_started(TimePoint now) noexcept {
  started_ = now;
  runs_ = true;
  ++starts_;
}

Duration RestartPolicy::on_ended(TimePoint now) {
  if (runs_ && now - started_ >= kWindow) {
    pause_ = kFirst;
    loops_ = false;
  }
  runs_ = false;
  while (!deaths_.empty() && now - deaths_.front() >= kWindow) {
    deaths_.pop_front();
  }
  deaths_.push_back(now);
  if (deaths_.size() >= kMostDeaths) {
    loops_ = true;
    deaths_.pop_front();
  }
  const Duration pause = loops_ ? kLast : pause_;
  pause_ = std::min(pause_ * 2, kLast);
  return pause;
}

}  // namespace kintsugi::server
