#include "store/lmdb/internal/page_lookup.h"

namespace kintsugi::store::pages {
namespace {

constexpr unsigned kMostLevels = 32;  // LMDB's own

bool is_sound(const Header& header, bool is_leaf, std::size_t page_size) {
  return header.flags == (is_leaf ? kLeaf : kBranch) && header.lower >= kHeader &&
         header.lower <= header.upper && header.upper <= page_size;
}

}  // namespace

std::optional<std::string> find_value(const ReadAt& read, const Meta& meta, const Table& table,
                                      std::string_view key) {
  PageNumber page = table.root;
  std::string bytes(meta.page_size, '\0');
  for (unsigned level = 1; level <= table.depth && level <= kMostLevels; ++level) {
    if (page > meta.last_page) {
      return std::nullopt;
    }
    const auto got = read(page * meta.page_size, bytes.data(), bytes.size());
    const Header header = read_header(bytes);
    const bool is_leaf = level == table.depth;
    if (!got || *got != bytes.size() || !is_sound(header, is_leaf, meta.page_size)) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < header.nodes(); ++i) {
      const auto node = read_node(bytes, header, i);
      if (node && is_leaf && node->key == key && (node->flags & kBigData) == 0) {
        return std::string(node->data);
      }
      if (node && !is_leaf && (i == 0 || node->key <= key)) {
        page = node->child;
      }
    }
  }
  return std::nullopt;
}

}  // namespace kintsugi::store::pages
