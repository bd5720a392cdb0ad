#pragma once

#include <algorithm>
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
#include "aggregation/rights/permit.h"
#include "aggregation/rights/reviewer.h"
#include "auth/authorizer.h"
#include "auth/request_header.h"
#include "http/handler.h"
#include "krm/request_target.h"
#include "net/loop.h"
#include "proxy/forwarding/forward.h"
#include "proxy/routing/group_owners.h"
#include "proxy/routing/late_routes.h"
#include "proxy/routing/local_kinds.h"
#include "proxy/routing/mount_route.h"
#include "proxy/routing/route_table.h"
#include "proxy/routing/service_route.h"
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
  std::shared_ptr<aggregation::StreamHomes> homes =
      nullptr;  ///< of the process, if it has several loops
  std::shared_ptr<aggregation::SequenceBook> sequences = nullptr;  ///< the same
  std::shared_ptr<aggregation::MoveBook> moves = nullptr;          ///< the same
  /// What all loops know of the shards' discovery. Null: this one keeps its own.
  std::shared_ptr<aggregation::DocumentCache> documents = {};
  /// The proxy serves root, which no shard has to own (sources `objects` and `static`).
  bool own_root = false;
  /// So long requests to unknown clusters wait for the topology; zero: not at all.
  Duration late_routes{};
  /// A Partition as it is stored; nullopt: there is none. Empty: there are none at all.
  std::function<std::optional<krm::Json>(std::string_view cluster, std::string_view name)>
      partition;
  std::function<bool()> ready;  ///< informer-sync
  /// Whether it is known whom shards take the proxy for: before, nothing is forwarded. Empty: yes.
  std::function<bool()> trusted = {};
  std::function<std::string()> metrics;  ///< text of /metrics
};

/// The main listener's handler on one loop: the pipeline of docs/architecture.md.
class ProxyHandler final : public http::Handler {
 public:
  explicit ProxyHandler(ProxyHandlerParams params);
  ~ProxyHandler() override { params_.pool.on_moved({}); }
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream& stream) noexcept override;
  [[nodiscard]] const ForwardStats& forward_stats() const noexcept { return forward_.stats; }
  [[nodiscard]] const net::BodyGate& bodies() const noexcept { return forward_.bodies; }
  [[nodiscard]] const LookupStats& lookup_stats() const noexcept { return lookup_stats_; }
  /// Reports of shards about slices that were answered and not stored, by shard.
  [[nodiscard]] const std::map<std::string, std::uint64_t>& ignored_applies() const noexcept {
    return ignored_applies_;
  }
  /// /readyz fails from now on.
  void start_drain() noexcept { draining_ = true; }
  /// Ends forwarded watches in order within about `spread`.
  void end_watches(Duration spread) { forward_.watches.start(spread); }
  /// Proofs of identities have ended: what rests on them ends in order (SE-042).
  void end_unproven() { forward_.end_unproven(); }
  /// What cursors and continue tokens mean.
  void set_slots(aggregation::SlotHistoryPtr slots, aggregation::TokenKeys keys);
  /// Connections with the proxy's own credential, for reviews, and for reads that were reviewed;
  /// they must outlive the handler. @param reviewed  null: the same
  void set_own_pool(topology::ShardPool* own, topology::ShardPool* reviewed = nullptr) noexcept {
    merge_.own_pool = reviewed != nullptr ? reviewed : own;
    if (merge_.reviewer != nullptr) {
      merge_.reviewer->use_pool(own);
    }
  }
  [[nodiscard]] const aggregation::MergeStats& merge_stats() const noexcept { return merge_.stats; }
  /// Of the slot table that cursors are made with.
  [[nodiscard]] std::uint32_t slot_generation() const noexcept {
    return merge_.slots->current().generation;
  }
  /// Null without share: reviewed.
  [[nodiscard]] const aggregation::Reviewer* reviewer() const noexcept {
    return merge_.reviewer.get();
  }
  [[nodiscard]] aggregation::ResumeRing::Found find_delivery(
      const std::string& key, std::uint64_t revision, const std::vector<bool>& members) const {
    return merge_.find_delivery(key, revision, members);
  }
  [[nodiscard]] std::vector<aggregation::GroupReport> merge_groups() const {
    return merge_.report_groups();
  }
  [[nodiscard]] const aggregation::DocumentStats& document_stats() const noexcept {
    return documents_.stats;
  }
  /// For requests that begin from now on. @param clusters false: a mapping file without an entry
  /// for them, requests for clusters are like any other's
  void set_routes(std::shared_ptr<const RouteTable> routes, bool clusters) noexcept {
    routes_ = std::move(routes);
    clusters_ = clusters;
  }
  /// The same.
  void set_limits(const ForwardLimits& limits) noexcept { forward_.limits = limits; }

 private:
  /// A prefix /shards/<shard> or /partitions/<cluster>/<partition>, as krm::RequestTarget tells.
  struct Prefix {
    Prefix() = default;
    explicit Prefix(krm::RequestTarget& target)
        : length(target.inner),
          partition(target.scope == krm::TargetScope::kPartition),
          name(std::move(target.scope_name)),
          cluster(std::move(target.scope_cluster)) {}
    std::size_t length = 0;  ///< where it ends in the target; 0: there is none
    bool partition = false;
    std::string name;     ///< of the shard or the Partition, decoded; "" for missing
    std::string cluster;  ///< of the Partition, as a path or a name, decoded
    [[nodiscard]] std::string_view rest(std::string_view target) const noexcept {
      return target.substr(std::min(length, target.size()));
    }
  };
  using Answer = std::unique_ptr<http::RequestHandler>;
  [[nodiscard]] Answer begin(http::RequestHead head, http::ResponseStream& stream);
  [[nodiscard]] Answer metrics(http::RequestHead head, http::ResponseStream& stream);
  [[nodiscard]] Answer probe(const http::RequestHead& head, http::ResponseStream& stream);
  /// @param is_late it has waited for its route.
  [[nodiscard]] Answer cluster_request(http::RequestHead head, http::ResponseStream& stream,
                                       Prefix prefix, bool is_late = false);
  /// nullptr: not for all clusters, or not a kind of ours.
  [[nodiscard]] Answer wildcard_request(http::RequestHead& head, http::ResponseStream& stream,
                                        std::string_view trail);
  /// Reads of clusters/* over all shards, or those that a prefix leaves over.
  [[nodiscard]] Answer merged_request(http::RequestHead head, http::ResponseStream& stream,
                                      Prefix prefix, std::string trail);
  /// A discovery or OpenAPI document of clusters/*.
  [[nodiscard]] Answer merged_document(http::RequestHead head, http::ResponseStream& stream,
                                       Prefix prefix, std::string_view trail);
  [[nodiscard]] aggregation::DocumentRoute::Source source_of(const topology::ShardInfo& shard,
                                                             std::string target) const;
  /// The same of a virtual workspace.
  [[nodiscard]] Answer merged_service(http::RequestHead head, http::ResponseStream& stream,
                                      Prefix prefix, ServiceRoute route);
  /// Who speaks for all members, and what is asked there.
  struct Judge {
    std::function<std::optional<aggregation::ReviewServer>()> server;  ///< as in ReviewPlan
    auth::Attributes right;            ///< instead of the read itself
    std::function<bool()> is_for_all;  ///< as in ReviewPlan
  };
  /// What `share: reviewed` asks before the proxy reads with its own credential; null: the shards
  /// judge the caller themselves, as one whom the proxy does not know. @error headers that
  /// impersonate nobody
  [[nodiscard]] Expected<std::shared_ptr<const aggregation::ReviewPlan>> review_plan(
      const http::RequestHead& head, const http::PeerInfo& peer, const krm::RequestInfo& info,
      std::optional<Judge> judge) const;
  /// The owner of a logical cluster, given by name or path, as long as it is known.
  [[nodiscard]] std::function<std::optional<aggregation::ReviewServer>()> judge_of(
      std::string owner) const;
  /// "" or "/partitions/<cluster name>/<partition>".
  [[nodiscard]] std::string canonical(const Prefix& prefix) const;
  /// What the proxy serves in root while no shard is known to own it; nullptr: nothing.
  [[nodiscard]] Answer own_root_request(http::RequestHead& head, http::ResponseStream& stream,
                                        std::string_view trail);
  [[nodiscard]] Answer services_request(http::RequestHead head, http::ResponseStream& stream,
                                        Prefix prefix);
  /// The shards that a prefix leaves over; an error is the answer.
  [[nodiscard]] Expected<ServiceScope> scope_of(const http::RequestHead& head, Prefix prefix);
  [[nodiscard]] Answer forward_service(http::RequestHead head, http::ResponseStream& stream,
                                       ServiceRoute route);
  /// A discovery document of several shards.
  [[nodiscard]] Answer united_service(http::RequestHead head, http::ResponseStream& stream,
                                      ServiceRoute route);
  /// The next in turn of shards that all would do; those that failed lately are left out.
  [[nodiscard]] topology::ShardId next_of(const std::vector<topology::ShardId>& shards);
  /// What is behind a mounted Workspace with this URL.
  [[nodiscard]] Answer mount_request(http::RequestHead head, http::ResponseStream& stream,
                                     std::string url, std::string trail);
  [[nodiscard]] Answer forward_mount(http::RequestHead head, http::ResponseStream& stream,
                                     const MountRoute& route);
  [[nodiscard]] bool looped(const http::RequestHead& head) const;
  void count(const ServiceRoute& route);
  /// `then` once the caller may use `path` in root.
  [[nodiscard]] Answer authorized_request(http::RequestHead head, http::ResponseStream& stream,
                                          std::string path,
                                          std::function<Answer(http::RequestHead)> then);
  /// `then` once the caller may do what `attributes` say; the user is filled in.
  [[nodiscard]] Answer authorized(http::RequestHead head, http::ResponseStream& stream,
                                  auth::Attributes attributes,
                                  std::function<Answer(http::RequestHead)> then);
  /// A shard's report about a slice of `cluster`; nullptr: it is none.
  [[nodiscard]] Answer shard_apply_request(http::RequestHead& head, http::ResponseStream& stream,
                                           std::string_view cluster, std::string_view trail);
  [[nodiscard]] Answer dispatch(http::RequestHead head, http::ResponseStream& stream,
                                const topology::ShardInfo& shard, std::string_view cluster,
                                std::string_view trail);
  /// The same after the shard was asked which groups it has.
  [[nodiscard]] Answer dispatch_when_known(http::RequestHead head, http::ResponseStream& stream,
                                           topology::ShardId shard, std::string cluster,
                                           std::string trail);
  /// E5 when the certificate does not hold, 403 or 400 for what nobody may impersonate; else strips
  /// and stamps (section 10). nullptr: go on.
  /// @param entry  whose header names count; null: those of shards.
  /// @param leads_to  where else than its target says the request goes; "": nowhere
  [[nodiscard]] Answer identify(http::RequestHead& head, http::ResponseStream& stream,
                                const MappingEntry* entry = nullptr,
                                std::string_view leads_to = {});
  /// What an entry of the mapping file answers; nullptr, and the head as it was: none does.
  [[nodiscard]] Answer mapped(http::RequestHead& head, http::ResponseStream& stream,
                              const krm::RequestTarget& target);
  /// @param table  keeps the entry while the request waits for its route.
  [[nodiscard]] Answer mapped_request(http::RequestHead head, http::ResponseStream& stream,
                                      const RouteTable::Match& match,
                                      const std::shared_ptr<const RouteTable>& table,
                                      bool is_late = false);
  void add_forwarding_headers(http::RequestHead& head, const http::PeerInfo& peer) const;

  ProxyHandlerParams params_;
  ForwardLoop forward_;
  aggregation::MergeLoop merge_;
  aggregation::DocumentLoop documents_;
  LateRoutes late_;
  LookupStats lookup_stats_;
  std::shared_ptr<const RouteTable> routes_;
  bool clusters_ = true;
  std::map<std::string, std::uint64_t> ignored_applies_;
  std::string via_;
  std::size_t turn_ = 0;
  std::map<topology::ShardId, TimePoint> paused_;  ///< until then next_of leaves them out
  std::set<std::string> warned_mounts_;            ///< URLs
  bool draining_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace kintsugi::proxy
