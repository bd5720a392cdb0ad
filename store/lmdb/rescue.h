#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/lmdb/internal/page_walk.h"
#include "store/lmdb/lmdb_store.h"
#include "store/store.h"

namespace kintsugi::store {

/// Opens the store as LmdbStore::open does, after a walk over its pages (page_walk.h). Where they
/// do not hold, nothing of the file is mapped and nothing of it is written: the live objects whose
/// place and checksum hold are copied into the folder `rescued` in it, and that is served,
/// read-only (GR-415):
/// - health() says "the store is damaged", and what;
/// - writes are refused with kUnavailable;
/// - get() of a key that may be lost, and range(), count() over such keys, fail with kCorrupt and
///   name them; nothing is left out in silence;
/// - there is no history: who watches or reads on from before gets kCompacted, once.
/// The folder is made anew each time. Cost: the walk reads the whole file once.
/// @error as LmdbStore::open; kCorrupt both meta pages are damaged.
[[nodiscard]] Expected<std::unique_ptr<Store>> open_or_rescue(LmdbParams params);

/// Keys that are lost, in order and apart. Pure.
class LostRanges {
 public:
  LostRanges() = default;
  /// @param lost  of one table; in any order, may overlap
  explicit LostRanges(std::vector<LostKeys> lost);
  [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return ranges_.size(); }
  /// The first range that has a key at or after `from` and before `end` ("": no end); null: none.
  [[nodiscard]] const LostKeys* find(std::string_view from, std::string_view end) const noexcept;

 private:
  std::vector<LostKeys> ranges_;
};

}  // namespace kintsugi::store
