#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workers/runtime/journal/internal/journal_row.h"

namespace kintsugi::workers {

/// One row of the journal as the comparison needs it; keys as append_journal_key() writes them.
struct JournalEntry {
  std::string_view key;
  std::string_view rv;
};

/// One object of a complete and valid list (RT-27 is the caller's).
struct ListedObject {
  JournalKey key;
  std::string_view rv;
};

struct StartComparison {
  std::size_t unchanged = 0;         ///< same key, equal rv: nothing to do
  std::vector<std::uint32_t> queue;  ///< indexes into `listed`: new or different, the API wins
  std::vector<std::uint32_t> gone;   ///< indexes into `rows`: deleted while nobody watched
  std::vector<std::uint32_t> unfit;  ///< indexes into `listed`: no journal key (section 18)
};

/// What one list per kind tells about the journal of a process that starts. Source: RT-76.
/// rv is compared for equality only; "" equals nothing. A key that the list has twice counts once,
/// by its last entry.
/// @param rows    in ascending order of keys, as Journal::scan() gives them; below 2^32.
/// @param listed  in any order; below 2^32.
/// @returns queue and gone in order of keys. Cost: O(n log n) of `listed`, one arena of keys.
[[nodiscard]] StartComparison compare_at_start(const std::vector<JournalEntry>& rows,
                                               const std::vector<ListedObject>& listed);

}  // namespace kintsugi::workers
