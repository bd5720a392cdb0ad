#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/secret.h"
#include "server/backup/internal/manifest.h"

namespace kintsugi::server {

inline constexpr std::size_t kLongestChain = 32;

/// A folder of backups, each a folder named by its time in it, which has a manifest. What has none
/// is no backup.
class BackupSet {
 public:
  explicit BackupSet(std::string folder) : folder_(std::move(folder)) {}

  [[nodiscard]] const std::string& folder() const noexcept { return folder_; }
  [[nodiscard]] std::string path_of(std::string_view name) const {
    return folder_ + '/' + std::string(name);
  }
  /// Oldest first. @error kConfig there is no such folder.
  [[nodiscard]] Expected<std::vector<std::string>> names() const;
  /// @error as read_manifest(), naming the file.
  [[nodiscard]] Expected<BackupManifest> read(std::string_view name, const Secret& key) const;
  /// A backup and all that it adds to, the full one first.
  /// @param name  "": the newest. @error as read(); kConfig there is none; kCorrupt one of them is
  /// missing or another one.
  [[nodiscard]] Expected<std::vector<BackupManifest>> chain_of(std::string_view name,
                                                               const Secret& key) const;

 private:
  std::string folder_;
};

/// One that is being made: nothing of it has the name of a backup before it is whole.
class NewBackup {
 public:
  /// Makes the folder of backups where there is none, takes its lock, and removes what an earlier
  /// one left unfinished. @error kConfig something else is in the folder, or another backup is
  /// being made; kIo, kFull.
  [[nodiscard]] static Expected<NewBackup> begin(const std::string& folder);
  NewBackup(NewBackup&&) noexcept = default;
  NewBackup& operator=(NewBackup&&) = delete;
  /// What is not published is gone.
  ~NewBackup();

  [[nodiscard]] std::string folder() const;
  /// Writes the manifest and gives it all its name, by its time. Sets `manifest.name`.
  /// @error kIo, kFull.
  [[nodiscard]] Expected<void> publish(BackupManifest& manifest, const BackupSeal& seal);
  /// Removes all but the newest `count` and those that they add to. @returns how many.
  /// @error kIo; as BackupSet::chain_of().
  [[nodiscard]] Expected<std::size_t> keep(std::size_t count, const Secret& key);

 private:
  NewBackup(std::string folder, FileLock lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  std::string folder_;
  FileLock lock_;
};

}  // namespace kintsugi::server
