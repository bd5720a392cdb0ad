// An installation that is made of a backup.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/time.h"
#include "server/backup/backup_program.h"
#include "server/backup/internal/backup_set.h"
#include "server/backup/internal/etcd_restorer.h"
#include "server/backup/internal/installation.h"
#include "server/backup/internal/parked_clusters.h"
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
    target_ = target();
    auto fits = check_target();
    fits = fits && in_etcd() ? open_etcd() : std::move(fits);
    if (!fits) {
      return fits;
    }
    // All is read before anything is written.
    if (auto sound = verify_backup(set_, chain_, key_, tell_); !sound) {
      return sound;
    }
    age_ = std::max<std::int64_t>(unix_seconds() - manifest().time, 0);
    if (!options_.only.empty()) {
      auto beside = ParkedClusters::beside(options_.layout, options_.only);
      if (!beside) {
        return fail(std::move(beside.error()).at("what is in the other stores"));
      }
      parked_ = std::move(*beside);
    }
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
    if (in_etcd()) {
      std::printf("The data is in etcd, below %s: start it with --store etcd=%s\n",
                  options_.etcd.prefix.c_str(), join(options_.etcd.endpoints, ",").c_str());
    }
    for (const std::string& shard : manifest().elsewhere) {
      std::printf("shard/%s is not in this backup\n", shard.c_str());
    }
    if (!options_.only.empty()) {
      std::printf(
          "Workspaces that were made or moved since then are known to root and not to this store, "
          "or the other way round: `kintsugi restore --check` names them.\n");
      for (const std::string& cluster : parked_->parked()) {
        std::printf("  inactive here: logical cluster %s\n", cluster.c_str());
      }
    }
  }

 private:
  [[nodiscard]] const BackupManifest& manifest() const { return chain_.back(); }

  /// The folder that is made: of all, or what a process has of its store.
  [[nodiscard]] std::string target() const {
    if (options_.only.empty()) {
      return options_.layout.dir;
    }
    return data_folder_of(options_.layout, options_.only).empty() || !in_etcd()
               ? data_folder_of(options_.layout, options_.only)
               : mirror_folder_of(options_.layout, options_.only);
  }

  [[nodiscard]] bool in_etcd() const { return !options_.etcd.endpoints.empty(); }

  Expected<void> open_etcd() {
    std::vector<std::string> names;
    for (const BackedUpStore& store : manifest().stores) {
      if (options_.only.empty() || options_.only == store.name) {
        names.push_back(store.name);
      }
    }
    etcd_ = std::make_unique<EtcdRestorer>(StoreNote{options_.etcd, options_.etcd_password_file});
    return etcd_->open(names, manifest().name);
  }

  [[nodiscard]] Expected<void> check_target() const {
    std::error_code code;
    if (target_.empty() || (!options_.only.empty() && manifest().find(options_.only) == nullptr)) {
      std::string all;
      for (const BackedUpStore& store : manifest().stores) {
        all += (all.empty() ? "" : ", ") + store.name;
      }
      return fail(Errc::kConfig, "--only: \"" + options_.only + "\" is none of " + all);
    }
    for (const BackedUpStore& store : manifest().stores) {
      if (data_folder_of(options_.layout, store.name).empty()) {
        return fail(Errc::kCorrupt, store.name + ": is no name of a store");
      }
    }
    // Whoever has data in its folder stays with that.
    const std::string data =
        options_.only.empty() ? target_ : data_folder_of(options_.layout, options_.only);
    for (const std::string& folder : {target_, data}) {
      if (fs::exists(folder, code) &&
          (!fs::is_directory(folder, code) || !fs::is_empty(folder, code))) {
        return fail(Errc::kConfig, folder + ": is not empty");
      }
    }
    const std::string inside = absolute_path(options_.from) + '/';
    if (inside.starts_with(target_ + '/') || (target_ + '/').starts_with(inside)) {
      return fail(Errc::kConfig, "--to: is the folder of the backups, or in it");
    }
    return {};
  }

  /// Beside the target, which it becomes when it is whole. What is in etcd is no store before that.
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
    if (!made) {
      fs::remove_all(partial, code);
      return made;
    }
    made = in_etcd() ? publish_in_etcd() : sync_all(target_);
    if (!made) {
      fs::remove_all(target_, code);
    }
    return made;
  }

  Expected<void> publish_in_etcd() {
    auto done =
        options_.only.empty() ? Expected<void>() : etcd_->note(options_.layout, options_.only);
    done = done ? sync_all(target_) : std::move(done);
    return done ? etcd_->publish() : std::move(done);
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
      auto done = restore_store_into(store.name, data_folder_of(layout, store.name));
      done = done && in_etcd() ? etcd_->note(layout, store.name) : std::move(done);
      if (!done) {
        return done;
      }
    }
    return {};
  }

  /// @param folder  of the store, where it is not in etcd
  Expected<void> restore_store_into(const std::string& name, const std::string& folder) {
    tell_("writing " + name);
    auto store = in_etcd() ? etcd_->restore(set_, chain_, key_, name, age_, parked_of(name))
                           : restore_one(set_, chain_, key_, name, folder, age_, parked_of(name));
    if (!store) {
      return fail(std::move(store.error()).at(name));
    }
    stores_.emplace_back(name, *store);
    return {};
  }

  /// What the store may not serve because another one has it; of a shard that is restored alone.
  [[nodiscard]] ParkedClusters* parked_of(const std::string& name) {
    return parked_ && name == options_.only && name != "proxy" ? &*parked_ : nullptr;
  }

  const RestoreOptions& options_;
  const TellProgress& tell_;
  const BackupSet set_;
  Secret key_;
  std::vector<BackupManifest> chain_;
  std::string target_;
  std::unique_ptr<EtcdRestorer> etcd_;  ///< null: into folders
  std::optional<ParkedClusters> parked_;
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
