#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "server/backup/internal/manifest.h"
#include "server/backup/internal/seal.h"
#include "store/store.h"

namespace kintsugi::server {

/// Records of a backup, in files of about 16 MiB (GR-404). Shape of a record: size of the key, size
/// of the value (4 bytes each), created, modified (8 each), all little-endian; key; value.
class ChunkWriter {
 public:
  /// @param name  of the files, to which a number is added. `seal` must outlive it.
  ChunkWriter(std::string folder, std::string name, const BackupSeal& seal)
      : folder_(std::move(folder)), name_(std::move(name)), seal_(seal) {}

  /// @error kIo, kFull.
  [[nodiscard]] Expected<void> add(const store::EntryView& record);
  /// The files, which are on the disk then. @error kIo, kFull.
  [[nodiscard]] Expected<std::vector<BackupFile>> finish();

 private:
  [[nodiscard]] Expected<void> flush();

  const std::string folder_, name_;
  const BackupSeal& seal_;
  std::string chunk_;
  std::vector<BackupFile> files_;
};

/// Reads a file of a backup: its length and its digest are those of the manifest, and the key opens
/// it. @error kCorrupt names the file; kIo.
[[nodiscard]] Expected<std::string> read_chunk(const std::string& folder, const BackupFile& file,
                                               const BackupSeal& seal);

/// @error kCorrupt the records do not fill the chunk; what `visit` says.
using RecordVisit = std::function<Expected<void>(const store::EntryView& record)>;
[[nodiscard]] Expected<void> each_record(std::string_view chunk, const RecordVisit& visit);

}  // namespace kintsugi::server
