#include "controlplane/internal/shard_loop.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "apiserver/body_bounds.h"
#include "apiserver/continue_keys.h"
#include "apiserver/memory_bounds.h"
#include "apiserver/request_bounds.h"
#include "apiserver/tenant_rules.h"
#include "auth/own_roles.h"
#include "controlplane/admission/binding_admission.h"
#include "controlplane/admission/definition_admission.h"
#include "controlplane/admission/logical_cluster_admission.h"
#include "controlplane/admission/reserved_metadata.h"
#include "controlplane/catalog/shard_kinds.h"
#include "controlplane/clusters/cluster_resolver.h"
#include "controlplane/clusters/trust.h"
#include "controlplane/internal/abuse_totals.h"
#include "controlplane/internal/kcp_groups.h"
#include "controlplane/internal/names.h"
#include "controlplane/internal/store_checks.h"
#include "controlplane/moves/own_program.h"
#include "controlplane/quotas/workspace_quotas.h"
#include "controlplane/views/claim_labels.h"
#include "kinds/builtin_admission.h"
#include "kinds/builtin_kinds.h"
#include "kinds/policies/param_rights.h"
#include "kinds/rbac/rbac_escalation.h"
#include "kinds/reviews/reviews.h"
#include "krm/path_prefixes.h"
#include "net/outgoing.h"
#include "serving/crowded.h"
#include "serving/memory_pressure.h"

namespace kintsugi::controlplane {
namespace {

constexpr Duration kAbusePeriod = seconds(1);
constexpr std::size_t kShedWatches = 256, kShedConnections = 256;  // of a loop, at once
constexpr std::string_view kRbacGroup = "rbac.authorization.k8s.io";

/// The workspace below root in whose tree a path is; elsewhere the whole path.
std::string tree_of(std::string path) {
  constexpr std::string_view kBelowRoot = "root:";
  if (path.starts_with(kBelowRoot)) {
    path.resize(std::min(path.find(':', kBelowRoot.size()), path.size()));
  }
  return path;
}

kinds::RbacParams rbac_params(bool hides_existence) {
  kinds::RbacParams params;
  params.workspace_access = true;
  params.open_clusters = {std::string(kRootCluster)};
  params.open_clusters_are_read =
      !hides_existence;  // else strangers read what all workspaces are called
  params.mask_reasons = true;
  params.shared_cluster = kLocalAdminCluster;
  return params;
}

auth::RequestAuthenticator::Params credential_params(
    const ShardServerParams& params, std::shared_ptr<auth::TokenAuthenticator> accounts) {
  auth::RequestAuthenticator::Params out;
  out.request_header.allowed_names = params.proxy_names;
  out.tokens = std::move(accounts);
  if (!params.tokens.empty()) {
    if (auto known = auth::TokenFile::parse(params.tokens.view())) {
      out.tokens = std::make_shared<auth::TokenUnion>(
          std::vector<std::shared_ptr<auth::TokenAuthenticator>>{*known, std::move(out.tokens)});
    }
  }
  return out;
}

auth::ServiceAccountTokenConfig token_config(const ShardServerParams& params) {
  auth::ServiceAccountTokenConfig config;
  config.keys = params.account_keys;
  return config;
}

/// Certificates bring no groups that only the system gives, but for peers (KK-315, KK-329): whoever
/// issues certificates to users gives them no right to everybody's Secrets. Roles of our own
/// processes come by certificates alone (SE-148).
auth::CertificateProofs::Kind identities_of_shard(const auth::BorderRules& peers) {
  auth::CertificateProofs::Kind kind = auth::CertificateProofs::plain();
  kind.make = [peers](auth::CertificateIdentity facts) {
    auth::UserInfo brought;
    std::vector<std::string> roles;
    for (std::string& group : facts.organizations) {
      (group.starts_with(auth::kOwnGroupPrefix) ? roles : brought.groups)
          .push_back(std::move(group));
    }
    auth::drop_reserved(brought, auth::IdentityOrigin::kCertificate,
                        peers.is_peer(facts.common_name));
    brought.groups.insert(brought.groups.end(), std::make_move_iterator(roles.begin()),
                          std::make_move_iterator(roles.end()));
    facts.organizations = std::move(brought.groups);
    return std::make_shared<auth::CertificateIdentity>(std::move(facts));
  };
  return kind;
}

}  // namespace

ShardLoop::ShardLoop(net::Loop& loop, store::Store& store, const ShardServerParams& params,
                     std::function<Expected<void>()> ready,
                     std::shared_ptr<const ReplicationReport> replication)
    : loop_(loop),
      store_(store),
      params_(params),
      replication_(std::move(replication)),
      types_(index_, root_, &catalog_),
      homes_(types_, params.name),
      tokens_(std::make_shared<auth::ServiceAccountTokens>(token_config(params))),
      peers_(loop, root_, params.client_tls),
      known_accounts_(loop, account_params()),
      accounts_(std::make_shared<auth::ServiceAccountAuthenticator>(
          auth::ServiceAccountAuthenticator::Params{
              tokens_,
              [this](const auth::ServiceAccountClaims& claims,
                     std::function<void(Expected<void>)> done) {
                known_accounts_.check(claims, std::move(done));
              },
              false,
              {}})),
      type_tokens_(std::make_shared<TypeTokens>(
          loop,
          TypeTokens::Params{
              types_, [this]() -> const apiserver::ObjectReader& { return server_->reader(); },
              [this](std::string_view cluster) { return index_.find_now(cluster) != nullptr; },
              tokens_->default_audiences(),
              std::make_shared<net::Outgoing>(
                  loop, params.outgoing == nullptr ? net::OutgoingPolicy() : *params.outgoing)})),
      rbac_(rbac_params(params.hides_existence)),
      other_rights_(index_, rbac_, [this](std::string_view cluster) { rights_changed(cluster); }),
      policies_(bound_, catalog_, rbac_),
      authorizer_(index_, policies_),
      stand_in_authorizer_(authorizer_),
      authenticator_(credential_params(params, accounts_), !params.hides_existence),
      certificate_proofs_(loop, params.verifier, identities_of_shard(params.peers)),
      token_proofs_(
          loop,
          [this](std::string_view token, const std::string& cluster, auth::TokenProofs::Done done) {
            http::RequestHead head;
            head.headers.add("authorization", Secret::joined({"Bearer ", token}).view());
            authenticator_.authenticate(head, auth::bearer_of(head.headers), http::PeerInfo(),
                                        cluster, std::move(done));
          }),
      in_root_([this](std::string_view group, std::string_view resource, std::string_view hash) {
        return root_.is_identity(group, resource, hash);
      }),
      move_steps_(loop, {params.name, store,
                         [this]() -> const apiserver::ObjectReader& { return server_->reader(); }}),
      grace_(loop, [this] { return replication_->is_complete(); }),
      drain_timer_(loop),
      abuse_timer_(loop),
      abuse_slot_(params.abuse->claim()) {
  certificate_proofs_.on_ended([this] { end_unproven(); });
  token_proofs_.on_ended([this] { end_unproven(); });
  make_registry();
  make_views();
  make_server(std::move(ready));
}

ShardLoop::~ShardLoop() {
  grace_.stop();  // what waits there belongs to the server
  drain_timer_.cancel();
  if (listener_ != nullptr) {
    listener_->close();
  }
  if (services_listener_ != nullptr) {
    services_listener_->close();
  }
  services_listener_.reset();
  listener_.reset();
  known_accounts_.stop();
  type_tokens_->stop();
  remote_root_.reset();
  local_root_.reset();
  rights_changes_.clear();
  other_rights_.stop();
  moves_.stop();
  replication_views_->stop();
  schema_views_->stop();
  lifecycle_views_->stop();
  rbac_.stop();
  bindings_.stop();
  catalog_.stop();
  index_.stop();
  bound_.stop();
  own_kinds_->stop();
}

ShardAccounts::Params ShardLoop::account_params() {
  ShardAccounts::Params out;
  out.here = [this](const auth::ServiceAccountClaims& claims,
                    std::function<void(Expected<void>)> done) {
    kinds::make_account_check(server_->reader())(claims, std::move(done));
  };
  out.is_here = [this](std::string_view cluster) { return index_.find_now(cluster) != nullptr; };
  out.others = [this] { return peers_.others(params_.name); };
  out.knows_all = [this] { return root_.synced(); };
  out.issue = [this](const auth::ServiceAccountClaims& claims) { return tokens_->issue(claims); };
  out.send = [this](const std::string& shard, net::FetchRequest request,
                    ShardAccounts::Answered done) {
    peers_.send(shard, std::move(request), std::move(done));
  };
  return out;
}

void ShardLoop::make_registry() {
  const kinds::ReviewParams reviews{
      authorizer_,
      &rbac_,
      std::make_shared<auth::TokenUnion>(
          std::vector<std::shared_ptr<auth::TokenAuthenticator>>{accounts_, type_tokens_}),
      tokens_,
      {}};
  std::vector<kinds::StaticPlusCrdRegistry::StaticKind> kinds;
  for (apiserver::ResourcePtr& kind : kinds::builtin_kinds()) {
    if (kind->group == kRbacGroup) {
      kind = kinds::with_escalation_check(std::move(kind), rbac_);
    } else if (kind->group.empty() && kind->plural == "serviceaccounts") {
      kind = kinds::with_token_subresource(std::move(kind), reviews);
    } else if (kind->plural == "customresourcedefinitions") {
      kind = with_reserved_groups(kind);
      kind = params_.refuses_overlaps ? with_resource_locks(kind) : kind;
    } else {
      kind = kinds::with_param_check(std::move(kind), authorizer_,
                                     [this]() -> const apiserver::Registry& { return *registry_; });
    }
    kinds.push_back({std::move(kind), {}});
  }
  for (apiserver::ResourcePtr& kind : kinds::review_kinds(reviews)) {
    kinds.push_back({std::move(kind), {}});
  }
  for (kinds::StaticPlusCrdRegistry::StaticKind& kind :
       shard_kinds({index_, types_, authorizer_, homes_, catalog_, params_.claims_escalation,
                    [this]() -> const apiserver::Registry& { return *registry_; }, &root_,
                    [this](const std::string&shard, const std::string&cluster,
                           std::function<void(std::string_view)> done) {
                      look_at_destination(shard, cluster, std::move(done));
                    }})) {
    kind.def = with_grace(std::move(kind.def), grace_, index_, types_);
    kinds.push_back(std::move(kind));
  }
  std::stable_sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
    return a.def->group < b.def->group;  // the core group is ""
  });
  own_kinds_ = std::make_unique<kinds::StaticPlusCrdRegistry>(std::move(kinds));
  registry_ = std::make_unique<ShardRegistry>(*own_kinds_, bound_);
  registry_->use(virtuals_);
}

void ShardLoop::look_at_destination(const std::string& shard, const std::string& cluster,
                                    std::function<void(std::string_view why)> done) {
  if (holders_ == nullptr) {
    holders_ = std::make_unique<ShardClusterAccess>(loop_, *server_, params_.name, peers_);
  }
  const auto look = [this, shard, cluster, done = std::move(done)](bool is_other) {
    if (is_other) {
      done(kNotOurProgram);
      return;
    }
    holders_->get(shard, cluster, [done](const Expected<std::optional<krm::Json>>& found) {
      done(found && found->has_value() ? "the logical cluster is there" : "");
    });
  };
  if (shard == params_.name) {
    look(false);
  } else {
    ask_for_other_program(peers_, shard, look);
  }
}

void ShardLoop::make_views() {
  const auto view = [](auto& one) {
    return [&one](const ViewRequest& request) { return one.resolve(request); };
  };
  lifecycle_views_ = std::make_unique<LifecycleViews>(LifecycleViewContext{
      *registry_, authorizer_, rbac_, types_, index_,
      [this]() -> const apiserver::ObjectReader& { return server_->reader(); }});
  lifecycle_views_->add_to(views_);
  export_views_ = std::make_unique<ApiExportViews>(
      ApiExportViews::Sources{catalog_, bindings_, index_, rbac_, *own_kinds_, in_root_});
  schema_views_ = std::make_unique<SchemaViews>(SchemaViews::Sources{bound_, index_, authorizer_});
  views_.add("apiresourceschema", view(*schema_views_));
  replication_views_ = std::make_unique<ReplicationViews>(ReplicationViews::Sources{
      *registry_, catalog_, bindings_, virtuals_, index_, authorizer_, rbac_});
  views_.add("apiexport", replication_views_->wrap_exports(view(*export_views_)));
  views_.add("partitions", view(partition_view_));
  views_.add("moves", view(move_view_));
  views_.add("replication", view(*replication_views_));
}

/// KK-222: an API brings the policies and webhooks of its APIExport's logical cluster.
std::string ShardLoop::rules_of(const apiserver::PendingWrite& write) const {
  const apiserver::ResourceDef& def = *write.kind->def;
  const BoundKinds::From* from = bound_.export_of(write.cluster, def.group, def.plural);
  if (from == nullptr) {
    return write.cluster;
  }
  return index_.find(from->ref.cluster) != nullptr ? from->ref.cluster
                                                   : kinds::replicated_rules(from->ref.cluster);
}

void ShardLoop::make_server(std::function<Expected<void>()> ready) {
  apiserver::ServerParams params{
      loop_,
      fenced_,
      *registry_,
      authenticator_,
      params_.as_kcp ? static_cast<auth::Authorizer&>(stand_in_authorizer_) : authorizer_,
      moves_.wrap(views_.wrap(replication_views_->wrap(make_cluster_resolver(index_)))),
      {}};
  params.server_address = params_.address;
  params.audit = params_.audit;
  params.concurrency = params_.concurrency;
  apiserver::TenantRules tenants;
  tenants.outgoing = params_.outgoing;
  tenants.has_shard_endpoints = true;
  tenants.root = kRootCluster;
  tenants.wide_resource = "customresourcedefinitions";
  tenants.tree_of = [this](std::string_view cluster) { return tree_of(index_.path_of(cluster)); };
  if (params_.hides_existence) {
    tenants.cluster_of = [this](std::string_view segment) {
      const ClusterIndex::Answer answer = index_.resolve(segment);
      return answer.where == ClusterIndex::Where::kHere ? std::string(answer.cluster)
                                                        : std::string();
    };
  }
  add_live_checks(params.checks, store_);
  params.checks.push_back({"crds-loaded", true, [this]() -> Expected<void> {
                             if (!registry_->ready(kRootCluster)) {
                               return fail(Errc::kUnavailable, "definitions are being loaded");
                             }
                             return {};
                           }});
  params.checks.push_back({"informers-synced", true, std::move(ready)});
  params.document = [this](std::string_view api_root, std::string_view path) {
    return document(api_root, path);
  };
  params.admission.push_back(
      reserved_metadata_step([this](std::string_view cluster) { return index_.path_of(cluster); }));
  params.admission.push_back(logical_cluster_step());
  if (store_.books() != nullptr) {
    params.admission.push_back(quota_step(*store_.books(), catalog_));
  }
  params.admission.push_back(claim_labels_step(bindings_, in_root_));
  params.proof = [this](const http::RequestHead& head, const auth::BearerPtr& token,
                        const http::PeerInfo& peer, std::string_view cluster,
                        const auth::UserInfo& requester) {
    return proof_of(head, token, peer, cluster, requester);
  };
  kinds::install_builtin_admission(
      params,
      {[](const apiserver::ResourceDef& def) { return is_kcp_group(def.group); },
       [this](const apiserver::PendingWrite& write) { return rules_of(write); }, params_.outgoing});
  server_ = apiserver::ApiServer::make(std::move(params));
  apiserver::set_tenant_rules(*server_, std::move(tenants));
  apiserver::seal_continue_tokens(*server_, params_.token_keys);
  apiserver::count_watches(*server_, params_.watches);
  if (params_.memory != nullptr) {
    apiserver::bound_bodies(*server_, params_.memory);
  }
  if (params_.limits != nullptr) {
    apiserver::bound_requests(*server_, params_.limits);
  }
  if (params_.pressure != nullptr) {
    apiserver::bound_memory(*server_, params_.pressure);
  }
  homes_.start(*server_);
  // The order is the order in which changes are seen: clusters and kinds before rights.
  index_.start(*server_);
  own_kinds_->follow(*server_);
  bound_.start(*server_);
  policies_.start([this](std::string_view cluster) { server_->review_watches(cluster); });
  catalog_.start(*server_,
                 {[this](std::string_view cluster) {
                    const ClusterInfo* info = index_.find_now(cluster);
                    return info == nullptr ? std::string() : info->path;
                  },
                  [this](std::string_view path) { return index_.resolve(path).cluster; }});
  bindings_.start(*server_);
  virtuals_.start(*server_, catalog_);
  export_views_->start(*server_);
  schema_views_->start(*server_);
  replication_views_->start(*server_);
  authorizer_.use([this](std::string_view cluster) { return moves_.has_just_left(cluster); });
  moves_.start(*server_, [this](std::string_view cluster) { end_watches(cluster); });
  rbac_.start(*server_);
  other_rights_.start(*server_);
  for (const char* resource : {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}) {
    rights_changes_.push_back(server_->on_change(
        kRbacGroup, resource,
        [this](const apiserver::ApiServer::Change& change) { rights_changed(change.cluster); }));
  }
  rights_changes_.push_back(
      server_->on_change("", "serviceaccounts", [this](const apiserver::ApiServer::Change& change) {
        if (change.object == nullptr) {
          token_proofs_.ask_all();
        }
      }));
  index_.listen([this](const ClusterInfo* now, const ClusterInfo* before) {
    const bool closes = now == nullptr || (now->inactive && !before->inactive);
    if (before != nullptr && closes) {
      end_watches(before->name);
    } else if (before != nullptr && (now->required_groups != before->required_groups ||
                                     now->asks_for_groups != before->asks_for_groups)) {
      server_->review_watches(now->name);
    }
  });
  lifecycle_views_->start(*server_);
  if (params_.name == kRootCluster) {
    local_root_ = std::make_unique<LocalRootFeed>(*server_, root_);
  } else {
    remember_root();
    remote_root_ = std::make_unique<RemoteRootFeed>(loop_, root_, params_.root);
  }
  if (params_.outgoing != nullptr) {
    root_.listen([this] {
      std::vector<std::string> hosts;
      for (const auto& [name, shard] : root_.shards()) {
        if (auto url = net::Url::parse(shard.base_url)) {
          hosts.push_back(std::move(url->host));
        }
      }
      params_.outgoing->own->set_hosts(std::move(hosts));
    });
  }
  handler_ = std::make_unique<ShardHandler>(*server_, index_, in_root_, params_.hides_existence,
                                            params_.audit);
  if (params_.as_kcp) {
    stand_in_ = std::make_unique<StandInHandler>(*handler_, false);
    stand_in_services_ = std::make_unique<StandInHandler>(*handler_, true);
  }
}

/// Until the root shard answers, what was copied from it holds.
void ShardLoop::remember_root() {
  const auto remember = [this](RootView::Part part, std::string_view resource) {
    server_->reader().list(kRootCluster, kinds::kReplicaGroup, resource, "",
                           [&](const krm::Json& object) {
                             root_.remember(part, object.text({"metadata", "name"}), object);
                             return true;
                           });
  };
  remember(RootView::Part::kShards, kShards);
  remember(RootView::Part::kTypes, kWorkspaceTypes);
  remember(RootView::Part::kExports, kApiExports);
}

void ShardLoop::shed() {
  using serving::ShedStep;
  serving::MemoryPressure& pressure = *params_.pressure;
  const bool all = pressure.step() >= ShedStep::kConnections;
  if (pressure.step() >= ShedStep::kWatches) {
    pressure.count(ShedStep::kWatches, apiserver::shed_watches(*server_, kShedWatches, all));
  }
  if (all) {
    pressure.count(ShedStep::kConnections, listener_->shed_idle(kShedConnections));
  }
}

void ShardLoop::rights_changed(std::string_view cluster) {
  if (cluster == kLocalAdminCluster) {
    server_->review_all_watches();
  } else {
    server_->review_watches(cluster);
  }
  policies_.rights_changed(cluster);
  export_views_->rights_changed(cluster);
}

void ShardLoop::end_watches(std::string_view cluster) {
  for (const apiserver::ResourcePtr& kind : registry_->all(cluster)) {
    server_->end_watches(cluster, kind->group, kind->plural);
  }
}

void ShardLoop::end_unproven() {
  if (listener_ != nullptr) {
    listener_->review();
  }
  server_->end_unproven();
}

auth::ProofPtr ShardLoop::proof_of(const http::RequestHead& head, const auth::BearerPtr& token,
                                   const http::PeerInfo& peer, std::string_view cluster,
                                   const auth::UserInfo& requester) {
  auth::RequestHeaderConfig config;
  config.allowed_names = params_.proxy_names;
  if (token == nullptr || token->text().empty() ||
      auth::is_known_by_connection(head.headers, peer, config)) {
    return auth::proof_of(peer);
  }
  std::shared_ptr<auth::Proof> proof = token_proofs_.begin();
  token_proofs_.follow(proof, *token, cluster, requester);
  return proof;
}

Expected<void> ShardLoop::listen(std::uint16_t port, bool shared_port) {
  net::ListenerParams params;
  params.address = params_.address;
  params.port = port;
  params.reuse_port = shared_port;
  params.tls = params_.server_tls;
  certificate_proofs_.serve(params);
  params.speaks_for_many = [](const http::PeerInfo& peer) {
    const auth::CertificateIdentity* certificate = auth::certificate_of(peer);
    return certificate != nullptr && certificate->valid && certificate->from_request_header_ca;
  };
  if (params_.limits != nullptr) {
    params.book = params_.limits->connections();
    params.owner = [](const http::PeerInfo& peer) {
      const auth::CertificateIdentity* certificate = auth::certificate_of(peer);
      if (certificate == nullptr || !certificate->valid) {
        return net::ConnectionOwner();
      }
      if (certificate->from_request_header_ca) {
        return net::ConnectionOwner{{}, true};
      }
      auth::UserInfo user;
      user.name = certificate->common_name;
      user.groups = certificate->organizations;
      return serving::owner_of(&user, peer);
    };
    params.crowded = &crowded_;
  }
  if (stand_in_ != nullptr) {
    net::ListenerParams services = params;
    services.port = 0;
    auto listener = net::Listener::open(loop_, std::move(services), *stand_in_services_);
    if (!listener) {
      return fail(std::move(listener.error()));
    }
    services_listener_ = std::move(*listener);
  }
  http::Handler& handler = stand_in_ != nullptr ? static_cast<http::Handler&>(*stand_in_)
                                                : static_cast<http::Handler&>(*handler_);
  if (params_.tracing) {
    trace_ = std::make_unique<serving::TraceGate>(*params_.tracing, handler);
  }
  auto listener =
      net::Listener::open(loop_, std::move(params), trace_ != nullptr ? *trace_ : handler);
  if (!listener) {
    return fail(std::move(listener.error()));
  }
  listener_ = std::move(*listener);
  tell_abuse();
  return {};
}

void ShardLoop::put_abuse() const {
  if (listener_ != nullptr) {
    http::AbuseCounters counters = listener_->stats().abuse;
    counters.counts[static_cast<std::size_t>(http::Abuse::kSlowBody)] +=
        apiserver::body_counts(*server_).late;
    params_.abuse->put(abuse_slot_, counters);
  }
}

void ShardLoop::tell_abuse() {
  put_abuse();
  abuse_timer_.start(kAbusePeriod, [this] { tell_abuse(); });
}

void ShardLoop::drain(Duration limit, std::function<void()> done) {
  auto once = std::make_shared<std::function<void()>>(std::move(done));
  const auto finish = [once] {
    if (const auto call = std::exchange(*once, nullptr)) {
      call();
    }
  };
  drain_timer_.start(limit, [this, finish] {
    listener_->close();
    finish();
  });
  server_->start_drain();
  listener_->drain(finish);
}

}  // namespace kintsugi::controlplane
