#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"

namespace boost::asio {
class io_context;
}

namespace kintsugi::net {

struct IoScratch;

/// Gets readiness of one descriptor. Edge-triggered: read and write until the kernel says
/// would-block, or ask with Loop::read_again() for another call. A read shorter than its buffer
/// counts as drained, unless on_hangup() came.
class FdHandler {
 public:
  virtual void on_ready(bool readable, bool writable) noexcept = 0;
  /// The peer finished its side or the descriptor failed: no further edge will tell, so read until
  /// 0 or an error.
  virtual void on_hangup() noexcept { on_ready(true, true); }

 protected:
  ~FdHandler() = default;
};

/// One thread's event loop: an Asio context that is run turn by turn
/// (docs/decisions/0001-event-loop.md). A turn: a handler of Asio, readiness, posted functions,
/// timers, then the flush pass over dirty connections, then deferred destruction.
/// Threads: everything belongs to the loop's thread, but post() and stop(), which any thread may
/// call.
class Loop {
 public:
  /// Identifies an armed timer; 0 is none. Never reused.
  using TimerId = std::uint64_t;

  explicit Loop(std::string name);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs turns until stop(). The calling thread becomes the loop's thread.
  void run();
  void stop() noexcept;
  /// True on the loop's thread (also before run(), on the thread that made it).
  [[nodiscard]] bool in_loop_thread() const noexcept;
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Runs `function` on the loop in a later turn. Order of posts from one thread is kept.
  void post(std::function<void()> function);
  /// Runs `function` at the end of this turn, after the flush pass. For destruction outside of
  /// callbacks. What is left when the loop dies runs in its destructor.
  void defer(std::function<void()> function);

  /// Runs `function` once, not before `delay` after now(); resolution 1 ms. O(1), no allocation
  /// after warm-up for functions that fit into std::function.
  TimerId after(Duration delay, std::function<void()> function);
  /// No effect for fired, cancelled or zero ids.
  void cancel(TimerId id) noexcept;
  /// Time at the start of this turn; costs nothing.
  [[nodiscard]] TimePoint now() const noexcept;

  /// Registers a non-blocking descriptor for edge-triggered readiness (in and out) until forget().
  void watch(int fd, FdHandler& handler);
  /// No call comes any more, not even for events that were already collected. Call it before
  /// close(2).
  void forget(int fd) noexcept;
  /// on_ready(true, false) once more in the next turn, without sleeping: the way to bound what one
  /// descriptor reads per turn without losing an edge. No effect once forgotten.
  void read_again(int fd);

  /// Asks for flush() at the end of this turn (the single write phase), in the order of marking.
  /// Items marked during the flush pass get their turn in a second pass, later ones in the next
  /// turn.
  class Flushable {
   public:
    virtual void flush() noexcept = 0;

   protected:
    ~Flushable() = default;

   private:
    friend class Loop;
    static constexpr std::uint32_t kClean = ~std::uint32_t{0};
    std::uint32_t dirty_slot_ = kClean;
  };
  void mark_dirty(Flushable& item);
  /// Takes an item off the dirty list before it dies.
  void unmark_dirty(Flushable& item) noexcept;

  /// What this loop runs, for Asio's resolvers, signals, sockets and coroutines in net/*.cc (others
  /// have net/task.h). A handler runs at the begin of a turn, one a turn.
  [[nodiscard]] boost::asio::io_context& context() noexcept;

  /// Buffers that every connection of this loop shares; contents last until the end of the
  /// callback.
  [[nodiscard]] IoScratch& scratch() noexcept;

  /// What a turn spends its time with, in this order. kHandler: Asio's, from the first look at
  /// now() on.
  enum class Part : std::uint8_t { kHandler, kReading, kPosts, kTimers, kWriting, kDeferred };
  static constexpr std::size_t kParts = 6;
  [[nodiscard]] static std::string_view part_name(Part part) noexcept;

  /// Counters for /debug/loops (PERF-101, PERF-104).
  struct Stats {
    static constexpr std::size_t kTurnClasses = 20;
    std::uint64_t turns = 0;
    /// Turns of less than 2^i µs and no less than half of that; the last: all that took longer.
    std::array<std::uint64_t, kTurnClasses> turns_below{};
    std::uint64_t slow_turns = 0;                       ///< over 10 ms
    std::array<std::uint64_t, kParts> slow_turns_by{};  ///< the same by their largest part
    std::uint64_t longest_turn_us = 0;
    Part longest_part = Part::kHandler;  ///< the largest of the longest turn
    std::uint64_t writes = 0;            ///< send(2) of connections
    /// Of these, outside of the flush pass; without the last words of connections that end.
    std::uint64_t writes_outside_flush = 0;
    std::uint64_t posts = 0;
    std::size_t timers = 0;
    std::size_t descriptors = 0;
  };
  [[nodiscard]] Stats stats() const noexcept;

 private:
  struct Impl;
  std::string name_;
  std::unique_ptr<Impl> impl_;
};

/// Cancels its timer when it goes out of scope. Movable.
class Timer {
 public:
  Timer() noexcept = default;
  explicit Timer(Loop& loop) noexcept : loop_(&loop) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  Timer(Timer&& other) noexcept : loop_(other.loop_), id_(std::exchange(other.id_, 0)) {}
  Timer& operator=(Timer&& other) noexcept {
    if (this != &other) {
      cancel();
      loop_ = other.loop_;
      id_ = std::exchange(other.id_, 0);
    }
    return *this;
  }
  ~Timer() { cancel(); }
  void start(Duration delay, std::function<void()> function) {
    cancel();
    id_ = loop_->after(delay, std::move(function));
  }
  void cancel() noexcept {
    if (loop_ != nullptr && id_ != 0) {
      loop_->cancel(id_);
      id_ = 0;
    }
  }

 private:
  Loop* loop_ = nullptr;
  Loop::TimerId id_ = 0;
};

}  // namespace kintsugi::net
