#include "controlplane/controllers/shard_controllers.h"

#include <utility>

#include "base/log.h"
#include "base/time.h"
#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

constexpr Duration kMovesPeriod = std::chrono::minutes(10);
constexpr Duration kFencesPeriod = seconds(1);

kinds::ControllerParams common_params(const ShardServerParams& params, ShardLoop& parts) {
  ClusterIndex& index = parts.index();
  kinds::ControllerParams out;
  out.token_secrets.root_ca_pem = params.root_ca_pem;
  out.token_secrets.issue = [&parts](const auth::ServiceAccountClaims& claims) {
    return parts.tokens().issue(claims);
  };
  out.namespace_defaults.root_ca_pem = params.root_ca_pem;
  out.namespace_defaults.wanted = [&index](std::string_view cluster) {
    const ClusterInfo* info = index.find(cluster);
    return info != nullptr && !info->deleting;
  };
  return out;
}

/// @param port  0: they are where everything is
std::string services_url(const std::string& base_url, std::uint16_t port) {
  return port == 0 ? std::string()
                   : base_url.substr(0, base_url.rfind(':') + 1) + std::to_string(port);
}

Expected<net::UpstreamParams> replication_upstream(const std::string& base_url,
                                                   std::shared_ptr<net::TlsContext> tls) {
  Expected<net::Url> url = net::Url::parse(base_url);
  if (!url) {
    return fail(std::move(url.error()));
  }
  net::UpstreamParams params;
  params.url = std::move(*url);
  params.tls = std::move(tls);
  return params;
}

}  // namespace

ShardControllers::ShardControllers(ShardLoop& parts, store::Store& store, const store::Fence& fence,
                                   const ShardServerParams& params, const std::string& base_url,
                                   std::shared_ptr<ReplicationReport> replication)
    : parts_(parts),
      store_(store, fence),
      context_{parts.loop(), parts.server(), parts.registry(),
               std::make_shared<apiserver::CascadeGate>(parts.loop()), fence},
      access_(parts.loop(), parts.server(), params.name, parts.peers()),
      common_(context_, common_params(params, parts)),
      clusters_(
          context_,
          {params.name, store_, parts.index(),
           [url = params.external_url.empty() ? base_url : params.external_url] { return url; },
           [this](std::string_view cluster, bool deleting) { on_content(cluster, deleting); }}),
      identities_(context_, kApisGroup, kApiExports),
      cached_identities_(context_, kCacheGroup, kCachedResources),
      cached_(context_),
      cached_slices_(context_, store_, parts.root(), parts.catalog()),
      bindings_(context_, {store_, parts.catalog(), parts.bound_kinds()}),
      claims_(context_, parts.bindings(), parts.identities_in_root()),
      types_(context_, parts.root()),
      default_bindings_(context_, parts.types(), parts.catalog()),
      scheduler_(context_,
                 {params.name, store_, access_, parts.index(), parts.root(), parts.types()}),
      registration_(parts.loop(),
                    {params.name, base_url, params.external_url, params.labels,
                     services_url(base_url, parts.services_port()), fence},
                    params.name == kRootCluster ? &parts.server() : nullptr,
                    [&parts]() -> net::Upstream* {
                      return parts.remote_root() == nullptr ? nullptr
                                                            : parts.remote_root()->upstream();
                    }),
      replicator_(parts.loop(), {params.name, base_url, store_, parts.root(),
                                 [tls = params.client_tls](const std::string& url) {
                                   return replication_upstream(url, tls);
                                 },
                                 std::move(replication)}),
      cached_replicator_(parts.loop(), {store_, parts.root(),
                                        [tls = params.client_tls](const std::string& url) {
                                          return replication_upstream(url, tls);
                                        }}),
      policy_(context_, bootstrap_policy(), [] {}),
      moves_timer_(parts.loop()),
      fences_timer_(parts.loop()) {
  access_.set_fence(fence);
  access_.use([&moves = parts.moves()](const std::string& cluster) {
    const Fence* fence = moves.fence(cluster);
    return fence != nullptr && fence->left;
  });
  if (params.name == kRootCluster) {
    migrations_ = std::make_unique<MigrationController>(
        context_, MigrationController::Params{params.name, access_, parts.peers(), parts.root(),
                                              parts.move_steps()});
    bootstrap_ = std::make_unique<Bootstrap>(context_, bootstrap_objects(params.name),
                                             [this] { registration_.kick(); });
  }
}

ShardControllers::~ShardControllers() {
  moves_timer_.cancel();
  fences_timer_.cancel();
  registration_.stop();
  if (parts_.remote_root() != nullptr) {
    parts_.remote_root()->on_upstream(nullptr);
  }
}

bool ShardControllers::ready() const noexcept {
  return (bootstrap_ == nullptr || bootstrap_->complete()) && registration_.settled();
}

void ShardControllers::start() {
  common_.start();
  clusters_.start();
  identities_.start();
  cached_identities_.start();
  cached_.start();
  cached_slices_.start();
  bindings_.start();
  claims_.start();
  types_.start();
  default_bindings_.start();
  scheduler_.start();
  if (migrations_ != nullptr) {
    migrations_->start();
  }
  replicator_.start();
  cached_replicator_.start(parts_.server());
  parts_.index().listen(alive_.guard([this](const ClusterInfo* now, const ClusterInfo* before) {
    if (now == nullptr && started_.erase(before->name) > 0) {
      common_.remove_cluster(before->name);
      bindings_.remove_cluster(before->name);
    }
  }));
  for (const std::string& cluster : parts_.index().names()) {
    clusters_.add_cluster(cluster);
  }
  for (const std::string& cluster : parts_.moves().departed()) {
    clusters_.add_cluster(cluster);  // what was not swept yet when it left
  }
  drop_moves();
  end_fences();
  common_.add_cluster(std::string(kLocalAdminCluster));
  policy_.start();
  if (bootstrap_ != nullptr) {
    bootstrap_->start();
  } else {
    parts_.remote_root()->on_upstream([this] { registration_.kick(); });
    registration_.kick();
  }
}

void ShardControllers::drop_moves() {
  parts_.move_steps().drop_ended(unix_seconds());
  moves_timer_.start(kMovesPeriod, [this] { drop_moves(); });
}

void ShardControllers::end_fences() {
  parts_.move_steps().release_overdue(parts_.loop().now());
  fences_timer_.start(kFencesPeriod, [this] { end_fences(); });
}

void ShardControllers::on_content(std::string_view cluster, bool deleting) {
  if (!started_.insert(std::string(cluster)).second) {
    return;
  }
  // Also for one that is being deleted: namespaces and definitions need their controllers to go.
  common_.add_cluster(cluster);
  scheduler_.add_cluster(cluster);
  if (migrations_ != nullptr) {
    migrations_->add_cluster(cluster);
  }
  bindings_.add_cluster(cluster);
  claims_.add_cluster(cluster);
  if (!deleting) {
    identities_.add_cluster(cluster);
    cached_identities_.add_cluster(cluster);
    cached_.add_cluster(cluster);
    cached_slices_.add_cluster(cluster);
    types_.add_cluster(cluster);
    default_bindings_.add_cluster(cluster);
  }
}

}  // namespace kintsugi::controlplane
