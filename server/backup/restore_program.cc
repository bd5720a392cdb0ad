// An installation that is made of a backup.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/time.h"
#include "server/backup/backup_program.h"
#include "server/backup/internal/backup_set.h"
#include "server/backup/internal/installation.h"
#include "server/backup/internal/restorer.h"
#include "server/files.h"
#include "server/program.h"

namespace kintsugi::server {
namespace {

namespace fs = std::filesystem;

/// Whatever is on the file system of a folder is on its disk.
Expected<void> sync_all(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::syncfs(fd) == 0;
  const int cause = errno;
  if (fd >= 0) {
    ::close(fd);
  }
  return synced ? Expected<void>() : fail(Errc::kIo, folder + ": " + std::strerror(cause));
}

class InstallationRestore {
 public:
  InstallationRestore(const RestoreOptions& options, const TellProgress& tell)
      : options_(options), tell_(tell), set_(options.from) {}

  Expected<void> run() {
    auto key = read_backup_key(options_.key_file);
    if (!key) {
      return fail(std::move(key.error()));
    }
    key_ = std::move(*key);
    auto chain = set_.chain_of(options_.at, key_);
    if (!chain) {
      return fail(std::move(chain.error()));
    }
    chain_ = std::move(*chain);
    target_ = options_.only.empty() ? options_.layout.dir
                                    : data_folder_of(options_.layout, options_.only);
    if (auto fits = check_target(); !fits) {
      return fits;
    }
    // All is read before anything is written.
    if (auto sound = verify_backup(set_, chain_, key_, tell_); !sound) {
      return sound;
    }
    age_ = std::max<std::int64_t>(unix_seconds() - manifest().time, 0);
    return make();
  }

  void print() const {
    std::printf("%s: from %s of %s\n", target_.c_str(), manifest().name.c_str(),
                rfc3339(manifest().time).c_str());
    for (const auto& [name, store] : stores_) {
      std::printf("  %s: %llu objects, revision %llu of the backup is %llu here\n", name.c_str(),
                  static_cast<unsigned long long>(store.keys),
                  static_cast<unsigned long long>(manifest().find(name)->revision),
                  static_cast<unsigned long long>(store.revision));
    }
    std::printf(
        "Clients that were connected before list once more (410 Expired), then go on; UIDs are as "
        "they were.\n");
    for (const std::string& shard : manifest().elsewhere) {
      std::printf("shard/%s is not in this backup\n", shard.c_str());
    }
    if (!options_.only.empty()) {
      std::printf(
          "Workspaces that were made or moved since then are known to root and not to this store, "
          "or the other way round: `kintsugi restore --check` names them.\n");
    }
  }

 private:
  [[nodiscard]] const BackupManifest& manifest() const { return chain_.back(); }

  [[nodiscard]] Expected<void> check_target() const {
    std::error_code code;
    if (target_.empty() || (!options_.only.empty() && manifest().find(options_.only) == nullptr)) {
      std::string all;
      for (const BackedUpStore& store : manifest().stores) {
        all += (all.empty() ? "" : ", ") + store.name;
      }
      return fail(Errc::kConfig, "--only: \"" + options_.only + "\" is none of " + all);
    }
    if (fs::exists(target_, code) &&
        (!fs::is_directory(target_, code) || !fs::is_empty(target_, code))) {
      return fail(Errc::kConfig, target_ + ": is not empty");
    }
    const std::string inside = absolute_path(options_.from) + '/';
    if (inside.starts_with(target_ + '/') || (target_ + '/').starts_with(inside)) {
      return fail(Errc::kConfig, "--to: is the folder of the backups, or in it");
    }
    return {};
  }

  /// Beside the target, which it becomes when it is whole.
  Expected<void> make() {
    const std::string partial = target_ + ".partial";
    std::error_code code;
    fs::remove_all(partial, code);
    auto made = make_directories(partial);
    made = made ? fill(partial) : std::move(made);
    made = made ? sync_all(partial) : std::move(made);
    if (made) {
      fs::remove(target_, code);  // an empty folder
      if (std::rename(partial.c_str(), target_.c_str()) != 0) {
        made = fail(Errc::kIo, target_ + ": " + std::strerror(errno));
      }
    }
    made = made ? sync_all(target_) : std::move(made);
    if (!made) {
      fs::remove_all(partial, code);
    }
    return made;
  }

  Expected<void> fill(const std::string& partial) {
    if (!options_.only.empty()) {
      return restore_store_into(options_.only, partial);
    }
    if (auto files = restore_files(set_, manifest(), key_, partial); !files) {
      return fail(std::move(files.error()));
    }
    const Layout layout{partial};
    for (const BackedUpStore& store : manifest().stores) {
      const std::string folder = data_folder_of(layout, store.name);
      if (folder.empty()) {
        return fail(Errc::kCorrupt, store.name + ": is no name of a store");
      }
      if (auto done = restore_store_into(store.name, folder); !done) {
        return done;
      }
    }
    return {};
  }

  Expected<void> restore_store_into(const std::string& name, const std::string& folder) {
    tell_("writing " + name);
    auto store = restore_one(set_, chain_, key_, name, folder, age_);
    if (!store) {
      return fail(std::move(store.error()).at(name));
    }
    stores_.emplace_back(name, *store);
    return {};
  }

  const RestoreOptions& options_;
  const TellProgress& tell_;
  const BackupSet set_;
  Secret key_;
  std::vector<BackupManifest> chain_;
  std::string target_;
  std::int64_t age_ = 0;
  std::vector<std::pair<std::string, RestoredStore>> stores_;
};

}  // namespace

int run_restore_program(const RestoreOptions& options, const TellProgress& tell) {
  InstallationRestore restore(options, tell);
  if (auto done = restore.run(); !done) {
    return complain("restore", done.error());
  }
  restore.print();
  return 0;
}

}  // namespace kintsugi::server
