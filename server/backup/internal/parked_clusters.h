#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "server/backup/internal/stored_objects.h"
#include "server/layout.h"
#include "store/store.h"

namespace kintsugi::server {

/// Logical clusters that other stores of an installation have by now: in one that is restored alone
/// they rest (GR-411), so that none is served in two places.
class ParkedClusters {
 public:
  using Places = std::map<std::string, std::string, std::less<>>;
  /// @param elsewhere  store of each, by the name of the cluster
  ParkedClusters(StoredObjects objects, Places elsewhere)
      : objects_(std::move(objects)), elsewhere_(std::move(elsewhere)) {}
  /// What is in all stores of the installation but `name`, which has none there. Blocks.
  /// @error as InstallationSnapshot and StoredObjects::of()
  [[nodiscard]] static Expected<ParkedClusters> beside(const Layout& layout,
                                                       const std::string& name);

  /// What is stored in the place of a row; nullopt: the row. @error kCorrupt, also where none of
  /// the installation's keys opens it
  [[nodiscard]] Expected<std::optional<std::string>> instead_of(const store::EntryView& row);
  /// "<cluster>, which is at <store>", of those that were found.
  [[nodiscard]] const std::vector<std::string>& parked() const noexcept { return parked_; }

 private:
  StoredObjects objects_;
  Places elsewhere_;
  std::vector<std::string> parked_;
};

/// The cluster of a row that is its LogicalCluster, if that may move: neither root's nor one that
/// each shard has. "": it is another row.
[[nodiscard]] std::string logical_cluster_of(std::string_view key);

}  // namespace kintsugi::server
