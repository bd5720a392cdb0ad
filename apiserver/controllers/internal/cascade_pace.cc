#include "apiserver/controllers/internal/cascade_pace.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kintsugi::apiserver {
namespace {

constexpr Duration kStep = Duration(seconds(1)) / CascadePace::kPerSecond;
constexpr Duration kTick = milliseconds(20);  ///< what has become due meanwhile goes together

}  // namespace

TimePoint CascadePace::Bucket::due() const noexcept { return full - kStep * (kBurst - 1); }

void CascadePace::Bucket::take(TimePoint now) noexcept { full = std::max(full, now) + kStep; }

bool CascadePace::enter(std::string_view cluster, TimePoint now, Go go) {
  if (buckets_.size() >= forget_at_) {
    forget(now);
  }
  Bucket& bucket = buckets_.try_emplace(std::string(cluster), Bucket{now, {}}).first->second;
  if (bucket.waiting.empty() && bucket.due() <= now) {
    bucket.take(now);
    return true;
  }
  bucket.waiting.push_back(std::move(go));
  ++waiting_;
  return false;
}

TimePoint CascadePace::release(TimePoint now) {
  std::vector<Go> ready;
  TimePoint next = TimePoint::max();
  for (auto& [cluster, bucket] : buckets_) {
    while (!bucket.waiting.empty() && bucket.due() <= now) {
      bucket.take(now);
      ready.push_back(std::move(bucket.waiting.front()));
      bucket.waiting.pop_front();
    }
    next = bucket.waiting.empty() ? next : std::min(next, bucket.due());
  }
  waiting_ -= ready.size();
  for (const Go& go : ready) {
    go();
  }
  return next;
}

void CascadePace::forget(TimePoint now) {
  std::erase_if(buckets_, [now](const auto& one) {
    return one.second.waiting.empty() && one.second.full <= now;
  });
  forget_at_ = std::max<std::size_t>(64, buckets_.size() * 2);
}

bool CascadeGate::enter(std::string_view cluster, CascadePace::Go go) {
  if (pace_.enter(cluster, loop_.now(), std::move(go))) {
    return true;
  }
  if (!std::exchange(runs_, true)) {
    timer_.start(kTick, [this] { release(); });
  }
  return false;
}

void CascadeGate::release() {
  const TimePoint next = pace_.release(loop_.now());
  runs_ = pace_.waiting() > 0;
  if (runs_) {
    timer_.start(std::max<Duration>(kTick, next == TimePoint::max() ? kTick : next - loop_.now()),
                 [this] { release(); });
  }
}

}  // namespace kintsugi::apiserver
