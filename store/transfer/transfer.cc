#include "store/transfer/transfer.h"

#include <memory>
#include <utility>

#include "store/etcd/etcd_prefix.h"
#include "store/lmdb/source.h"
#include "store/transfer/internal/steps.h"

namespace kintsugi::store {
namespace {

/// A store that is served is written to at least so often (GR-207).
constexpr Duration kQuiet = milliseconds(2'000);

Expected<void> check_source(const std::string& moved, const std::string& place,
                            const std::string& to, bool force) {
  if (moved.empty() || moved == to || force) {
    return {};
  }
  return fail(Errc::kConfig,
              place + ": has moved to " + moved + "; --force copies it nevertheless");
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
  const std::string partial = partial_of(to);
  clear_partial(to);
  auto report = fill_folder(**source, content->revision, partial, options);
  auto done = report ? (*source)->mark_moved(to) : fail(report.error().clone());
  done = done ? publish_folder(partial, to) : std::move(done);
  if (!done) {
    return fail(std::move(done.error()));
  }
  return report;
}

}  // namespace kintsugi::store
