// One full backup of several in a row.
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "server/backup/backup_program.h"
#include "server/backup/internal/backup_set.h"
#include "server/backup/internal/chunks.h"
#include "server/backup/internal/live_keys.h"
#include "server/backup/internal/restorer.h"
#include "server/program.h"

namespace kintsugi::server {
namespace {

class BackupMerge {
 public:
  BackupMerge(const MergeOptions& options, const TellProgress& tell)
      : options_(options), tell_(tell), set_(options.folder) {}

  Expected<void> run() {
    for (const auto step : {&BackupMerge::read, &BackupMerge::write_stores,
                            &BackupMerge::write_files, &BackupMerge::end}) {
      if (auto done = (this->*step)(); !done) {
        return done;
      }
    }
    return {};
  }

  void print() const {
    std::printf("%s/%s: of %zu in a row, %zu stores, %llu objects, %.1f MB, full\n",
                options_.folder.c_str(), merged_.name.c_str(), chain_.size(), merged_.stores.size(),
                static_cast<unsigned long long>(merged_.keys()),
                static_cast<double>(merged_.bytes()) / 1e6);
    if (removed_ > 0) {
      std::printf("%zu older ones removed\n", removed_);
    }
  }

 private:
  Expected<void> read() {
    auto key = read_backup_key(options_.key_file);
    if (!key) {
      return fail(std::move(key.error()));
    }
    key_ = std::move(*key);
    auto begun = NewBackup::begin(options_.folder);
    if (!begun) {
      return fail(std::move(begun.error()));
    }
    target_.emplace(std::move(*begun));
    auto chain = set_.chain_of(options_.at, key_);
    if (!chain) {
      return fail(std::move(chain.error()));
    }
    chain_ = std::move(*chain);
    if (auto sound = verify_backup(set_, chain_, key_, tell_); !sound) {
      return sound;
    }
    merged_ = chain_.back();
    merged_.id = hex_encode(random_bytes(16));
    merged_.parent.clear();
    merged_.parent_mark.clear();
    seal_ = merged_.is_sealed ? BackupSeal(key_, merged_.id) : BackupSeal();
    return {};
  }

  Expected<void> write_stores() {
    for (std::size_t i = 0; i < merged_.stores.size(); ++i) {
      tell_("writing " + merged_.stores[i].name);
      if (auto done = write_store(merged_.stores[i], std::to_string(i + 1)); !done) {
        return fail(std::move(done.error()).at(merged_.stores[i].name));
      }
    }
    return {};
  }

  Expected<void> write_store(BackedUpStore& store, const std::string& number) {
    ChunkWriter rows(target_->folder(), "rows-" + number, seal_);
    ChunkWriter live(target_->folder(), "live-" + number, seal_);
    auto copied = each_live_row(set_, chain_, key_, store.name,
                                [&](const store::EntryView& row) -> Expected<void> {
                                  const LiveKeys::Digest digest = LiveKeys::digest_of(row.key);
                                  auto added = live.add({{digest.data(), digest.size()}, {}, 0, 0});
                                  return added ? rows.add(row) : std::move(added);
                                });
    if (!copied) {
      return copied;
    }
    auto row_files = rows.finish();
    auto live_files = live.finish();
    if (!row_files || !live_files) {
      return fail(std::move(!row_files ? row_files.error() : live_files.error()));
    }
    store.after = 0;
    store.rows = std::move(*row_files);
    store.live = std::move(*live_files);
    return {};
  }

  Expected<void> write_files() {
    ChunkWriter files(target_->folder(), "files", seal_);
    auto copied =
        each_record_of(set_, chain_.back(), key_, chain_.back().files,
                       [&files](const store::EntryView& file) { return files.add(file); });
    if (!copied) {
      return copied;
    }
    auto made = files.finish();
    if (!made) {
      return fail(std::move(made.error()));
    }
    merged_.files = std::move(*made);
    return {};
  }

  Expected<void> end() {
    if (auto published = target_->publish(merged_, seal_); !published) {
      return published;
    }
    const auto removed =
        options_.keep == 0 ? Expected<std::size_t>(0) : target_->keep(options_.keep, key_);
    if (!removed) {
      return fail(removed.error().clone().at("the backup is made, but --keep"));
    }
    removed_ = *removed;
    return {};
  }

  const MergeOptions& options_;
  const TellProgress& tell_;
  const BackupSet set_;
  Secret key_;
  BackupSeal seal_;
  std::optional<NewBackup> target_;
  std::vector<BackupManifest> chain_;
  BackupManifest merged_;
  std::size_t removed_ = 0;
};

}  // namespace

int run_backup_merge_program(const MergeOptions& options, const TellProgress& tell) {
  BackupMerge merge(options, tell);
  if (auto done = merge.run(); !done) {
    return complain("backup", done.error());
  }
  merge.print();
  return 0;
}

}  // namespace kintsugi::server
