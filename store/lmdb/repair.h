#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "store/books.h"
#include "store/store.h"

namespace kintsugi::store {

struct RepairReport {
  bool rewritten = false;     ///< the file was made anew of all live objects
  std::uint64_t objects = 0;  ///< ... so many
  Revision revision = 0;      ///< ... as of which the store goes on
  std::uint64_t counted = 0;  ///< sums of quotas that were wrong
};

/// Makes a store whole that nobody has open, where no live object is lost by that (GR-415): a meta
/// page, the free list, history and log, the state. The file is made anew of the live objects, as
/// they are; without history, and revisions go on above all that can have been told: clients list
/// once more. Sums of quotas that are wrong are counted anew. The old file stays as
/// `data.mdb.damaged`. Killed, it has done nothing, and what it left is removed by the next one.
/// @error kCorrupt objects are lost, which are named: nothing has changed; kNotFound, kConfig as
/// check_store(); kIo, kFull.
[[nodiscard]] Expected<RepairReport> repair_store(const std::string& directory,
                                                  const BookRules& books);

}  // namespace kintsugi::store
