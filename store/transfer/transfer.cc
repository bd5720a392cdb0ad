#include "store/transfer/transfer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/sync_path.h"
#include "store/etcd/etcd_prefix.h"
#include "store/lmdb/maker.h"
#include "store/lmdb/source.h"
#include "store/transfer/internal/row_sum.h"

namespace kintsugi::store {
namespace {

namespace fs = std::filesystem;

constexpr Revision kMostRevision = Revision{1} << 44U;  // AGG-517
/// A store that is served is written to at least so often (GR-207).
constexpr Duration kQuiet = milliseconds(2'000);
constexpr std::uint64_t kTellEvery = 1'000;

std::string place_of(const EtcdParams& etcd) { return etcd.prefix + " in etcd"; }

Error differs(const std::string& place, const RowSum& wanted, const RowSum& found) {
  return Error(Errc::kCorrupt, place + ": has " + std::to_string(found.rows()) + " rows (" +
                                   found.digest().substr(0, 16) + "), the source has " +
                                   std::to_string(wanted.rows()) + " (" +
                                   wanted.digest().substr(0, 16) + ")");
}

/// Adds what is seen to a sum; and tells.
struct Counting {
  RowSum sum;
  const TransferOptions& options;
  void add(const EntryView& row) {
    sum.add(row.key, row.value);
    if (sum.rows() % kTellEvery == 0) {
      options.tell(sum.rows());
    }
  }
};

Expected<RowSum> sum_of(const LmdbSource& store) {
  RowSum sum;
  auto read = store.each([&sum](const EntryView& row) {
    sum.add(row.key, row.value);
    return Expected<void>();
  });
  return std::move(read).map([&sum] { return sum; });
}

Expected<RowSum> sum_of(EtcdPrefix& prefix) {
  RowSum sum;
  auto read = prefix.each([&sum](const EntryView& row) {
    sum.add(row.key, row.value);
    return Expected<void>();
  });
  return std::move(read).map([&sum] { return sum; });
}

/// Nothing is there, or what an earlier run from here has left.
Expected<void> check_target(const EtcdPrefix::Content& content, const std::string& place,
                            const std::string& from) {
  switch (content.kind) {
    case EtcdPrefix::Kind::kEmpty:
      return {};
    case EtcdPrefix::Kind::kCopying:
      return content.place == from
                 ? Expected<void>()
                 : fail(Errc::kConfig, place + ": is an unfinished copy of " + content.place);
    case EtcdPrefix::Kind::kMoved:
      return fail(Errc::kConfig,
                  place + ": is a store that has moved to " + content.place + "; remove it first");
    default:
      return fail(Errc::kConfig, place + ": is not empty");
  }
}

Expected<void> check_source(const std::string& moved, const std::string& place,
                            const std::string& to, bool force) {
  if (moved.empty() || moved == to || force) {
    return {};
  }
  return fail(Errc::kConfig,
              place + ": has moved to " + moved + "; --force copies it nevertheless");
}

Expected<void> check_folder(const std::string& directory) {
  std::error_code code;
  if (has_moved(directory)) {
    return fail(Errc::kConfig,
                directory + ": is a store that has moved elsewhere; remove it first");
  }
  if (fs::exists(directory, code) && !fs::is_empty(directory, code)) {
    return fail(Errc::kConfig, directory + ": is not empty");
  }
  return {};
}

/// Gives what is whole its name.
Expected<void> publish(const std::string& partial, const std::string& directory) {
  std::error_code code;
  fs::remove(directory, code);  // an empty folder
  if (std::rename(partial.c_str(), directory.c_str()) != 0) {
    return fail(Errc::kIo, directory + ": " + std::strerror(errno));
  }
  const std::string parent = fs::path(directory).parent_path().string();
  if (const int fault = sync_path(parent); fault != 0) {
    return fail(Errc::kIo, parent + ": " + std::strerror(fault));
  }
  return {};
}

std::string plain_path(const std::string& path) {
  std::string out = fs::absolute(path).lexically_normal().string();
  while (out.size() > 1 && out.back() == '/') {
    out.pop_back();
  }
  return out;
}

/// All rows of the prefix in a new store, which is the newest of its own.
Expected<TransferReport> fill(EtcdPrefix& source, Revision before, const std::string& partial,
                              const TransferOptions& options) {
  TransferReport report;
  report.before = before;
  report.after = before + kTransferJump;
  if (report.after >= kMostRevision) {
    return fail(Errc::kConfig, "revisions have become too large");
  }
  auto maker = StoreMaker::make(partial);
  if (!maker) {
    return fail(std::move(maker.error()));
  }
  Counting counting{{}, options};
  auto copied = source.each([&](const EntryView& row) {
    counting.add(row);
    return (*maker)->put(row);
  });
  if (!copied) {
    return fail(std::move(copied.error()));
  }
  if (auto finished = (*maker)->finish(report.after); !finished) {
    return fail(std::move(finished.error()));
  }
  maker->reset();
  auto made = LmdbSource::open(partial);
  if (!made) {
    return fail(std::move(made.error()));
  }
  const auto found = sum_of(**made);
  if (!found) {
    return fail(found.error().clone());
  }
  if (*found != counting.sum) {
    return fail(differs(partial, counting.sum, *found));
  }
  report.rows = found->rows();
  report.digest = found->digest();
  return report;
}

}  // namespace

Expected<TransferReport> move_to_etcd(const std::string& directory, EtcdParams etcd,
                                      const TransferOptions& options) {
  const std::string from = plain_path(directory);
  const std::string to = place_of(etcd);
  auto source = LmdbSource::open(from);
  if (!source) {
    return fail(std::move(source.error()));
  }
  if (auto fits = check_source((*source)->moved_to(), from, to, options.force); !fits) {
    return fail(std::move(fits.error()));
  }
  const auto before = (*source)->revision();
  if (!before) {
    return fail(before.error().clone());
  }
  auto target = EtcdPrefix::open(std::move(etcd));
  if (!target) {
    return fail(std::move(target.error()));
  }
  const auto content = (*target)->look();
  if (!content) {
    return fail(content.error().clone());
  }
  const std::string named = from + " (" + (*source)->incarnation() + ")";
  auto ready = check_target(*content, to, named);
  ready = ready ? (*target)->begin(named, *before + kTransferJump) : std::move(ready);
  if (!ready) {
    return fail(std::move(ready.error()));
  }
  Counting counting{{}, options};
  auto copied = (*source)->each([&](const EntryView& row) {
    counting.add(row);
    return (*target)->put(row);
  });
  if (!copied) {
    return fail(std::move(copied.error()));
  }
  const auto after = (*target)->flush();
  if (!after) {
    return fail(after.error().clone());
  }
  const auto found = sum_of(**target);
  if (!found) {
    return fail(found.error().clone());
  }
  if (*found != counting.sum) {
    return fail(differs(to, counting.sum, *found));
  }
  auto done = (*source)->mark_moved(to);
  done = done ? (*target)->finish() : std::move(done);
  if (!done) {
    return fail(std::move(done.error()));
  }
  return TransferReport{found->rows(), found->digest(), *before, *after};
}

Expected<TransferReport> move_to_lmdb(EtcdParams etcd, const std::string& directory,
                                      const TransferOptions& options) {
  const std::string from = place_of(etcd);
  const std::string to = plain_path(directory);
  if (auto empty = check_folder(to); !empty) {
    return fail(std::move(empty.error()));
  }
  auto source = EtcdPrefix::open(std::move(etcd));
  if (!source) {
    return fail(std::move(source.error()));
  }
  if (auto quiet = (*source)->expect_quiet(kQuiet); !quiet) {
    return fail(std::move(quiet.error()));
  }
  const auto content = (*source)->look();
  if (!content) {
    return fail(content.error().clone());
  }
  const bool is_store =
      content->kind == EtcdPrefix::Kind::kStore || content->kind == EtcdPrefix::Kind::kMoved;
  if (!is_store) {
    return fail(Errc::kConfig, from + ": no store is there");
  }
  if (auto fits = check_source(content->place, from, to, options.force); !fits) {
    return fail(std::move(fits.error()));
  }
  const std::string partial = to + ".partial";
  std::error_code code;
  fs::remove_all(partial, code);
  fs::create_directories(fs::path(to).parent_path(), code);
  auto report = fill(**source, content->revision, partial, options);
  auto done = report ? (*source)->mark_moved(to) : fail(report.error().clone());
  done = done ? publish(partial, to) : std::move(done);
  if (!done) {
    return fail(std::move(done.error()));
  }
  return report;
}

}  // namespace kintsugi::store
