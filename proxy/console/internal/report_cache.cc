#include "proxy/console/internal/report_cache.h"

#include <utility>

namespace kintsugi::proxy {

void ReportCache::get(ReportPart part, Done done) {
  Kept& kept = kept_[static_cast<std::size_t>(part)];
  if (kept.loops != nullptr && Clock::now() - kept.at < kFresh) {
    done(*kept.loops);
    return;
  }
  kept.waiting.push_back(std::move(done));
  if (kept.waiting.size() > 1) {
    return;
  }
  admin_.collect(part, alive_.guard([&kept](std::vector<LoopReport> loops) {
    kept.loops = std::make_shared<const std::vector<LoopReport>>(std::move(loops));
    kept.at = Clock::now();
    const auto shown = kept.loops;
    for (const Done& one : std::exchange(kept.waiting, {})) {
      one(*shown);
    }
  }));
}

}  // namespace kintsugi::proxy
