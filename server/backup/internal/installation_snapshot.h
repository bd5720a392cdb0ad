#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "server/backup/internal/installation.h"
#include "store/store.h"

namespace kintsugi::server {

/// All stores of an installation as of one moment, in folders and in etcd, read beside the
/// processes that have them open (GR-402). Calls block.
class InstallationSnapshot {
 public:
  /// @param without  the name of a store that is left out
  /// @error as stores_of(), LmdbSnapshot::open() and EtcdPrefix::open().
  [[nodiscard]] static Expected<std::unique_ptr<InstallationSnapshot>> open(
      const Layout& layout, std::string_view without = {});
  ~InstallationSnapshot();
  InstallationSnapshot(const InstallationSnapshot&) = delete;
  InstallationSnapshot& operator=(const InstallationSnapshot&) = delete;

  [[nodiscard]] const std::vector<StoreFolder>& stores() const noexcept { return stores_; }
  /// What they are now is what is read from now on: stores in folders as store::pin_together(),
  /// those in one etcd as of one revision of it. Who compacts a store leaves what read() needs of
  /// it, for an hour at most, where that may be asked of him (GR-406).
  /// @returns false: it was no moment that they share, and `patience` is over.
  /// @error kConfig what is under a prefix is no store; kUnavailable, kOverloaded, kIo.
  [[nodiscard]] Expected<bool> pin(Duration patience);

  /// @{ Of one of stores(), after pin() and before read() of it. @error kCorrupt, kIo.
  [[nodiscard]] Expected<store::Revision> revision(std::size_t index) const;
  /// Another store has another; "": it does not say.
  [[nodiscard]] std::string incarnation(std::size_t index) const;
  /// All live rows. @returns the keys of records that do not hold, which are left out
  /// @error kCompacted it took longer than history is kept; kCorrupt, kIo, kUnavailable; what
  /// `visit` says.
  using RowVisit = std::function<Expected<void>(const store::EntryView& row)>;
  [[nodiscard]] Expected<std::vector<std::string>> read(std::size_t index,
                                                        const RowVisit& visit);  /// @}

 private:
  struct Source;
  InstallationSnapshot();
  [[nodiscard]] Expected<void> open_source(const StoreFolder& store);
  void hold_etcds();
  void hold_folders();
  [[nodiscard]] Expected<void> pin_etcds();
  [[nodiscard]] Expected<bool> are_etcds_newest();
  [[nodiscard]] Expected<void> look_at_etcds();

  std::vector<StoreFolder> stores_;
  std::vector<Source> sources_;  // of each
  std::uint64_t last_etcd_ = 0;  // cluster that was pinned last
};

}  // namespace kintsugi::server
