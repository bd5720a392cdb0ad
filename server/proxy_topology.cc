// How the proxy learns the topology, and the controllers that work on it.
#include <malloc.h>

#include <algorithm>
#include <set>

#include "base/process_pages.h"
#include "base/random.h"
#include "base/version.h"
#include "krm/annotations.h"
#include "net/service_notices.h"
#include "server/files.h"
#include "server/internal/certificate_files.h"
#include "server/program.h"
#include "server/proxy_control.h"

namespace kintsugi::server {
namespace {

constexpr Duration kHoldPoll = milliseconds(10);
constexpr Duration kExportsLimit = seconds(5);  // slices wait no longer for a shard

/// What is left of a mapping file when a backend takes the proxy for a user, until the file is
/// another: entries that assert nothing by a certificate.
std::shared_ptr<const proxy::RouteTable> without_pairs(const proxy::RouteTable& routes) {
  std::vector<proxy::MappingEntry> left = routes.entries();
  std::erase_if(left, [](const proxy::MappingEntry& entry) {
    return !entry.is_clusters() && !entry.cert_file.empty();
  });
  return std::make_shared<const proxy::RouteTable>(std::move(left));
}

http::HeaderList agent_headers() {
  http::HeaderList headers;
  headers.add("user-agent", "kintsugi-proxy/" + std::string(product_version()));
  return headers;
}

}  // namespace

std::vector<std::string> ProxyControl::static_uids() const {
  std::vector<std::string> uids;
  for (const StaticAccess& shard : static_shards_) {
    uids.push_back(shard.spec.uid);
  }
  return uids;
}

BackendPairs ProxyControl::backend_pairs() const { return {backend_tls_, static_shards_, routes_}; }

std::vector<topology::ShardSpec> ProxyControl::static_specs() const {
  std::vector<topology::ShardSpec> specs;
  for (const StaticAccess& shard : static_shards_) {
    specs.push_back(shard.spec);
  }
  return specs;
}

Expected<void> ProxyControl::start_feed() {
  if (auto loaded = load_topology(); !loaded) {
    return loaded;
  }
  const auto files = std::exchange(topology_files_, std::nullopt);
  certificates_ = certificate_ends(config_, routes_.get());  // now the kubeconfigs are there, too
  admin_tls_ = files->shards;
  root_server_ = files->root_server;
  root_tls_ = files->root;
  auto root_upstream = has_root() ? upstream_to(files->root_server, files->root)
                                  : Expected<net::UpstreamParams>(net::UpstreamParams{});
  if (!root_upstream) {
    return fail(std::move(root_upstream.error()));
  }
  topology::FeedParams params;
  params.root = std::move(*root_upstream);
  params.has_root = has_root();
  for (const PeerAccess& peer : files->peers) {
    auto upstream = upstream_to(peer.server, peer.tls);
    if (!upstream) {
      return fail(std::move(upstream.error()));
    }
    params.peers.push_back(std::move(*upstream));
    peer_servers_.push_back(peer.server);
  }
  params.lists_shards = config_.topology.source == "kcp";
  params.shard = [this](const std::string& shard, const std::string& url) {
    const bool is_static = config_.topology.source == "static";
    return upstream_to(url, is_static ? backend_tls_.of(shard) : admin_tls_.of(shard));
  };
  params.authentication = config_.authentication.workspaces;
  params.cached_slices = tells_partitions();
  params.identities = shared_->identities;
  params.who = [this](const std::string& server) { return own_name_at(server); };
  params.on_ready = [this](bool ready) { tell_ready(ready); };
  params.root_headers = agent_headers();
  params.shard_headers = agent_headers();
  if (config_.topology.source == "static") {  // a probe is nobody's request
    params.shard_headers.add("x-remote-user", "system:anonymous");
    params.shard_headers.add("x-remote-group", "system:unauthenticated");
  }
  params.seed = random_number();
  feed_ = std::make_unique<topology::Feed>(loop_, std::move(params), publisher_);
  world_ = std::make_unique<proxy::FeedWorld>(*feed_);
  if (config_.authentication.workspaces) {
    issuers_ = std::make_unique<proxy::WorkspaceIssuerBook>(
        loop_, *feed_, [this](const proxy::WorkspaceIssuersPtr& issuers) {
          for (const auto& one : loops_) {
            one->set_workspace_issuers(issuers);
          }
        });
  }
  const auto fault = [this](const std::string& text) {
    complain("proxy", text);
    exit_status_ = 1;
    loop_.stop();
  };
  judge_ = std::make_unique<BackendJudge>(loop_, trust_, fault, [this](const std::string& shard) {
    const auto routes = shard.empty() ? without_pairs(*routes_) : nullptr;
    for (const auto& one : loops_) {
      routes != nullptr ? one->set_routes(routes, config_.clusters) : one->block(shard);
    }
  });
  judge_->start(*feed_, backend_pairs(), config_.mapping_file);
  start_controllers();
  const bool is_static = config_.topology.source == "static";
  if (!is_static) {
    start_import();
  }
  if (tells_partitions()) {
    start_notes();
  }
  feed_->start();
  if (config_.topology.source == "objects") {
    start_own_shards();
  } else if (is_static) {
    feed_->put_static(static_specs());
  }
  for (const auto& one : loops_) {
    if (!is_static) {
      one->start_reviews(admin_tls_, files->reviewed);
    }
  }
  if (auto result = open_admin(); !result) {
    complain("proxy", result.error());
    exit_status_ = 1;
    loop_.stop();
  }
  follow_files();  // those that the kubeconfigs name
  const auto poll = [this](const auto& self) -> void {
    release_controllers();
    if (slices_held_) {
      hold_timer_.start(kHoldPoll, [self] { self(self); });
    }
  };
  poll(poll);
  return {};
}

void ProxyControl::tell_ready(bool ready) {
  const std::uint64_t turn = ++ready_turn_;
  if (!ready) {
    ready_.store(false, std::memory_order_relaxed);
    return;
  }
  auto left = std::make_shared<std::atomic<std::size_t>>(loops_.size());
  for (const auto& one : loops_) {
    one->loop().post([this, left, turn] {
      if (left->fetch_sub(1) != 1) {
        return;
      }
      loop_.post([this, turn] {
        if (turn == ready_turn_) {
          ready_.store(true, std::memory_order_relaxed);
          if (!stopping_) {
            net::service_notices().ready("ready");
          }
          // What the start and the first lists took for a moment.
          (void)::malloc_trim(0);
          forget_code();
        }
      });
    });
  }
}

void ProxyControl::start_controllers() {
  // Owners of kinds that the proxy does not store are never taken for absent.
  collector_ = std::make_unique<kinds::GarbageCollector>(
      apiserver::ControllerContext{loop_, *objects_server_, *registry_});
  collector_->start();
  std::set<std::string> clusters;
  for (const auto& kind : registry_->all("*")) {
    objects_->list("*", kind->group, kind->plural, [&](const krm::Json& object) {
      clusters.emplace(object.text({"metadata", "annotations", krm::kClusterAnnotation}));
      return true;
    });
  }
  for (const std::string& cluster : clusters) {
    collector_->add_cluster(cluster);
  }
  partitions_ = std::make_unique<topology::PartitionController>(
      loop_, *objects_, [this] { return world_->shard_table(); });
  endpointslice::SliceDefaults slices = config_.endpoint_slice;
  const proxy::GroupMode mode = config_.topology.groups.slices;
  slices.make_defaults = mode == proxy::GroupMode::kProxy ||
                         (mode == proxy::GroupMode::kAuto && !config_.kcp_command_line);
  slices_ = std::make_unique<endpointslice::SliceController>(loop_, *objects_, *world_, slices);
  partitions_->hold();
  slices_->hold();
  std::vector<topology::ClusterSweeper::Resource> resources;
  for (const auto& kind : registry_->all("*")) {
    resources.emplace_back(kind->group, kind->plural);
  }
  // Sets before their Partitions, which would be made again.
  std::sort(resources.rbegin(), resources.rend());
  sweeper_ = std::make_unique<topology::ClusterSweeper>(
      loop_, *objects_, std::move(resources),
      [this](std::string_view cluster) { return feed_->index().cluster(cluster).has_value(); });
  world_->set_events(
      {.shards_changed =
           [this] {
             partitions_->shards_changed();
             slices_->shards_changed();
           },
       .shards_relisted = [this] { slices_->full_pass(); },
       .export_changed = [this](std::string_view cluster,
                                std::string_view name) { slices_->export_changed(cluster, name); },
       .cluster_gone = [this](std::string_view cluster) { sweeper_->cluster_gone(cluster); },
       .path_changed = [this](std::string_view segment) { slices_->path_changed(segment); },
       .imported =
           [this](topology::ShardId shard) {
             return importer_ == nullptr || importer_->is_done(shard);
           }});
}

/// What a kcp shard holds of the kinds that are stored here now (T-04).
void ProxyControl::start_import() {
  import_log_ = std::make_unique<topology::StoreImportLog>(loop_, *store_);
  topology::ImportParams params;
  params.upstream = [this](const std::string& shard, const std::string& url) {
    return upstream_to(url, admin_tls_.of(shard));
  };
  params.imports = [groups = config_.topology.groups](std::string_view group) {
    return (group == "topology.kcp.io" ? groups.partitions : groups.slices) ==
           proxy::GroupMode::kProxy;
  };
  params.headers = agent_headers();
  params.identity = [this] { return std::string(feed_->identity("topology.kcp.io")); };
  params.busy = [this](bool busy) { busy ? partitions_->hold() : partitions_->release(); };
  params.imported = [this](topology::ShardId shard) { world_->shard_imported(shard); };
  importer_ =
      std::make_unique<topology::Importer>(loop_, *objects_, *import_log_, std::move(params));
  feed_->add_listener(*importer_);
}

/// Shards are objects of our own: they are the topology, and say how they are (T-05).
void ProxyControl::start_own_shards() {
  own_shards_ =
      objects_->on_change("core.kcp.io", "shards", [this](const topology::Objects::Change& change) {
        if (change.object != nullptr) {
          feed_->put_shard(*change.object);
        } else {
          feed_->drop_shard(change.name);
        }
      });
  objects_->list("root", "core.kcp.io", "shards", [this](const krm::Json& shard) {
    feed_->put_shard(shard);
    return true;
  });
  feed_->shards_complete();
  shard_status_ = std::make_unique<topology::ShardStatusKeeper>(loop_, *objects_,
                                                                [this] { return feed_->status(); });
}

/// Before the shards are known nothing can be computed from them: a restart must not take every
/// Partition away and make it again.
void ProxyControl::release_controllers() {
  const topology::Snapshot& index = feed_->index();
  if (!index.shards_listed()) {
    return;
  }
  if (partitions_held_) {
    partitions_held_ = false;
    judge_->shards_listed();
    listed_at_ = loop_.now();
    partitions_->release();
  }
  const bool known = feed_->ready() && index.all_synced(topology::Resource::kExports);
  if (slices_held_ && (known || loop_.now() - listed_at_ > kExportsLimit)) {
    slices_held_ = false;
    slices_->release();
  }
}

}  // namespace kintsugi::server
