#include "store/lmdb/internal/page_format.h"

namespace kintsugi::store::pages {
namespace {

constexpr std::uint64_t kMagic = 0xBEEFC0DE, kVersion = 1;
// Places in a meta page.
constexpr std::size_t kFreeAt = kHeader + 24, kMainAt = kFreeAt + kTableRecord,
                      kLastAt = kMainAt + kTableRecord, kTxnAt = kLastAt + 8;

}  // namespace

std::optional<Table> read_table(std::string_view record) noexcept {
  if (record.size() != kTableRecord) {
    return std::nullopt;
  }
  return Table{static_cast<std::uint32_t>(number_at<4>(record, 0)),
               static_cast<unsigned>(number_at<2>(record, 4)),
               static_cast<unsigned>(number_at<2>(record, 6)),
               number_at<8>(record, 8),
               number_at<8>(record, 16),
               number_at<8>(record, 24),
               number_at<8>(record, 32),
               number_at<8>(record, 40)};
}

std::string_view read_meta(std::string_view page, PageNumber place, Meta& meta) noexcept {
  if (page.size() < kHeader + kMetaBytes) {
    return "is cut off";
  }
  const Header header = read_header(page);
  if ((header.flags & kMeta) == 0 || header.number != place) {
    return "is no meta page";
  }
  if (number_at<4>(page, kHeader) != kMagic) {
    return "has not LMDB's mark";
  }
  if (number_at<4>(page, kHeader + 4) != kVersion) {
    return "is of another version of LMDB";
  }
  meta.free_list = *read_table(page.substr(kFreeAt, kTableRecord));
  meta.main = *read_table(page.substr(kMainAt, kTableRecord));
  meta.page_size = meta.free_list.padding;
  meta.last_page = number_at<8>(page, kLastAt);
  meta.transaction = number_at<8>(page, kTxnAt);
  const std::size_t size = meta.page_size;
  if (size < kLeastPage || size > kMostPage || (size & (size - 1)) != 0) {
    return "has an impossible size of pages";
  }
  if (meta.free_list.flags != kIntegerKeys || meta.main.flags != 0 || meta.last_page < 1) {
    return "has impossible values";
  }
  if (meta.transaction != 0 && (meta.transaction & 1U) != place) {
    return "has the transaction of the other one";  // they are written in turn
  }
  return {};
}

Header read_header(std::string_view page) noexcept {
  return {number_at<8>(page, 0), static_cast<unsigned>(number_at<2>(page, 10)),
          static_cast<std::size_t>(number_at<2>(page, 12)),
          static_cast<std::size_t>(number_at<2>(page, 14)), number_at<4>(page, 12)};
}

std::optional<Node> read_node(std::string_view page, const Header& header,
                              std::size_t index) noexcept {
  Node node;
  node.begin = static_cast<std::size_t>(number_at<2>(page, kHeader + 2 * index));
  if (node.begin < header.upper || node.begin % 2 != 0 || node.begin + kNodeHeader > page.size()) {
    return std::nullopt;
  }
  const std::uint64_t low = number_at<2>(page, node.begin),
                      high = number_at<2>(page, node.begin + 2);
  node.flags = static_cast<unsigned>(number_at<2>(page, node.begin + 4));
  const auto key_size = static_cast<std::size_t>(number_at<2>(page, node.begin + 6));
  const bool is_leaf = (header.flags & kLeaf) != 0;
  node.size = is_leaf ? (low | high << 16U) : 0;
  const std::uint64_t inline_size = (node.flags & kBigData) != 0 && is_leaf ? 8 : node.size;
  const std::uint64_t end = node.begin + kNodeHeader + key_size + inline_size;
  if (end > page.size()) {
    return std::nullopt;
  }
  node.end = static_cast<std::size_t>(end);
  node.key = page.substr(node.begin + kNodeHeader, key_size);
  node.data =
      page.substr(node.begin + kNodeHeader + key_size, static_cast<std::size_t>(inline_size));
  if (!is_leaf) {
    node.child = low | high << 16U | static_cast<std::uint64_t>(node.flags) << 32U;
    node.flags = 0;
  } else if ((node.flags & kBigData) != 0) {
    node.child = number_at<8>(node.data, 0);
  }
  return node;
}

}  // namespace kintsugi::store::pages
