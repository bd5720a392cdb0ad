#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/alive.h"
#include "base/time.h"
#include "net/loop.h"
#include "net/task.h"
#include "workers/runtime/queue/keyed_queue.h"

namespace kintsugi::workers {

/// Which object a reconcile is about; the kind is the controller's.
struct Key {
  std::string cluster, ns, name;
  [[nodiscard]] QueueKey view() const noexcept { return {cluster, ns, name}; }
};

/// For controller_runtime_… (section 12).
struct ControllerCounts {
  std::uint64_t success = 0, error = 0, requeue_after = 0, terminal = 0;
  std::uint64_t panics = 0, timeouts = 0;
  std::uint64_t not_ours = 0;  ///< keys whose partition another worker has
  /// Of reconcile_time_seconds: upper bounds [s] as controller-runtime has them, and +Inf.
  static constexpr std::array<double, 40> kBounds{
      .005, .01, .025, .05, .1,   .15, .2,   .25, .3,  .35, .4,  .45, .5,  .6,
      .7,   .8,  .9,   1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5,
      6,    7,   8,    9,   10,   15,  20,   25,  30,  40,  50,  60};
  std::array<std::uint64_t, kBounds.size() + 1> times{};
  double seconds = 0;
};

/// Runs a reconciler over the keys of one kind of one unit: at most so many at a time, each key
/// once at a time, each with a deadline. Source: RT-40 to RT-47, section 6.
/// The reconciler is a coroutine that gets a key alone; it is level-driven and may be ended at
/// every co_await. What it throws is counted as a panic, and the key is tried again.
/// Threads: its loop's. Lifetime: ends every reconcile that runs when it dies, which no reconcile
/// may bring about.
class Controller {
 public:
  using Reconcile = std::function<net::Task<Outcome>(Key)>;
  struct Params {
    std::string name;
    std::size_t most = 16;            ///< reconciles at a time, >= 1
    Duration deadline = seconds(30);  ///< of one reconcile
    KeyedQueue::Params queue;
    std::uint64_t seed = 1;
  };
  /// @param ours  asked before each reconcile: whether the key is this worker's (RT-66); empty: all
  Controller(net::Loop& loop, Params params, Reconcile reconcile,
             std::function<bool(const QueueKey&)> ours = {});
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  void add(const QueueKey& key, Priority priority);
  void add_after(const QueueKey& key, Duration delay);
  void add_periodic(const QueueKey& key, Duration interval);
  /// Memory is short: keys of the first list and periodic work wait until it is not (RT-5).
  void set_pressure(bool pressure);
  /// Begins no reconcile until false: what reconciles look at is not read yet.
  void set_waiting(bool waiting);
  /// Takes no more keys and drops those that wait (RT-47). Running reconciles go on; `idle` is
  /// called once when none is left, in a later turn.
  void drain(std::function<void()> idle);
  /// Ends running reconciles that `which` says yes to; their keys are dropped.
  void cut(const std::function<bool(const QueueKey&)>& which);

  /// Of the key whose reconcile began last; for its first step.
  [[nodiscard]] Priority starting() const noexcept { return starting_; }
  [[nodiscard]] std::size_t running() const noexcept { return running_; }
  /// The keys that are being worked on.
  void each_running(const std::function<void(const QueueKey&)>& visit) const;
  [[nodiscard]] const std::string& name() const noexcept { return params_.name; }
  [[nodiscard]] std::size_t most() const noexcept { return params_.most; }
  [[nodiscard]] const KeyedQueue& queue() const noexcept { return queue_; }
  [[nodiscard]] const ControllerCounts& counts() const noexcept { return counts_; }

 private:
  struct Run;
  void wake();
  void pump();
  void start(const KeyedQueue::Item& item);
  [[nodiscard]] net::Task<> work(Run& run);
  void finish(Run& run, const Outcome& outcome);
  /// nullopt: its trace is none of those that are recorded.
  [[nodiscard]] std::optional<TraceParent> begin_span(Run& run) const;
  static void end_span(Run& run, const Outcome& outcome);
  void arm();

  net::Loop& loop_;
  Params params_;
  Reconcile reconcile_;
  std::function<bool(const QueueKey&)> ours_;
  KeyedQueue queue_;
  std::vector<std::unique_ptr<Run>> runs_;  // one per reconcile at a time, used again
  std::size_t running_ = 0;
  bool woken_ = false;
  bool pumping_ = false;  // whoever ends is followed at once
  bool waiting_ = false;
  Priority starting_ = Priority::kInitial;
  std::function<void()> idle_;
  ControllerCounts counts_;
  net::Timer timer_;
  Alive alive_;
};

}  // namespace kintsugi::workers
