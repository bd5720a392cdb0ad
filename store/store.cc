#include "store/store.h"

#include <condition_variable>
#include <iterator>
#include <mutex>
#include <utility>

namespace kintsugi::store {

void Store::commit(std::vector<Op> ops, std::vector<Op> guards, CommitCallback done) {
  ops.insert(ops.end(), std::make_move_iterator(guards.begin()),
             std::make_move_iterator(guards.end()));
  commit(std::move(ops), std::move(done));
}

Expected<CommitResult> Store::commit_wait(std::vector<Op> ops) {
  std::mutex mutex;
  std::condition_variable answered;
  std::optional<Expected<CommitResult>> answer;
  commit(std::move(ops), [&](Expected<CommitResult> result) {
    // Notified under the lock: the waiter owns the condition variable and may leave at once.
    const std::lock_guard lock(mutex);
    answer.emplace(std::move(result));
    answered.notify_one();
  });
  std::unique_lock lock(mutex);
  answered.wait(lock, [&] { return answer.has_value(); });
  return std::move(*answer);
}

}  // namespace kintsugi::store
