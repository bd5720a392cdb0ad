#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace kintsugi::net {

class Loop;

/// Work that would hold a loop for too long, such as a look-up that blocks or an expression of a
/// tenant, on threads of its own. Who has much of it (an owner: a logical cluster) does not keep
/// the threads from others. Threads: any. Lifetime: that of the process, as its threads may sit in
/// a call that does not return.
class WorkPool {
 public:
  struct Limits {
    const char* thread_name;  ///< 15 characters at most
    std::size_t threads;      ///< each begins with its work and ends with it
    std::size_t of_one;       ///< threads of one owner
    std::size_t waiting;
  };
  /// @returns one that is never destroyed
  [[nodiscard]] static WorkPool& make(const Limits& limits);
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// Runs `work` on a thread, and then `done` on the loop. Work that nobody waits for any more is
  /// not begun.
  /// @param work  shares nothing with other threads that may change; throws nothing
  /// @returns what waits for it: `done` is not called after its end, which must come before the
  /// loop's. Null: too many wait.
  [[nodiscard]] std::shared_ptr<void> run(Loop& loop, const std::string& owner,
                                          std::function<void()> work, std::function<void()> done);

 private:
  struct State;
  explicit WorkPool(std::unique_ptr<State> state);
  ~WorkPool() = delete;

  std::unique_ptr<State> state_;
};

}  // namespace kintsugi::net
