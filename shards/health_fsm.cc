#include "shards/health_fsm.h"

namespace kintsugi::shards {

HealthFsm::Change HealthFsm::go_down(TimePoint now) noexcept {
  if (!up_) {
    return Change::kNone;
  }
  up_ = false;
  trial_ = now;
  return Change::kDown;
}

HealthFsm::Change HealthFsm::on_probe(bool answered, TimePoint now) noexcept {
  if (answered) {
    return on_success(now);
  }
  return ++probes_failed_ >= kProbes ? go_down(now) : Change::kNone;
}

HealthFsm::Change HealthFsm::on_failure(TimePoint now) noexcept {
  when_[failures_ % kFailures] = now;
  ++failures_;
  // The next place of the ring holds the oldest of the last five.
  const bool streak = failures_ >= kFailures && now - when_[failures_ % kFailures] <= kWindow;
  return streak ? go_down(now) : Change::kNone;
}

HealthFsm::Change HealthFsm::on_success(TimePoint) noexcept {
  probes_failed_ = 0;
  failures_ = 0;
  if (up_) {
    return Change::kNone;
  }
  up_ = true;
  return Change::kUp;
}

bool HealthFsm::admit(TimePoint now) noexcept {
  if (up_) {
    return true;
  }
  if (now - trial_ < kTrial) {
    return false;
  }
  trial_ = now;
  return true;
}

}  // namespace kintsugi::shards
