#pragma once

#include <vector>

#include "store/forwarding_store.h"

namespace kintsugi::controlplane {

/// A store in which no row of a logical cluster is written while that is fenced (move_book.h): each
/// transaction expects that there is no fence of the cluster of its first row, so that nothing is
/// committed behind one, whoever knew of it when (GR-602). Everything else is the other store's,
/// which outlives this. Threads: as that.
class FencedStore final : public store::ForwardingStore {
 public:
  explicit FencedStore(store::Store& store) : ForwardingStore(store) {}

  /// @error (in done) also kUnavailable: the cluster is fenced
  void commit(std::vector<store::Op> ops, store::CommitCallback done) override;
};

}  // namespace kintsugi::controlplane
