#include "store/lmdb/internal/page_walk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/hex.h"
#include "base/strings.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/page_format.h"
#include "store/lmdb/internal/page_lookup.h"

namespace kintsugi::store {
namespace {

using pages::Header;
using pages::Meta;
using pages::Node;
using pages::PageNumber;
using pages::Table;

constexpr std::size_t kMostProblems = 100;
constexpr std::size_t kMostLost = 10'000;
constexpr PageNumber kSampled = 64;
constexpr unsigned kMostDepth = 32;  // LMDB's own
constexpr std::size_t kHistoryRevision = 8;
constexpr const char* kBooks = "books";
constexpr const char* kTables[] = {"meta", "current", "history", "log", kBooks};
constexpr std::uint64_t kMostAhead = std::uint64_t{1} << 24U;  // pages that were never written

using Compare = int (*)(std::string_view, std::string_view);

int compare_bytes(std::string_view a, std::string_view b) { return a.compare(b); }
int compare_numbers(std::string_view a, std::string_view b) {
  const std::uint64_t x = pages::number_at<8>(a, 0), y = pages::number_at<8>(b, 0);
  return x < y ? -1 : x > y ? 1 : 0;
}

/// Keys of a table as its order needs them.
struct Order {
  Compare compare = compare_bytes;
  std::size_t least = 1, most = 511;
};
Order order_of(std::string_view table) {
  if (table == "history") {
    return {layout::compare_history_keys, kHistoryRevision, 511};
  }
  return {};
}

/// Text that a line of a log can hold.
std::string shown_key(std::string_view key) {
  std::string out;
  for (const char c : key.substr(0, 200)) {
    if (c == '\0') {
      out += '/';
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) {
      out += "\\x";
      append_hex(out, static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

class Walk {
 public:
  Walk(const ReadAt& read, std::uint64_t size, const RowVisitor& visit)
      : read_(read), size_(size), visit_(visit) {}

  PageReport run() {
    if (!choose_meta()) {
      return std::move(report_);
    }
    report_.is_store = true;
    report_.transaction = meta_.transaction;
    const std::uint64_t in_file = (size_ + meta_.page_size - 1) / meta_.page_size;
    if (meta_.last_page > in_file + kMostAhead) {
      problem("page " + std::to_string(newest_) + ": the last page, " +
              std::to_string(meta_.last_page) + ", is far beyond the end of the file");
      meta_.last_page = in_file;
    }
    used_.assign(static_cast<std::size_t>(meta_.last_page + 1), false);
    used_[0] = true;
    if (meta_.last_page >= 1) {
      used_[1] = true;
    }
    walk_main();
    const std::uint64_t before = report_.problem_count;
    walk_free_list();
    if (before == 0 && report_.problem_count == 0) {
      look_for_leaks();
    }
    return std::move(report_);
  }

 private:
  struct Tree {
    std::string name;
    const Table& table;
    Order order;
    std::uint64_t branches = 0, leaves = 0, overflows = 0, entries = 0;
    bool whole = true;  ///< nothing of it was lost, so that counts mean something
    std::function<void(const Node&)> row = {};
  };

  void problem(std::string text) {
    ++report_.problem_count;
    if (report_.problems.size() < kMostProblems) {
      report_.problems.push_back(std::move(text));
    }
  }

  /// The keys below a page, or of a row, are gone.
  void lose(Tree& tree, PageNumber page, const std::string& what, std::string_view first,
            std::optional<std::string_view> end) {
    tree.whole = false;
    std::string text = "page " + std::to_string(page) + " of " + tree.name + ": " + what;
    const bool is_user = tree.order.compare != compare_numbers && tree.name != "the main table";
    if (is_user) {
      text += "; keys from \"" + shown_key(first) + "\"" +
              (end ? " below \"" + shown_key(*end) + "\"" : " on");
    }
    problem(std::move(text));
    if (!is_user) {
      return;
    }
    if (report_.lost.size() < kMostLost) {
      report_.lost.push_back({tree.name, std::string(first), std::string(end.value_or(""))});
    } else if (report_.lost.size() == kMostLost) {
      for (const char* name : kTables) {
        report_.lost.push_back({name, "", ""});
      }
    }
  }

  bool choose_meta() {
    std::string first(pages::kHeader + pages::kMetaBytes, '\0');
    Meta metas[2];
    std::string faults[2];
    faults[0] = read_bytes(0, first) ? pages::read_meta(first, 0, metas[0]) : "cannot be read";
    faults[1] = "is not found";
    const bool has_first = faults[0].empty();
    const std::size_t from = has_first ? metas[0].page_size : pages::kLeastPage;
    const std::size_t to = has_first ? metas[0].page_size : pages::kMostPage;
    for (std::size_t at = from; at <= to; at *= 2) {
      std::string second(pages::kHeader + pages::kMetaBytes, '\0');
      Meta found;
      const std::string fault =
          read_bytes(at, second) ? std::string(pages::read_meta(second, 1, found)) : "is cut off";
      if (fault.empty() && found.page_size == at) {
        metas[1] = found;
        faults[1].clear();
        break;
      }
      if (has_first) {
        faults[1] = fault.empty() ? "has another size of pages" : fault;
      }
    }
    if (!faults[0].empty() && !faults[1].empty()) {
      if (has_pages()) {
        problem("page 0: " + faults[0]);
        problem("page 1: " + faults[1] + "; without both nothing can be found");
      }
      return false;
    }
    for (PageNumber i = 0; i < 2; ++i) {
      if (!faults[i].empty()) {
        problem("page " + std::to_string(i) + ": " + faults[i] +
                "; the other one is taken, so that the last commit may be missing");
      }
    }
    newest_ = !faults[0].empty()                            ? 1
              : !faults[1].empty()                          ? 0
              : metas[1].transaction > metas[0].transaction ? 1
                                                            : 0;
    if (faults[0].empty() && faults[1].empty()) {
      compare_revisions(metas);
    }
    meta_ = metas[newest_];
    const std::uint64_t other = metas[1 - newest_].transaction;
    if (faults[0].empty() && faults[1].empty() && meta_.transaction != other + 1 &&
        meta_.transaction != 0) {
      problem("page " + std::to_string(newest_) + ": transaction " +
              std::to_string(meta_.transaction) + " does not follow " + std::to_string(other));
    }
    return true;
  }

  /// A commit that is older by its number and newer by its revision: the number is damaged.
  void compare_revisions(const Meta (&metas)[2]) {
    const PageNumber other = 1 - newest_;
    const auto newest = revision_of(metas[newest_]), before = revision_of(metas[other]);
    if (newest && before && *before > *newest) {
      problem("page " + std::to_string(other) + ": transaction " +
              std::to_string(metas[other].transaction) + " has revision " +
              std::to_string(*before) + ", transaction " +
              std::to_string(metas[newest_].transaction) + " has " + std::to_string(*newest));
      newest_ = other;
    }
  }

  [[nodiscard]] std::optional<Revision> revision_of(const Meta& meta) {
    const auto table = pages::find_value(read_, meta, meta.main, "meta");
    const auto record = table ? pages::read_table(*table) : std::nullopt;
    const auto state = record ? pages::find_value(read_, meta, *record, "state") : std::nullopt;
    const auto decoded = state ? layout::decode_state(*state) : std::nullopt;
    return decoded ? std::optional(decoded->revision) : std::nullopt;
  }

  /// Whether something behind the meta pages looks like one of LMDB's.
  bool has_pages() {
    std::string bytes(pages::kHeader, '\0');
    for (PageNumber page = 2; page < 2 + kSampled; ++page) {
      for (std::size_t size = pages::kLeastPage; size <= pages::kMostPage; size *= 2) {
        if (read_bytes(page * size, bytes)) {
          const Header header = pages::read_header(bytes);
          const bool is_tree = header.flags == pages::kBranch || header.flags == pages::kLeaf;
          if (header.number == page && is_tree && header.lower <= header.upper &&
              header.lower >= pages::kHeader && header.upper <= size) {
            return true;
          }
        }
      }
    }
    return false;
  }

  /// False: not all of them are there.
  bool read_bytes(std::uint64_t offset, std::string& out) {
    const auto got = read_(offset, out.data(), out.size());
    return got && *got == out.size();
  }

  /// "" or why the page is not usable; marks it.
  std::string take_page(PageNumber number, std::string& bytes) {
    if (number < 2 || number > meta_.last_page) {
      return "there is no such page";
    }
    if (used_[static_cast<std::size_t>(number)]) {
      return "is used twice";
    }
    used_[static_cast<std::size_t>(number)] = true;
    ++report_.pages;
    const std::uint64_t offset = number * meta_.page_size;
    if (offset + meta_.page_size > size_) {
      return "is beyond the end of the file";
    }
    bytes.resize(meta_.page_size);
    if (!read_bytes(offset, bytes)) {
      return "cannot be read at byte " + std::to_string(offset);
    }
    return pages::read_header(bytes).number == number ? "" : "has the number of another page";
  }

  std::string check_bounds(const Tree& tree, const Header& header, bool is_leaf) const {
    if (header.flags != (is_leaf ? pages::kLeaf : pages::kBranch)) {
      return is_leaf ? "is no leaf" : "is no branch";
    }
    if (header.lower < pages::kHeader || header.lower % 2 != 0 || header.lower > header.upper ||
        header.upper > meta_.page_size) {
      return "has impossible bounds";
    }
    const bool is_free_list = tree.order.compare == compare_numbers;
    if (header.nodes() < (is_leaf || is_free_list ? 1U : 2U)) {
      return "has too few nodes";
    }
    return {};
  }

  std::string read_nodes(const Tree& tree, std::string_view bytes, const Header& header,
                         bool is_leaf, std::vector<Node>& nodes) const {
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (std::size_t i = 0; i < header.nodes(); ++i) {
      const auto node = pages::read_node(bytes, header, i);
      if (!node) {
        return "has a node outside of its bounds";
      }
      const bool has_key = is_leaf || i > 0;
      if (has_key && (node->key.size() < tree.order.least || node->key.size() > tree.order.most)) {
        return "has a key of an impossible length";
      }
      places.emplace_back(node->begin, node->end);
      nodes.push_back(*node);
    }
    std::sort(places.begin(), places.end());
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (places[i].first < places[i - 1].second) {
        return "has nodes that overlap";
      }
    }
    for (std::size_t i = is_leaf ? 1 : 2; i < nodes.size(); ++i) {
      if (tree.order.compare(nodes[i - 1].key, nodes[i].key) >= 0) {
        return "has keys that are out of order";
      }
    }
    return {};
  }

  /// @param first,end  where the keys of the page have to be, by the branches above
  void walk_page(Tree& tree, PageNumber number, unsigned level, std::string_view first,
                 std::optional<std::string_view> end) {
    std::string bytes;
    std::string fault = take_page(number, bytes);
    const bool is_leaf = level == tree.table.depth;
    std::vector<Node> nodes;
    if (fault.empty()) {
      const Header header = pages::read_header(bytes);
      fault = check_bounds(tree, header, is_leaf);
      fault = fault.empty() ? read_nodes(tree, bytes, header, is_leaf, nodes) : fault;
    }
    if (fault.empty()) {
      const Node& lowest = nodes[is_leaf || nodes.size() == 1 ? 0 : 1];
      const bool has_lowest = is_leaf || nodes.size() > 1;
      if (has_lowest && ((!first.empty() && tree.order.compare(lowest.key, first) < 0) ||
                         (end && tree.order.compare(nodes.back().key, *end) >= 0))) {
        fault = "has keys that belong elsewhere";
      }
    }
    if (!fault.empty()) {
      lose(tree, number, fault, first, end);
      return;
    }
    if (is_leaf) {
      ++tree.leaves;
      for (const Node& node : nodes) {
        ++tree.entries;
        ++report_.rows;
        tree.row(node);
      }
      return;
    }
    ++tree.branches;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      walk_page(tree, nodes[i].child, level + 1, i == 0 ? first : nodes[i].key,
                i + 1 < nodes.size() ? std::optional(nodes[i + 1].key) : end);
    }
  }

  void walk_tree(Tree& tree) {
    const Table& table = tree.table;
    if (table.root == pages::kNoPage) {
      if (table.depth != 0 || table.entries != 0 || table.branches != 0 || table.leaves != 0) {
        lose(tree, newest_, "has no root, but rows", "", std::nullopt);
      }
      return;
    }
    if (table.depth == 0 || table.depth > kMostDepth) {
      lose(tree, table.root, "its table has an impossible depth", "", std::nullopt);
      return;
    }
    walk_page(tree, table.root, 1, "", std::nullopt);
    if (tree.whole && (tree.branches != table.branches || tree.leaves != table.leaves ||
                       tree.overflows != table.overflows || tree.entries != table.entries)) {
      problem("table " + tree.name + ": its record counts other pages and rows than there are");
    }
  }

  /// Marks the overflow pages of a value. @returns "" or what is wrong.
  std::string take_run(Tree& tree, const Node& node) {
    const std::uint64_t least = pages::overflow_run(node.size, meta_.page_size);
    std::string bytes;
    if (std::string fault = take_page(node.child, bytes); !fault.empty()) {
      return fault;
    }
    const Header header = pages::read_header(bytes);
    if (header.flags != pages::kOverflow || header.run < least ||
        header.run > meta_.last_page - node.child + 1) {
      return "is not the beginning of this value";
    }
    for (std::uint64_t i = 1; i < header.run; ++i) {
      const auto at = static_cast<std::size_t>(node.child + i);
      if (used_[at]) {
        return "goes on in a page that is used twice";
      }
      used_[at] = true;
      ++report_.pages;
    }
    tree.overflows += header.run;
    return node.child * meta_.page_size + pages::kHeader + node.size <= size_
               ? ""
               : "is cut off by the end of the file";
  }

  /// nullopt: the value cannot be read, which has been said.
  std::optional<std::string> value_of(Tree& tree, const Node& node, bool wanted) {
    if ((node.flags & pages::kBigData) == 0) {
      return std::string(wanted ? node.data : std::string_view());
    }
    const auto lose_row = [&](const std::string& fault) {
      const std::string after = std::string(node.key) + '\0';
      const bool is_history = tree.order.compare == layout::compare_history_keys;
      std::string next(node.key);
      if (is_history) {  // the next revision of the key
        for (std::size_t i = next.size(); i-- > next.size() - kHistoryRevision;) {
          next[i] = static_cast<char>(static_cast<unsigned char>(next[i]) + 1U);
          if (next[i] != 0) {
            break;
          }
        }
      }
      lose(tree, node.child, fault, node.key, is_history ? next : after);
    };
    if (std::string fault = take_run(tree, node); !fault.empty()) {
      lose_row(fault);
      return std::nullopt;
    }
    std::string value(wanted ? static_cast<std::size_t>(node.size) : 0, '\0');
    if (wanted && !read_bytes(node.child * meta_.page_size + pages::kHeader, value)) {
      lose_row("cannot be read");
      return std::nullopt;
    }
    return value;
  }

  void walk_main() {
    struct Found {
      std::string name;
      Table table;
    };
    std::vector<Found> found;
    Tree tree{"the main table", meta_.main, Order{}};
    tree.row = [&](const Node& node) {
      const auto table =
          node.flags == pages::kSubData ? pages::read_table(node.data) : std::nullopt;
      if (!table || table->flags != 0) {
        problem("main table: \"" + shown_key(node.key) + "\" is no record of a table");
        report_.lost.push_back({std::string(node.key), "", ""});
        return;
      }
      found.push_back({std::string(node.key), *table});
    };
    walk_tree(tree);
    const bool has_tables = meta_.main.root != pages::kNoPage;
    for (const char* name : kTables) {
      const bool is_found = std::any_of(found.begin(), found.end(),
                                        [&](const Found& one) { return one.name == name; });
      // Stores that are older than books have none.
      if (is_found || !(has_tables && (name != kBooks || !tree.whole))) {
        continue;
      }
      if (tree.whole) {
        problem("main table: the table " + std::string(name) + " is not there");
      }
      report_.lost.push_back({name, "", ""});
    }
    for (const Found& one : found) {
      walk_user(one.name, one.table);
    }
  }

  void walk_user(const std::string& name, const Table& table) {
    Tree tree{name, table, order_of(name)};
    tree.row = [&](const Node& node) {
      if ((node.flags & ~pages::kBigData) != 0) {
        lose(tree, table.root, "a row has unknown marks", node.key, std::string(node.key) + '\0');
        return;
      }
      const auto value = value_of(tree, node, static_cast<bool>(visit_));
      if (value && visit_) {
        visit_(name, node.key, *value);
      }
    };
    walk_tree(tree);
  }

  void walk_free_list() {
    std::vector<bool> listed(used_.size(), false);
    Tree tree{"the free list", meta_.free_list, Order{compare_numbers, 8, 8}};
    tree.row = [&](const Node& node) {
      if ((node.flags & ~pages::kBigData) != 0) {
        problem("free list: a row has unknown marks");
        return;
      }
      const auto value = value_of(tree, node, true);
      if (value) {
        take_free(*value, listed);
      }
    };
    walk_tree(tree);
    listed_ = std::move(listed);
    for (std::size_t i = 2; i < used_.size(); ++i) {
      if (used_[i] && listed_[i]) {
        problem("free list: page " + std::to_string(i) + " is free and in use");
      }
    }
  }

  void take_free(std::string_view value, std::vector<bool>& listed) {
    const std::uint64_t count = value.size() < 8 ? 0 : pages::number_at<8>(value, 0);
    if (value.size() < 8 || count > value.size() / 8 - 1) {
      problem("free list: a list has an impossible length");
      return;
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const PageNumber page = pages::number_at<8>(value, static_cast<std::size_t>(8 * (i + 1)));
      if (page < 2 || page > meta_.last_page) {
        problem("free list: there is no page " + std::to_string(page));
      } else if (listed[static_cast<std::size_t>(page)]) {
        problem("free list: page " + std::to_string(page) + " is there twice");
      } else {
        listed[static_cast<std::size_t>(page)] = true;
      }
    }
  }

  void look_for_leaks() {
    for (std::size_t i = 2; i < used_.size(); ++i) {
      if (!used_[i] && !listed_[i]) {
        problem("free list: page " + std::to_string(i) + " is neither free nor in use");
      }
    }
  }

  const ReadAt& read_;
  const std::uint64_t size_;
  const RowVisitor& visit_;
  Meta meta_;
  PageNumber newest_ = 0;
  std::vector<bool> used_, listed_;
  PageReport report_;
};

}  // namespace

PageReport walk_pages(const ReadAt& read, std::uint64_t size, const RowVisitor& visit) {
  return Walk(read, size, visit).run();
}

Expected<PageReport> walk_file(const std::string& path, const RowVisitor& visit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    const int code = errno;
    return fail(code == ENOENT || code == ENOTDIR ? Errc::kNotFound : Errc::kIo,
                path + ": " + std::strerror(code));
  }
  struct stat about {};
  const bool is_file = ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  if (!is_file || about.st_size == 0) {
    ::close(fd);
    return fail(Errc::kNotFound, path + (is_file ? " is empty" : " is no file"));
  }
  const ReadAt read = [fd](std::uint64_t offset, char* out,
                           std::size_t size) -> Expected<std::size_t> {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t got = ::pread(fd, out + done, size - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        return fail(Errc::kIo, std::strerror(errno));
      }
      if (got == 0) {
        break;
      }
      done += static_cast<std::size_t>(got);
    }
    return done;
  };
  PageReport report = walk_pages(read, static_cast<std::uint64_t>(about.st_size), visit);
  ::close(fd);
  return report;
}

}  // namespace kintsugi::store
