#include "base/memory_budget.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace kintsugi {
namespace {

constexpr std::size_t kLeastSlack = std::size_t{1} << 20;  ///< what windows may still let in

constexpr std::size_t over(std::size_t bytes, std::size_t limit) noexcept {
  return bytes > limit ? bytes - limit : 0;
}

}  // namespace

std::string_view account_name(MemoryAccount account) noexcept {
  return account == MemoryAccount::kBodies ? "bodies" : "lists";
}

MemoryBudget::MemoryBudget(std::size_t limit)
    : limit_(limit == 0 ? std::numeric_limits<std::size_t>::max() : limit) {
  accounts_[static_cast<std::size_t>(MemoryAccount::kBodies)].part = limit_ / 10;
  accounts_[static_cast<std::size_t>(MemoryAccount::kLists)].part = limit_ / 5;
}

std::size_t MemoryBudget::payers(MemoryAccount account) const {
  const std::lock_guard lock(mutex_);
  return accounts_[static_cast<std::size_t>(account)].purses.size();
}

MemoryBudget::Claim::Claim(std::shared_ptr<MemoryBudget> budget, MemoryAccount account,
                           const std::string& payer, Bounds bounds)
    : budget_(std::move(budget)), account_(account), bounds_(bounds) {
  const std::lock_guard lock(budget_->mutex_);
  const auto [found, made] =
      budget_->accounts_[static_cast<std::size_t>(account_)].purses.try_emplace(payer);
  purse_ = &found->second;
  purse_->payer = &found->first;
  ++purse_->claims;
}

MemoryBudget::Claim::~Claim() {
  (void)set(0);
  const std::lock_guard lock(budget_->mutex_);
  if (--purse_->claims == 0) {
    auto& purses = budget_->accounts_[static_cast<std::size_t>(account_)].purses;
    purses.erase(purses.find(*purse_->payer));
  }
}

MemoryBudget::Fit MemoryBudget::Claim::set(std::size_t bytes) noexcept {
  Account& account = budget_->accounts_[static_cast<std::size_t>(account_)];
  const std::lock_guard lock(budget_->mutex_);
  const std::size_t change = bytes - std::exchange(bytes_, bytes);  // may wrap, as the sums do
  purse_->bytes += change;
  const std::size_t used = account.used.fetch_add(change, std::memory_order_relaxed) + change;
  const bool tight = budget_->tight_.load(std::memory_order_relaxed);
  const std::size_t most = tight ? bounds_.payer / 4 : bounds_.payer;
  const Claim* beyond = tight ? nullptr : purse_->beyond;
  const std::size_t rest = purse_->bytes - (beyond == nullptr ? 0 : beyond->bytes_);
  std::size_t payer_over = over(purse_->bytes, most);
  if (bytes == 0 || payer_over == 0) {
    purse_->beyond = purse_->beyond == this ? nullptr : purse_->beyond;
  } else if (!tight && bounds_.one_beyond &&
             (purse_->beyond == nullptr || purse_->beyond == this)) {
    purse_->beyond = this;
    payer_over = 0;
  }
  const std::size_t total_over = over(used, account.part);
  if (bytes == 0 || (payer_over == 0 && total_over == 0)) {
    return Fit::kFits;
  }
  const bool full = over(rest, most) > std::max(most, kLeastSlack) ||
                    total_over > std::max(account.part / 4, kLeastSlack);
  return full ? Fit::kFull : Fit::kCrowded;
}

}  // namespace kintsugi
