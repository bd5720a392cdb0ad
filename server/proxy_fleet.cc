// Source `clusterprofiles`: plain servers that a hub names come and go (GR-701 to GR-704).
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/version.h"
#include "server/proxy_control.h"

namespace kintsugi::server {
namespace {

constexpr Duration kLook = seconds(1);

}  // namespace

Expected<void> ProxyControl::make_fleet(const TopologyFiles& files) {
  auto hub = upstream_to(files.hub.server, files.hub.tls);
  auto revocations = backend_revocations(config_);
  if (!hub || !revocations) {
    return fail(std::move(!hub ? hub.error() : revocations.error()));
  }
  hub_server_ = files.hub.server;
  FleetSource::Params params;
  params.hub = std::move(*hub);
  params.headers.add("user-agent", "kintsugi-proxy/" + std::string(product_version()));
  params.options = fleet_options(config_);
  params.providers = files.providers;
  params.namespaces = config_.topology.fleet.namespaces;
  params.selector = config_.topology.fleet.selector;
  params.revocations = std::move(*revocations);
  params.known = [this](const std::string& uid) { return slots_->knows(uid); };
  params.seed = random_number();
  fleet_ = std::make_unique<FleetSource>(loop_, std::move(params), [this] { take_fleet(); });
  return {};
}

/// The loops know the ways before they hear of the shards: both are posted to them in this order.
void ProxyControl::take_fleet() {
  if (stopping_) {
    return;
  }
  for (const StaticAccess& shard : static_shards_) {
    backend_tls_.own.erase(shard.spec.name);
  }
  static_shards_ = fleet_->shards();
  for (const StaticAccess& shard : static_shards_) {
    if (auto tls = fleet_->tls(shard.spec.name)) {
      backend_tls_.own[shard.spec.name] = std::move(tls);
    }
  }
  for (const auto& one : loops_) {
    one->set_plain_servers(backend_tls_, tokens_of(static_shards_));
  }
  feed_->put_static(static_specs());
}

/// Whether members still take the credentials is what the feed's probes find out.
void ProxyControl::look_at_fleet() {
  fleet_->look_at(feed_->status());
  fleet_timer_.start(kLook, [this] { look_at_fleet(); });
}

void ProxyControl::reload_fleet(TopologyFiles& files, std::vector<std::string>& stuck) {
  if (files.hub.server != hub_server_) {
    stuck.emplace_back("the server of topology.fleet.kubeconfig");
  } else {
    fleet_->set_hub_tls(files.hub.tls);
  }
  fleet_->set_providers(files.providers);
}

void ProxyControl::keep_fleet(ProxyFiles& files) const {
  if (fleet_ == nullptr) {
    return;
  }
  files.shards = static_shards_;
  for (const StaticAccess& shard : static_shards_) {
    if (const auto found = backend_tls_.own.find(shard.spec.name);
        found != backend_tls_.own.end()) {
      files.backend.own[shard.spec.name] = found->second;
    }
  }
}

}  // namespace kintsugi::server
