#include "serving/memory_pressure.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/last_resort.h"
#include "base/memory_limit.h"
#include "base/metric_families.h"

namespace kintsugi::serving {
namespace {

constexpr int kShedRetrySeconds = 5;
constexpr Duration kLimitAgain = seconds(10);
constexpr Duration kTrimAgain = seconds(2);
constexpr Duration kShortFor = seconds(10);
/// Of the budget, by step; a step is left 5 % lower.
constexpr std::array<double, kShedSteps> kFrom{0, 0.70, 0.80, 0.85, 0.90, 0.95};
constexpr double kBack = 0.05;

/// Pages of the process itself [bytes]; those of files can be dropped at any time.
std::size_t own_memory(const std::string& root) {
  std::size_t size = 0, resident = 0, shared = 0;
  if (!(std::ifstream(root + "/proc/self/statm") >> size >> resident >> shared)) {
    return 0;
  }
  return (resident - std::min(resident, shared)) *
         static_cast<std::size_t>(std::max(::sysconf(_SC_PAGE_SIZE), 1L));
}

double part_of(std::size_t used, std::size_t budget) noexcept {
  return budget == 0 ? 0 : static_cast<double>(used) / static_cast<double>(budget);
}

}  // namespace

std::string_view step_name(ShedStep step) noexcept {
  constexpr std::array<std::string_view, kShedSteps> kNames{"none",    "caches",  "lists",
                                                            "watches", "tenants", "connections"};
  return kNames[static_cast<std::size_t>(step)];
}

Error memory_is_short() {
  Error error(Errc::kTooManyRequests, "Too many requests: memory is short, please try again.");
  error.edit().retry_after_seconds = kShedRetrySeconds;
  return error;
}

MemoryPressure::MemoryPressure(std::size_t budget, std::string root)
    : said_(budget),
      root_(std::move(root)),
      budget_(budget != 0 ? budget : memory_limit(root_) / 4 * 3),
      shortages_(memory_shortages()) {}

ShedStep MemoryPressure::look(TimePoint now) {
  std::size_t budget = this->budget();
  if (said_ == 0 && now - limit_read_ >= kLimitAgain) {
    limit_read_ = now;
    budget = memory_limit(root_) / 4 * 3;
  }
  const ShedStep before = step();
  const std::uint64_t shortages = memory_shortages();
  if (std::exchange(shortages_, shortages) != shortages) {
    run_out(now);
  }
  std::size_t used = own_memory(root_);
  if ((step() != ShedStep::kNone || part_of(used, budget) >= kFrom[1]) &&
      now - trimmed_ >= kTrimAgain) {
    trimmed_ = now;
    count(ShedStep::kCaches);
    ::malloc_trim(0);
    used = own_memory(root_);
  }
  ShedStep step = judge(used, budget);
  if (now < short_until_ && step < ShedStep::kTenants) {
    step = ShedStep::kTenants;
    step_.store(step, std::memory_order_relaxed);
  }
  if (step > before) {
    trimmed_ = TimePoint();  // what is given up now counts at the next look
  }
  return step;
}

ShedStep MemoryPressure::run_out(TimePoint now) noexcept {
  short_until_ = now + kShortFor;
  trimmed_ = TimePoint();
  const ShedStep step = std::max(this->step(), ShedStep::kTenants);
  step_.store(step, std::memory_order_relaxed);
  return step;
}

ShedStep MemoryPressure::judge(std::size_t used, std::size_t budget) noexcept {
  used_.store(used, std::memory_order_relaxed);
  budget_.store(budget, std::memory_order_relaxed);
  const double part = part_of(used, budget);
  auto now = static_cast<std::size_t>(step());
  const std::size_t last = step() < ShedStep::kWatches ? kShedSteps - 1 : kShedSteps;
  while (now + 1 < last && part >= kFrom[now + 1]) {
    ++now;
  }
  while (now > 0 && part < kFrom[now] - kBack) {
    --now;
  }
  step_.store(static_cast<ShedStep>(now), std::memory_order_relaxed);
  return static_cast<ShedStep>(now);
}

void MemoryPressure::fill(MetricFamilies& out) const {
  out.gauge("kintsugi_memory_used_bytes", "memory of the process itself, without pages of files",
            used());
  out.gauge(
      "kintsugi_shed_step",
      "what is given up since memory runs short: 0 nothing, 1 caches, 2 large lists and bodies "
      "wait, 3 watches that nobody reads, 4 requests of tenants, 5 idle connections",
      static_cast<std::uint64_t>(step()));
  out.counter("kintsugi_shed_total", "what was given up since memory ran short", {"step"});
  for (const ShedStep step :
       {ShedStep::kCaches, ShedStep::kWatches, ShedStep::kTenants, ShedStep::kConnections}) {
    out.sample({step_name(step)}, shed(step));
  }
}

}  // namespace kintsugi::serving
