#include "store/internal/book_keeper.h"

#include <algorithm>
#include <utility>

namespace kintsugi::store {
namespace {

bool is_nothing(const Sums& sums) noexcept {
  return std::all_of(sums.begin(), sums.end(), [](std::int64_t sum) { return sum == 0; });
}

void add_to(Sums& sums, const Sums& more, std::int64_t sign) noexcept {
  for (std::size_t i = 0; i < kBookColumns; ++i) {
    sums[i] += sign * more[i];
  }
}

/// The limit of a column for who has the reserve.
std::int64_t with_reserve(std::int64_t most) noexcept {
  return most > kNoLimit / 2 ? most : most + most / 10;
}

}  // namespace

std::optional<Excess> BookKeeper::excess_of(const Sums& now, const Sums& most, const Sums& more,
                                            const Keeps& keeps) {
  for (std::size_t i = 0; i < kBookColumns; ++i) {
    if ((keeps.columns >> i & 1U) == 0 || more[i] <= 0) {
      continue;
    }
    const std::int64_t room = keeps.reserve ? with_reserve(most[i]) : most[i];
    if (now[i] + more[i] > room) {
      return Excess{i, now[i], most[i]};
    }
  }
  return std::nullopt;
}

BookKeeper::Account& BookKeeper::open(std::string_view name) {
  if (const auto known = accounts_.find(name); known != accounts_.end()) {
    return known->second;
  }
  Account& made = accounts_[std::string(name)];
  made.name = name;
  made.most = initial_ ? initial_(name) : no_limits();
  return made;
}

Sums BookKeeper::sums(std::string_view account) const {
  const std::lock_guard lock(mutex_);
  const auto known = accounts_.find(account);
  return known == accounts_.end() ? Sums{} : known->second.sums;
}

Sums BookKeeper::limits(std::string_view account) const {
  const std::lock_guard lock(mutex_);
  const auto known = accounts_.find(account);
  return known != accounts_.end() ? known->second.most : initial_ ? initial_(account) : no_limits();
}

void BookKeeper::limit(std::string_view account, const std::optional<Sums>& most) {
  const std::lock_guard lock(mutex_);
  if (!most && accounts_.find(account) == accounts_.end()) {
    return;
  }
  Account& changed = open(account);
  changed.has_own_limit = most.has_value();
  changed.most = most ? *most : initial_ ? initial_(account) : no_limits();
}

void BookKeeper::set_initial(std::function<Sums(std::string_view account)> most) {
  const std::lock_guard lock(mutex_);
  initial_ = std::move(most);
  for (auto& [name, account] : accounts_) {
    if (!account.has_own_limit) {
      account.most = initial_ ? initial_(name) : no_limits();
    }
  }
}

std::optional<Excess> BookKeeper::check(std::string_view key, std::string_view old_value,
                                        bool was_there, std::string_view value,
                                        const Keeps& keeps) const {
  if (!is_open()) {
    return std::nullopt;
  }
  BookEntry now;
  BookEntry before;
  rules_.measure(key, value, now);
  if (was_there) {
    rules_.measure(key, old_value, before);
  }
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < now.used; ++i) {
    Sums more = now.parts[i].sums;
    for (std::size_t k = 0; k < before.used; ++k) {
      if (before.parts[k].account == now.parts[i].account) {
        add_to(more, before.parts[k].sums, -1);
      }
    }
    const auto known = accounts_.find(now.parts[i].account);
    const bool is_new = known == accounts_.end();
    const Sums most = !is_new    ? known->second.most
                      : initial_ ? initial_(now.parts[i].account)
                                 : no_limits();
    if (auto over = excess_of(is_new ? Sums{} : known->second.sums, most, more, keeps)) {
      return over;
    }
  }
  return std::nullopt;
}

void BookKeeper::each(const Visitor& visit) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, account] : accounts_) {
    visit(name, account.sums, account.most);
  }
}

void BookKeeper::add(std::string_view key, std::string_view value, std::int64_t sign,
                     const Keeps& keeps) {
  BookEntry entry;
  rules_.measure(key, value, entry);
  for (std::size_t i = 0; i < entry.used; ++i) {
    const BookEntry::Part& part = entry.parts[i];
    Account* account = nullptr;
    // The last rows of a transaction are mostly of one account.
    if (!changes_.empty() && changes_.back().account->name == part.account) {
      account = changes_.back().account;
    } else {
      const std::lock_guard lock(mutex_);
      account = &open(part.account);
    }
    auto known = std::find_if(changes_.begin(), changes_.end(),
                              [account](const Change& one) { return one.account == account; });
    if (known == changes_.end()) {
      known = changes_.insert(changes_.end(), Change{account, {}, {0, true}});
    }
    add_to(known->more, part.sums, sign);
    known->keeps.columns |= keeps.columns;
    known->keeps.reserve = known->keeps.reserve && (keeps.reserve || keeps.columns == 0);
  }
}

void BookKeeper::row(std::string_view key, std::optional<std::string_view> before,
                     std::optional<std::string_view> after, const Keeps& keeps) {
  if (before) {
    add(key, *before, -1, keeps);
  }
  if (after) {
    add(key, *after, 1, keeps);
  }
}

std::optional<Excess> BookKeeper::settle() {
  std::optional<Excess> over;
  for (std::size_t i = 0; i < changes_.size() && !over; ++i) {
    const Change& change = changes_[i];
    if (change.keeps.columns != 0) {
      Sums most;
      {
        const std::lock_guard lock(mutex_);
        most = change.account->most;
      }
      over = excess_of(change.account->draft, most, change.more, change.keeps);
    }
  }
  for (std::size_t i = 0; i < changes_.size() && !over; ++i) {
    Account& account = *changes_[i].account;
    add_to(account.draft, changes_[i].more, 1);
    if (!std::exchange(account.is_dirty, true)) {
      dirty_.push_back(&account);
    }
  }
  changes_.clear();
  return over;
}

void BookKeeper::each_draft(const Draft& visit) const {
  for (const Account* account : dirty_) {
    visit(account->name, account->draft);
  }
}

void BookKeeper::each_total(const Draft& visit) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, account] : accounts_) {
    visit(name, account.draft);
  }
}

void BookKeeper::publish() {
  if (dirty_.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  for (Account* account : dirty_) {
    account->sums = account->draft;
    account->is_dirty = false;
    if (is_nothing(account->sums) && !account->has_own_limit) {
      accounts_.erase(accounts_.find(account->name));
    }
  }
  dirty_.clear();
}

void BookKeeper::drop() {
  for (Account* account : dirty_) {
    account->draft = account->sums;
    account->is_dirty = false;
  }
  dirty_.clear();
}

void BookKeeper::clear() {
  const std::lock_guard lock(mutex_);
  dirty_.clear();
  for (auto& [name, account] : accounts_) {
    account.sums = account.draft = Sums{};
    account.is_dirty = false;
  }
}

void BookKeeper::load(std::string_view account, const Sums& sums) {
  const std::lock_guard lock(mutex_);
  Account& opened = open(account);
  opened.sums = opened.draft = sums;
}

}  // namespace kintsugi::store
