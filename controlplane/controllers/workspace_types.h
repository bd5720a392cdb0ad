#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/resource.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/clusters/cluster_index.h"
#include "controlplane/clusters/root_view.h"

namespace kintsugi::controlplane {

/// A WorkspaceType that was found.
struct FoundType {
  std::string path;     ///< canonical path of the cluster that holds it
  std::string cluster;  ///< that cluster's name
  std::string name;
  krm::Json object;
  [[nodiscard]] std::string full_name() const { return path + ":" + name; }
  /// Of its initializer and terminator.
  [[nodiscard]] std::string lifecycle_name() const { return cluster + ":" + name; }
};

/// Looks up WorkspaceTypes: those of root in the view of root, others where they are stored on this
/// shard, else in the catalog, which has those of all other shards.
/// Threads: one loop. What it refers to must outlive it.
class WorkspaceTypeLookup {
 public:
  /// @param catalog null: only types of root and of this shard are known.
  WorkspaceTypeLookup(ClusterIndex& index, const RootView& root,
                      const ApiCatalog* catalog = nullptr)
      : index_(index), root_(root), catalog_(catalog) {}

  /// @param reader committed state of this shard.
  [[nodiscard]] std::optional<FoundType> find(const apiserver::ObjectReader& reader,
                                              std::string_view path, std::string_view name) const;
  /// A type by bare name as seen from a cluster: its own, then its ancestors', root's last.
  [[nodiscard]] std::optional<FoundType> resolve(const apiserver::ObjectReader& reader,
                                                 std::string_view cluster,
                                                 std::string_view name) const;
  /// The type and everything it extends, without doubles; what is not found is left out.
  [[nodiscard]] std::vector<FoundType> with_extended(const apiserver::ObjectReader& reader,
                                                     const FoundType& type) const;
  /// The type of a cluster ("root:universal" in its annotation).
  [[nodiscard]] std::optional<FoundType> type_of(const apiserver::ObjectReader& reader,
                                                 std::string_view cluster) const;
  /// Names of all initializers of a new workspace of this type, sorted.
  [[nodiscard]] std::vector<std::string> initializers(const apiserver::ObjectReader& reader,
                                                      const FoundType& type) const;
  /// The same of all terminators.
  [[nodiscard]] std::vector<std::string> terminators(const apiserver::ObjectReader& reader,
                                                     const FoundType& type) const;

 private:
  ClusterIndex& index_;
  const RootView& root_;
  const ApiCatalog* catalog_;
};

}  // namespace kintsugi::controlplane
