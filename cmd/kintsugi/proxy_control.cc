#include "cmd/kintsugi/proxy_control.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/files.h"
#include "krm/status.h"
#include "proxy/merge/sequence_journal.h"

namespace kintsugi::cmd {
namespace {

constexpr Duration kHoldPoll = milliseconds(10);
constexpr Duration kExportsLimit = seconds(5);  // slices wait no longer for a shard

/// The control loop's API server has no listener: nothing asks these two.
class NobodyAuthenticates final : public auth::Authenticator {
 public:
  void authenticate(const http::RequestHead& /*head*/, const http::PeerInfo& /*peer*/,
                    std::string_view /*cluster*/, Done done) override {
    done(fail(krm::unauthorized()));
  }
};
class NobodyAuthorizes final : public auth::Authorizer {
 public:
  void authorize(const auth::Attributes& /*attributes*/, Done done) override {
    done(auth::Decision{});
  }
};

http::HeaderList agent_headers() {
  http::HeaderList headers;
  headers.add("user-agent", "kintsugi-proxy/" + std::string(version()));
  return headers;
}

}  // namespace

Expected<std::unique_ptr<ProxyControl>> ProxyControl::make(ProxyCommandLine line,
                                                           LoadedProxyConfig loaded) {
  std::unique_ptr<ProxyControl> control(new ProxyControl(std::move(line), std::move(loaded)));
  if (auto result = control->open(); !result) {
    return fail(std::move(result.error()));
  }
  return control;
}

ProxyControl::ProxyControl(ProxyCommandLine line, LoadedProxyConfig loaded)
    : line_(std::move(line)),
      config_(std::move(loaded.config)),
      config_path_(std::move(loaded.path)),
      config_text_(std::move(loaded.text)),
      loop_("control"),
      signals_(loop_, {SIGINT, SIGTERM, SIGHUP}, [this](int number) { on_signal(number); }),
      feed_timer_(loop_),
      stop_timer_(loop_),
      hold_timer_(loop_) {}

ProxyControl::~ProxyControl() {
  for (const auto& one : loops_) {
    one->stop();
  }
  for (const auto& one : loops_) {
    one->join();
  }
  watch_.reset();
  admin_listeners_.clear();
  admin_.reset();
  if (importer_ != nullptr) {
    feed_->remove_listener(*importer_);
  }
  backend_check_.reset();
  own_shards_.reset();
  shard_status_.reset();
  importer_.reset();
  sweeper_.reset();
  slices_.reset();
  partitions_.reset();
  collector_.reset();
  world_.reset();
  issuers_.reset();
  feed_.reset();
  slots_.reset();
  loops_.clear();
  objects_.reset();
  objects_server_.reset();
}

Expected<void> ProxyControl::open() {
  if (auto result = make_directories(config_.data_dir); !result) {
    return result;
  }
  store::LmdbParams params;
  params.directory = config_.data_dir;
  auto store = store::LmdbStore::open(std::move(params));
  if (!store) {
    return fail(std::move(store.error()));
  }
  store_ = std::move(*store);

  auto files = load_proxy_files(config_);
  if (!files) {
    return fail(std::move(files.error()));
  }
  auto verifier = auth::ReloadableCertificateVerifier::make(files->client_ca);
  if (!verifier) {
    return fail(std::move(verifier.error()));
  }
  verifier_ = std::move(*verifier);
  const std::uint32_t count =
      config_.loops != 0 ? config_.loops : std::max(1U, std::thread::hardware_concurrency());
  backend_tls_ = files->backend;
  shared_ = std::make_unique<ProxyShared>(
      ProxyShared{.config = config_,
                  .store = *store_,
                  .publisher = publisher_,
                  .serving_tls = std::move(files->serving),
                  .backend_tls = std::move(files->backend),
                  .tokens = tokens_of(files->shards),
                  .routes = std::move(files->routes),
                  .token_files = std::move(files->tokens),
                  .audit_policy = files->audit_policy,
                  .verifier = verifier_,
                  .group = count > 1 ? std::make_shared<net::ListenerGroup>() : nullptr,
                  .ready = [this] { return ready_.load(std::memory_order_relaxed); },
                  .instance = hex_encode(random_bytes(4)),
                  .loop_count = count});

  if (auto result = open_audit_log(*files->audit_policy); !result) {
    return result;
  }
  no_authenticator_ = std::make_unique<NobodyAuthenticates>();
  no_authorizer_ = std::make_unique<NobodyAuthorizes>();
  registry_ = proxy_registry(nullptr, config_.topology.source == "objects");
  objects_server_ = apiserver::ApiServer::make({.loop = loop_,
                                                .store = *store_,
                                                .registry = *registry_,
                                                .authenticator = *no_authenticator_,
                                                .authorizer = *no_authorizer_,
                                                .resolve = {},
                                                .checks = {}});
  objects_ = std::make_unique<ApiObjects>(*objects_server_);

  std::uint16_t port = config_.listener.port;
  for (std::uint32_t i = 0; i < count; ++i) {
    loops_.push_back(std::make_unique<ProxyLoop>(static_cast<int>(i), *shared_));
    auto bound = loops_.back()->listen(port);
    if (!bound) {
      return fail(std::move(bound.error()));
    }
    port = *bound;
  }
  slots_ = std::make_unique<SlotKeeper>(
      loop_, *store_, publisher_,
      [this](const proxy::SlotHistoryPtr& slots, const proxy::TokenKeys& keys) {
        for (const auto& one : loops_) {
          one->set_slots(slots, keys);
        }
      },
      config_.shared_file);
  slots_->set_keys(std::move(files->token_keys));
  static_shards_ = std::move(files->shards);
  slots_->fix(config_.topology.generation, static_uids());
  for (const auto& one : loops_) {
    shared_->loops.push_back(one.get());
  }
  shared_->rolled_back = [this](const std::string& uid) {
    loop_.post([this, uid] { slots_->mark_rolled_back(uid); });
  };
  if (auto result = begin_sequences(); !result) {
    return result;
  }
  Expected<void> started = slots_->start();
  shared_->first_start = slots_->is_new();
  return started;
}

Expected<void> ProxyControl::begin_sequences() {
  const auto epoch = slots_->take_epoch();
  if (!epoch) {
    return fail(epoch.error().clone());
  }
  // Stores of replicas may have equal epochs.
  const std::string random = random_bytes(8);
  const std::uint64_t counter =
      *reinterpret_cast<const std::uint64_t*>(random.data()) % (proxy::kFirstSequence / 2);
  shared_->sequences->begin(*epoch, counter);
  if (config_.sequence_journal.empty()) {
    return {};
  }
  auto journal = proxy::SequenceJournal::open(config_.sequence_journal,
                                              config_.sequence_journal_bytes, *shared_->sequences);
  if (!journal) {
    return fail(std::move(journal.error()).at("aggregation.cursor.journal"));
  }
  shared_->sequences->keep_in(std::move(*journal));
  return {};
}

proxy::ExplainSources ProxyControl::explain_sources() {
  return {.groups = proxy::possible_groups(config_.topology.groups),
          .partition =
              [this](std::string_view cluster, std::string_view name) {
                return objects_->get(cluster, "topology.kcp.io", "partitions", name);
              },
          .slice =
              [this](std::string_view cluster, std::string_view name) {
                return objects_->get(cluster, "apis.kcp.io", "apiexportendpointslices", name);
              },
          .slice_shards = [this](const krm::Json& slice) { return slices_->explain(slice); }};
}

Expected<void> ProxyControl::open_admin() {
  admin_ = std::make_unique<proxy::AdminHandler>(
      proxy::AdminParams{.loop = loop_,
                         .feed = *feed_,
                         .collect =
                             [this](std::function<void(std::vector<proxy::LoopReport>)> done) {
                               collect(std::move(done));
                             },
                         .topology = [this] { return topology_report(); },
                         .explain = explain_sources(),
                         .config_text = config_text_});
  const auto add = [this](net::ListenerParams params) -> Expected<void> {
    auto listener = net::Listener::open(loop_, std::move(params), *admin_);
    if (!listener) {
      return fail(std::move(listener.error()).at("admin listener"));
    }
    log_info("admin listener", {{"port", static_cast<int>((*listener)->port())}});
    admin_listeners_.push_back(std::move(*listener));
    return {};
  };
  if (!config_.admin.socket.empty()) {
    net::ListenerParams params;
    params.address = config_.admin.socket;
    ::unlink(config_.admin.socket.c_str());
    if (auto result = add(std::move(params)); !result) {
      return result;
    }
  }
  if (!config_.admin.bind.empty()) {
    const std::size_t colon = config_.admin.bind.rfind(':');
    net::ListenerParams params;
    params.address = config_.admin.bind.substr(0, colon);
    const auto port =
        colon == std::string::npos
            ? std::nullopt
            : parse_decimal<std::uint16_t>(std::string_view(config_.admin.bind).substr(colon + 1));
    if (!port) {
      return fail(Errc::kConfig,
                  "admin.bind: \"" + config_.admin.bind + "\" is not <address>:<port>");
    }
    params.port = *port;
    return add(std::move(params));
  }
  return {};
}

std::vector<std::string> ProxyControl::static_uids() const {
  std::vector<std::string> uids;
  for (const StaticAccess& shard : static_shards_) {
    uids.push_back(shard.spec.uid);
  }
  return uids;
}

std::vector<topology::ShardSpec> ProxyControl::static_specs() const {
  std::vector<topology::ShardSpec> specs;
  for (const StaticAccess& shard : static_shards_) {
    specs.push_back(shard.spec);
  }
  return specs;
}

Expected<void> ProxyControl::start_feed() {
  auto files = load_topology_files(config_);
  if (!files) {
    return fail(std::move(files.error()));
  }
  admin_tls_ = files->shards;
  root_server_ = files->root_server;
  auto root_upstream = has_root() ? upstream_to(files->root_server, std::move(files->root))
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
  params.on_ready = [this](bool ready) { tell_ready(ready); };
  params.root_headers = agent_headers();
  params.shard_headers = agent_headers();
  if (config_.topology.source == "static") {  // a probe is nobody's request
    params.shard_headers.add("x-remote-user", "system:anonymous");
    params.shard_headers.add("x-remote-group", "system:unauthenticated");
  }
  const std::string random = random_bytes(8);
  params.seed = *reinterpret_cast<const std::uint64_t*>(random.data());
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
  start_controllers();
  const bool is_static = config_.topology.source == "static";
  if (!is_static) {
    start_import();
  }
  feed_->start();
  if (config_.topology.source == "objects") {
    start_own_shards();
  } else if (is_static) {
    feed_->put_static(static_specs());
  }
  for (const auto& one : loops_) {
    if (!is_static) {
      one->start_reviews(admin_tls_);
    }
  }
  if (auto result = open_admin(); !result) {
    complain("proxy", std::string(result.error().message()));
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
        }
      });
    });
  }
}

void ProxyControl::start_controllers() {
  // Owners of kinds that the proxy does not store are never taken for absent.
  collector_ = std::make_unique<apiserver::GarbageCollector>(
      apiserver::ControllerContext{loop_, *objects_server_, *registry_});
  collector_->start();
  std::set<std::string> clusters;
  for (const auto& kind : registry_->all("*")) {
    objects_->list("*", kind->group, kind->plural, [&](const krm::Json& object) {
      clusters.emplace(object.text({"metadata", "annotations", "kcp.io/cluster"}));
      return true;
    });
  }
  for (const std::string& cluster : clusters) {
    collector_->add_cluster(cluster);
  }
  partitions_ = std::make_unique<topology::PartitionController>(
      loop_, *objects_, [this] { return world_->shard_table(); });
  endpointslice::SliceDefaults slices = config_.endpoint_slice;
  slices.make_defaults = config_.topology.groups.slices != proxy::GroupMode::kShard;
  slices_ = std::make_unique<endpointslice::SliceController>(loop_, *objects_, *world_, slices);
  partitions_->hold();
  slices_->hold();
  std::vector<ClusterSweeper::Resource> resources;
  for (const auto& kind : registry_->all("*")) {
    resources.emplace_back(kind->group, kind->plural);
  }
  // Sets before their Partitions, which would be made again.
  std::sort(resources.rbegin(), resources.rend());
  sweeper_ = std::make_unique<ClusterSweeper>(
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
  import_log_ = std::make_unique<StoreImportLog>(loop_, *store_);
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
    listed_at_ = loop_.now();
    partitions_->release();
  }
  const bool known = feed_->ready() && index.all_synced(topology::Resource::kExports);
  if (slices_held_ && (known || loop_.now() - listed_at_ > kExportsLimit)) {
    slices_held_ = false;
    slices_->release();
  }
}

void ProxyControl::collect(std::function<void(std::vector<proxy::LoopReport>)> done) {
  struct Gather {
    std::vector<proxy::LoopReport> reports;
    std::size_t missing;
    std::function<void(std::vector<proxy::LoopReport>)> done;
  };
  auto gather = std::make_shared<Gather>(
      Gather{std::vector<proxy::LoopReport>(loops_.size()), loops_.size(), std::move(done)});
  for (std::size_t i = 0; i < loops_.size(); ++i) {
    loops_[i]->report([this, gather, i](proxy::LoopReport report) {
      loop_.post([gather, i, report = std::move(report)]() mutable {
        gather->reports[i] = std::move(report);
        if (--gather->missing == 0) {
          gather->done(std::move(gather->reports));
        }
      });
    });
  }
}

proxy::TopologyReport ProxyControl::topology_report() const {
  proxy::TopologyReport report;
  report.reloads = reloads_;
  if (audit_ != nullptr) {
    report.audit_events = audit_->added();
    report.audit_dropped = audit_->lost();
  }
  report.draining = stopping_;
  if (partitions_ == nullptr) {
    return report;
  }
  std::size_t partitions = 0;
  objects_->list("*", "topology.kcp.io", "partitions", [&](const krm::Json& /*object*/) {
    ++partitions;
    return true;
  });
  objects_->list("*", "topology.kcp.io", "partitionsets", [&](const krm::Json& set) {
    const krm::Json* count = set.at({"status", "count"});
    report.partitions_of_sets.push_back(
        count != nullptr ? static_cast<std::size_t>(count->as_integer()) : 0);
    return true;
  });
  report.slices = slices_->census();
  report.kinds = {{"PartitionSet", partitions_->times()},
                  {"APIExportEndpointSlice", slices_->times()}};
  report.resources = {{"partitionsets", "PartitionSet", report.partitions_of_sets.size(),
                       partitions_->stats().sets},
                      {"partitions", "PartitionSet", partitions, partitions_->stats().partitions},
                      {"apiexportendpointslices", "APIExportEndpointSlice", report.slices.slices,
                       slices_->stats().slices}};
  return report;
}

void ProxyControl::on_signal(int number) {
  if (number == SIGHUP) {
    if (audit_ != nullptr) {
      audit_->reopen();
    }
    reload(watch_->take_changed());
    return;
  }
  if (stopping_) {
    log_warn("second signal: leaving at once");
    ::_exit(1);
  }
  drain();
}

void ProxyControl::drain() {
  stopping_ = true;
  log_info("draining", {{"delay_ms", config_.shutdown.delay / milliseconds(1)},
                        {"grace_ms", config_.shutdown.grace / milliseconds(1)}});
  // Watches end early enough for what they wake to fit into the grace as well.
  const Duration spread = std::min(config_.shutdown.spread, config_.shutdown.grace / 2);
  draining_ = loops_.size();
  for (const auto& one : loops_) {
    one->drain(config_.shutdown.delay, spread, [this] {
      loop_.post([this] {
        if (--draining_ == 0) {
          loop_.stop();
        }
      });
    });
  }
  stop_timer_.start(config_.shutdown.delay + config_.shutdown.grace, [this] {
    log_warn("some streams did not end in time");
    loop_.stop();
  });
}

int ProxyControl::run() {
  for (const auto& one : loops_) {
    one->start();
  }
  watch_ = std::make_unique<FileWatch>(
      loop_, config_.reload.poll,
      [this](const std::vector<std::string>& changed) { reload(changed); });
  follow_files();
  log_info("listening", {{"address", config_.listener.address},
                         {"port", static_cast<int>(config_.listener.port)},
                         {"loops", static_cast<int>(loops_.size())}});
  loop_.post([this] { try_feed(); });
  loop_.run();
  return exit_status_;
}

}  // namespace kintsugi::cmd
