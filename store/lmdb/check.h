#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "store/books.h"
#include "store/lmdb/internal/page_walk.h"
#include "store/lmdb/lmdb_store.h"

namespace kintsugi::store {

struct CheckReport {
  PageReport pages;
  /// What is wrong with records: where the pages hold, all that LmdbStore::verify says; else those
  /// that can still be found and whose checksums do not hold.
  VerifyReport rows;
  [[nodiscard]] std::uint64_t problems() const noexcept {
    return pages.problem_count + rows.problem_count;
  }
};

/// Reads all of a store that nobody has open, and believes nothing of it before (GR-416): first the
/// pages (page_walk.h), then, if they hold, the records. Makes and changes no file.
/// @error kNotFound no store is there; kConfig it is in use, or has a format that is not known; kIo
[[nodiscard]] Expected<CheckReport> check_store(const std::string& directory,
                                                const BookRules& books);

}  // namespace kintsugi::store
