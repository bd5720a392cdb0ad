#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

/// The file of an LMDB store read page by page, without LMDB and without a map (GR-413): LMDB
/// trusts its file, and a damaged one can end the process that maps it.
namespace kintsugi::store {

/// Reads up to `size` bytes; less at the end of the file. @error kIo
using ReadAt =
    std::function<Expected<std::size_t>(std::uint64_t offset, char* out, std::size_t size)>;

/// Keys of a table that cannot be found any more: from `first` on, below `end`.
struct LostKeys {
  std::string table;
  std::string first;
  std::string end;  ///< "": there is no end
};

struct PageReport {
  /// One meta page holds. Else nothing can be found; if there are problems, it was a store.
  bool is_store = false;
  std::vector<std::string> problems;  ///< the first 100, in words, each with its page
  std::uint64_t problem_count = 0;
  std::vector<LostKeys> lost;  ///< not in order, may overlap; at most 10,000, then all of a table
  std::uint64_t pages = 0;     ///< that are in use
  std::uint64_t rows = 0;      ///< of all tables
  std::uint64_t transaction = 0;
  [[nodiscard]] bool sound() const noexcept { return is_store && problem_count == 0; }
};

/// A row whose place in its table holds, in the order of keys within each table. Views die with the
/// call.
using RowVisitor =
    std::function<void(std::string_view table, std::string_view key, std::string_view value)>;

/// Looks at every page that the last commit uses: meta pages, trees of all tables and the free
/// list. Whatever the bytes are, it ends, with at most (depth of a tree + 1) pages, one value and
/// one bit for each page of the file in memory. Values are read only for `visit`, which may be
/// empty. Checks: marks, version and turn of the meta pages; numbers, types and bounds of pages and
/// nodes; no page twice; order of keys, also against those of the branches above; depth and counts
/// of each table; lengths of values; that each page is in use or free, and not both. Pages beyond
/// the end of the file are damage only where they are in use.
/// @param size  of the file
[[nodiscard]] PageReport walk_pages(const ReadAt& read, std::uint64_t size,
                                    const RowVisitor& visit = {});

/// The same of a file. @error kNotFound it is not there, or empty; kIo.
[[nodiscard]] Expected<PageReport> walk_file(const std::string& path, const RowVisitor& visit = {});

}  // namespace kintsugi::store
