#include "store/lmdb/repair.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "store/lmdb/check.h"
#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/replace.h"
#include "store/lmdb/internal/salvage.h"
#include "store/lmdb/lmdb_store.h"

namespace kintsugi::store {
namespace {

namespace fs = std::filesystem;

std::string shown(std::string text) {
  std::replace(text.begin(), text.end(), '\0', '/');
  return text;
}

Error lost_error(const LostKeys& lost, std::size_t count) {
  std::string text = "objects are lost: keys from \"" + shown(lost.first) + "\"" +
                     (lost.end.empty() ? " on" : " below \"" + shown(lost.end) + "\"");
  if (count > 1) {
    text += ", and " + std::to_string(count - 1) + " more ranges";
  }
  return Error(Errc::kCorrupt, std::move(text));
}

Expected<void> check_nothing_is_lost(const PageReport& pages, const Salvage& salvage) {
  std::vector<LostKeys> lost = salvage.damaged();
  for (const LostKeys& one : pages.lost) {
    if (one.table == "current") {
      lost.push_back(one);
    }
  }
  return lost.empty() ? Expected<void>() : fail(lost_error(lost.front(), lost.size()));
}

/// The old file stays beside the new one.
Expected<void> replace(const std::string& directory, const std::string& made) {
  const std::string file = directory + "/data.mdb";
  std::error_code code;
  fs::remove(file + ".damaged", code);
  fs::create_hard_link(file, file + ".damaged", code);
  return code ? fail(Errc::kIo, file + ".damaged: " + code.message())
              : put_in_place(directory, made);
}

Expected<RepairReport> rewrite_live(const std::string& directory) {
  const auto lock = lock_store(directory, true);
  if (!lock) {
    return fail(lock.error().clone().at("store " + directory));
  }
  const std::string made = directory + "/repair.partial";
  std::error_code ignored;
  fs::remove_all(made, ignored);
  auto salvage = Salvage::make(made);
  if (!salvage) {
    return fail(std::move(salvage.error()));
  }
  const auto pages =
      walk_file(directory + "/data.mdb",
                [&salvage](std::string_view table, std::string_view key, std::string_view value) {
                  (*salvage)->take(table, key, value);
                });
  auto done = pages ? check_nothing_is_lost(*pages, **salvage) : fail(pages.error().clone());
  RepairReport report;
  report.rewritten = true;
  report.objects = (*salvage)->saved();
  report.revision = (*salvage)->revision_ahead();
  done = done ? (*salvage)->finish(report.revision) : std::move(done);
  salvage->reset();
  done = done ? replace(directory, made) : std::move(done);
  fs::remove_all(made, ignored);
  return std::move(done).map([&report] { return report; });
}

Expected<void> count_anew(const std::string& directory, const BookRules& books) {
  LmdbParams params;
  params.directory = directory;
  params.books = books;
  params.recount = true;
  params.opens_moved = true;
  return LmdbStore::open(std::move(params)).map([](const auto&) {});
}

}  // namespace

Expected<RepairReport> repair_store(const std::string& directory, const BookRules& books) {
  const auto found = check_store(directory, books);
  if (!found) {
    return fail(found.error().clone());
  }
  if (!found->pages.is_store) {
    return fail(Errc::kCorrupt, "both meta pages are damaged: nothing can be found");
  }
  RepairReport report;
  if (found->problems() > 0) {
    auto rewritten = rewrite_live(directory);
    if (!rewritten) {
      return fail(std::move(rewritten.error()));
    }
    report = *rewritten;
  }
  report.counted = found->rows.miscounted.size();
  if (report.rewritten || report.counted > 0) {
    if (auto counted = count_anew(directory, books); !counted) {
      return fail(std::move(counted.error()));
    }
  }
  return report;
}

}  // namespace kintsugi::store
