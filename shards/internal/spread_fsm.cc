#include "shards/internal/spread_fsm.h"

#include <algorithm>

namespace kintsugi::shards {

void SpreadFsm::add() {
  places_.emplace_back();
  if (places_.size() == 1) {
    places_.front().state = State::kThere;
    answered_ = true;
  }
}

void SpreadFsm::erase(std::size_t place) {
  places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(place));
}

void SpreadFsm::put_first(std::size_t place) {
  const auto at = places_.begin() + static_cast<std::ptrdiff_t>(place);
  std::rotate(places_.begin(), at, at + 1);
}

void SpreadFsm::note(std::size_t place, std::uint32_t failures) noexcept {
  Place& one = places_[place];
  one.failures = failures;
  if (one.state == State::kThere && failures > 0) {
    one.state = State::kAway;
    one.lost = true;
    one.unready = false;
  } else if (one.state == State::kMaybe && failures > one.before) {
    one.state = State::kAway;
  }
}

bool SpreadFsm::settle() noexcept {
  const bool answers = has(State::kThere);
  const bool last_lost = answered_ && !answers;
  answered_ = answers;
  for (Place& one : places_) {
    if (answers && one.state == State::kMaybe) {
      one.state = State::kAway;
    } else if (last_lost && one.state == State::kAway && !one.lost && !one.unready) {
      one.state = State::kMaybe;
      one.before = one.failures;
    }
    one.lost = false;
  }
  return last_lost;
}

void SpreadFsm::on_said(std::size_t place, std::optional<bool> ready) noexcept {
  Place& one = places_[place];
  one.unready = ready == false;
  if (ready == true) {
    one.state = State::kThere;
    answered_ = true;
  } else if (one.unready && one.state == State::kMaybe) {
    one.state = State::kAway;
  }
}

std::size_t SpreadFsm::choose(bool first) noexcept {
  if (places_.size() == 1 || (first && places_.front().state == State::kThere)) {
    return 0;
  }
  for (const State wanted : {State::kThere, State::kMaybe}) {
    for (std::size_t tried = 0; tried < places_.size(); ++tried) {
      const std::size_t place = ++turn_ % places_.size();
      if (places_[place].state == wanted) {
        return place;
      }
    }
  }
  return ++turn_ % places_.size();
}

bool SpreadFsm::has(State state) const noexcept {
  return std::any_of(places_.begin(), places_.end(),
                     [state](const Place& one) { return one.state == state; });
}

}  // namespace kintsugi::shards
