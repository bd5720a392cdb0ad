#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "store/store.h"

namespace kintsugi::store {

/// A store that nobody else has open, whose rows are copied elsewhere (GR-306). For tools: calls
/// block, one thread.
class LmdbSource {
 public:
  /// Reads all pages before LMDB sees them. @error kConfig no store is there, or it is in use;
  /// kCorrupt it is damaged (`kintsugi store check`); kIo.
  [[nodiscard]] static Expected<std::unique_ptr<LmdbSource>> open(const std::string& directory);
  ~LmdbSource();
  LmdbSource(const LmdbSource&) = delete;
  LmdbSource& operator=(const LmdbSource&) = delete;

  [[nodiscard]] Expected<Revision> revision() const;
  /// Where it has moved to; "": nowhere.
  [[nodiscard]] std::string moved_to() const;
  /// Of the file: another one has another (environment.h).
  [[nodiscard]] std::string incarnation() const;

  /// All live rows in the order of their keys. @error kCorrupt names the key of a record that does
  /// not hold; kIo; what `visit` says.
  using RowVisit = std::function<Expected<void>(const EntryView& row)>;
  [[nodiscard]] Expected<void> each(const RowVisit& visit) const;
  /// From now on it is opened by force only. On the disk when it returns. @error kIo, kFull.
  [[nodiscard]] Expected<void> mark_moved(const std::string& place);

 private:
  struct Parts;
  explicit LmdbSource(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// Where the store in a folder has gone.
struct Moved {
  std::string place;
  std::string note;  ///< how to come there, of who copied it online; ""
};
/// Also of one that somebody has open; nullopt where none is there, or it is damaged.
[[nodiscard]] std::optional<Moved> moved_of(const std::string& directory);
/// Whether the store in a folder has moved elsewhere.
[[nodiscard]] inline bool has_moved(const std::string& directory) {
  return moved_of(directory).has_value();
}

}  // namespace kintsugi::store
