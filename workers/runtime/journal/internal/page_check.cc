#include "workers/runtime/journal/internal/page_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

namespace kintsugi::workers {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPageHead = 16;
constexpr std::size_t kNodeHead = 8;
constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxKey = 511;
constexpr std::uint64_t kMaxPages = std::uint64_t{1} << 24;  // 64 GiB, far above any journal
constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
constexpr std::uint16_t kBranch = 1, kLeaf = 2, kOverflow = 4, kMetaPage = 8;
constexpr std::uint16_t kBigData = 1, kSubData = 2;
constexpr std::size_t kTableBytes = 48;

template <class Integer>
Integer read_at(const char* bytes, std::size_t offset) noexcept {
  Integer value{};
  std::memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

struct PageTable {  // MDB_db
  std::uint32_t pad = 0;
  std::uint16_t flags = 0, depth = 0;
  std::uint64_t branches = 0, leaves = 0, overflows = 0, entries = 0, root = 0;

  explicit PageTable(const char* at) noexcept
      : pad(read_at<std::uint32_t>(at, 0)),
        flags(read_at<std::uint16_t>(at, 4)),
        depth(read_at<std::uint16_t>(at, 6)),
        branches(read_at<std::uint64_t>(at, 8)),
        leaves(read_at<std::uint64_t>(at, 16)),
        overflows(read_at<std::uint64_t>(at, 24)),
        entries(read_at<std::uint64_t>(at, 32)),
        root(read_at<std::uint64_t>(at, 40)) {}
};

struct PageMeta {
  std::uint64_t last_page = 0, txn = 0;
  std::array<char, 2 * kTableBytes> tables{};
};

struct PageNode {
  std::string_view key;
  std::uint16_t flags = 0;
  std::uint32_t data_size = 0;
  std::uint64_t child = 0;  // of a branch
  const char* data = nullptr;
};

class PageChecker {
 public:
  PageChecker(int file, std::size_t max_row, const OnJournalRow& on_row) noexcept
      : file_(file), max_row_(max_row), on_row_(on_row) {}

  Expected<PageReport> run();

 private:
  enum class Kind : std::uint8_t { kFree, kMain, kRows };
  struct Bounds {
    std::string low, high;  // low <= key < high; "" is none
  };
  struct Counts {
    std::uint64_t branches = 0, leaves = 0, overflows = 0, entries = 0;
  };

  [[nodiscard]] Expected<void> read(std::uint64_t page, char* into, std::size_t bytes) const;
  [[nodiscard]] Expected<PageMeta> read_meta(std::uint64_t page) const;
  [[nodiscard]] Expected<void> take(std::uint64_t page, std::uint64_t count);
  [[nodiscard]] Expected<void> check_table(const PageTable& table, Kind kind,
                                           const std::string& name);
  [[nodiscard]] Expected<void> walk(std::uint64_t page, std::size_t levels_below,
                                    const Bounds& bounds, Kind kind, std::size_t level,
                                    Counts& counts);
  [[nodiscard]] Expected<std::vector<PageNode>> nodes_of(const char* page, std::uint64_t number,
                                                         bool leaf, Kind kind) const;
  [[nodiscard]] Expected<void> on_node(const PageNode& node, Kind kind, Counts& counts);
  [[nodiscard]] Expected<std::string_view> value_of(const PageNode& node, Kind kind,
                                                    std::vector<char>& space, Counts& counts);
  [[nodiscard]] Expected<void> on_free_list(const PageNode& node, std::string_view value);
  [[nodiscard]] static bool below(std::string_view a, std::string_view b, Kind kind) noexcept;

  const int file_;
  const std::size_t max_row_;
  const OnJournalRow& on_row_;
  PageReport report_;
  std::vector<bool> seen_;
  std::uint64_t seen_count_ = 0;
  std::string table_;                     // whose rows are being read
  std::vector<std::vector<char>> pages_;  // one per level, the tables' own levels come after
  std::vector<char> big_value_, list_value_;
};

tl::unexpected<Error> damaged(const std::string& what) { return fail(Errc::kCorrupt, what); }
tl::unexpected<Error> damaged(std::uint64_t page, const char* what) {
  return damaged("page " + std::to_string(page) + ": " + what);
}

Expected<void> PageChecker::read(std::uint64_t page, char* into, std::size_t bytes) const {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(file_, into + done, bytes - done, static_cast<off_t>(page * kPage + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return damaged("page " + std::to_string(page) + " cannot be read: " +
                     std::error_code(errno, std::generic_category()).message());
    }
    if (got == 0) {
      return damaged(page, "the file ends before it");
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

Expected<PageMeta> PageChecker::read_meta(std::uint64_t page) const {
  std::array<char, kPageHead + 136> bytes{};
  if (auto got = read(page, bytes.data(), bytes.size()); !got) {
    return fail(std::move(got).error());
  }
  const char* meta = bytes.data() + kPageHead;
  PageMeta result;
  std::memcpy(result.tables.data(), meta + 24, result.tables.size());
  result.last_page = read_at<std::uint64_t>(meta, 120);
  result.txn = read_at<std::uint64_t>(meta, 128);
  const PageTable free(result.tables.data());
  const PageTable main(result.tables.data() + kTableBytes);
  if (read_at<std::uint64_t>(bytes.data(), 0) != page ||
      read_at<std::uint16_t>(bytes.data(), 10) != kMetaPage ||
      read_at<std::uint32_t>(meta, 0) != 0xBEEFC0DE || read_at<std::uint32_t>(meta, 4) != 1) {
    return damaged(page, "no head of a journal");
  }
  if (free.pad != kPage || free.flags != 8 || main.pad != 0 || main.flags != 0 ||
      result.last_page < 1 || result.last_page >= kMaxPages) {
    return damaged(page, "the head of another kind of file");
  }
  return result;
}

Expected<void> PageChecker::take(std::uint64_t page, std::uint64_t count) {
  if (page < 2 || page > report_.last_page || count > report_.last_page - page + 1) {
    return damaged(page, "outside of the file");
  }
  for (std::uint64_t i = page; i < page + count; ++i) {
    if (seen_[i]) {
      return damaged(i, "in use twice");
    }
    seen_[i] = true;
  }
  seen_count_ += count;
  return {};
}

bool PageChecker::below(std::string_view a, std::string_view b, Kind kind) noexcept {
  if (kind == Kind::kFree) {
    return read_at<std::uint64_t>(a.data(), 0) < read_at<std::uint64_t>(b.data(), 0);
  }
  return a < b;
}

Expected<std::vector<PageNode>> PageChecker::nodes_of(const char* page, std::uint64_t number,
                                                      bool leaf, Kind kind) const {
  const auto lower = read_at<std::uint16_t>(page, 12);
  const auto upper = read_at<std::uint16_t>(page, 14);
  if (read_at<std::uint64_t>(page, 0) != number ||
      read_at<std::uint16_t>(page, 10) != (leaf ? kLeaf : kBranch)) {
    return damaged(number, "another kind of page");
  }
  const std::size_t count = lower < kPageHead ? 0 : (lower - kPageHead) / 2U;
  const std::size_t least = leaf || kind == Kind::kFree ? 1 : 2;
  if (lower % 2 != 0 || upper > kPage || lower > upper || count < least) {
    return damaged(number, "impossible bounds");
  }
  std::vector<PageNode> nodes;
  nodes.reserve(count);
  std::size_t filled = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto offset = read_at<std::uint16_t>(page, kPageHead + 2 * i);
    if (offset < upper || offset % 2 != 0 || offset + kNodeHead > kPage) {
      return damaged(number, "a node outside of the page");
    }
    const char* at = page + offset;
    const auto low = read_at<std::uint16_t>(at, 0);
    const auto high = read_at<std::uint16_t>(at, 2);
    const auto key_size = read_at<std::uint16_t>(at, 6);
    PageNode node;
    node.flags = read_at<std::uint16_t>(at, 4);
    node.data_size = std::uint32_t{high} << 16 | low;
    node.child = std::uint64_t{node.flags} << 32 | node.data_size;
    std::size_t size = kNodeHead + std::size_t{key_size};
    if (leaf) {
      size += (node.flags & kBigData) != 0 ? sizeof(std::uint64_t) : node.data_size;
    }
    const bool first_of_branch = !leaf && i == 0;
    if (key_size > kMaxKey || offset + size > kPage || (key_size == 0 && !first_of_branch) ||
        (kind == Kind::kFree && !first_of_branch && key_size != sizeof(std::uint64_t))) {
      return damaged(number, "a node of impossible size");
    }
    filled += size + size % 2;
    node.key = {at + kNodeHead, first_of_branch ? 0 : std::size_t{key_size}};
    node.data = at + kNodeHead + key_size;
    if (!nodes.empty() && !nodes.back().key.empty() && !below(nodes.back().key, node.key, kind)) {
      return damaged(number, "keys out of order");
    }
    nodes.push_back(node);
  }
  if (filled != kPage - upper) {
    return damaged(number, "nodes overlap");
  }
  return nodes;
}

Expected<void> PageChecker::walk(std::uint64_t page, std::size_t levels_below, const Bounds& bounds,
                                 Kind kind, std::size_t level, Counts& counts) {
  if (auto taken = take(page, 1); !taken) {
    return taken;
  }
  if (pages_.size() <= level) {
    pages_.resize(level + 1);
  }
  pages_[level].resize(kPage);
  char* bytes = pages_[level].data();  // stays where it is when the outer vector grows
  if (auto got = read(page, bytes, kPage); !got) {
    return got;
  }
  const bool leaf = levels_below == 0;
  auto nodes = nodes_of(bytes, page, leaf, kind);
  if (!nodes) {
    return fail(std::move(nodes).error());
  }
  ++(leaf ? counts.leaves : counts.branches);
  for (const PageNode& node : *nodes) {
    const bool checked = !node.key.empty();
    if (checked && ((!bounds.low.empty() && below(node.key, bounds.low, kind)) ||
                    (!bounds.high.empty() && !below(node.key, bounds.high, kind)))) {
      return damaged(page, "keys of another place");
    }
  }
  for (std::size_t i = 0; i < nodes->size(); ++i) {
    const PageNode& node = (*nodes)[i];
    Expected<void> result;
    if (leaf) {
      ++counts.entries;
      result = on_node(node, kind, counts);
    } else {
      const Bounds inner{node.key.empty() ? bounds.low : std::string(node.key),
                         i + 1 < nodes->size() ? std::string((*nodes)[i + 1].key) : bounds.high};
      result = walk(node.child, levels_below - 1, inner, kind, level + 1, counts);
    }
    if (!result) {
      return result;
    }
  }
  return {};
}

Expected<std::string_view> PageChecker::value_of(const PageNode& node, Kind kind,
                                                 std::vector<char>& space, Counts& counts) {
  if ((node.flags & kBigData) == 0) {
    return std::string_view(node.data, node.data_size);
  }
  const auto first = read_at<std::uint64_t>(node.data, 0);
  const std::size_t most =
      kind == Kind::kRows ? max_row_ : (report_.last_page + 2) * sizeof(std::uint64_t);
  const std::size_t needed = kPageHead + node.data_size;
  if (node.data_size > most || first < 2 || first > report_.last_page) {
    return damaged(first, "an impossible value");
  }
  space.resize(needed);
  if (auto got = read(first, space.data(), needed); !got) {
    return fail(std::move(got).error());
  }
  const auto count = read_at<std::uint32_t>(space.data(), 12);
  if (read_at<std::uint64_t>(space.data(), 0) != first ||
      read_at<std::uint16_t>(space.data(), 10) != kOverflow ||
      count < (needed + kPage - 1) / kPage) {
    return damaged(first, "no page of a value");
  }
  if (auto taken = take(first, count); !taken) {
    return fail(std::move(taken).error());
  }
  counts.overflows += count;
  return std::string_view(space.data() + kPageHead, node.data_size);
}

Expected<void> PageChecker::on_free_list(const PageNode& node, std::string_view value) {
  if (value.size() < 8 || value.size() % 8 != 0 ||
      read_at<std::uint64_t>(node.key.data(), 0) > report_.txn) {
    return damaged("the list of free pages is broken");
  }
  const auto count = read_at<std::uint64_t>(value.data(), 0);
  if (count > value.size() / 8 - 1) {
    return damaged("the list of free pages is too long");
  }
  std::uint64_t last = kNoPage;
  for (std::uint64_t i = 1; i <= count; ++i) {
    const auto page = read_at<std::uint64_t>(value.data(), 8 * i);
    if (page >= last) {
      return damaged("the list of free pages is out of order");
    }
    if (auto taken = take(page, 1); !taken) {
      return taken;
    }
    last = page;
  }
  return {};
}

Expected<void> PageChecker::on_node(const PageNode& node, Kind kind, Counts& counts) {
  if (kind == Kind::kMain) {
    if (node.flags != kSubData || node.data_size != kTableBytes) {
      return damaged("a row outside of the tables");
    }
    const std::string name(node.key);
    return check_table(PageTable(node.data), Kind::kRows, name);
  }
  if ((node.flags & ~kBigData) != 0) {
    return damaged("a row of another kind");
  }
  auto value = value_of(node, kind, kind == Kind::kFree ? list_value_ : big_value_, counts);
  if (!value) {
    return fail(std::move(value).error());
  }
  if (kind == Kind::kFree) {
    return on_free_list(node, *value);
  }
  ++report_.rows;
  return on_row_(table_, node.key, *value);
}

Expected<void> PageChecker::check_table(const PageTable& table, Kind kind,
                                        const std::string& name) {
  if (kind == Kind::kRows && (table.flags != 0 || table.pad != 0)) {
    return damaged("table " + name + " of another kind");
  }
  if ((table.root == kNoPage) != (table.depth == 0) || table.depth > kMaxDepth) {
    return damaged("table " + name + " of impossible depth");
  }
  Counts counts;
  if (table.depth > 0) {
    if (kind == Kind::kRows) {
      table_ = name;
    }
    // The levels of a table's pages follow those of the pages that name it.
    const std::size_t level = kind == Kind::kRows ? kMaxDepth + 1 : 0;
    auto walked = walk(table.root, table.depth - 1U, {}, kind, level, counts);
    if (!walked) {
      return walked;
    }
  }
  if (counts.branches != table.branches || counts.leaves != table.leaves ||
      counts.overflows != table.overflows || counts.entries != table.entries) {
    return damaged("table " + name + " has other counts than its pages");
  }
  return {};
}

Expected<PageReport> PageChecker::run() {
  struct stat status {};
  if (::fstat(file_, &status) != 0) {
    return fail(Errc::kIo, std::error_code(errno, std::generic_category()).message());
  }
  (void)::posix_fadvise(file_, 0, 0, POSIX_FADV_WILLNEED);
  auto even = read_meta(0);
  if (!even) {
    return fail(std::move(even).error());
  }
  auto odd = read_meta(1);
  if (!odd) {
    return fail(std::move(odd).error());
  }
  const PageMeta& newest = even->txn < odd->txn ? *odd : *even;
  const PageMeta& other = even->txn < odd->txn ? *even : *odd;
  const bool never_used = newest.txn == 0;
  if (!never_used &&
      (newest.txn != other.txn + 1 || newest.txn % 2 != (even->txn < odd->txn ? 1U : 0U))) {
    return damaged("the heads are not of transactions that followed each other");
  }
  report_.last_page = newest.last_page;
  report_.txn = newest.txn;
  seen_.assign(report_.last_page + 1, false);
  auto result = check_table(PageTable(newest.tables.data()), Kind::kFree, "of free pages");
  if (result) {
    result = check_table(PageTable(newest.tables.data() + kTableBytes), Kind::kMain, "of tables");
  }
  if (!result) {
    return fail(std::move(result).error());
  }
  if (seen_count_ + 2 != report_.last_page + 1) {
    return damaged(std::to_string(report_.last_page - 1 - seen_count_) +
                   " pages are neither in use nor free");
  }
  return report_;
}

}  // namespace

Expected<PageReport> check_pages(int file, std::size_t max_row, const OnJournalRow& on_row) {
  return PageChecker(file, max_row, on_row).run();
}

}  // namespace kintsugi::workers
