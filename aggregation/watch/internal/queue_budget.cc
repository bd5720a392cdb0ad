#include "aggregation/watch/internal/queue_budget.h"

#include <algorithm>

namespace kintsugi::aggregation {

std::size_t QueueBudget::Share::set(std::size_t bytes) noexcept {
  const std::size_t change = bytes - std::exchange(bytes_, bytes);  // may wrap, as the sum does
  const std::size_t all = budget_->used_.fetch_add(change) + change;
  if (budget_->limit_ == 0 || all <= budget_->limit_ || bytes == 0) {
    return 0;
  }
  const double part = static_cast<double>(bytes) / static_cast<double>(all);
  const auto excess =
      static_cast<std::size_t>(static_cast<double>(all - budget_->limit_) * part) + 1;
  return std::min(excess, bytes);
}

}  // namespace kintsugi::aggregation
