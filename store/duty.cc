#include "store/duty.h"

#include <utility>

namespace kintsugi::store {

void commit_fenced(Store& store, std::vector<Op> ops, const std::optional<Fence>& fence,
                   CommitCallback done) {
  if (!fence || fence->revision == 0) {
    store.commit(std::move(ops), std::move(done));
    return;
  }
  const std::size_t guard = ops.size();
  ops.push_back(fence_guard(*fence));
  store.commit(std::move(ops), [guard, duty = fence->duty,
                                done = std::move(done)](Expected<CommitResult> result) {
    if (result && result->conflict && result->failed_op == guard) {
      done(fail(Errc::kUnavailable, "another process has taken over the duty " + duty));
    } else {
      done(std::move(result));
    }
  });
}

}  // namespace kintsugi::store
