#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "proxy/console/internal/view_rows.h"

namespace kintsugi::proxy {

void Rates::take(const std::vector<LoopReport>& loops, TimePoint now) {
  constexpr Duration kWindow = seconds(5), kPause = seconds(15);
  if (!samples_.empty() && now - samples_.back().at < seconds(1)) {
    return;
  }
  if (!samples_.empty() && now - samples_.back().at > kPause) {
    samples_.clear();
  }
  Sample sample;
  sample.at = now;
  for (const LoopReport& loop : loops) {
    for (const auto& [name, server] : loop.forward.servers) {
      Counts& shard = sample.shards[name];
      for (const auto& [what, count] : server.requests) {
        const bool wrong = what.second == 0 || what.second >= 500;
        shard.requests += count;
        shard.errors += wrong ? count : 0;
        sample.all.requests += count;
        sample.all.errors += wrong ? count : 0;
      }
    }
  }
  for (const LoopReport& loop : loops) {
    for (const auto& [what, times] : loop.forward.times.rows()) {
      for (std::size_t i = 0; i < sample.times.size(); ++i) {
        sample.times[i] += times.counts[i];
      }
    }
  }
  samples_.push_back(std::move(sample));
  while (samples_.size() > 2 && now - samples_[1].at >= kWindow) {
    samples_.erase(samples_.begin());
  }
}

Rates::Of Rates::between(const Counts& before, const Counts& now) const {
  const double time =
      std::chrono::duration<double>(samples_.back().at - samples_.front().at).count();
  const auto rate = [time](std::uint64_t from, std::uint64_t to) {
    return std::round(static_cast<double>(to - std::min(from, to)) / time * 10) / 10;
  };
  return {rate(before.requests, now.requests), rate(before.errors, now.errors)};
}

double Rates::p99() const {
  if (!known()) {
    return -1;
  }
  std::array<std::uint64_t, RequestTimes::kBounds.size() + 1> news{};
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < news.size(); ++i) {
    news[i] = samples_.back().times[i] - samples_.front().times[i];
    all += news[i];
  }
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < RequestTimes::kBounds.size(); ++i) {
    below += news[i];
    if (all != 0 && below * 100 >= all * 99) {
      return RequestTimes::kBounds[i];
    }
  }
  return all == 0 ? -1 : RequestTimes::kBounds.back();
}

Rates::Of Rates::all() const {
  return known() ? between(samples_.front().all, samples_.back().all) : Of{};
}

Rates::Of Rates::shard(std::string_view name) const {
  if (!known()) {
    return {};
  }
  const auto counts = [name](const Sample& sample) {
    const auto found = sample.shards.find(name);
    return found != sample.shards.end() ? found->second : Counts{};
  };
  return between(counts(samples_.front()), counts(samples_.back()));
}

}  // namespace kintsugi::proxy
