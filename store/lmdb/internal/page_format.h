#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

/// Bytes of an LMDB file (0.9, data version 1, 64 bits, little-endian), read without LMDB: any
/// bytes are fine, nothing outside of the given view is touched. Private to store/lmdb/.
///
/// | page     | header of 16 bytes: number (8), padding (2), flags (2), then lower and upper bound
/// of | |          | free space (2 each) or, of overflow pages, their number (4) | | node     | low
/// and high half of the size (2 each), flags (2), size of the key (2), key, data;    | |          |
/// of branches the size and flags are the number of the child                            | | meta
/// | behind the header of pages 0 and 1: magic, version (4 each), address, map size (8     | | |
/// each), records of the free list and of the main table, last page, transaction (8 each)| | table
/// | padding (4), flags, depth (2 each), branch, leaf, overflow pages, entries, root (8)   |
namespace kintsugi::store::pages {

using PageNumber = std::uint64_t;

inline constexpr std::size_t kHeader = 16;
inline constexpr std::size_t kNodeHeader = 8;
inline constexpr std::size_t kTableRecord = 48;
inline constexpr std::size_t kMetaBytes = 136;
inline constexpr std::size_t kLeastPage = 512, kMostPage = 65'536;
inline constexpr PageNumber kNoPage = ~PageNumber{0};

inline constexpr unsigned kBranch = 0x01, kLeaf = 0x02, kOverflow = 0x04, kMeta = 0x08;
inline constexpr unsigned kBigData = 0x01, kSubData = 0x02;  ///< of nodes
inline constexpr unsigned kIntegerKeys = 0x08;               ///< of tables

/// Little-endian, `bytes` has kBytes bytes from `at` on.
template <std::size_t kBytes>
[[nodiscard]] constexpr std::uint64_t number_at(std::string_view bytes, std::size_t at) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kBytes; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

struct Table {
  std::uint32_t padding = 0;
  unsigned flags = 0, depth = 0;
  std::uint64_t branches = 0, leaves = 0, overflows = 0, entries = 0;
  PageNumber root = kNoPage;
};
/// nullopt: not kTableRecord bytes.
[[nodiscard]] std::optional<Table> read_table(std::string_view record) noexcept;

struct Meta {
  std::size_t page_size = 0;
  Table free_list, main;
  PageNumber last_page = 0;
  std::uint64_t transaction = 0;
};
/// @param page  at least kHeader + kMetaBytes bytes. @param place  0 or 1
/// @returns what is wrong in the second place, "" for nothing.
[[nodiscard]] std::string_view read_meta(std::string_view page, PageNumber place,
                                         Meta& meta) noexcept;

struct Header {
  PageNumber number = 0;
  unsigned flags = 0;
  std::size_t lower = 0, upper = 0;
  std::uint64_t run = 0;  ///< of overflow pages
  [[nodiscard]] std::size_t nodes() const noexcept { return (lower - kHeader) / 2; }
};
/// @param page  at least kHeader bytes
[[nodiscard]] Header read_header(std::string_view page) noexcept;

/// A node of a page whose bounds hold (see node_fault).
struct Node {
  std::size_t begin = 0, end = 0;  ///< in the page
  unsigned flags = 0;
  std::string_view key;
  std::string_view data;   ///< of leaves; of big data the number of the page
  std::uint64_t size = 0;  ///< of the data, wherever it is
  PageNumber child = 0;    ///< of branches; of big data the first overflow page
};
/// nullopt: it does not lie between `upper` and the end of the page.
[[nodiscard]] std::optional<Node> read_node(std::string_view page, const Header& header,
                                            std::size_t index) noexcept;

/// How many pages `size` bytes of big data take.
[[nodiscard]] constexpr std::uint64_t overflow_run(std::uint64_t size,
                                                   std::size_t page_size) noexcept {
  return (kHeader - 1 + size) / page_size + 1;
}

}  // namespace kintsugi::store::pages
