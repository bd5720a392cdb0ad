#include "controlplane/moves/fenced_store.h"

#include <optional>
#include <string>
#include <utility>

#include "apiserver/keys.h"
#include "controlplane/moves/move_book.h"
#include "store/guarded_commit.h"

namespace kintsugi::controlplane {

void FencedStore::commit(std::vector<store::Op> ops, store::CommitCallback done) {
  const std::optional<apiserver::KeyParts> parts =
      ops.empty() ? std::nullopt : apiserver::parse_key(ops.front().key);
  if (!parts || parts->cluster.empty() || parts->cluster == kMovesCluster) {
    inner().commit(std::move(ops), std::move(done));
    return;
  }
  store::commit_guarded(inner(), std::move(ops),
                        store::unchanged(move_key(kFences, parts->cluster), 0), being_migrated,
                        std::move(done));
}

}  // namespace kintsugi::controlplane
