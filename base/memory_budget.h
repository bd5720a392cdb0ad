#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace kintsugi {

/// Whose bytes they are: the label `account` of kintsugi_memory_bytes.
enum class MemoryAccount : std::uint8_t {
  kBodies,  ///< requests that wait for the rest of their body, or for their turn with it
  kLists,   ///< merged lists that must be complete before they can be sent
};
inline constexpr std::size_t kMemoryAccounts = 2;
/// "bodies", …
[[nodiscard]] std::string_view account_name(MemoryAccount account) noexcept;

/// What peers may make a process keep (SE-079, SE-090): every account has a part of the budget, and
/// in it every payer has no more than his own bound. Threads: any. Cost of a change: one short
/// lock.
class MemoryBudget {
  struct Purse;

 public:
  /// @param limit  of the process [bytes]; bodies get 10 % of it, lists 20 %. 0: none
  explicit MemoryBudget(std::size_t limit);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// How what is kept stands to its bounds.
  enum class Fit : std::uint8_t {
    kFits,
    kCrowded,  ///< over a bound: nothing more should be taken in
    kFull,     ///< far over it, beside the one that may be: what is here should go
  };
  struct Bounds {
    std::size_t payer = 0;  ///< of all claims of the payer in the account [bytes]
    /// One claim of a payer at a time may pass that bound, so that what is allowed alone is not
    /// kept out by what waits beside it.
    bool one_beyond = false;
  };

  /// Memory is short, or not any more: meanwhile payers have a quarter of their bounds, and nobody
  /// goes beyond (SE-091).
  void tighten(bool is_short) noexcept { tight_.store(is_short, std::memory_order_relaxed); }

  /// What one request keeps. Threads: one at a time.
  class Claim {
   public:
    Claim(std::shared_ptr<MemoryBudget> budget, MemoryAccount account, const std::string& payer,
          Bounds bounds);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    /// It is so many bytes now; they count, whatever the answer is.
    Fit set(std::size_t bytes) noexcept;
    /// The same bytes, as things are now.
    [[nodiscard]] Fit fit() noexcept { return set(bytes_); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

   private:
    const std::shared_ptr<MemoryBudget> budget_;
    const MemoryAccount account_;
    const Bounds bounds_;
    std::size_t bytes_ = 0;
    Purse* purse_;
  };

  [[nodiscard]] std::size_t used(MemoryAccount account) const noexcept {
    return accounts_[static_cast<std::size_t>(account)].used.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  /// Payers that keep something now.
  [[nodiscard]] std::size_t payers(MemoryAccount account) const;

 private:
  struct Purse {
    const std::string* payer = nullptr;
    std::size_t claims = 0, bytes = 0;
    const Claim* beyond = nullptr;  // the one that may pass the bound
  };
  struct Account {
    std::atomic<std::size_t> used = 0;
    std::size_t part = 0;
    std::unordered_map<std::string, Purse> purses;
  };

  const std::size_t limit_;
  std::atomic<bool> tight_ = false;
  mutable std::mutex mutex_;  // of the purses
  std::array<Account, kMemoryAccounts> accounts_;
};

}  // namespace kintsugi
