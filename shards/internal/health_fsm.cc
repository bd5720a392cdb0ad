#include "shards/internal/health_fsm.h"

namespace kintsugi::shards {

HealthFsm::Change HealthFsm::go_down(TimePoint now) noexcept {
  if (!up_) {
    return Change::kNone;
  }
  up_ = false;
  trial_ = now;
  return Change::kDown;
}

void HealthFsm::note_failure(TimePoint now) noexcept {
  if (failures_ == 0 && probes_failed_ == 0) {
    failing_since_ = now;
  }
}

HealthFsm::Change HealthFsm::on_verdict(bool up, TimePoint now) noexcept {
  if (up) {
    return on_success(now);
  }
  note_failure(now);
  probes_failed_ = kProbes;
  return go_down(now);
}

HealthFsm::Change HealthFsm::on_probe(bool answered, TimePoint now) noexcept {
  if (answered) {
    return on_success(now);
  }
  note_failure(now);
  return ++probes_failed_ >= kProbes ? go_down(now) : Change::kNone;
}

HealthFsm::Change HealthFsm::on_failure(TimePoint now) noexcept {
  note_failure(now);
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
  if (up_ || now - failing_since_ < kRestart) {
    return true;
  }
  if (now - trial_ < kTrial) {
    return false;
  }
  trial_ = now;
  return true;
}

}  // namespace kintsugi::shards
