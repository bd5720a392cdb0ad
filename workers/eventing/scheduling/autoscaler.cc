#include "workers/eventing/scheduling/autoscaler.h"

#include <algorithm>

namespace kintsugi::workers {

std::int64_t Autoscaler::bounded(std::int64_t wanted) const noexcept {
  const std::int64_t least = std::max({wanted, settings_.min_replicas, std::int64_t{0}});
  return settings_.max_replicas > 0 ? std::min(least, settings_.max_replicas) : least;
}

void Autoscaler::wake_at(TimePoint at) noexcept { timer_ = std::min(timer_.value_or(at), at); }

bool Autoscaler::may_move(const AutoscalerView& view, TimePoint now) {
  if (view.moving) {
    return false;  // their end is an event
  }
  if (last_lot_ && now - *last_lot_ < settings_.tick) {
    wake_at(*last_lot_ + settings_.tick);
    return false;
  }
  return true;
}

AutoscalerStep Autoscaler::look(const AutoscalerView& view, TimePoint now) {
  AutoscalerStep step;
  timer_.reset();
  if (!last_round_) {
    last_round_ = now;
  }
  // What is enough by the sums may not be by its pieces: one more then, when all are there.
  const bool short_of_room = view.pending_room && !view.coming;
  const std::int64_t wanted =
      bounded(short_of_room ? std::max(view.wanted, view.replicas + 1) : view.wanted);
  if (wanted > view.replicas) {
    fewer_since_.reset();
    if (!asked_) {
      asked_ = true;
      step.scale_to = wanted;
    }
    return step;
  }
  if (wanted == view.replicas || view.pending_room) {
    fewer_since_.reset();
  } else {
    fewer_since_ = fewer_since_.value_or(now);
    if (now - *fewer_since_ < settings_.refresh) {
      wake_at(*fewer_since_ + settings_.refresh);
    } else if (view.used <= wanted) {
      if (!asked_) {
        asked_ = true;
        step.scale_to = wanted;
      }
      return step;
    } else {
      step.compact = may_move(view, now);
      asked_even_ = false;
      return step;
    }
  }
  if (!evening_ && now - *last_round_ >= settings_.refresh) {
    evening_ = true;
  }
  if (evening_) {
    step.rebalance = may_move(view, now);
    asked_even_ = step.rebalance;
  } else {
    wake_at(*last_round_ + settings_.refresh);
  }
  return step;
}

void Autoscaler::moved(std::size_t groups, TimePoint now) noexcept {
  if (groups > 0) {
    last_lot_ = now;
    return;
  }
  if (asked_even_) {
    evening_ = asked_even_ = false;
    last_round_ = now;
    wake_at(now + settings_.refresh);
  } else {
    last_lot_ = now;  // nothing can be moved now: not again at once
    wake_at(now + settings_.refresh);
  }
}

}  // namespace kintsugi::workers
