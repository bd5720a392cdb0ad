#include "workers/messaging/pipeline/check_times.h"

namespace kintsugi::workers {

TimePoint CheckTimes::take(TimePoint wished, TimePoint now) {
  taken_.erase(taken_.begin(), taken_.upper_bound(now - kApart));
  TimePoint at = wished;
  for (auto next = taken_.upper_bound(wished - kApart); next != taken_.end() && *next - at < kApart;
       ++next) {
    at = *next + kApart;
  }
  taken_.insert(at);
  return at;
}

}  // namespace kintsugi::workers
