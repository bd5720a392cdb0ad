#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "aggregation/documents/merged_document.h"
#include "aggregation/merge_loop.h"
#include "aggregation/rights/reviewer.h"
#include "aggregation/watch/group_log.h"
#include "auth/authenticator.h"
#include "auth/authorizer.h"
#include "auth/request_header.h"
#include "base/alive.h"
#include "http/handler.h"
#include "net/loop.h"
#include "proxy/forwarding/admission.h"
#include "proxy/forwarding/backend_requests.h"
#include "proxy/forwarding/cluster_requests.h"
#include "proxy/forwarding/forward.h"
#include "proxy/merged/merged_requests.h"
#include "proxy/routing/group_owners.h"
#include "proxy/routing/late_routes.h"
#include "proxy/routing/local_kinds.h"
#include "proxy/routing/mount_route.h"
#include "proxy/routing/request.h"
#include "proxy/routing/route_table.h"
#include "proxy/routing/router.h"
#include "topology/resolver.h"
#include "topology/shard_pool.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// Why requests got E1, by topology::NotFoundReason; the client is never told.
struct LookupStats {
  std::uint64_t resolved = 0, not_known = 0, unavailable = 0;
  std::uint64_t not_found[8] = {};
};

/// Merges the local part into a shard's discovery document; see proxy/overlay/overlay.h.
class Overlay;
class ConsoleRequests;

struct ProxyHandlerParams {
  net::Loop& loop;
  std::shared_ptr<topology::SnapshotView> view;
  topology::ShardPool& pool;
  /// Answers the kinds that the proxy serves. Gets requests with target /clusters/<name>/… and
  /// stamped identity headers.
  http::Handler& local;
  Overlay& overlay;
  /// Asked for non-resource permissions in root (/shards/<shard>/clusters/…).
  auth::Authorizer& authorizer;
  /// Whom the shard of root takes the bearer of a token for that only shards can judge; for what
  /// the proxy answers to itself. Null: nobody is asked.
  auth::Authenticator* token_reviews = nullptr;
  auth::RequestHeaderConfig identity_headers;
  ForwardLimits limits;
  MountRules mounts = {};
  GroupModes groups = {};
  GroupOwners* owners = nullptr;                  ///< with a group of mode kAuto
  std::shared_ptr<const RouteTable> routes = {};  ///< of a mapping file; see set_routes
  bool clusters = true;                           ///< /clusters/… is served (set_routes)
  std::string instance;                           ///< for Via; the same in every loop of a process
  /// Kinds that the proxy stores are listed and watched at /clusters/* too.
  bool wildcard = false;
  /// Of kcp's shards they are read with the proxy's own credential by whom root allows it (FP-163).
  bool wildcard_reviewed = false;
  std::shared_ptr<const topology::Identities> identities = {};  ///< of kcp's own exports
  aggregation::MergeOptions merge_options = {};
  aggregation::MergeParams merge_params = {};
  aggregation::FindDeliveries find_deliveries = {};
  /// A shard lost revisions that clients have seen.
  std::function<void(const std::string& uid)> rolled_back = {};
  std::shared_ptr<aggregation::ReadGate> list_gate =
      nullptr;  ///< of the process; nullptr: one per handler
  std::shared_ptr<aggregation::ReadGate> initial_gate = nullptr;     ///< the same
  std::shared_ptr<aggregation::QueueBudget> queue_budget = nullptr;  ///< the same
  std::shared_ptr<MemoryBudget> memory = nullptr;  ///< the same; nullptr: without a bound
  std::shared_ptr<serving::ProcessLimits> process_limits = nullptr;  ///< the same
  std::shared_ptr<aggregation::StreamHomes> homes =
      nullptr;  ///< of the process, if it has several loops
  std::shared_ptr<aggregation::SequenceBook> sequences = nullptr;  ///< the same
  std::shared_ptr<aggregation::MoveBook> moves = nullptr;          ///< the same
  /// What all loops know of the shards' discovery. Null: this one keeps its own.
  std::shared_ptr<aggregation::DocumentCache> documents = {};
  /// The proxy serves root, which no shard has to own (sources `objects` and `static`).
  bool own_root = false;
  /// /healthz and /version are built in; with kcp's answers they are nobody's (FP-141).
  bool info = true;
  /// So long requests to unknown clusters wait for the topology; zero: not at all.
  Duration late_routes{};
  /// A Partition as it is stored; nullopt: there is none. Empty: there are none at all.
  std::function<std::optional<krm::Json>(std::string_view cluster, std::string_view name)>
      partition;
  std::function<bool()> ready;  ///< informer-sync
  /// Whether the kinds that are stored here can be written; /readyz tells, and fails for it with
  /// `?strict` only (GR-204). Empty: yes.
  std::function<bool()> writable = {};
  /// Whether it is known whom shards take the proxy for: before, nothing is forwarded. Empty: yes.
  std::function<bool()> trusted = {};
  /// A text that is made elsewhere; `done` runs on this loop, now or later, once at most.
  using Text = std::function<void(std::function<void(const std::string& text)> done)>;
  Text metrics;             ///< of /metrics; "": there is none yet
  Text why_not_ready = {};  ///< for who may read /readyz. May be empty.
  /// Answers what is asked at /ui; see end_watches() too. Null: nobody does.
  ConsoleRequests* console = nullptr;
};

/// What stands behind all gates on one loop: asks the router where a request goes, and lets those
/// who know how take it there (docs/architecture.md).
class ProxyHandler final : public RoutedHandler {
 public:
  explicit ProxyHandler(ProxyHandlerParams params);
  ~ProxyHandler() override { params_.pool.on_moved({}); }
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override;
  [[nodiscard]] const ForwardStats& forward_stats() const noexcept { return forward_.stats; }
  [[nodiscard]] const net::BodyGate& bodies() const noexcept { return forward_.bodies; }
  /// Whom a request is charged to (SE-071).
  [[nodiscard]] net::BodyPayer payer_of(const http::PeerInfo& peer,
                                        const http::HeaderList& headers) const {
    return proxy::payer_of(forward_, peer, headers);
  }
  [[nodiscard]] const LookupStats& lookup_stats() const noexcept { return lookup_stats_; }
  /// Reports of shards about slices that were answered and not stored, by shard.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& ignored_applies() const noexcept {
    return of_clusters_.ignored_applies();
  }
  /// /readyz fails from now on.
  void start_drain() noexcept { draining_ = true; }
  /// Ends forwarded watches in order within about `spread`.
  void end_watches(Duration spread) { forward_.watches.start(spread); }
  /// Memory runs short: ends some forwarded watches that nobody reads. @returns how many.
  std::size_t shed_watches(std::size_t most, bool all) { return forward_.watches.shed(most, all); }
  /// Ends some of them in order, so that their clients come back by other connections (GR-213).
  void send_watches_away(std::size_t most) { forward_.watches.send_away(most); }
  /// Forwarded and merged ones that run.
  [[nodiscard]] std::size_t open_watches() const noexcept { return forward_.watches.size(); }
  /// The same, told of.
  void list_watches(serving::WatchList& into) const { forward_.list_watches(into); }
  /// Proofs of identities have ended: what rests on them ends in order (SE-042).
  void end_unproven() { forward_.end_unproven(); }
  /// What cursors and continue tokens mean.
  void set_slots(aggregation::SlotHistoryPtr slots, aggregation::TokenKeys keys);
  /// Connections with the proxy's own credential, for reviews, and for reads that were reviewed;
  /// they must outlive the handler. @param reviewed  null: the same
  void set_own_pool(topology::ShardPool* own, topology::ShardPool* reviewed = nullptr) noexcept {
    merge_.asking.own_pool = documents_.own_pool = reviewed != nullptr ? reviewed : own;
    if (merge_.reviewer != nullptr) {
      merge_.reviewer->use_pool(own);
    }
  }
  [[nodiscard]] const aggregation::MergeStats& merge_stats() const noexcept {
    return merge_.asking.stats;
  }
  /// Of the slot table that cursors are made with.
  [[nodiscard]] std::uint32_t slot_generation() const noexcept {
    return merge_.positions.slots->current().generation;
  }
  /// Null without share: reviewed.
  [[nodiscard]] const aggregation::Reviewer* reviewer() const noexcept {
    return merge_.reviewer.get();
  }
  [[nodiscard]] aggregation::ResumeRing::Found find_delivery(
      const std::string& key, std::uint64_t revision, const std::vector<bool>& members) const {
    return merge_.watches.find_delivery(key, revision, members);
  }
  [[nodiscard]] std::vector<aggregation::GroupReport> merge_groups() const {
    return merge_.watches.report_groups();
  }
  [[nodiscard]] const aggregation::DocumentStats& document_stats() const noexcept {
    return documents_.stats;
  }
  /// For requests that begin from now on. @param clusters false: a mapping file without an entry
  /// for them, requests for clusters are like any other's
  void set_routes(std::shared_ptr<const RouteTable> routes, bool clusters) noexcept {
    routes_ = std::move(routes);
    facts_.mapping = routes_.get();
    facts_.clusters = clusters;
  }
  /// The same.
  void set_limits(const ForwardLimits& limits) { forward_.set_limits(limits); }

 private:
  using Answer = std::unique_ptr<http::RequestHandler>;
  /// What a request has behind it when it is routed again.
  struct Passed {
    bool late = false;        ///< it has waited for its route
    bool counted = false;     ///< its lookup
    bool led = false;         ///< its target is not the client's
    bool identified = false;  ///< identify()
    bool right = false;       ///< Route::takes_right
    bool asked = false;       ///< RouteKind::kAskedFirst
    bool charged = false;     ///< to its logical cluster and shard
  };
  [[nodiscard]] Answer go(Request&& request, http::ResponseStream& stream, Passed passed);
  static void note_route(const Route& route, const http::ResponseStream& stream, AccessNote& note);
  static void note_user(const http::ResponseStream& stream, AccessNote& note);
  /// Of a caller who is known.
  [[nodiscard]] Answer take(Request&& request, http::ResponseStream& stream, Route&& route,
                            Passed passed);
  /// Counts it against what its logical cluster and its shard may have, and goes on.
  [[nodiscard]] Answer charge(Request&& request, http::ResponseStream& stream, Route&& route,
                              Passed passed);
  /// The same to a virtual workspace.
  [[nodiscard]] Answer take_to_service(Request&& request, http::ResponseStream& stream,
                                       Route&& route);
  [[nodiscard]] Answer refuse(const Request& request, http::ResponseStream& stream,
                              const Route& route);
  [[nodiscard]] Answer metrics(Request&& request, http::ResponseStream& stream, const Route& route);
  /// @param who  nullopt: whom the connection says
  [[nodiscard]] Answer metrics_for(std::optional<auth::UserInfo> who, Request&& request,
                                   http::ResponseStream& stream);
  [[nodiscard]] Answer unready(Request&& request, http::ResponseStream& stream);
  [[nodiscard]] Answer probe(Request&& request, http::ResponseStream& stream);
  void count(const Route& route);
  void warn_of_mount(std::string_view url);

  ProxyHandlerParams params_;
  ForwardLoop forward_;
  aggregation::MergeLoop merge_;
  aggregation::DocumentLoop documents_;
  LateRoutes late_;
  LookupStats lookup_stats_;
  std::shared_ptr<const RouteTable> routes_;
  RouteFacts facts_;      ///< of requests as they come
  RouteFacts led_facts_;  ///< of targets that are not the client's: no mapping file counts
  Admission admission_;
  ClusterRequests of_clusters_;
  BackendRequests of_backends_;
  MergedRequests of_several_;
  std::set<std::string, std::less<>> warned_mounts_;  ///< URLs
  bool draining_ = false;
  Alive alive_;
};

}  // namespace kintsugi::proxy
