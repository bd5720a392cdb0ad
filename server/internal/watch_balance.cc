#include "server/internal/watch_balance.h"

#include <numeric>

namespace kintsugi::server {

std::size_t WatchBalance::step(std::size_t own, const std::vector<std::size_t>& others) {
  const double sum = std::accumulate(others.begin(), others.end(), 0.0);
  const auto count = static_cast<double>(others.size());
  const auto mine = static_cast<double>(own);
  const double most = kEnds * (sum + mine) / (count + 1);
  calm_ = mine <= most ? calm_ + 1 : 0;
  if (others.empty() || calm_ > kCalm) {
    is_ending_ = false;
  } else if (own >= kLeast && mine > kBegins * sum / count) {
    is_ending_ = true;
  }
  if (!is_ending_ || calm_ > 0) {
    due_ = 0;
    return 0;
  }
  due_ += mine * kShare;
  const auto now = static_cast<std::size_t>(due_);
  due_ -= static_cast<double>(now);
  return now;
}

}  // namespace kintsugi::server
