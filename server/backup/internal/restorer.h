#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/secret.h"
#include "server/backup/backup_program.h"
#include "server/backup/internal/backup_set.h"
#include "server/backup/internal/chunks.h"
#include "server/backup/internal/parked_clusters.h"

/// Reading backups.
namespace kintsugi::server {

/// The key of a file; empty where none is named. @error kConfig it is not private, or too short.
[[nodiscard]] Expected<Secret> read_backup_key(const std::string& file);

/// A key of a store as text.
[[nodiscard]] std::string shown_key(std::string_view key);

/// Reads all files of all backups of a chain, and counts: nothing that is damaged, missing or from
/// elsewhere passes. @error kCorrupt names the file; kIo.
[[nodiscard]] Expected<void> verify_backup(const BackupSet& set,
                                           const std::vector<BackupManifest>& chain,
                                           const Secret& key, const TellProgress& tell);

/// All rows of the store `name` that were live at the newest of the chain, each once, as it was
/// then; in no order. @error kCorrupt one is missing, or a file is damaged; kConfig; kIo; what
/// `visit` says.
[[nodiscard]] Expected<void> each_live_row(const BackupSet& set,
                                           const std::vector<BackupManifest>& chain,
                                           const Secret& key, const std::string& name,
                                           const RecordVisit& visit);

/// All records of some files of a backup. @error kCorrupt, kIo; what `visit` says.
[[nodiscard]] Expected<void> each_record_of(const BackupSet& set, const BackupManifest& manifest,
                                            const Secret& key, const std::vector<BackupFile>& files,
                                            const RecordVisit& visit);

struct RestoredStore {
  store::Revision revision = 0;  ///< where it begins
  std::uint64_t keys = 0;
};

/// How much later revisions of a restored store begin (GR-409): more than the old one can have
/// given out since, and more than another one that was made of the same backup before.
/// @param age  of the backup [s]
[[nodiscard]] store::Revision revisions_ahead(std::int64_t age) noexcept;

/// Above what a restored store begins. @error kConfig its revisions get too large.
[[nodiscard]] Expected<store::Revision> restored_revision(const BackedUpStore& store,
                                                          std::int64_t age);
/// each_live_row(), and what a proxy has stored of positions is as it has to be in a restored
/// installation (GR-410), and logical clusters that are elsewhere rest (GR-411).
/// @param parked  null: there is nothing beside. @error as each_live_row().
[[nodiscard]] Expected<void> each_restored_row(const BackupSet& set,
                                               const std::vector<BackupManifest>& chain,
                                               const Secret& key, const std::string& name,
                                               std::int64_t age, const RecordVisit& visit,
                                               ParkedClusters* parked = nullptr);
/// @error kCorrupt so many are not all.
[[nodiscard]] Expected<void> check_count(const BackedUpStore& store, std::uint64_t made);

/// Makes the store `name` of a chain in a new folder. @error kCorrupt, kConfig, kIo, kFull.
[[nodiscard]] Expected<RestoredStore> restore_one(const BackupSet& set,
                                                  const std::vector<BackupManifest>& chain,
                                                  const Secret& key, const std::string& name,
                                                  const std::string& directory, std::int64_t age,
                                                  ParkedClusters* parked = nullptr);

/// The files besides stores, into a folder. @returns how many @error kCorrupt, kIo, kFull.
[[nodiscard]] Expected<std::size_t> restore_files(const BackupSet& set,
                                                  const BackupManifest& manifest, const Secret& key,
                                                  const std::string& directory);

}  // namespace kintsugi::server
