#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "store/books.h"

namespace kintsugi::store {

/// Books as the one who writes keeps them. Transactions are counted into drafts, which publish()
/// makes true or drop() forgets, as the group that they belong to is committed or not.
/// Threads: what Books has, any; the rest, the writer's. Private to store/.
class BookKeeper final : public Books {
 public:
  explicit BookKeeper(const BookRules& rules) : rules_(rules) {}

  [[nodiscard]] Sums sums(std::string_view account) const override;
  [[nodiscard]] Sums limits(std::string_view account) const override;
  void limit(std::string_view account, const std::optional<Sums>& most) override;
  void set_initial(std::function<Sums(std::string_view account)> most) override;
  [[nodiscard]] std::optional<Excess> check(std::string_view key, std::string_view old_value,
                                            bool was_there, std::string_view value,
                                            const Keeps& keeps) const override;
  void each(const Visitor& visit) const override;

  /// Books are kept at all; without that nothing below is for anybody.
  [[nodiscard]] bool is_open() const noexcept { return rules_.measure != nullptr; }
  [[nodiscard]] const BookRules& rules() const noexcept { return rules_; }

  /// One row of a transaction, before and after; nullopt: it is not there.
  void row(std::string_view key, std::optional<std::string_view> before,
           std::optional<std::string_view> after, const Keeps& keeps);
  /// All rows of the transaction have been told. nullopt: it counts from now on; else it does not.
  [[nodiscard]] std::optional<Excess> settle();

  /// Accounts that transactions have changed since the last publish() or drop().
  using Draft = std::function<void(std::string_view account, const Sums& sums)>;
  void each_draft(const Draft& visit) const;
  /// All accounts, with what transactions have changed.
  void each_total(const Draft& visit) const;
  void publish();
  void drop();
  /// Sums that were kept before; limits stay.
  void clear();
  void load(std::string_view account, const Sums& sums);

 private:
  struct Account {
    std::string name;
    Sums sums{}, most = no_limits();
    bool has_own_limit = false;
    Sums draft{};           // the writer's
    bool is_dirty = false;  // the writer's
  };
  struct Change {
    Account* account;
    Sums more;
    Keeps keeps;
  };
  Account& open(std::string_view name);
  [[nodiscard]] static std::optional<Excess> excess_of(const Sums& now, const Sums& most,
                                                       const Sums& more, const Keeps& keeps);
  void add(std::string_view key, std::string_view value, std::int64_t sign, const Keeps& keeps);

  const BookRules rules_;
  mutable std::mutex mutex_;  // guards accounts_ and, of each, what is not the writer's
  StringMap<Account> accounts_;
  std::function<Sums(std::string_view)> initial_;
  std::vector<Change> changes_;  // of the transaction
  std::vector<Account*> dirty_;
};

}  // namespace kintsugi::store
