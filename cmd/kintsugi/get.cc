#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/near_name.h"
#include "base/strings.h"
#include "cmd/kintsugi/admin_client.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/get_kinds.h"
#include "cmd/kintsugi/output_flag.h"
#include "cmd/kintsugi/text_table.h"

/// `kintsugi get`: what the admin listener of a running proxy tells, for people.
namespace kintsugi::cmd {
namespace {

using krm::Json;

constexpr int kNoSuchObject = 4;
constexpr int kBetweenLooks = 1'000;  // [ms] of --watch

struct GetOptions {
  std::string admin, output;
  bool watch = false;
};

FlagTable get_table(GetOptions& options) {
  std::vector<Flag> flags = output_flags(options.output, {"table", "wide", "json", "yaml", "name"});
  flags.insert(flags.begin(), admin_flag(options.admin));
  for (const char* const name : {"watch", "w"}) {
    flags.push_back(
        {name, "", "",
         name[1] == '\0' ? "the same" : "looks again each second and prints lines that are others",
         into(options.watch)});
  }
  return {{"Options", std::move(flags)}};
}

std::vector<std::string> kind_names() {
  std::vector<std::string> out;
  for (const GetKind& kind : get_kinds()) {
    out.emplace_back(kind.name);
  }
  return out;
}

/// What is wanted of it: documents in the proxy's order, lines in that of the kind.
struct Found {
  Json documents = Json::array();
  std::vector<GetRow> rows;
  std::int64_t cut = 0;
};

Expected<Found> look(const GetKind& kind, const std::string& socket, const std::string& name) {
  auto got = fetch(kind, socket);
  if (!got) {
    return fail(std::move(got.error()));
  }
  Found found;
  found.cut = got->cut;
  for (Json& one : got->items) {
    GetRow row = kind.row(one);
    if (name.empty() || is_named(kind, row, name)) {
      found.rows.push_back(std::move(row));
      found.documents.push_back(std::move(one));
    }
  }
  if (kind.sorted) {
    std::sort(found.rows.begin(), found.rows.end());
  }
  return found;
}

/// With their heading first. @param columns  so many of each
std::vector<std::string> lines_of(const GetKind& kind, std::vector<GetRow> rows,
                                  std::size_t columns) {
  rows.insert(rows.begin(), kind.columns);
  for (GetRow& row : rows) {
    row.resize(columns);
    for (std::string& text : row) {  // clients choose some of them: a line stays a line
      std::replace_if(
          text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
    }
  }
  std::vector<std::string> out;
  const std::string text = text_table(rows);
  for (const std::string_view line : split(text, '\n')) {
    out.emplace_back(line);
  }
  return out;
}

void print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (!line.empty()) {
      std::printf("%s\n", line.c_str());
    }
  }
}

int print_once(const GetKind& kind, const GetOptions& options, const std::string& name) {
  auto found = look(kind, admin_socket(options.admin), name);
  if (!found) {
    return complain("get", found.error());
  }
  if (found->rows.empty() && !name.empty()) {
    return complain("get", "no " + std::string(kind.name) + " named \"" + name + "\"",
                    kNoSuchObject);
  }
  if (print_document(options.output, found->documents)) {
    return 0;
  }
  if (options.output == "name") {
    for (const GetRow& row : found->rows) {
      std::printf("%s\n", get_name(kind, row).c_str());
    }
    return 0;
  }
  if (found->rows.empty()) {
    std::fprintf(stderr, "No %s.\n", kind.name);
    return 0;
  }
  if (found->cut != 0) {
    std::fprintf(stderr, "%lld more are not shown: those that wait for less, and are younger.\n",
                 static_cast<long long>(found->cut));
  }
  print_lines(lines_of(kind, std::move(found->rows),
                       options.output == "table" ? kind.usual : kind.columns.size()));
  return 0;
}

/// The row without what differs each time it is looked at.
GetRow rested(const GetKind& kind, GetRow row) {
  for (std::size_t i = 0; kind.restless != nullptr && i < row.size(); ++i) {
    if (kind.columns[i] == kind.restless) {
      row[i].clear();
    }
  }
  return row;
}

/// Waits until the next look. @returns whether somebody still reads.
bool rest() {
  pollfd out{STDOUT_FILENO, 0, 0};
  return ::poll(&out, 1, kBetweenLooks) <= 0;
}

/// Until nobody reads, or the proxy does not answer. What is gone is named once more.
int print_changes(const GetKind& kind, const GetOptions& options, const std::string& name) {
  const std::size_t columns = options.output == "table" ? kind.usual : kind.columns.size();
  std::set<GetRow> before;
  std::set<std::string> known;
  for (bool first = true;; first = false) {
    const auto found = look(kind, admin_socket(options.admin), name);
    if (!found) {
      return complain("get", found.error());
    }
    const std::vector<std::string> lines = lines_of(kind, found->rows, columns);
    std::vector<std::string> told;
    if (first) {
      told.push_back(lines.front());
    }
    std::set<GetRow> now;
    std::set<std::string> names;
    for (std::size_t i = 0; i < found->rows.size(); ++i) {
      GetRow row = rested(kind, found->rows[i]);
      row.resize(columns);
      if (!before.contains(row)) {
        told.push_back(lines[i + 1]);
      }
      now.insert(std::move(row));
      names.insert(get_name(kind, found->rows[i]));
    }
    for (const std::string& one : known) {
      if (!names.contains(one)) {
        told.push_back(one + " is gone");
      }
    }
    print_lines(told);
    before = std::move(now);
    known = std::move(names);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !rest()) {
      return 0;
    }
  }
}

}  // namespace

CommandAbout get_about() {
  GetOptions options;
  std::string text = "What a running proxy knows, asked at its admin socket.";
  std::size_t width = 0;
  for (const GetKind& kind : get_kinds()) {
    width = std::max(width, std::string_view(kind.name).size());
  }
  for (const GetKind& kind : get_kinds()) {
    std::string name = kind.name;
    name.resize(width, ' ');
    text += "\n" + name + "  " + kind.about;
  }
  return {"kintsugi get " + join(kind_names(), "|") + " [NAME] [options]", text, kind_names(),
          without_setters(get_table(options))};
}

int run_get(const std::vector<std::string>& arguments) {
  GetOptions options;
  const auto words = take_arguments("get", get_table(options), get_about, arguments);
  if (!words) {
    return words.error();
  }
  if (words->empty() || words->size() > 2) {
    return wrong_usage("get", "say what: one of " + join(kind_names(), ", "));
  }
  if (options.watch && options.output != "table" && options.output != "wide") {
    return wrong_usage("get", "--watch prints tables: -o table or -o wide");
  }
  for (const GetKind& kind : get_kinds()) {
    if (words->front() == kind.name) {
      const std::string name = words->size() == 2 ? words->back() : std::string();
      return options.watch ? print_changes(kind, options, name) : print_once(kind, options, name);
    }
  }
  const std::string near = nearest_name(words->front(), kind_names());
  return wrong_usage("get", "\"" + words->front() + "\" cannot be got; " +
                                (near.empty() ? "say one of " + join(kind_names(), ", ")
                                              : "did you mean " + near + "?"));
}

}  // namespace kintsugi::cmd
