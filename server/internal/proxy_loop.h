#pragma once

#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "aggregation/watch/stream_share.h"
#include "apiserver/server.h"
#include "auth/certificate_proofs.h"
#include "auth/x509_identity.h"
#include "base/memory_budget.h"
#include "base/memory_limit.h"
#include "kinds/registry.h"
#include "net/listener.h"
#include "net/loop.h"
#include "net/outgoing.h"
#include "proxy/admin/admin.h"
#include "proxy/config/config.h"
#include "proxy/console/console_requests.h"
#include "proxy/forwarding/backend_trust.h"
#include "proxy/forwarding/goaway.h"
#include "proxy/gates/access_gate.h"
#include "proxy/gates/audit_gate.h"
#include "proxy/gates/bind_check.h"
#include "proxy/gates/cors.h"
#include "proxy/gates/existence_gate.h"
#include "proxy/gates/limit_gate.h"
#include "proxy/gates/watch_start_gate.h"
#include "proxy/handler.h"
#include "proxy/overlay/overlay.h"
#include "proxy/reviews/shard_reviews.h"
#include "proxy/routing/own_root.h"
#include "proxy/routing/request.h"
#include "server/internal/proxy_files.h"
#include "server/internal/proxy_tokens.h"
#include "serving/crowded.h"
#include "serving/memory_pressure.h"
#include "serving/process_limits.h"
#include "serving/trace_gate.h"
#include "store/store.h"
#include "topology/identities.h"
#include "topology/shard_pool.h"
#include "topology/snapshot.h"

namespace kintsugi::server {

/// Who a client's certificate says asks.
[[nodiscard]] auth::CertificateProofs::Kind identities_of(
    const proxy::AuthenticationConfig& config);

/// Partition, PartitionSet and APIExportEndpointSlice; Shards in root with `own_shards`.
/// @param slice APIExportEndpointSlice with its admission; null: nothing has to be admitted.
/// @param groups  those that the proxy may have to serve.
[[nodiscard]] std::unique_ptr<kinds::StaticPlusCrdRegistry> proxy_registry(
    apiserver::ResourcePtr slice, bool own_shards = false, proxy::LocalGroups groups = {});

class ProxyLoop;
using ControlText = std::function<void(std::function<void(std::string text)> done)>;

/// What all loops share and nobody changes after start.

struct ProxyShared {
  const proxy::ProxyConfig& config;
  store::Store& store;
  topology::SnapshotPublisher& publisher;
  std::shared_ptr<net::TlsContext> serving_tls;  ///< at start; see ProxyLoop::set_serving_tls
  ShardTls backend_tls;                          ///< the same: request-header pairs
  ImpersonationTokens tokens;                    ///< the same
  std::shared_ptr<const proxy::RouteTable> routes = {};        ///< the same
  TokenFiles token_files = {};                                 ///< the same
  std::shared_ptr<const auth::AuditPolicy> audit_policy = {};  ///< the same
  proxy::AuditGate::Write audit = {};                          ///< empty: no log. Any thread.
  proxy::AccessGate::Write access_log = {};                    ///< the same
  std::shared_ptr<const auth::ReloadableCertificateVerifier> verifier;
  std::shared_ptr<net::ListenerGroup> group;
  std::shared_ptr<const net::OutgoingPolicy> outgoing = nullptr;
  std::function<bool()> ready;
  std::string instance;
  std::uint32_t loop_count = 1;
  std::shared_ptr<const proxy::BackendTrust> trust = {};  ///< null: all servers are trusted
  /// @{ Texts that the control thread makes; see ProxyHandlerParams. Any thread; `done` runs there.
  ControlText metrics = {}, why_not_ready = {};  /// @}
  proxy::ConsoleDoor console = {};               ///< with `ui.enabled`
  /// A shard lost revisions. Any thread.
  std::function<void(const std::string& uid)> rolled_back = {};
  std::vector<ProxyLoop*> loops = {};  ///< complete before any of them runs
  /// Nothing was stored by an earlier process: no client can hold what one has sent.
  bool first_start = false;
  std::shared_ptr<aggregation::QueueBudget> queue_budget =
      std::make_shared<aggregation::QueueBudget>(
          config.merge.queue_total != 0 ? config.merge.queue_total : memory_limit() / 4);
  std::shared_ptr<MemoryBudget> memory = std::make_shared<MemoryBudget>(
      config.memory_budget != 0 ? config.memory_budget : memory_limit() / 4 * 3);
  std::shared_ptr<serving::MemoryPressure> pressure =
      std::make_shared<serving::MemoryPressure>(config.memory_budget);
  std::shared_ptr<serving::ProcessLimits> limits = std::make_shared<serving::ProcessLimits>(
      serving::FairLimits{
          .seats = config.seats != 0 ? config.seats : serving::ProcessLimits::seats_at_proxy(),
          .total = config.total_seats != 0
                       ? config.total_seats
                       : std::max<std::size_t>(serving::ProcessLimits::total_at_proxy(),
                                               std::size_t{2} * config.seats),
          .least = serving::ProcessLimits::kLeastAtProxy},
      config.request_limits, loop_count, config.payer_bounds(),
      config.open_limits.of_connections());
  std::shared_ptr<aggregation::ReadGate> list_gate = std::make_shared<aggregation::ReadGate>(
      aggregation::ReadGate::for_lists(config.merge.list_streams));
  std::shared_ptr<aggregation::ReadGate> initial_gate =
      std::make_shared<aggregation::ReadGate>(aggregation::ReadGate::for_initial_events());
  std::shared_ptr<topology::Identities> identities = std::make_shared<topology::Identities>();
  std::shared_ptr<aggregation::StreamHomes> homes = std::make_shared<aggregation::StreamHomes>();
  std::shared_ptr<aggregation::SequenceBook> sequences =
      std::make_shared<aggregation::SequenceBook>(
          aggregation::SequenceBook::Limits{.bytes = config.merge.sequence_bytes});
  std::shared_ptr<aggregation::MoveBook> moves = std::make_shared<aggregation::MoveBook>();
  /// What is known of the shards' discovery.
  std::shared_ptr<aggregation::DocumentCache> documents =
      std::make_shared<aggregation::DocumentCache>();
};

/// One data loop: listener, pools, local API server, handler. Made on the control thread before its
/// own thread runs.
class ProxyLoop {
 public:
  ProxyLoop(int index, ProxyShared& shared);
  ~ProxyLoop();
  ProxyLoop(const ProxyLoop&) = delete;
  ProxyLoop& operator=(const ProxyLoop&) = delete;

  /// @param port 0: chosen. @error kConfig, kIo: the address cannot be had.
  /// @param inherited  a socket of net::take_inherited_sockets(), whose connections wait until
  ///                   accept(); -1: none
  [[nodiscard]] Expected<std::uint16_t> listen(std::uint16_t port, int inherited);
  /// From now on. Any thread.
  void accept();
  void start();
  /// The credentials of reviews, and of reads that were reviewed, are known now. Any thread.
  void start_reviews(ShardTls tls, ShardTls reviewed);
  /// @{ New connections use these. Any thread.
  void set_serving_tls(std::shared_ptr<net::TlsContext> tls);
  void set_shard_tls(ShardTls backend, ShardTls admin, ShardTls reviewed);
  /// @}
  /// Methods for requests that begin from now on. Any thread.
  void set_token_files(proxy::AuthenticationConfig config, TokenFiles files);
  /// What workspace types say of issuers. Any thread.
  void set_workspace_issuers(proxy::WorkspaceIssuersPtr issuers);
  /// The mapping file as it is now, and whether it serves logical clusters. Any thread.
  void set_routes(std::shared_ptr<const proxy::RouteTable> routes, bool clusters);
  /// How plain servers are reached; connections that there are stay until the snapshot says that
  /// the way to their server is another. Any thread.
  void set_plain_servers(ShardTls backend, ImpersonationTokens tokens);
  /// No caller is sent to this shard any more, as long as ProxyShared::trust says so. Any thread.
  void block(const std::string& shard);
  /// For requests that begin from now on. Any thread.
  /// Memory runs short: gives up what MemoryPressure::step() says.
  void shed();
  /// Ends up to `most` watches of shards in order, with their connections (GR-213). Any thread;
  /// `done` runs on this loop with how many are open then.
  void send_watches_away(std::size_t most, std::function<void(std::size_t open)> done);
  void set_audit_policy(std::shared_ptr<const auth::AuditPolicy> policy);
  /// What cursors and continue tokens mean from now on. Any thread.
  void set_slots(aggregation::SlotHistoryPtr slots, aggregation::TokenKeys keys);
  /// For requests that begin from now on. Any thread.
  void set_limits(const proxy::ForwardLimits& limits);
  /// Readiness fails; after `delay` nothing new is accepted and streams end in order, watches
  /// within `spread`. `done` runs on this loop when no connection is left.
  void drain(Duration delay, Duration spread, std::function<void()> done);
  void stop() { loop_.stop(); }
  void join();
  /// The proxy's groups in a logical cluster, with a group of mode auto. Any thread; `done` runs on
  /// this loop, once.
  void ask_groups(const std::string& cluster, proxy::GroupOwners::Done done);
  /// Whether somebody may, as for what the proxy serves itself. Any thread; `done` runs on this
  /// loop, once.
  void review(auth::Attributes asked, auth::Authorizer::Done done);
  /// Any thread; `done` runs on this loop.
  void report(proxy::ReportPart part, std::function<void(proxy::LoopReport)> done);
  [[nodiscard]] net::Loop& loop() noexcept { return loop_; }

 private:
  /// What the proxy asks for itself with `share: reviewed` (source `static`).
  void make_own_pools();
  [[nodiscard]] Expected<void> open_listener(net::ListenerParams params);
  [[nodiscard]] std::unique_ptr<topology::ShardPool> make_static_pool();
  [[nodiscard]] proxy::ProxyHandlerParams::Text on_control(const ControlText& text);
  void recheck_watches();
  void end_unproven();
  void find_deliveries(const std::string& key, std::uint64_t revision, std::vector<bool> members,
                       std::function<void(aggregation::ResumeRing::Found)> found);

  ProxyShared& shared_;
  net::Loop loop_;
  const TimePoint made_at_ = Clock::now();
  std::shared_ptr<topology::SnapshotView> view_;
  const bool first_;  // of all loops
  ShardTls backend_tls_;
  ImpersonationTokens tokens_;
  ShardTls admin_tls_, reviewed_tls_;
  std::unique_ptr<topology::ShardPool> pool_;
  std::unique_ptr<topology::ShardPool> admin_pool_;
  std::unique_ptr<topology::ShardPool> own_pool_;       ///< source `static`, as the proxy itself
  std::unique_ptr<topology::ShardPool> reviewed_pool_;  ///< with `share: reviewed`
  std::unique_ptr<proxy::ShardReviews> reviews_;
  std::unique_ptr<proxy::OwnRootAuthorizer> own_root_;  ///< source `objects`
  std::unique_ptr<proxy::BindCheck> binds_;
  std::unique_ptr<proxy::GroupOwners> owners_;  ///< with groups of mode auto
  std::unique_ptr<proxy::StampedAuthenticator> authenticator_;
  std::unique_ptr<kinds::StaticPlusCrdRegistry> registry_;
  std::unique_ptr<apiserver::ApiServer> local_;
  std::unique_ptr<proxy::Overlay> overlay_;
  std::unique_ptr<proxy::ConsoleRequests> console_;  ///< null: not configured
  std::unique_ptr<proxy::ProxyHandler> handler_;
  std::unique_ptr<ProxyTokens> tokens_of_requests_;
  std::unique_ptr<proxy::ExistenceGate> existence_;  ///< null: nothing is hidden
  std::unique_ptr<proxy::WatchStartGate> watch_starts_;
  std::unique_ptr<proxy::LimitGate> limit_;
  serving::CrowdedHandler crowded_;
  std::unique_ptr<proxy::AuditGate> audit_;
  std::unique_ptr<proxy::TokenGate> gate_;
  std::unique_ptr<proxy::CorsHandler> cors_;      ///< null: not configured
  std::unique_ptr<proxy::GoawayHandler> goaway_;  ///< null: not configured
  std::unique_ptr<proxy::AccessGate> access_;     ///< null: there is no access log
  std::unique_ptr<serving::TraceGate> trace_;     ///< null: no spans are collected
  std::unique_ptr<proxy::Entrance> entrance_;
  std::unique_ptr<auth::CertificateProofs> identities_;
  std::pair<std::vector<std::string>, std::vector<std::string>> filter_;  ///< groups of identities_
  std::unique_ptr<net::Listener> listener_;                               ///< null: not yet
  std::unique_ptr<net::ListenerParams> later_;  ///< of the one that accept() opens
  net::Timer drain_timer_, recheck_timer_;
  std::thread thread_;
};

}  // namespace kintsugi::server
