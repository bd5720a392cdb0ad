#include "server/internal/proxy_controllers.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "krm/annotations.h"

namespace kintsugi::server {
namespace {

constexpr Duration kExportsLimit = seconds(5);  // slices wait no longer for a shard

}  // namespace

ProxyControllers::ProxyControllers(const ProxyControllersParams& params,
                                   std::optional<store::Fence> held)
    : held_(std::move(held)),
      loop_(params.loop),
      feed_(params.feed),
      objects_(params.server, held_),
      store_(params.store, held_.value_or(store::Fence{})),
      partitions_(params.loop, objects_, [&world = params.world] { return world.shard_table(); }),
      slices_(params.loop, objects_, params.world, params.slices) {
  partitions_.hold();
  slices_.hold();
  if (!held_) {
    return;
  }
  start_collector(params);
  start_sweeper(params);
  if (params.upstream) {
    start_import(params);
  }
  if (params.has_shards) {
    shard_status_ = std::make_unique<topology::ShardStatusKeeper>(
        loop_, objects_, [&feed = feed_] { return feed.status(); });
  }
}

ProxyControllers::~ProxyControllers() {
  if (importer_ != nullptr) {
    feed_.remove_listener(*importer_);
  }
}

void ProxyControllers::start_collector(const ProxyControllersParams& params) {
  // Owners of kinds that the proxy does not store are never taken for absent.
  apiserver::ControllerContext context{loop_, params.server, params.registry};
  context.fence = held_;
  collector_ = std::make_unique<kinds::GarbageCollector>(std::move(context));
  collector_->start();
  std::set<std::string> clusters;
  for (const auto& kind : params.registry.all("*")) {
    objects_.list("*", kind->group, kind->plural, [&](const krm::Json& object) {
      clusters.emplace(object.text({"metadata", "annotations", krm::kClusterAnnotation}));
      return true;
    });
  }
  for (const std::string& cluster : clusters) {
    collector_->add_cluster(cluster);
  }
}

void ProxyControllers::start_sweeper(const ProxyControllersParams& params) {
  std::vector<topology::ClusterSweeper::Resource> resources;
  for (const auto& kind : params.registry.all("*")) {
    resources.emplace_back(kind->group, kind->plural);
  }
  // Sets before their Partitions, which would be made again.
  std::sort(resources.rbegin(), resources.rend());
  sweeper_ = std::make_unique<topology::ClusterSweeper>(
      loop_, objects_, std::move(resources), [&feed = feed_](std::string_view cluster) {
        return feed.index().cluster(cluster).has_value();
      });
}

/// What a kcp shard holds of the kinds that are stored here now (T-04).
void ProxyControllers::start_import(const ProxyControllersParams& params) {
  import_log_ = std::make_unique<topology::StoreImportLog>(loop_, store_);
  topology::ImportParams import;
  import.upstream = params.upstream;
  import.imports = [groups = params.groups](std::string_view group) {
    return (group == "topology.kcp.io" ? groups.partitions : groups.slices) ==
           proxy::GroupMode::kProxy;
};
import.headers = params.headers;
import.identity = [&feed = feed_] { return std::string(feed.identity("topology.kcp.io"));
};  // namespace kintsugi::server
import.busy = [this](bool busy) { busy ? partitions_.hold() : partitions_.release();
}
;
import.imported = [&world = params.world](topology::ShardId shard) { world.shard_imported(shard);
}
;
importer_ = std::make_unique<topology::Importer>(loop_, objects_, *import_log_, std::move(import));
feed_.add_listener(*importer_);
for (const auto& shard : feed_.index().shards()) {
  importer_->on_change(topology::ShardChanged{*shard});
}
}

bool ProxyControllers::release() {
  if (!held_) {
    return true;
  }
  const topology::Snapshot& index = feed_.index();
  if (!index.shards_listed()) {
    return false;
  }
  if (partitions_held_) {
    partitions_held_ = false;
    listed_at_ = loop_.now();
    partitions_.release();
  }
  const bool known = feed_.ready() && index.all_synced(topology::Resource::kExports);
  if (slices_held_ && (known || loop_.now() - listed_at_ > kExportsLimit)) {
    slices_held_ = false;
    slices_.release();
  }
  return !slices_held_;
}

void ProxyControllers::shards_changed() {
  partitions_.shards_changed();
  slices_.shards_changed();
}

void ProxyControllers::cluster_gone(std::string_view cluster) {
  if (sweeper_ != nullptr) {
    sweeper_->cluster_gone(cluster);
  }
}

}  // namespace kintsugi::server
