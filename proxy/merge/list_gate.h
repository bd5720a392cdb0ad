#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "net/loop.h"

namespace kintsugi::proxy {

/// How many streams to shards all merged lists of a process may have at a time (AGG-601). A list
/// takes all of its streams at once, so two of them never wait for each other; those that wait go
/// in order. Threads: any. Lifetime: longer than its tickets.
class ListGate {
  struct Waiter;

 public:
  /// @param limit  [streams]; a list of more than these still runs, alone.
  explicit ListGate(std::size_t limit) noexcept : limit_(limit) {}
  ListGate(const ListGate&) = delete;
  ListGate& operator=(const ListGate&) = delete;

  /// A list's place. Its end gives the streams back, or stops waiting. Threads: the loop's.
  class Ticket {
   public:
    ~Ticket();
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    /// It may run now; otherwise `granted` tells.
    [[nodiscard]] bool may_run() const noexcept { return may_run_; }

   private:
    friend class ListGate;
    Ticket(ListGate& gate, std::shared_ptr<Waiter> waiter, bool may_run) noexcept
        : gate_(gate), waiter_(std::move(waiter)), may_run_(may_run) {}
    ListGate& gate_;
    std::shared_ptr<Waiter> waiter_;
    bool may_run_;
  };

  /// @param granted  called once in a later turn of the loop unless may_run(); not after the ticket
  /// has gone. nullptr: too many lists wait.
  [[nodiscard]] std::unique_ptr<Ticket> enter(net::Loop& loop, std::size_t streams,
                                              std::function<void()> granted);

  static constexpr std::size_t kMaxWaiting = 1'024;  ///< [lists]

 private:
  struct Waiter {
    net::Loop* loop = nullptr;
    std::size_t streams = 0;
    bool running = false;           // under the gate's mutex
    std::function<void()> granted;  // the loop's own
  };
  [[nodiscard]] bool fits(std::size_t streams) const noexcept {
    return used_ == 0 || used_ + streams <= limit_;
  }
  void leave(const std::shared_ptr<Waiter>& waiter);

  const std::size_t limit_;
  std::mutex mutex_;
  std::size_t used_ = 0;
  std::list<std::shared_ptr<Waiter>> waiting_;
};

}  // namespace kintsugi::proxy
