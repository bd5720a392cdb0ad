#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/error.h"

namespace kintsugi::workers {

/// Reads an LMDB 0.9 data file (format 1, pages of 4 KiB, plain named tables) without mapping it
/// and says whether LMDB may: LMDB trusts its pages, and one damaged byte can make it read outside
/// of its map or call abort(). Source: RT-74; the format as mdb.c has it. Rules:
/// both meta pages right and one transaction apart; every page in reach is whole, names itself, is
/// of the right kind and in reach once; nodes fill a page exactly, in order, within their parent's
/// bounds; counts and depths of each table agree; the pages in reach and the free ones are all
/// pages, each once.
struct PageReport {
  std::uint64_t last_page = 0;
  std::uint64_t txn = 0;  ///< 0: nothing was ever stored
  std::uint64_t rows = 0;
};

/// @param on_row  every row of every table, in order; its error ends the check. Views are valid
///                during the call.
/// @param max_row  bytes; longer values are damage.
/// @error kCorrupt with the reason; kIo when the file cannot be read. Never a signal.
/// Cost: one pread per page in reach; 25,000 pages with CRCs of 100,000 rows: bench/journal.cc.
using OnJournalRow = std::function<Expected<void>(std::string_view table, std::string_view key,
                                                  std::string_view value)>;
[[nodiscard]] Expected<PageReport> check_pages(int file, std::size_t max_row,
                                               const OnJournalRow& on_row);

}  // namespace kintsugi::workers
