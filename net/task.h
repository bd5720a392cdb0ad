#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/guard.h"
#include "base/trace.h"
#include "net/loop.h"

/// Coroutines for control-plane code: a Task is one, a Job runs one, `sleep` and Answer are what it
/// waits for. Not for requests that are forwarded. One co_await a statement, its operand from named
/// variables, arguments by value (tools/check_coawait.py: g++ 12 compiles other forms wrongly).
///
///   Task<Expected<int>> ask(Loop& loop, Upstream& server) {
///     Answer<Expected<FetchResponse>> answer;
///     const auto call = fetch(loop, server, FetchRequest{}, answer.callback());
///     auto response = co_await answer;
///     …
///   }
///
/// Threads: one loop's. Everything that a coroutine waits for is owned by its frame, so ending the
/// Job ends it all at once, like any other object of this module.
namespace kintsugi::net {

template <class T>
class Task;

namespace task_detail {

/// What the frames of one Job share.
struct Run {
  std::coroutine_handle<> outermost;
  bool running = false;    ///< one of the frames is on the stack
  bool done = false;       ///< the outermost has come to its end
  bool abandoned = false;  ///< the Job died meanwhile
  std::optional<TraceParent> trace;

  void resume(std::coroutine_handle<> at) {
    const TraceScope scope(trace ? &*trace : nullptr);
    running = true;
    at.resume();
    running = false;
    if (abandoned) {
      outermost.destroy();
      delete this;
    } else if (outermost.done()) {
      done = true;
      std::exchange(outermost, nullptr).destroy();
    }
  }
};

struct Promise {
  std::coroutine_handle<> waiter;  ///< who awaits this one; null for the outermost
  Run* run = nullptr;
  std::exception_ptr thrown;

  struct Return {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> self) const noexcept {
      const std::coroutine_handle<> next = self.promise().waiter;
      return next ? next : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] Return final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { thrown = std::current_exception(); }
};

template <class T>
struct Result : Promise {
  std::optional<T> value;
  void return_value(T given) { value.emplace(std::move(given)); }
  T take() { return std::move(*value); }
};

template <>
struct Result<void> : Promise {
  void return_void() const noexcept {}
  void take() const noexcept {}
};

/// One place where a coroutine waits.
class Place {
 public:
  template <class P>
  void suspend(std::coroutine_handle<P> self) noexcept {
    at_ = self;
    run_ = self.promise().run;
  }
  [[nodiscard]] bool taken() const noexcept { return at_ != nullptr; }
  void clear() noexcept { at_ = nullptr; }
  void resume() { run_->resume(std::exchange(at_, nullptr)); }

 private:
  std::coroutine_handle<> at_;
  Run* run_ = nullptr;
};

}  // namespace task_detail

/// A coroutine that returns a T. It begins when it is awaited or given to a Job, and dies where it
/// waits when this object dies. What it throws comes out of the co_await.
template <class T = void>
class [[nodiscard]] Task {
 public:
  struct promise_type : task_detail::Result<T> {
    Task get_return_object() noexcept {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
  };

  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (frame_) {
      frame_.destroy();
    }
  }

  /// What co_await calls, once in the life of a task.
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class P>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<P> waiter) noexcept {
    frame_.promise().waiter = waiter;
    frame_.promise().run = waiter.promise().run;
    return frame_;
  }
  T await_resume() {
    if (frame_.promise().thrown) {
      std::rethrow_exception(frame_.promise().thrown);
    }
    return frame_.promise().take();
  }

 private:
  friend class Job;
  explicit Task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}

  std::coroutine_handle<promise_type> frame_;
};

/// Runs a coroutine from its begin. Its end or the end of this object ends it: at once where it
/// waits; when it is what ends this object, at the next place where it would wait. An exception
/// that leaves it is counted and ends it (guarded()). Movable.
class Job {
 public:
  Job() noexcept = default;
  /// Runs `task` until it waits for the first time.
  /// @param trace  what its requests are part of (base/trace.h)
  explicit Job(Task<> task, const std::optional<TraceParent>& trace = {})
      : run_(new task_detail::Run) {
    task_detail::Run* const run = run_;
    run->trace = trace;
    Task<> outermost = catching(std::move(task));
    run->outermost = outermost.frame_;
    outermost.frame_.promise().run = run;
    run->resume(std::exchange(outermost.frame_, nullptr));
  }
  Job(Job&& other) noexcept : run_(std::exchange(other.run_, nullptr)) {}
  Job& operator=(Job&& other) noexcept {
    if (this != &other) {
      end();
      run_ = std::exchange(other.run_, nullptr);
    }
    return *this;
  }
  ~Job() { end(); }

  void end() noexcept {
    if (task_detail::Run* const run = std::exchange(run_, nullptr); run == nullptr) {
      return;
    } else if (run->running) {
      run->abandoned = true;
    } else {
      if (run->outermost) {
        run->outermost.destroy();
      }
      delete run;
    }
  }
  /// There is a coroutine, and it has not come to its end.
  [[nodiscard]] bool active() const noexcept { return run_ != nullptr && !run_->done; }

 private:
  static Task<> catching(Task<> task) {
    std::exception_ptr thrown;
    try {
      co_await task;
    } catch (...) {
      thrown = std::current_exception();
    }
    if (thrown) {
      guarded("coroutine", [&thrown] { std::rethrow_exception(thrown); });
    }
  }

  task_detail::Run* run_ = nullptr;
};

/// What a callback brings, awaited: give callback() to whoever is to answer, then `co_await` this
/// object. The first call counts; it runs the coroutine. Calls after this object died do nothing.
template <class T>
class Answer {
 public:
  Answer() = default;
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;
  ~Answer() { state_->place.clear(); }

  [[nodiscard]] std::function<void(T)> callback() {
    return [weak = std::weak_ptr<State>(state_)](T value) {
      const std::shared_ptr<State> state = weak.lock();
      if (state == nullptr || state->value) {
        return;
      }
      state->value.emplace(std::move(value));
      if (state->place.taken()) {
        state->place.resume();
      }
    };
  }

  [[nodiscard]] bool await_ready() const noexcept { return state_->value.has_value(); }
  template <class P>
  void await_suspend(std::coroutine_handle<P> self) noexcept {
    state_->place.suspend(self);
  }
  /// Once.
  T await_resume() { return std::move(*state_->value); }

 private:
  struct State {
    std::optional<T> value;
    task_detail::Place place;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// `co_await sleep(loop, pause)`: as Loop::after.
class Sleep {
 public:
  Sleep(Loop& loop, Duration delay) noexcept : timer_(loop), delay_(delay) {}
  Sleep(const Sleep&) = delete;
  Sleep& operator=(const Sleep&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class P>
  void await_suspend(std::coroutine_handle<P> self) {
    place_.suspend(self);
    timer_.start(delay_, [this] { place_.resume(); });
  }
  void await_resume() const noexcept {}

 private:
  Timer timer_;
  Duration delay_;
  task_detail::Place place_;
};
[[nodiscard]] inline Sleep sleep(Loop& loop, Duration delay) noexcept { return {loop, delay}; }

}  // namespace kintsugi::net
