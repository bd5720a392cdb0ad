#include "store/lmdb/check.h"

#include <string_view>
#include <utility>

#include "store/lmdb/internal/environment.h"
#include "store/lmdb/internal/layout.h"
#include "store/lmdb/internal/reader.h"
#include "store/lmdb/internal/verify.h"

namespace kintsugi::store {
namespace {

constexpr std::uint64_t kMapBytes = (std::uint64_t{64} << 30) + (std::uint64_t{64} << 20);
constexpr std::size_t kMostProblems = 100;

bool holds(std::string_view table, std::string_view key, std::string_view value) {
  if (table == "current" || table == "history") {
    return layout::decode_version(key, value).has_value();
  }
  if (table == "log") {
    return layout::decode_log(key, value).has_value();
  }
  return table != "meta" || key != "state" || layout::decode_state(value).has_value();
}

/// @param rows  gets what is counted and what does not hold.
Expected<PageReport> walk(const std::string& directory, VerifyReport& rows) {
  return walk_file(directory + "/data.mdb", [&rows](std::string_view table, std::string_view key,
                                                    std::string_view value) {
    rows.live += table == "current" ? 1U : 0U;
    rows.history += table == "history" ? 1U : 0U;
    rows.events += table == "log" ? 1U : 0U;
    if (!holds(table, key, value)) {
      ++rows.problem_count;
      if (rows.problems.size() < kMostProblems) {
        rows.problems.push_back(std::string(table) + " \"" + std::string(key) + "\": damaged");
      }
    } else if (table == "meta" && key == "state") {
      rows.revision = layout::decode_state(value)->revision;
    }
  });
}

Expected<VerifyReport> verify(const std::string& directory, const BookRules& books) {
  EnvironmentParams params{directory, kMapBytes};
  params.read_only = true;
  auto environment = Environment::open(std::move(params));
  if (!environment) {
    return fail(std::move(environment.error()));
  }
  auto txn = (*environment)->read();
  if (!txn) {
    return fail(std::move(txn.error()));
  }
  const Tables& tables = (*environment)->tables();
  const auto state = reader::state(txn->get(), tables);
  if (!state) {
    return VerifyReport{{"meta \"state\": damaged"}, 1};
  }
  return verify_rows(txn->get(), tables, *state, books);
}

}  // namespace

Expected<CheckReport> check_store(const std::string& directory, const BookRules& books) {
  CheckReport report;
  {
    const auto lock = lock_store(directory, false);  // nobody writes while the file is read
    if (!lock) {
      return fail(lock.error().clone().at("store " + directory));
    }
    auto pages = walk(directory, report.rows);
    if (!pages) {
      return fail(std::move(pages.error()));
    }
    if (!pages->is_store && pages->problem_count == 0) {
      return fail(Errc::kNotFound, directory + "/data.mdb is no store");
    }
    report.pages = std::move(*pages);
  }
  if (!report.pages.sound()) {
    return report;
  }
  auto rows = verify(directory, books);
  if (!rows) {
    return fail(std::move(rows.error()));
  }
  report.rows = std::move(*rows);
  return report;
}

}  // namespace kintsugi::store
