#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>

/// Sums about rows that a store keeps in the transactions that change them, and limits that
/// transactions keep to (SE-093). What a row amounts to is the rules' to say; the store knows of no
/// key what it means.
namespace kintsugi::store {

/// Numbers of one account: what each column means, the rules know.
inline constexpr std::size_t kBookColumns = 10;
using Sums = std::array<std::int64_t, kBookColumns>;
inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
[[nodiscard]] constexpr Sums no_limits() noexcept {
  Sums out{};
  out.fill(kNoLimit);
  return out;
}

/// What one row adds to its accounts. Views into the row, or constants.
struct BookEntry {
  struct Part {
    std::string_view account;  ///< not ""
    Sums sums{};
  };
  std::array<Part, 2> parts;
  std::size_t used = 0;  ///< of the parts
};

/// How rows are counted. The same row always amounts to the same.
struct BookRules {
  /// @param out  has no parts yet
  using Measure = void (*)(std::string_view key, std::string_view value, BookEntry& out) noexcept;
  Measure measure = nullptr;  ///< null: no books are kept
  std::uint32_t version = 0;  ///< what is kept under another one is counted anew
};

/// A limit that a transaction would have passed.
struct Excess {
  std::size_t column = 0;
  std::int64_t sum = 0;   ///< without the transaction
  std::int64_t most = 0;  ///< that the account may have
};

/// To which limits an operation keeps: one that would make a sum larger than it may be is refused;
/// one that makes it smaller never is.
struct Keeps {
  std::uint32_t columns = 0;  ///< a bit each
  bool reserve = false;       ///< a tenth more than the limit is left to it
};

/// The books of a store. Threads: any; a call waits for others' that only look or count.
class Books {
 public:
  virtual ~Books() = default;
  /// All zero of an account that has no rows.
  [[nodiscard]] virtual Sums sums(std::string_view account) const = 0;
  /// What it may have.
  [[nodiscard]] virtual Sums limits(std::string_view account) const = 0;
  /// For transactions from now on; nullopt: those of set_initial().
  virtual void limit(std::string_view account, const std::optional<Sums>& most) = 0;
  /// Limits of accounts of which nothing else was said; empty: none.
  virtual void set_initial(std::function<Sums(std::string_view account)> most) = 0;
  /// What commit() would say if the row became this one.
  [[nodiscard]] virtual std::optional<Excess> check(std::string_view key,
                                                    std::string_view old_value, bool was_there,
                                                    std::string_view value,
                                                    const Keeps& keeps) const = 0;
  using Visitor = std::function<void(std::string_view account, const Sums& sums, const Sums& most)>;
  /// Writers wait meanwhile.
  virtual void each(const Visitor& visit) const = 0;

 protected:
  Books() = default;
  Books(const Books&) = default;
  Books& operator=(const Books&) = default;
};

}  // namespace kintsugi::store
