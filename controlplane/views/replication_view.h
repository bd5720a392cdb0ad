#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/server.h"
#include "auth/authorizer.h"
#include "base/strings.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/catalog/cached_resources.h"
#include "controlplane/catalog/virtual_resources.h"
#include "controlplane/clusters/cluster_index.h"
#include "controlplane/views/internal/binding_index.h"
#include "controlplane/views/view_resolver.h"
#include "kinds/rbac/rbac.h"

namespace kintsugi::controlplane {

/// What ClusterCachedResources offer, to be read (KK-203, KK-353):
///   /services/replication/<cluster>/<slice>/clusters/{*,<consumer>}: by who may do the same with
///     apiexports/content of the slice's export; of one consumer only when it has bound the
///     resource
///   /services/replication/<cluster>/offer:<name>/clusters/*: by other shards, which copy it
///   the resource itself in a cluster that has bound it as a virtual one: by who may read it there
///   the same in the virtual workspace of the export: as in the first form, but at clusters/* on
///     the shard alone where the offer is, as reads of that path are merged over all shards
/// Where the offer lives these are its own objects, elsewhere the copies (cached_replicator.h).
/// Slice, export and resource are of one cluster, and the export names the identity of what is
/// offered, so that nobody hands on what another one offers. Watches end when the offer changes.
/// Threads: one loop.
class ReplicationViews {
 public:
  /// What the views ask; all outlive them.
  struct Sources {
    const apiserver::Registry& registry;  ///< of the shard
    const ApiCatalog& catalog;
    const BindingIndex& bindings;
    const VirtualResources& virtuals;
    ClusterIndex& clusters;
    auth::Authorizer& authorizer;
    const kinds::RbacAuthorizer& rbac;
  };
  explicit ReplicationViews(Sources sources) : sources_(sources) {}

  /// After the catalog; the server must outlive this or stop().
  void start(apiserver::ApiServer& server);
  void stop() noexcept { subscriptions_.clear(); }
  [[nodiscard]] Expected<std::optional<apiserver::ClusterTarget>> resolve(
      const ViewRequest& request);
  /// The resolver that leads requests for bound virtual resources to what is offered.
  /// Where nothing is offered (yet) whoever may read it is answered kUnavailable.
  [[nodiscard]] apiserver::ClusterResolver wrap(apiserver::ClusterResolver clusters);
  /// The same for the virtual workspace of exports, whose function is `exports`.
  [[nodiscard]] ViewFunction wrap_exports(ViewFunction exports);

 private:
  class One;
  struct Offer {
    std::string cluster, name;  ///< of the ClusterCachedResource
    CachedResource resource;
    krm::Selector selector;  ///< empty for copies, which were selected
    apiserver::ResourcePtr def;
    bool missing = false;  ///< bound, and not offered here (yet)
  };
  [[nodiscard]] std::optional<Offer> own_offer(std::string_view cluster,
                                               std::string_view name) const;
  /// What the slice of an export shows. nullopt: they do not belong together, or it is not here.
  [[nodiscard]] std::optional<Offer> offer_of(const ExportRef& ref,
                                              const VirtualResource& resource) const;
  [[nodiscard]] std::optional<Offer> read_offer(std::string_view cluster, std::string_view name,
                                                const VirtualResource* resource) const;
  /// What the slice of an export shows, or what says that it is missing. nullopt: neither.
  [[nodiscard]] std::optional<Offer> offer_or_none(const ExportRef& ref,
                                                   const VirtualResource& resource,
                                                   const apiserver::Registry& registry,
                                                   std::string_view cluster) const;
  [[nodiscard]] std::shared_ptr<One> view(Offer offer, const ExportRef& ref, std::string consumer,
                                          bool in_services);
  void offers_changed(std::string_view cluster);

  Sources sources_;
  apiserver::ApiServer* server_ = nullptr;
  StringMap<std::weak_ptr<One>> views_;
  std::vector<std::shared_ptr<void>> subscriptions_;
};

}  // namespace kintsugi::controlplane
