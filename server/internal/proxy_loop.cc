#include "server/internal/proxy_loop.h"

#include "aggregation/rights/reviewer.h"
#include "apiserver/body_bounds.h"
#include "apiserver/continue_keys.h"
#include "apiserver/memory_bounds.h"
#include "apiserver/open_watches.h"
#include "base/random.h"
#include "controlplane/admission/reserved_metadata.h"
#include "controlplane/kinds/kcp_kinds.h"
#include "controlplane/views/claim_labels.h"
#include "krm/path_prefixes.h"
#include "krm/request_info.h"
#include "proxy/gates/impersonate.h"
#include "server/internal/known_paths.h"
#include "server/internal/slice_admission.h"
#include "serving/answer.h"
#include "serving/crowded.h"
#include "serving/identity.h"

namespace kintsugi::server {
namespace {

constexpr std::size_t kShedWatches = 256, kShedConnections = 256;  // of a loop, at once
constexpr Duration kLateRoutes = milliseconds(200);  // a watch tells within a few, when all is well

/// The proxy has resolved the cluster already: the segment is its name.
Expected<std::optional<apiserver::ClusterTarget>> resolve_stamped(const http::RequestHead& head,
                                                                  const auth::UserInfo& /*user*/) {
  auto path = krm::split_cluster_path(head.target);
  if (!path) {
    return std::optional<apiserver::ClusterTarget>();
  }
  return std::optional<apiserver::ClusterTarget>(
      {path->segment, krm::cluster_root(path->segment), path->rest});
}

/// No binding claims what the proxy keeps.
class NoClaimLabels final : public apiserver::AdmissionStep {
 public:
  Expected<void> prepare(const apiserver::WriteContext& /*context*/,
                         const apiserver::ResourceDef& def, krm::Json& object,
                         const krm::Json* old) override {
    return controlplane::refuse_claim_labels(def, object, old);
  }
};

std::vector<std::unique_ptr<apiserver::AdmissionStep>> own_admission(
    const std::shared_ptr<topology::SnapshotView>& view) {
  std::vector<std::unique_ptr<apiserver::AdmissionStep>> steps;
  steps.push_back(std::make_unique<NoClaimLabels>());
  steps.push_back(controlplane::reserved_metadata_step(
      [paths = std::make_shared<KnownPaths>(view)](std::string_view cluster) {
        return (*paths)(cluster);
      }));
  return steps;
}

/// Where shards are: no tenant's webhook or issuer is there.
std::vector<std::string> hosts_of(const topology::Snapshot& snapshot) {
  std::vector<std::string> hosts;
  for (const auto& shard : snapshot.shards()) {
    std::vector<std::string> urls = shard->spec.replica_urls;
    urls.push_back(shard->spec.base_url);
    urls.push_back(shard->spec.virtual_workspace_url);
    for (const std::string& text : urls) {
      if (auto url = net::Url::parse(text)) {
        hosts.push_back(std::move(url->host));
      }
    }
  }
  return hosts;
}

/// The owner shard of a cluster as the target of reviews.
Expected<proxy::ReviewTarget> find_reviewer(const topology::Snapshot& snapshot,
                                            topology::ShardPool* pool, std::string_view cluster) {
  const auto fact = snapshot.cluster(cluster);
  const bool is_static = !snapshot.shards().empty() && snapshot.shards().front()->spec.plain;
  if (is_static) {  // plain servers judge what they are asked for themselves
    return fail(Errc::kForbidden, "no shard holds the logical cluster that grants this");
  }
  if (!fact || pool == nullptr) {
    return fail(serving::not_known_yet());
  }
  shards::ShardClient* client = pool->find(fact->owner);
  if (client == nullptr || !client->admit()) {
    return fail(serving::shard_unreachable(false));
  }
  return proxy::ReviewTarget{client->upstream(), krm::cluster_root(cluster)};
}

}  // namespace

std::unique_ptr<kinds::StaticPlusCrdRegistry> proxy_registry(apiserver::ResourcePtr slice,
                                                             bool own_shards,
                                                             proxy::LocalGroups groups) {
  std::vector<kinds::StaticPlusCrdRegistry::StaticKind> kinds;
  if (groups.slices) {
    kinds.push_back(
        {slice != nullptr ? std::move(slice) : controlplane::api_export_endpoint_slice_kind(), {}});
  }
  if (groups.partitions) {
    kinds.push_back({controlplane::partition_kind(), {}});
    kinds.push_back({controlplane::partition_set_kind(), {}});
  }
  if (own_shards) {
    kinds.push_back(
        {controlplane::shard_kind(), [](std::string_view cluster) { return cluster == "root"; }});
  }
  auto registry = std::make_unique<kinds::StaticPlusCrdRegistry>(std::move(kinds));
  registry->set_ready();
  return registry;
}

ProxyLoop::ProxyLoop(int index, ProxyShared& shared)
    : shared_(shared),
      loop_("data-" + std::to_string(index)),
      first_(index == 0),
      drain_timer_(loop_),
      recheck_timer_(loop_) {
  view_ = shared_.publisher.attach(loop_);
  backend_tls_ = shared_.backend_tls;
  tokens_ = shared_.tokens;
  pool_ = std::make_unique<topology::ShardPool>(
      loop_, view_,
      [this](const std::string& shard, const std::string& url) {
        if (shared_.trust != nullptr && shared_.trust->is_blocked(shard)) {
          return Expected<net::UpstreamParams>(
              fail(Errc::kConfig, "it takes the proxy's client certificate for a user's"));
        }
        return upstream_to(url, backend_tls_.of(shard));
      },
      [this](const std::string& shard, http::HeaderList& headers) {
        if (const auto found = tokens_.find(shard); found != tokens_.end()) {
          proxy::impersonate(headers, found->second.view());
        }
      });
  const proxy::FindReviewTarget find = [this](std::string_view cluster) {
    return find_reviewer(view_->current(), admin_pool_.get(), cluster);
  };
  reviews_ = std::make_unique<proxy::ShardReviews>(loop_, find);
  binds_ = std::make_unique<proxy::BindCheck>(loop_, view_, find, *reviews_);
  authenticator_ = std::make_unique<proxy::StampedAuthenticator>(loop_, find);
  const bool own_shards = shared_.config.topology.source == "objects";
  const bool own_root = shared_.config.topology.source != "kcp";
  const proxy::GroupModes& groups = shared_.config.topology.groups;
  if (groups.any_auto()) {
    owners_ = std::make_unique<proxy::GroupOwners>(loop_, find, groups);
  }
  registry_ = proxy_registry(admitted_slice_kind(*binds_, shared_.config), own_shards,
                             proxy::possible_groups(groups));
  auth::Authorizer* authorizer = reviews_.get();
  if (own_root) {
    own_root_ = std::make_unique<proxy::OwnRootAuthorizer>(*reviews_);
    authorizer = own_root_.get();
  }
  const proxy::ServedLimits& served = shared_.config.served_limits;
  local_ = apiserver::ApiServer::make(
      {.loop = loop_,
       .store = shared_.store,
       .registry = *registry_,
       .authenticator = *authenticator_,
       .authorizer = *authorizer,
       .resolve = resolve_stamped,
       .checks = {},
       .admission = own_admission(view_),
       .concurrency = {served.reads, served.writes, served.watch_starts}});
  apiserver::bound_bodies(*local_, shared_.memory);
  overlay_ = std::make_unique<proxy::Overlay>(loop_, *local_);
  aggregation::MergeParams merge = shared_.config.merge_in_force();
  merge.rights_entries /= shared_.loop_count;
  merge.index_bytes /= shared_.loop_count;
  auth::Authorizer& rights = own_root && !own_shards ? *authorizer : *reviews_;
  if (shared_.config.ui.enabled) {
    console_ = std::make_unique<proxy::ConsoleRequests>(proxy::ConsoleRequests::Params{
        loop_, view_, rights, shared_.console, shared_.config.authorization.recheck_watches,
        own_root ? nullptr : authenticator_.get()});
  }
  handler_ = std::make_unique<proxy::ProxyHandler>(proxy::ProxyHandlerParams{
      .loop = loop_,
      .view = view_,
      .pool = *pool_,
      .local = *local_,
      .overlay = *overlay_,
      .authorizer = rights,
      .token_reviews = own_root ? nullptr : authenticator_.get(),
      .identity_headers = {},
      .limits = shared_.config.limits,
      .mounts = {shared_.config.external_url, shared_.config.mount_hosts},
      .groups = groups,
      .owners = owners_.get(),
      .routes = shared_.routes,
      .clusters = shared_.config.clusters,
      .instance = shared_.instance,
      .wildcard = shared_.config.wildcard != "deny",
      .wildcard_reviewed = shared_.config.wildcard == "reviewed",
      .identities = shared_.identities,
      .merge_options = shared_.config.aggregation,
      .merge_params = merge,
      .find_deliveries =
          [this](const std::string& key, std::uint64_t revision, std::vector<bool> members,
                 std::function<void(aggregation::ResumeRing::Found)> found) {
            find_deliveries(key, revision, std::move(members), std::move(found));
          },
      .rolled_back = [this](const std::string& uid) { shared_.rolled_back(uid); },
      .list_gate = shared_.list_gate,
      .initial_gate = shared_.initial_gate,
      .queue_budget = shared_.queue_budget,
      .memory = shared_.memory,
      .process_limits = shared_.limits,
      .homes = shared_.loop_count > 1 ? shared_.homes : nullptr,
      .sequences = shared_.sequences,
      .moves = shared_.moves,
      .documents = shared_.documents,
      .own_root = own_root,
      .info = shared_.config.existence != "kcp",
      .late_routes = kLateRoutes,
      .partition =
          [this](std::string_view cluster, std::string_view name) {
            return local_->reader().get(cluster, "topology.kcp.io", "partitions", "", name);
          },
      .ready = shared_.ready,
      .writable = [&store = shared_.store] { return store.health().has_value(); },
      .trusted = [trust = shared_.trust] { return trust == nullptr || trust->is_open(); },
      .metrics = on_control(shared_.metrics),
      .why_not_ready = on_control(shared_.why_not_ready),
      .console = console_.get()});
  if (shared_.config.aggregation.share == aggregation::Share::kReviewed &&
      shared_.config.has_plain_servers()) {
    make_own_pools();
  }
  proxy::RoutedHandler* answers = handler_.get();
  // Servers of source `static` are no secret, and judge themselves who may ask them what.
  if (shared_.config.existence == "hide" && !shared_.config.has_plain_servers()) {
    existence_ = std::make_unique<proxy::ExistenceGate>(view_, own_root ? *authorizer : *reviews_,
                                                        *authenticator_, *handler_);
    answers = existence_.get();
  }
  watch_starts_ = std::make_unique<proxy::WatchStartGate>(
      loop_, shared_.config.listener.watch_starts, *answers);
  answers = watch_starts_.get();
  limit_ = std::make_unique<proxy::LimitGate>(
      loop_, shared_.limits, shared_.pressure,
      [this](const http::PeerInfo& peer, const http::HeaderList& headers) {
        return handler_->payer_of(peer, headers);
      },
      *answers);
  audit_ = std::make_unique<proxy::AuditGate>(loop_, shared_.audit, *limit_);
  audit_->set_policy(shared_.audit_policy);
  gate_ = std::make_unique<proxy::TokenGate>(view_, *audit_);
  tokens_of_requests_ = std::make_unique<ProxyTokens>(loop_, view_, find, shared_.outgoing);
  if (first_ && shared_.outgoing != nullptr) {
    view_->on_change([own = shared_.outgoing->own](const topology::Snapshot& before,
                                                   const topology::Snapshot& now) {
      if (before.shards() != now.shards()) {
        own->set_hosts(hosts_of(now));
      }
    });
  }
  tokens_of_requests_->take(shared_.config.authentication, shared_.token_files, *gate_);
  gate_->follow_proofs(loop_, [this] { end_unproven(); });
  answers = gate_.get();
  if (!shared_.config.cors_origins.empty()) {
    cors_ = std::make_unique<proxy::CorsHandler>(shared_.config.cors_origins, *answers,
                                                 shared_.config.ui.enabled);
    answers = cors_.get();
  }
  if (const double chance = shared_.config.listener.goaway_chance; chance > 0) {
    goaway_ = std::make_unique<proxy::GoawayHandler>(chance, *answers, random_number());
    answers = goaway_.get();
  }
  if (shared_.access_log != nullptr) {
    access_ = std::make_unique<proxy::AccessGate>(
        loop_, shared_.access_log, shared_.config.access_log, random_number(), *answers);
    answers = access_.get();
  }
  entrance_ = std::make_unique<proxy::Entrance>(view_, *answers);
  if (const serving::TracingConfig& tracing = shared_.config.tracing; !tracing.endpoint.empty()) {
    trace_ = std::make_unique<serving::TraceGate>(tracing.rules, *entrance_);
  }
  recheck_watches();
}

/// What the control thread makes, for this loop.
proxy::ProxyHandlerParams::Text ProxyLoop::on_control(const ControlText& text) {
  return [this, &text](std::function<void(const std::string&)> done) {
    text([this, done = std::move(done)](std::string made) {
      loop_.post([done, made = std::move(made)] { done(made); });
    });
  };
}

std::unique_ptr<topology::ShardPool> ProxyLoop::make_static_pool() {
  return std::make_unique<topology::ShardPool>(
      loop_, view_,
      [this](const std::string& shard, const std::string& url) {
        return upstream_to(url, backend_tls_.of(shard));
      },
      [this](const std::string& shard, http::HeaderList& headers) {
        // Servers that believe in request headers are told a name of our own: callers without one
        // must not share what the bare certificate may do.
        if (const auto found = tokens_.find(shard); found == tokens_.end()) {
          headers.set("x-remote-user", shared_.config.own_user);
        } else if (!found->second.empty()) {
          headers.set("authorization", found->second.view());
        }
      });
}

void ProxyLoop::make_own_pools() {
  own_pool_ = make_static_pool();
  reviewed_pool_ = make_static_pool();
  handler_->set_own_pool(own_pool_.get(), reviewed_pool_.get());
}

/// Proofs of identities have ended: connections and streams that rest on them (SE-042 to SE-048).
void ProxyLoop::end_unproven() {
  if (listener_ != nullptr) {
    listener_->review();
  }
  handler_->end_unproven();
  local_->end_unproven();
}

/// Rights live at the shards, so nothing tells when they change (T-14).
void ProxyLoop::recheck_watches() {
  recheck_timer_.start(shared_.config.authorization.recheck_watches, [this] {
    local_->review_all_watches();
    recheck_watches();
  });
}

/// An event of an earlier process may have the number of one that was delivered since: nothing is
/// found until all who were its clients have come back.
void ProxyLoop::find_deliveries(const std::string& key, std::uint64_t revision,
                                std::vector<bool> members,
                                std::function<void(aggregation::ResumeRing::Found)> found) {
  struct Search {
    aggregation::ResumeRing::Found found;
    std::size_t left = 0;
    std::function<void(aggregation::ResumeRing::Found)> done;
  };
  // Another replica may have delivered the event to whoever asks.
  const bool has_others = !shared_.config.shared_file.empty() || shared_.store.is_shared();
  if (has_others ||
      (!shared_.first_start && loop_.now() < made_at_ + aggregation::ResumeRing::Limits().age)) {
    found({});
    return;
  }
  auto search = std::make_shared<Search>();
  search->found = handler_->find_delivery(key, revision, members);
  search->left = shared_.loops.size() - 1;
  search->done = std::move(found);
  if (search->left == 0) {
    search->done(std::move(search->found));
    return;
  }
  for (ProxyLoop* other : shared_.loops) {
    if (other == this) {
      continue;
    }
    other->loop_.post([this, other, key, revision, members, search] {
      loop_.post([search, part = other->handler_->find_delivery(key, revision, members)] {
        search->found.meet(part);
        if (--search->left == 0) {
          search->done(std::move(search->found));
        }
      });
    });
  }
}

ProxyLoop::~ProxyLoop() {
  stop();
  join();
  // Connections first: their streams refer to everything else.
  listener_.reset();
}

void ProxyLoop::start() {
  thread_ = std::thread([this] { loop_.run(); });
}

void ProxyLoop::start_reviews(ShardTls tls, ShardTls reviewed) {
  loop_.post([this, tls = std::move(tls), reviewed = std::move(reviewed)]() mutable {
    admin_tls_ = std::move(tls);
    reviewed_tls_ = std::move(reviewed);
    const auto make = [this](const ShardTls& with) {
      return std::make_unique<topology::ShardPool>(
          loop_, view_, [&with](const std::string& shard, const std::string& url) {
            return upstream_to(url, with.of(shard));
          });
    };
    admin_pool_ = make(admin_tls_);
    if (shared_.config.aggregation.share == aggregation::Share::kReviewed ||
        shared_.config.wildcard == "reviewed") {
      reviewed_pool_ = make(reviewed_tls_);
    }
    handler_->set_own_pool(admin_pool_.get(), reviewed_pool_.get());
  });
}

void ProxyLoop::set_token_files(proxy::AuthenticationConfig config, TokenFiles files) {
  loop_.post([this, config = std::move(config), files = std::move(files)] {
    tokens_of_requests_->take(config, files, *gate_);
    std::pair filter(config.pass_groups, config.drop_groups);
    if (filter != filter_) {
      filter_ = std::move(filter);
      identities_->set_kind(identities_of(config));
    }
  });
}

void ProxyLoop::set_workspace_issuers(proxy::WorkspaceIssuersPtr issuers) {
  loop_.post([this, issuers = std::move(issuers)] {
    tokens_of_requests_->set_workspace_issuers(issuers);
    gate_->judge_again();
  });
}

void ProxyLoop::set_routes(std::shared_ptr<const proxy::RouteTable> routes, bool clusters) {
  loop_.post(
      [this, routes = std::move(routes), clusters] { handler_->set_routes(routes, clusters); });
}

void ProxyLoop::set_shard_tls(ShardTls backend, ShardTls admin, ShardTls reviewed) {
  loop_.post([this, backend = std::move(backend), admin = std::move(admin),
              reviewed = std::move(reviewed)] {
    backend_tls_ = backend;
    const bool is_static = own_pool_ != nullptr;
    for (const auto* pool : {&pool_, &own_pool_, &reviewed_pool_}) {
      if (*pool != nullptr && (pool != &reviewed_pool_ || is_static)) {
        (*pool)->set_tls([this](const std::string& shard) { return backend_tls_.of(shard); });
      }
    }
    if (admin.common != nullptr && admin_pool_ != nullptr) {
      admin_tls_ = admin;
      reviewed_tls_ = reviewed;
      admin_pool_->set_tls([this](const std::string& shard) { return admin_tls_.of(shard); });
      if (reviewed_pool_ != nullptr) {
        reviewed_pool_->set_tls(
            [this](const std::string& shard) { return reviewed_tls_.of(shard); });
      }
    }
  });
}

void ProxyLoop::block(const std::string& shard) {
  loop_.post([this, shard] {
    pool_->for_each([&](topology::ShardId /*id*/, shards::ShardClient& client) {
      if (client.name() == shard) {
        static_cast<void>(client.set_base_url({}));  // made again when it is trusted
      }
    });
  });
}

void ProxyLoop::set_plain_servers(ShardTls backend, ImpersonationTokens tokens) {
  loop_.post([this, both = std::pair(std::move(backend), std::move(tokens))] {
    std::tie(backend_tls_, tokens_) = both;
  });
}

void ProxyLoop::shed() {
  loop_.post([this] {
    serving::MemoryPressure& pressure = *shared_.pressure;
    const bool all = pressure.step() >= serving::ShedStep::kConnections;
    if (pressure.step() >= serving::ShedStep::kWatches) {
      pressure.count(serving::ShedStep::kWatches,
                     handler_->shed_watches(kShedWatches, all) +
                         apiserver::shed_watches(*local_, kShedWatches, all));
    }
    if (all && listener_ != nullptr) {
      pressure.count(serving::ShedStep::kConnections, listener_->shed_idle(kShedConnections));
    }
  });
}

void ProxyLoop::send_watches_away(std::size_t most, std::function<void(std::size_t open)> done) {
  loop_.post([this, most, done = std::move(done)] {
    handler_->send_watches_away(most);
    done(handler_->open_watches());
  });
}

void ProxyLoop::set_audit_policy(std::shared_ptr<const auth::AuditPolicy> policy) {
  loop_.post([this, policy = std::move(policy)] { audit_->set_policy(policy); });
}

void ProxyLoop::set_slots(aggregation::SlotHistoryPtr slots, aggregation::TokenKeys keys) {
  loop_.post([this, slots = std::move(slots), keys = std::move(keys)] {
    if (!keys.empty()) {
      apiserver::seal_continue_tokens(*local_, keys);
    }
    handler_->set_slots(slots, keys);
  });
}

void ProxyLoop::set_limits(const proxy::ForwardLimits& limits) {
  loop_.post([this, limits] { handler_->set_limits(limits); });
}

void ProxyLoop::join() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

void ProxyLoop::review(auth::Attributes asked, auth::Authorizer::Done done) {
  loop_.post([this, asked = std::move(asked), done = std::move(done)] {
    auth::Authorizer& rights =
        own_root_ != nullptr ? static_cast<auth::Authorizer&>(*own_root_) : *reviews_;
    rights.authorize(asked, done);
  });
}

void ProxyLoop::ask_groups(const std::string& cluster, proxy::GroupOwners::Done done) {
  loop_.post([this, cluster, done = std::move(done)] {
    if (const auto known = owners_->known(cluster)) {
      done(*known);
    } else {
      owners_->ask(cluster, done);
    }
  });
}

}  // namespace kintsugi::server
