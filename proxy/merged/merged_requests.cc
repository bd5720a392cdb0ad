#include "proxy/merged/merged_requests.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/list/merged_get.h"
#include "aggregation/position/slot_uid.h"
#include "aggregation/reviewed_read.h"
#include "aggregation/rights/reviewer.h"
#include "krm/path_prefixes.h"
#include "krm/service_path.h"
#include "krm/status.h"
#include "proxy/forwarding/open_bounds.h"
#include "proxy/gates/impersonate.h"
#include "proxy/merged/internal/review_plan.h"
#include "proxy/merged/internal/token_payer.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

using Use = aggregation::WildcardRequest::Use;

using krm::kEverywhere;

constexpr std::string_view kRoot = "root";

/// What finding the members again takes of a request.
struct Scope {
  explicit Scope(const krm::RequestTarget& target)
      : kind(target.scope), cluster(target.scope_cluster), name(target.scope_name) {}
  [[nodiscard]] ScopeFound find(const topology::Snapshot& snapshot, const RouteFacts& facts) const {
    return find_scope(kind, cluster, name, snapshot, facts);
  }
  krm::TargetScope kind;
  std::string cluster, name;
};

/// "" or "/partitions/<cluster name>/<partition>".
std::string canonical_prefix(const krm::RequestTarget& target, const Route& route) {
  if (target.scope != krm::TargetScope::kPartition) {
    return {};
  }
  return std::string(krm::kPartitionsPrefix) + route.scope->cluster + "/" + target.scope_name;
}

/// What the client put before the path of a document, decoded: links of OpenAPI begin with it.
std::string client_root(std::string_view target) {
  std::string path = krm::shown_path(target);
  path.resize(std::min(path.size(), path.find(kEverywhere) + kEverywhere.size()));
  return path;
}

/// The rights that reading over an APIExport takes, in its logical cluster.
auth::Attributes content_of(const std::string& object, const krm::RequestInfo& info) {
  auth::Attributes out;
  out.verb = info.verb;
  out.group = "apis.kcp.io";
  out.version = "v1alpha1";
  out.resource = "apiexports";
  out.subresource = "content";
  out.name = object;
  return out;
}

/// The right to read over all logical clusters, which is one in root (FP-163).
auth::Attributes wildcard_right(std::string_view path) {
  auth::Attributes out;
  out.is_resource = false;
  out.verb = "get";
  out.path = std::string(kEverywhere).append(path);
  return out;
}

/// As shards of kcp want the path of a collection: with the identity of their own exports.
std::string with_identity(const topology::Identities& identities,
                          const aggregation::WildcardRequest& asked, const std::string& path) {
  const bool is_named = asked.path == aggregation::canonical_path(asked.info) &&
                        asked.info.resource.find(':') == std::string::npos;
  const std::string hash =
      is_named ? identities.of(asked.info.group, asked.info.resource) : std::string();
  return hash.empty() ? path : path + ':' + hash;
}

/// What the export of this logical cluster claims is known, if it is anything.
bool are_claims_known(const topology::Snapshot& facts, std::string_view owner) {
  const topology::Resolution where = topology::resolve(facts, owner);
  return where.resolved() && where.shard != nullptr &&
         where.shard->is_synced(topology::Resource::kExports);
}

/// Every server understands the path as the one that is reviewed.
bool is_reviewable(const krm::RequestInfo& info, std::string_view path) {
  const bool plain = aggregation::is_plain_segment(info.version) &&
                     aggregation::is_plain_segment(info.resource) &&
                     (info.group.empty() || aggregation::is_plain_segment(info.group)) &&
                     (info.ns.empty() || aggregation::is_plain_segment(info.ns));
  return plain && path == aggregation::canonical_path(info);
}

/// Shards that have no slot yet come last, as they were.
void sort_by_slot(const aggregation::SlotHistory& slots,
                  std::vector<aggregation::DocumentRoute::Source>& sources) {
  std::stable_sort(sources.begin(), sources.end(), [&slots](const auto& a, const auto& b) {
    const std::size_t none = std::string::npos;
    return slots.slot_of(a.uid).value_or(none) < slots.slot_of(b.uid).value_or(none);
  });
}

/// Where the path below clusters/* of a virtual workspace's target begins.
std::size_t end_of_front(const ServiceRoute& service) {
  return service.target.find(kEverywhere) + kEverywhere.size();
}

}  // namespace

MergedRequests::Answer MergedRequests::read(Request&& request, http::ResponseStream& stream,
                                            Route&& route) {
  http::RequestHead& head = request.head;
  if (auto refused = params_.admission.refuse_return(head, stream)) {
    return refused;
  }
  const topology::Snapshot& facts = params_.view->current();
  const topology::ShardInfo& first = *facts.shards().front();
  aggregation::WildcardRequest& asked = *route.wildcard;
  if (asked.use != Use::kDocument && serving::is_nobody(head, stream.peer())) {
    return serving::answer_error(head, stream, krm::unauthorized());  // AGG-1705
  }
  std::shared_ptr<const aggregation::ReviewPlan> reviews;
  const bool asks_all = params_.wildcard_reviewed && !first.spec.plain;
  const bool asks_each = params_.share_reviewed && first.spec.plain;
  if ((asks_all || asks_each) && asked.use == Use::kMerge &&
      is_reviewable(asked.info, asked.path)) {
    auto plan = asks_all ? root_reviews(head, stream.peer(), asked.info, asked.path)
                         : review_plan(head, stream.peer(), asked.info,
                                       params_.admission.identity_headers(), std::nullopt);
    if (!plan) {
      return serving::answer_error(head, stream, plan.error());
    }
    reviews = std::move(*plan);
  }
  const bool impersonates =
      reviews == nullptr && std::any_of(facts.shards().begin(), facts.shards().end(),
                                        [](const auto& one) { return one->spec.impersonate; });
  if (impersonates) {
    if (const auto error = judge_impersonation(head, stream.peer())) {
      return serving::answer_error(head, stream, *error);
    }
  }
  if (asked.refusal) {
    return serving::answer_error(head, stream, *asked.refusal);
  }
  if (asked.use == Use::kDocument) {
    return document(std::move(request), stream, route);
  }
  aggregation::MergeRoute merge;
  merge.scope = {canonical_prefix(request.target, route) + std::string(kEverywhere),
                 asked.info.group, asked.info.resource};
  merge.path = topology::shard_target(first, "*", asked.path);
  if (!first.spec.plain && params_.identities != nullptr) {
    merge.path = with_identity(*params_.identities, asked, merge.path);
  }
  merge.info = std::move(asked.info);
  merge.payer = token_payer(head, stream.peer());
  merge.reviews = std::move(reviews);
  if (request.target.scope == krm::TargetScope::kPartition) {
    merge.members = [this, scope = Scope(request.target)] {
      const ScopeFound found = scope.find(params_.view->current(), params_.facts);
      return found.reason == RouteReason::kNone
                 ? aggregation::members_of(*params_.merge.positions.slots, found.scope.members)
                 : std::vector<aggregation::Member>();
    };
  } else {
    merge.members = [this] {
      return aggregation::all_members(*params_.merge.positions.slots, params_.view->current());
    };
  }
  params_.admission.add_forwarding_headers(head, stream.peer());
  if (asked.use == Use::kGet) {
    merge.caller = caller_of(head, stream.peer());
    return aggregation::answer_merged_get(params_.merge.lists, params_.merge.late_slots,
                                          std::move(head), stream, std::move(merge));
  }
  return bounded(std::move(head), stream, std::move(merge));
}

aggregation::MergeCaller MergedRequests::caller_of(const http::RequestHead& head,
                                                   const http::PeerInfo& peer) const {
  net::BodyPayer payer;
  const serving::FairSeats::Who who = who_waits(params_.forward, head, peer, payer);
  return {who.level, std::string(who.payer), std::string(who.cluster)};
}

/// As many of a payer's as he may have (SE-086).
MergedRequests::Answer MergedRequests::bounded(http::RequestHead&& head,
                                               http::ResponseStream& stream,
                                               aggregation::MergeRoute&& merge) {
  serving::RequestLimiter::Pass pass;
  merge.caller = caller_of(head, stream.peer());
  const std::size_t streams = params_.view->current().shards().size();
  if (auto room = admit_merged_read(params_.forward, pass, head, stream.peer(), streams); !room) {
    return params_.forward.refusals.answer(head, stream, std::move(room).error());
  }
  return holding(
      aggregation::answer_merged(params_.merge, std::move(head), stream, std::move(merge)),
      std::move(pass));
}

MergedRequests::Answer MergedRequests::document(Request&& request, http::ResponseStream& stream,
                                                const Route& route) {
  http::RequestHead& head = request.head;
  const topology::Snapshot& facts = params_.view->current();
  const topology::ShardInfo& first = *facts.shards().front();
  aggregation::DocumentRoute merge;
  merge.request = aggregation::read_document_request(
      std::string_view(head.target).substr(request.target.trail), head.headers.get("accept"));
  if (merge.request.kind == aggregation::DocumentRequest::Kind::kOther) {  // AGG-201
    return serving::answer_error(
        head, stream,
        Error(Errc::kMethodNotAllowed,
              first.spec.plain ? "this is of one server; ask for it at /clusters/<name>/"
                               : "this is of one shard; ask for it at /shards/<name>/clusters/*/"));
  }
  if (serving::is_nobody(head, stream.peer())) {
    return serving::answer_error(head, stream, krm::unauthorized());
  }
  const std::string& path = merge.request.path;
  const ScopeFound everything;
  const ServiceScope& scope = route.scope != nullptr ? route.scope->scope : everything.scope;
  for (const auto& shard : facts.shards()) {
    if (scope.has(shard->id)) {
      merge.sources.push_back(source_of(*shard, topology::shard_target(*shard, "*", path)));
    }
  }
  sort_by_slot(*params_.merge.positions.slots, merge.sources);
  merge.root = client_root(head.target);
  if (route.with_own) {
    merge.local_target = std::string(kEverywhere) + path;
  }
  merge.verbs = {"list", "watch"};
  if (first.spec.plain) {
    merge.verbs.push_back("get");
  }
  const topology::Resolution root = topology::resolve(facts, kRoot);
  if (params_.identities != nullptr && !first.spec.plain && root.resolved() &&
      root.shard != nullptr) {
    merge.exported = source_of(*root.shard, topology::shard_target(*root.shard, kRoot, path));
    merge.is_exported = [known = params_.identities](std::string_view group,
                                                     std::string_view resource) {
      return !known->of(group, resource).empty();
    };
  }
  params_.admission.add_forwarding_headers(head, stream.peer());
  if (params_.wildcard_reviewed && !first.spec.plain && !merge.sources.empty()) {
    auto reviews = root_reviews(head, stream.peer(), route.wildcard->info, path);
    if (!reviews) {
      return serving::answer_error(head, stream, reviews.error());
    }
    if (*reviews != nullptr) {
      std::vector<aggregation::Member> members;
      for (const aggregation::DocumentRoute::Source& source : merge.sources) {
        members.push_back({members.size(), source.shard, {}});
      }
      return aggregation::answer_reviewed_document(
          params_.merge, params_.documents, std::move(head), stream, std::move(merge),
          std::move(*reviews), [members = std::move(members)] { return members; });
    }
  }
  return aggregation::answer_document(params_.documents, std::move(head), stream, std::move(merge));
}

Expected<std::shared_ptr<const aggregation::ReviewPlan>> MergedRequests::root_reviews(
    const http::RequestHead& head, const http::PeerInfo& peer, const krm::RequestInfo& info,
    std::string_view path) const {
  return review_plan(head, peer, info, params_.admission.identity_headers(),
                     ReviewJudge{judge_of(std::string(kRoot)), wildcard_right(path), {}});
}

aggregation::DocumentRoute::Source MergedRequests::source_of(const topology::ShardInfo& shard,
                                                             std::string target) const {
  return {shard.id, aggregation::slot_uid(shard.spec), std::move(target)};
}

MergedRequests::Answer MergedRequests::service_document(Request&& request,
                                                        http::ResponseStream& stream,
                                                        Route&& route) {
  http::RequestHead& head = request.head;
  const ServiceRoute& service = *route.service;
  aggregation::ensure_audit_id(head);
  if (auto refused = params_.admission.refuse_return(head, stream)) {
    return refused;
  }
  const std::size_t end = end_of_front(service);
  aggregation::DocumentRoute merge;
  merge.request = aggregation::read_document_request(std::string_view(service.target).substr(end),
                                                     head.headers.get("accept"));
  for (const topology::ShardId shard : service.union_of) {
    if (const topology::ShardInfo* info = params_.view->current().shard(shard)) {
      merge.sources.push_back(source_of(*info, service.target.substr(0, end) + merge.request.path));
    }
  }
  sort_by_slot(*params_.merge.positions.slots, merge.sources);
  merge.virtual_url = true;
  merge.root = client_root(head.target);
  params_.admission.add_forwarding_headers(head, stream.peer());
  return aggregation::answer_document(params_.documents, std::move(head), stream, std::move(merge));
}

Expected<std::shared_ptr<const aggregation::ReviewPlan>> MergedRequests::service_reviews(
    const Request& request, const http::PeerInfo& peer, const ServiceRoute& service,
    const aggregation::WildcardRequest& asked) const {
  const auto& path = request.target.path;
  const std::string& owner = service.owner;
  if (!params_.share_reviewed || path == nullptr ||
      path->kind != krm::VirtualWorkspace::kApiExport ||
      !aggregation::is_plain_segment(path->object) || path->object != path->object_raw ||
      !is_reviewable(asked.info, asked.path) || !are_claims_known(params_.view->current(), owner)) {
    return std::shared_ptr<const aggregation::ReviewPlan>();
  }
  // Maximal permission policies of claimed APIs judge whoever the shards are told of.
  const auto is_for_all = [this, owner, name = path->object, group = asked.info.group,
                           resource = asked.info.resource] {
    const topology::Snapshot& facts = params_.view->current();
    return !facts.claims_foreign(topology::resolve(facts, owner).cluster, name, group, resource);
  };
  if (!is_for_all()) {
    return std::shared_ptr<const aggregation::ReviewPlan>();
  }
  return review_plan(
      request.head, peer, asked.info, params_.admission.identity_headers(),
      ReviewJudge{judge_of(owner), content_of(path->object, asked.info), is_for_all});
}

std::function<std::optional<aggregation::ReviewServer>()> MergedRequests::judge_of(
    std::string owner) const {
  return [this, owner = std::move(owner)]() -> std::optional<aggregation::ReviewServer> {
    const topology::Snapshot& facts = params_.view->current();
    const topology::Resolution where = topology::resolve(facts, owner);
    if (!where.resolved() || where.shard == nullptr) {
      return std::nullopt;
    }
    return aggregation::ReviewServer{where.shard->id, krm::cluster_root(where.cluster)};
  };
}

MergedRequests::Answer MergedRequests::service(Request&& request, http::ResponseStream& stream,
                                               Route&& route) {
  http::RequestHead& head = request.head;
  const ServiceRoute& service = *route.service;
  aggregation::ensure_audit_id(head);
  if (auto refused = params_.admission.refuse_return(head, stream)) {
    return refused;
  }
  aggregation::WildcardRequest& asked = *route.wildcard;
  if (asked.refusal) {
    return serving::answer_error(head, stream, *asked.refusal);
  }
  auto reviews = service_reviews(request, stream.peer(), service, asked);
  if (!reviews) {
    return serving::answer_error(head, stream, reviews.error());
  }
  aggregation::MergeRoute merge;
  merge.reviews = std::move(*reviews);
  const std::string front = service.target.substr(0, end_of_front(service));
  merge.scope = {canonical_prefix(request.target, route) + front, asked.info.group,
                 asked.info.resource};
  merge.path = front + asked.path;
  merge.info = std::move(asked.info);
  merge.virtual_url = true;
  merge.payer = token_payer(head, stream.peer());
  merge.members = [this, scope = Scope(request.target), method = head.method, target = head.target,
                   path = request.target.path, is_watch = request.target.is_watch] {
    std::vector<aggregation::Member> members;
    const topology::Snapshot& facts = params_.view->current();
    const ScopeFound found = scope.find(facts, params_.facts);
    if (found.reason != RouteReason::kNone) {
      return members;
    }
    const std::vector<WildcardShard> shards =
        read_shards({facts, found.scope, method, target, *path, is_watch});
    std::vector<const topology::ShardInfo*> all;
    for (const WildcardShard& one : shards) {
      all.push_back(one.shard);
    }
    members = aggregation::members_of(*params_.merge.positions.slots, all);
    for (aggregation::Member& member : members) {
      member.needed = std::any_of(shards.begin(), shards.end(), [&](const WildcardShard& one) {
        return one.shard->id == member.id && one.contacted();
      });
    }
    return members;
  };
  params_.admission.add_forwarding_headers(head, stream.peer());
  return bounded(std::move(head), stream, std::move(merge));
}

}  // namespace kintsugi::proxy
