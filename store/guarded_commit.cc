#include "store/guarded_commit.h"

#include <utility>

namespace kintsugi::store {

void commit_guarded(Store& store, std::vector<Op> ops, Op guard, std::function<Error()> refused,
                    CommitCallback done) {
  const std::size_t place = ops.size();
  ops.push_back(std::move(guard));
  store.commit(std::move(ops), [place, refused = std::move(refused),
                                done = std::move(done)](Expected<CommitResult> result) {
    if (result && result->conflict && result->failed_op == place) {
      done(fail(refused()));
    } else {
      done(std::move(result));
    }
  });
}

}  // namespace kintsugi::store
