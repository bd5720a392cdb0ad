#include "controlplane/moves/fenced_store.h"

#include <optional>
#include <string>
#include <utility>

#include "apiserver/keys.h"
#include "controlplane/moves/move_book.h"
#include "krm/status.h"

namespace kintsugi::controlplane {

void FencedStore::commit(std::vector<store::Op> ops, store::CommitCallback done) {
  const std::optional<apiserver::KeyParts> parts =
      ops.empty() ? std::nullopt : apiserver::parse_key(ops.front().key);
  if (!parts || parts->cluster.empty() || parts->cluster == kMovesCluster) {
    inner().commit(std::move(ops), std::move(done));
    return;
  }
  const std::size_t guard = ops.size();
  ops.push_back(store::unchanged(move_key(kFences, parts->cluster), 0));
  inner().commit(std::move(ops),
                 [guard, done = std::move(done)](Expected<store::CommitResult> result) {
                   if (result && result->conflict && result->failed_op == guard) {
                     done(fail(krm::unavailable("logical cluster is being migrated", 1)));
                   } else {
                     done(std::move(result));
                   }
                 });
}

}  // namespace kintsugi::controlplane
