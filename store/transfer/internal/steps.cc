#include "store/transfer/internal/steps.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/sync_path.h"
#include "store/lmdb/maker.h"

namespace kintsugi::store {
namespace {

namespace fs = std::filesystem;

constexpr Revision kMostRevision = Revision{1} << 44U;  // AGG-517
constexpr std::uint64_t kTellEvery = 1'000;

}  // namespace

std::string place_of(const EtcdParams& etcd) { return etcd.prefix + " in etcd"; }

Error differs(const std::string& place, const RowSum& wanted, const RowSum& found) {
  return Error(Errc::kCorrupt, place + ": has " + std::to_string(found.rows()) + " rows (" +
                                   found.digest().substr(0, 16) + "), the source has " +
                                   std::to_string(wanted.rows()) + " (" +
                                   wanted.digest().substr(0, 16) + ")");
}

void Counting::add(const EntryView& row) {
  sum.add(row.key, row.value);
  if (sum.rows() % kTellEvery == 0) {
    options.tell(sum.rows());
  }
}

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

void clear_partial(const std::string& directory) {
  std::error_code code;
  fs::remove_all(partial_of(directory), code);
  fs::create_directories(fs::path(directory).parent_path(), code);
}

Expected<void> publish_folder(const std::string& partial, const std::string& directory) {
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

Expected<Revision> revision_after(Revision before) {
  const Revision after = before + kTransferJump;
  return after < kMostRevision ? Expected<Revision>(after)
                               : fail(Errc::kConfig, "revisions have become too large");
}

Expected<TransferReport> fill_folder(EtcdPrefix& source, Revision before,
                                     const std::string& partial, const TransferOptions& options) {
  TransferReport report;
  report.before = before;
  const auto after = revision_after(before);
  if (!after) {
    return fail(after.error().clone());
  }
  report.after = *after;
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

}  // namespace kintsugi::store
