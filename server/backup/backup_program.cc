// A backup of an installation: the cut, its files, its manifest.
#include "server/backup/backup_program.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/data_folder.h"
#include "base/random.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "base/time.h"
#include "base/version.h"
#include "server/backup/internal/backup_set.h"
#include "server/backup/internal/chunks.h"
#include "server/backup/internal/installation.h"
#include "server/backup/internal/installation_snapshot.h"
#include "server/backup/internal/live_keys.h"
#include "server/backup/internal/restorer.h"
#include "server/files.h"
#include "server/program.h"

namespace kintsugi::server {
namespace {

constexpr Duration kCutPatience = seconds(2);
constexpr std::size_t kMostDamaged = 100;
constexpr std::string_view kShardObjects("shards.core.kcp.io\0root\0", 24);

/// What is wrong with the parent of an incremental backup; "": nothing.
std::string unfit(const std::vector<BackupManifest>& chain, const std::string& store,
                  const std::string& incarnation, store::Revision revision) {
  const BackedUpStore* before = chain.back().find(store);
  if (chain.size() >= kLongestChain) {
    return "there are " + std::to_string(chain.size()) + " backups in a row";
  }
  if (before == nullptr) {
    return store + " is new";
  }
  const bool is_same = !incarnation.empty() && before->incarnation == incarnation;
  return is_same && before->revision <= revision ? "" : store + " was made anew since then";
}

class InstallationBackup {
 public:
  InstallationBackup(const BackupOptions& options, const TellProgress& tell)
      : options_(options), tell_(tell) {}

  Expected<void> run() {
    for (const auto step :
         {&InstallationBackup::read_key, &InstallationBackup::open, &InstallationBackup::cut,
          &InstallationBackup::choose_parent, &InstallationBackup::read_stores,
          &InstallationBackup::read_files, &InstallationBackup::end}) {
      if (auto done = (this->*step)(); !done) {
        return done;
      }
    }
    return {};
  }

  [[nodiscard]] int print() const {
    std::printf("%s/%s: %zu stores%s, %llu objects, %.1f MB, %s\n", options_.to.c_str(),
                manifest_.name.c_str(), manifest_.stores.size(),
                manifest_.is_exact ? " of one moment" : "",
                static_cast<unsigned long long>(manifest_.keys()),
                static_cast<double>(manifest_.bytes()) / 1e6,
                manifest_.parent.empty() ? "full" : ("adds to " + manifest_.parent).c_str());
    if (!full_because_.empty()) {
      std::printf("full, because %s\n", full_because_.c_str());
    }
    if (!manifest_.is_sealed) {
      std::printf("it holds private keys and Secrets; --key-file encrypts it\n");
    }
    int status = 0;
    const auto reserve = [&status](const std::string& text) {
      std::printf("%s\n", text.c_str());
      status = kBackupWithReservations;
    };
    if (!manifest_.is_exact) {
      reserve("the stores are not of one moment: so much was written that there was none");
    }
    for (const BackedUpStore& store : manifest_.stores) {
      for (const std::string& key : store.damaged) {
        reserve(store.name + ": left out, damaged: " + key);
      }
    }
    for (const std::string& shard : manifest_.elsewhere) {
      reserve("shard/" + shard + " is not in " + options_.layout.dir +
              ": it needs a backup of its own");
    }
    if (!untold_.empty()) {
      reserve("metrics do not tell of it: " + untold_);
    }
    if (removed_ > 0) {
      std::printf("%zu older ones removed\n", removed_);
    }
    return status;
  }

 private:
  Expected<void> read_key() {
    auto key = read_backup_key(options_.key_file);
    if (!key) {
      return fail(std::move(key.error()));
    }
    key_ = std::move(*key);
    manifest_.id = hex_encode(random_bytes(16));
    manifest_.version = build_version();
    manifest_.is_sealed = !key_.empty();
    seal_ = key_.empty() ? BackupSeal() : BackupSeal(key_, manifest_.id);
    return {};
  }

  Expected<void> open() {
    const std::string inside = absolute_path(options_.to) + '/';
    if (inside.starts_with(options_.layout.dir + '/')) {
      return fail(Errc::kConfig, "--to: is in the installation that it would be a backup of");
    }
    auto source = InstallationSnapshot::open(options_.layout);
    if (!source) {
      return fail(std::move(source.error()));
    }
    source_ = std::move(*source);
    auto begun = NewBackup::begin(options_.to);
    if (!begun) {
      return fail(std::move(begun.error()));
    }
    target_ = std::make_unique<NewBackup>(std::move(*begun));
    return {};
  }

  Expected<void> cut() {
    const auto together = source_->pin(kCutPatience);
    if (!together) {
      return fail(together.error().clone());
    }
    manifest_.is_exact = *together;
    manifest_.time = unix_seconds();
    for (std::size_t i = 0; i < stores().size(); ++i) {
      const auto revision = source_->revision(i);
      if (!revision) {
        return fail(revision.error().clone().at(stores()[i].name));
      }
      BackedUpStore store;
      store.name = stores()[i].name;
      store.incarnation = source_->incarnation(i);
      store.revision = *revision;
      manifest_.stores.push_back(std::move(store));
    }
    return {};
  }

  Expected<void> choose_parent() {
    if (!options_.incremental) {
      return {};
    }
    const BackupSet set(options_.to);
    const auto names = set.names();
    if (!names || names->empty()) {
      full_because_ = "there is none yet";
      return {};
    }
    // A parent that cannot be read is none: what adds to it could not be, either.
    auto chain = set.chain_of("", key_);
    auto sound = chain ? verify_backup(set, *chain, key_, tell_) : fail(chain.error().clone());
    if (!sound) {
      full_because_ = std::string(sound.error().message());
      return {};
    }
    for (const BackedUpStore& store : manifest_.stores) {
      full_because_ = unfit(*chain, store.name, store.incarnation, store.revision);
      if (!full_because_.empty()) {
        return {};
      }
    }
    const BackupManifest& parent = chain->back();
    manifest_.parent = parent.name;
    manifest_.parent_mark = parent.mark;
    for (BackedUpStore& store : manifest_.stores) {
      store.after = parent.find(store.name)->revision;
    }
    return {};
  }

  Expected<void> read_stores() {
    for (std::size_t i = 0; i < stores().size(); ++i) {
      if (auto done = read_store(i); !done) {
        return fail(std::move(done.error()).at(stores()[i].name));
      }
    }
    return {};
  }

  Expected<void> read_store(std::size_t index) {
    BackedUpStore& store = manifest_.stores[index];
    const std::string number = std::to_string(index + 1);
    ChunkWriter rows(target_->folder(), "rows-" + number, seal_);
    ChunkWriter live(target_->folder(), "live-" + number, seal_);
    const auto damaged = source_->read(index, [&](const store::EntryView& row) -> Expected<void> {
      ++store.keys;
      note_shard(store.name, row.key);
      if (store.keys % 10'000 == 0) {
        tell_(store.name + ", " + std::to_string(store.keys) + " objects");
      }
      const LiveKeys::Digest digest = LiveKeys::digest_of(row.key);
      auto added = live.add({{digest.data(), digest.size()}, {}, 0, 0});
      return added && row.modified > store.after ? rows.add(row) : std::move(added);
    });
    if (!damaged) {
      return fail(damaged.error().clone());
    }
    for (std::size_t i = 0; i < std::min(damaged->size(), kMostDamaged); ++i) {
      store.damaged.push_back(shown_key((*damaged)[i]));
    }
    auto row_files = rows.finish();
    auto live_files = live.finish();
    if (!row_files || !live_files) {
      return fail(std::move(!row_files ? row_files.error() : live_files.error()));
    }
    store.rows = std::move(*row_files);
    store.live = std::move(*live_files);
    return {};
  }

  /// Names of shards are known to root; those whose data is not here are somewhere else.
  void note_shard(const std::string& store, std::string_view key) {
    if (store != "shard/root" || !key.starts_with(kShardObjects)) {
      return;
    }
    const std::string name(key.substr(key.rfind('\0') + 1));
    const bool is_here =
        std::any_of(stores().begin(), stores().end(),
                    [&name](const StoreFolder& store) { return store.name == "shard/" + name; });
    if (!is_here) {
      manifest_.elsewhere.push_back(name);
    }
  }

  Expected<void> read_files() {
    ChunkWriter files(target_->folder(), "files", seal_);
    for (const std::string& path : files_of(options_.layout)) {
      const std::string whole = options_.layout.dir + '/' + path;
      std::error_code code;
      const auto mode = std::filesystem::status(whole, code).permissions();
      const auto text = read_file(whole);
      if (code || !text) {
        continue;  // it is written anew just now, or was a draft
      }
      const auto bits = static_cast<unsigned>(mode & std::filesystem::perms::all);
      if (auto added = files.add({path, *text, bits, 0}); !added) {
        return added;
      }
    }
    auto made = files.finish();
    if (!made) {
      return fail(std::move(made.error()));
    }
    manifest_.files = std::move(*made);
    return {};
  }

  Expected<void> end() {
    if (auto published = target_->publish(manifest_, seal_); !published) {
      return published;
    }
    const std::string time = std::to_string(manifest_.time) + '\n';
    for (const StoreFolder& store : stores()) {
      for (const std::string& folder : store.served_in) {
        if (auto told = write_file(folder + kBackedUpFile, time); !told) {
          untold_ = std::string(told.error().message());
        }
      }
    }
    if (options_.keep == 0) {
      return {};
    }
    const auto removed = target_->keep(options_.keep, key_);
    if (!removed) {
      return fail(removed.error().clone().at("the backup is made, but --keep"));
    }
    removed_ = *removed;
    return {};
  }

  [[nodiscard]] const std::vector<StoreFolder>& stores() const { return source_->stores(); }

  const BackupOptions& options_;
  const TellProgress& tell_;
  Secret key_;
  BackupSeal seal_;
  std::unique_ptr<InstallationSnapshot> source_;
  std::unique_ptr<NewBackup> target_;
  BackupManifest manifest_;
  std::string full_because_;
  std::string untold_;  ///< why a process cannot tell of it; "": all can
  std::size_t removed_ = 0;
};

}  // namespace

int run_backup_program(const BackupOptions& options, const TellProgress& tell) {
  InstallationBackup backup(options, tell);
  if (auto done = backup.run(); !done) {
    return complain("backup", done.error());
  }
  return backup.print();
}

int run_backup_list_program(const std::string& folder, const std::string& key_file) {
  const auto key = read_backup_key(key_file);
  if (!key) {
    return complain("backup", key.error());
  }
  const BackupSet set(folder);
  const auto names = set.names();
  if (!names) {
    return complain("backup", names.error());
  }
  int status = 0;
  std::printf("%-18s  %-20s  %10s  %9s  %s\n", "NAME", "TAKEN", "OBJECTS", "MB", "ADDS TO");
  for (const std::string& name : *names) {
    const auto manifest = set.read(name, *key);
    if (!manifest) {
      status = complain("backup", manifest.error());
      continue;
    }
    std::printf("%-18s  %-20s  %10llu  %9.1f  %s\n", name.c_str(), rfc3339(manifest->time).c_str(),
                static_cast<unsigned long long>(manifest->keys()),
                static_cast<double>(manifest->bytes()) / 1e6,
                manifest->parent.empty() ? "-" : manifest->parent.c_str());
  }
  return status;
}

int run_backup_verify_program(const std::string& folder, const std::string& at,
                              const std::string& key_file, const TellProgress& tell) {
  const auto key = read_backup_key(key_file);
  if (!key) {
    return complain("backup", key.error());
  }
  const BackupSet set(folder);
  const auto chain = set.chain_of(at, *key);
  if (!chain) {
    return complain("backup", chain.error());
  }
  if (const auto sound = verify_backup(set, *chain, *key, tell); !sound) {
    return complain("backup", sound.error());
  }
  std::printf("%s: ok, %zu in a row, %llu objects\n", set.path_of(chain->back().name).c_str(),
              chain->size(), static_cast<unsigned long long>(chain->back().keys()));
  return 0;
}

}  // namespace kintsugi::server
