#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "server/backup/internal/restorer.h"
#include "server/internal/store_note.h"
#include "server/layout.h"
#include "store/transfer/etcd_maker.h"

namespace kintsugi::server {

/// Stores of a backup that are made in one etcd, each under a prefix of its own: `<root>/proxy`,
/// `<root>/shards/<name>`. Calls block.
class EtcdRestorer {
 public:
  /// @param access  its prefix is the root
  explicit EtcdRestorer(StoreNote access) : access_(std::move(access)) {}

  /// Connects, and finds nothing under the prefixes, or what a restore has left that did not end.
  /// @error kConfig something is there; as EtcdMaker::make().
  [[nodiscard]] Expected<void> open(const std::vector<std::string>& names,
                                    const std::string& backup);
  /// Writes one of those that open() was told of. @error kCorrupt, kConfig, kConflict,
  /// kUnavailable.
  [[nodiscard]] Expected<RestoredStore> restore(const BackupSet& set,
                                                const std::vector<BackupManifest>& chain,
                                                const Secret& key, const std::string& name,
                                                std::int64_t age, ParkedClusters* parked = nullptr);
  /// What the process of a store finds in its folder: where it is, so that it does not begin
  /// another one there. @error kIo.
  [[nodiscard]] Expected<void> note(const Layout& layout, const std::string& name) const;
  /// All are stores from now on. @error kConflict, kUnavailable: none is.
  [[nodiscard]] Expected<void> publish() const { return store::EtcdMaker::publish(makers_); }

 private:
  [[nodiscard]] StoreNote access_to(const std::string& name) const;

  StoreNote access_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<store::EtcdMaker>> makers_;  // of each
};

}  // namespace kintsugi::server
