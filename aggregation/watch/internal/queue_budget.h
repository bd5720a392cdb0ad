#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace kintsugi::aggregation {

/// Bytes that wait for the clients of all merged watches of a process
/// (AGG-1203). Threads: any.
class QueueBudget {
 public:
  /// @param limit  [bytes]; 0: none
  explicit QueueBudget(std::size_t limit) noexcept : limit_(limit) {}

  /// What waits at one loop; nothing after its end. Threads: one.
  class Share {
   public:
    explicit Share(std::shared_ptr<QueueBudget> budget) noexcept : budget_(std::move(budget)) {}
    ~Share() { (void)set(0); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    /// @returns how many of these bytes are too many: what all loops are over the limit, by who has
    /// how much
    [[nodiscard]] std::size_t set(std::size_t bytes) noexcept;

   private:
    std::shared_ptr<QueueBudget> budget_;
    std::size_t bytes_ = 0;
  };

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_ = 0;
};

}  // namespace kintsugi::aggregation
