#pragma once

#include <string>
#include <string_view>

#include "apiserver/controllers/controller.h"
#include "base/strings.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/clusters/root_view.h"
#include "controlplane/clusters/server_facts.h"
#include "krm/selector.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// Keeps what the status of ClusterCachedResources says (KK-200): whether the resource can be
/// offered, how many objects are, the phase. Their identity is IdentityController's.
class CachedResourceController final : public apiserver::ControllerBase {
 public:
  explicit CachedResourceController(const apiserver::ControllerContext& context);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  void process(const std::string& key, Finished finished) override;
  [[nodiscard]] bool counts_others() const noexcept override { return true; }
  void follow_objects(std::string_view group, std::string_view plural);
  void objects_changed(std::string_view cluster, std::string_view group, std::string_view plural);

  StringMap<bool> followed_;  // resources as in store keys
};

/// Keeps what the status of ClusterCachedResourceEndpointSlices says (KK-201): whether resource and
/// export are there and belong together, and where the objects can be read: at every shard, as all
/// have copies, or at those that the Partition selects that the slice names. Partitions are the
/// proxy's, which tells of them (views/partition_view.h): what it told last counts while it is
/// away, and what no slice names any more is forgotten.
class CachedSliceController final : public apiserver::ControllerBase {
 public:
  CachedSliceController(const apiserver::ControllerContext& context, store::Store& store,
                        RootView& root, ApiCatalog& catalog);
  void start() override;
  void add_cluster(std::string_view cluster) override;

 private:
  void process(const std::string& key, Finished finished) override;
  void settle(const apiserver::ObjectKey& key, krm::Json& slice) const;
  [[nodiscard]] krm::Json endpoints(const apiserver::ObjectKey& key,
                                    const krm::Selector& selector) const;
  void forget_notes(std::string_view cluster);

  RootView& root_;
  ApiCatalog& catalog_;
  ServerFacts notes_;
};

}  // namespace kintsugi::controlplane
