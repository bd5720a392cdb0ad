#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "base/strings.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/catalog/bound_kinds.h"

namespace kintsugi::controlplane {

/// A resource of an APIExport whose objects are those of a ClusterCachedResource
/// (spec.resources[].storage.virtual), not the consumers' own. Source: KK-203.
struct VirtualResource {
  std::string group, plural;
  std::string schema;    ///< its APIResourceSchema
  std::string slice;     ///< ClusterCachedResourceEndpointSlice beside the export
  std::string identity;  ///< identityHash that the ClusterCachedResource has to have
};

/// Which resources of which exports are virtual, on this shard and on others. One instance per
/// loop. Memory: about 300 bytes for each. Threads: its loop.
class VirtualResources {
 public:
  explicit VirtualResources(const BoundKinds& bound) : bound_(bound) {}
  /// Reads what is known and follows every change of the catalog, which this outlives.
  void start(apiserver::ApiServer& server, ApiCatalog& catalog);

  [[nodiscard]] bool empty() const noexcept { return exports_.empty(); }
  /// Moves with every change.
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  /// Null: it is not virtual. Valid until the next change.
  [[nodiscard]] const VirtualResource* find(const ExportRef& ref, std::string_view group,
                                            std::string_view plural) const;
  /// As a cluster has bound it; its export in `ref`.
  [[nodiscard]] const VirtualResource* bound(std::string_view cluster, std::string_view group,
                                             std::string_view plural, ExportRef& ref) const;
  /// The one that is kept in the slice. Null: the export has none.
  [[nodiscard]] const VirtualResource* in_slice(const ExportRef& ref, std::string_view slice) const;
  /// What a cluster shows of the resource: it can only be read. The same as long as `def` lives.
  [[nodiscard]] apiserver::ResourcePtr shown(const apiserver::ResourcePtr& def) const;

 private:
  void note(const ExportRef& ref, const krm::Json* api_export);

  const BoundKinds& bound_;
  const ApiCatalog* catalog_ = nullptr;
  std::uint64_t generation_ = 0;
  StringMap<std::vector<VirtualResource>> exports_;  // by "<cluster>/<name>"
  struct Shown {
    std::weak_ptr<const apiserver::ResourceDef> of;
    apiserver::ResourcePtr def;
  };
  mutable std::map<const apiserver::ResourceDef*, Shown> shown_;
};

/// The definition with what only reads: no verbs but get, list and watch, no subresources, no
/// hooks.
[[nodiscard]] std::shared_ptr<apiserver::ResourceDef> only_for_reading(
    const apiserver::ResourceDef& def);

}  // namespace kintsugi::controlplane
