#include "store/duty.h"

#include <utility>

#include "store/guarded_commit.h"

namespace kintsugi::store {

void commit_fenced(Store& store, std::vector<Op> ops, const std::optional<Fence>& fence,
                   CommitCallback done) {
  if (!fence || fence->revision == 0) {
    store.commit(std::move(ops), std::move(done));
    return;
  }
  commit_guarded(
      store, std::move(ops), fence_guard(*fence),
      [duty = fence->duty] {
        return Error(Errc::kUnavailable, "another process has taken over the duty " + duty);
      },
      std::move(done));
}

}  // namespace kintsugi::store
