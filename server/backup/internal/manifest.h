#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/secret.h"
#include "krm/json.h"
#include "server/backup/internal/seal.h"
#include "store/store.h"

namespace kintsugi::server {

/// One file of a backup.
struct BackupFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;  ///< of the bytes on the disk, hex
  bool operator==(const BackupFile&) const = default;
};

/// One store of a backup.
struct BackedUpStore {
  std::string name;                  ///< "proxy", "shard/root"
  std::string incarnation;           ///< which store it was (store/lmdb/snapshot.h)
  store::Revision after = 0;         ///< rows that changed later are in here; 0: all
  store::Revision revision = 0;      ///< as of which it was read
  std::uint64_t keys = 0;            ///< live at that revision
  std::vector<std::string> damaged;  ///< keys of records that did not hold, the first 100
  std::vector<BackupFile> rows;
  std::vector<BackupFile> live;  ///< short digests of all live keys
  bool operator==(const BackedUpStore&) const = default;
};

/// What a backup is (GR-403). Written last: without it a folder is none.
struct BackupManifest {
  static constexpr std::int64_t kFormat = 1;

  std::string id;         ///< random
  std::string name;       ///< of its folder; not written
  std::int64_t time = 0;  ///< [s since 1970]
  std::string version;    ///< of the program
  bool is_sealed = false;
  bool is_exact = true;     ///< all stores are of one moment
  std::string parent;       ///< folder of the backup that this one adds to; "": none
  std::string parent_mark;  ///< of that one's manifest
  std::vector<BackedUpStore> stores;
  std::vector<BackupFile> files;       ///< PKI, kubeconfigs, configuration
  std::vector<std::string> elsewhere;  ///< shards of the installation that are in no folder of it
  std::string mark;                    ///< BackupSeal::mark_of() of all the above

  [[nodiscard]] const BackedUpStore* find(std::string_view store) const noexcept;
  [[nodiscard]] std::uint64_t keys() const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept;
};

/// The text of manifest.json; sets `mark`.
[[nodiscard]] std::string write_manifest(BackupManifest& manifest, const BackupSeal& seal);

/// @param key  empty: none is given
/// @error kCorrupt not what was written; kConfig a newer format, a key is missing, or there is one
/// too many.
[[nodiscard]] Expected<BackupManifest> read_manifest(std::string_view text, const Secret& key);

}  // namespace kintsugi::server
