// How the proxy learns the topology, and the controllers that work on it.
#include <malloc.h>

#include <algorithm>

#include "base/log.h"
#include "base/process_pages.h"
#include "base/random.h"
#include "base/version.h"
#include "net/service_notices.h"
#include "server/files.h"
#include "server/internal/certificate_files.h"
#include "server/program.h"
#include "server/proxy_control.h"
#include "shards/shard_client.h"

namespace kintsugi::server {
namespace {

constexpr Duration kHoldPoll = milliseconds(10);
constexpr const char* kDuty = "status";
/// Longer than nobody has the duty, when its holder goes.
constexpr Duration kGoneKept = seconds(60);
constexpr std::size_t kMostGone = 10'000;

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
  if (config_.has_fleet()) {
    if (auto made = make_fleet(*files); !made) {
      return made;
    }
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
    if (fleet_ != nullptr) {
      auto tls = fleet_->own_tls(shard);
      return tls != nullptr ? upstream_to(url, std::move(tls))
                            : fail(Errc::kConfig, "it is not known how it is reached");
    }
    return upstream_to(url,
                       config_.has_plain_servers() ? backend_tls_.of(shard) : admin_tls_.of(shard));
  };
  params.authentication = config_.authentication.workspaces;
  params.cached_slices = tells_partitions();
  params.identities = shared_->identities;
  params.who = [this](const std::string& server) { return own_name_at(server); };
  params.on_ready = [this](bool ready) { tell_ready(ready); };
  params.root_headers = agent_headers();
  params.shard_headers = agent_headers();
  if (config_.topology.source == "static") {
    shards::for_nobody(params.shard_headers);
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
  const bool is_static = config_.has_plain_servers();
  if (tells_partitions()) {
    start_notes();
  }
  feed_->start();
  if (fleet_ != nullptr) {
    fleet_->start();
    look_at_fleet();
  } else if (is_static) {
    feed_->put_static(static_specs());
  }
  if (late_ == nullptr) {
    start_own_kinds();
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
  release_controllers();
  return {};
}

void ProxyControl::start_own_kinds() {
  if (notes_ != nullptr) {
    notes_->set_source(note_source_);
  }
  if (config_.topology.source == "objects") {
    start_own_shards();
  }
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
          if (!stopping_ && has_store_) {
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
  world_->set_events(
      {.shards_changed = [this] { controllers_->shards_changed(); },
       .shards_relisted = [this] { controllers_->shards_relisted(); },
       .export_changed =
           [this](std::string_view cluster, std::string_view name) {
             controllers_->export_changed(cluster, name);
           },
       .cluster_gone = [this](std::string_view cluster) { cluster_gone(cluster); },
       .path_changed = [this](std::string_view segment) { controllers_->path_changed(segment); },
       .imported = [this](topology::ShardId shard) { return controllers_->is_imported(shard); }});
  if (!store_->is_shared()) {
    take_duty(store::Fence{kDuty, 0});
    return;
  }
  take_duty({});  // until it is known who has it
  duty_ = store_->compete(kDuty, [&loop = loop_, take = alive_.guard([this](const auto& held) {
                            take_duty(held);
                          })](const std::optional<store::Fence>& held) {
    loop.post([take = take, held]() mutable { take(held); });
  });
}

/// Those of before are gone before the next begin: whoever takes a duty twice writes under another
/// fence.
void ProxyControl::take_duty(const std::optional<store::Fence>& held) {
  if (stopping_) {
    return;
  }
  const bool is_first = controllers_ == nullptr;
  controllers_.reset();
  ProxyControllersParams params{.loop = loop_,
                                .store = *store_,
                                .server = *objects_server_,
                                .registry = *registry_,
                                .feed = *feed_,
                                .world = *world_,
                                .slices = config_.endpoint_slice,
                                .upstream = {},
                                .headers = agent_headers(),
                                .groups = config_.topology.groups,
                                .has_shards = config_.topology.source == "objects"};
  const proxy::GroupMode mode = config_.topology.groups.slices;
  params.slices.make_defaults = mode == proxy::GroupMode::kProxy ||
                                (mode == proxy::GroupMode::kAuto && !config_.kcp_command_line);
  if (!config_.has_plain_servers()) {
    params.upstream = [this](const std::string& shard, const std::string& url) {
      return upstream_to(url, admin_tls_.of(shard));
    };
  }
  controllers_ = std::make_unique<ProxyControllers>(params, held);
  for (const auto& [at, cluster] : gone_) {
    controllers_->cluster_gone(cluster);
  }
  if (notes_ != nullptr) {
    notes_->set_active(held.has_value());
  }
  if (store_->is_shared() && !is_first) {
    log_info(held ? "proxy leads" : "proxy does not lead any more", {{"duty", kDuty}});
  }
  if (!is_first) {
    release_controllers();
  }
}

void ProxyControl::give_up_duty() {
  controllers_.reset();
  duty_.reset();
  if (notes_ != nullptr) {
    notes_->set_active(false);
  }
  hold_timer_.cancel();
  if (world_ != nullptr) {
    world_->set_events({});
  }
}

void ProxyControl::cluster_gone(std::string_view cluster) {
  controllers_->cluster_gone(cluster);
  const TimePoint now = loop_.now();
  while (!gone_.empty() && (gone_.front().first + kGoneKept < now || gone_.size() >= kMostGone)) {
    gone_.pop_front();
  }
  gone_.emplace_back(now, cluster);
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
}

/// Again and again until nothing waits any more.
void ProxyControl::release_controllers() {
  if (!judged_ && feed_->index().shards_listed()) {
    judged_ = true;
    judge_->shards_listed();
  }
  if (!controllers_->release() || !judged_) {
    hold_timer_.start(kHoldPoll, [this] { release_controllers(); });
  }
}

}  // namespace kintsugi::server
