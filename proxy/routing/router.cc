#include "proxy/routing/router.h"

#include <algorithm>
#include <utility>

#include "aggregation/documents/document_request.h"
#include "krm/path_prefixes.h"
#include "krm/service_path.h"
#include "krm/status.h"
#include "proxy/routing/request.h"

namespace kintsugi::proxy {
namespace {

using krm::RequestTarget;
using krm::TargetForm;
using krm::TargetScope;
using topology::Resolution;

constexpr std::string_view kRoot = "root";
constexpr int kMostMounts = 8;  // one behind another
constexpr int kBadRequest = 400, kForbidden = 403, kNotFound = 404, kNotAllowed = 405;
constexpr int kTooLong = 414, kLoop = 508, kNotNow = 503, kElsewhere = 307;

/// What every step looks at.
struct Question {
  const RequestTarget& target;
  std::string_view text;
  std::string_view method;
  const topology::Snapshot& snapshot;
  const RouteFacts& facts;

  /// What follows the cluster, as it was sent.
  [[nodiscard]] std::string_view trail() const { return text.substr(target.trail); }
  /// The same in the form that is compared; `buffer` keeps what had to be made.
  [[nodiscard]] std::string_view plain_trail(std::string& buffer) const {
    return target.escaped ? std::string_view(buffer = krm::canonical_trail(trail())) : trail();
  }
  [[nodiscard]] bool has_prefix() const { return target.scope != TargetScope::kNone; }
};

Route refused(RouteReason reason, int status) {
  Route route;
  route.reason = reason;
  route.status = status;
  return route;
}

int status_of(RouteReason reason) {
  switch (reason) {
    case RouteReason::kNotKnownYet:
    case RouteReason::kUnavailable:
      return kNotNow;
    case RouteReason::kNoSuchPath:
    case RouteReason::kNoSuchShard:
    case RouteReason::kNoSuchPartition:
    case RouteReason::kNoVirtualWorkspace:
      return kNotFound;
    default:
      return kForbidden;
  }
}

/// A lookup that led nowhere.
Route lost(const Resolution& found) {
  Route route = refused(reason_of(found), 0);
  route.status = status_of(route.reason);
  route.looked_up = true;
  route.lookup = found.kind;
  route.why_not = found.reason;
  return route;
}

/// The same, of somebody who may be here a moment too early.
Route lost(const Resolution& found, std::string_view wanted) {
  Route route = lost(found);
  route.may_come = found.kind == Resolution::Kind::kNotFound &&
                   found.reason == topology::NotFoundReason::kUnknown;
  if (route.may_come) {
    route.wanted = wanted;
  }
  return route;
}

bool is_read(std::string_view method) { return method == "GET" || method == "HEAD"; }

Route fault_of(const RequestTarget& target) {
  Route route;
  route.kind = RouteKind::kFault;
  switch (target.fault) {
    case krm::TargetFault::kUnclean:
      route.reason = RouteReason::kUnclean;
      route.status = kElsewhere;
      break;
    case krm::TargetFault::kTooLong:
      route.reason = RouteReason::kTooLong;
      route.status = kTooLong;
      break;
    default:
      route.reason = RouteReason::kMalformed;
      route.status = kBadRequest;
      break;
  }
  return route;
}

/// Built-in paths win over equal entries; of virtual workspaces only the known ones are built in.
/// @param clusters  requests for clusters are built in, too.
bool outranks(const RouteTable::Match& match, const RequestTarget& target, bool clusters) {
  if (match.depth > 1) {
    return true;
  }
  switch (target.word) {
    case krm::TargetWord::kClusters:
      return !clusters;
    case krm::TargetWord::kServices: {
      const bool is_services = match.depth == 1;
      return (is_services && match.entry->is_static) ||
             target.service == krm::VirtualWorkspace::kOther;
    }
    case krm::TargetWord::kShards:
    case krm::TargetWord::kPartitions:
      return false;
    case krm::TargetWord::kNone:
      break;
  }
  return true;
}

/// What an entry of the mapping file answers; nullopt: none does.
std::optional<Route> mapped_route(const Question& q) {
  if (q.facts.mapping == nullptr) {
    return std::nullopt;
  }
  RouteTable::Match match = q.facts.mapping->find(q.text.substr(0, q.target.query));
  if (match.entry == nullptr || !outranks(match, q.target, q.facts.clusters)) {
    return std::nullopt;
  }
  Route route;
  if (!match.cluster.empty() && match.cluster != "*") {
    const Resolution found = topology::resolve(q.snapshot, match.cluster);
    if (!found.resolved() && found.kind != Resolution::Kind::kMount) {
      return lost(found, match.cluster);
    }
    route.looked_up = true;
  }
  route.kind = RouteKind::kMapped;
  route.mapped = std::move(match);
  return route;
}

/// One store, one space of resourceVersions: nothing has to be merged (T-01). nullopt: no kind of
/// ours.
std::optional<Route> served_everywhere(const Question& q) {
  const std::string plain = without_identity(krm::canonical_trail(q.trail()));
  if (plain.starts_with("/openapi") ||
      local_use(plain, false, q.facts.groups) != LocalUse::kServe ||
      !krm::parse_request_info(q.method, plain).is_resource) {
    return std::nullopt;
  }
  Route route;
  route.kind = RouteKind::kServed;
  route.cluster = "*";
  return route;
}

RouteReason reason_of_refusal(const aggregation::WildcardRequest& request, bool plain) {
  if (krm::http_status(*request.refusal) == kBadRequest) {
    return !plain && !request.info.ns.empty() ? RouteReason::kNamespaced
                                              : RouteReason::kBadQuestion;
  }
  return request.info.is_resource ? RouteReason::kVerb : RouteReason::kMethod;
}

Route merged_read(const Question& q) {
  const topology::Snapshot& shards = q.snapshot;
  if (!shards.shards_listed() || shards.shards().empty()) {
    return refused(RouteReason::kNotKnownYet, kNotNow);
  }
  Route route;
  if (q.has_prefix()) {
    ScopeFound found = find_scope(q.target.scope, q.target.scope_cluster, q.target.scope_name,
                                  q.snapshot, q.facts);
    if (found.reason != RouteReason::kNone) {
      return refused(found.reason, status_of(found.reason));
    }
    if (q.target.scope == TargetScope::kShard) {  // one shard, as it is (U6)
      route.kind = RouteKind::kOfOneShard;
      route.shard = found.scope.members.front();
      route.takes_right = !route.shard->spec.plain;  // plain ones decide themselves who may what
      route.cluster = route.takes_right ? std::string_view("*") : route.shard->spec.name;
      return route;
    }
    route.scope = std::make_unique<ScopeFound>(std::move(found));
  }
  const bool plain = shards.shards().front()->spec.plain;
  route.wildcard = aggregation::read_wildcard(q.method, q.trail(), plain);
  const aggregation::WildcardRequest& request = *route.wildcard;
  route.cluster = "*";
  switch (request.use) {
    case aggregation::WildcardRequest::Use::kMerge:
      route.kind = request.info.verb == "watch" ? RouteKind::kMergedWatch : RouteKind::kMergedList;
      break;
    case aggregation::WildcardRequest::Use::kGet:
      route.kind = RouteKind::kMergedGet;
      break;
    case aggregation::WildcardRequest::Use::kDocument:
      route.kind = RouteKind::kMergedDocument;
      route.with_own = !q.has_prefix() && !plain &&
                       local_use(request.path, false, q.facts.groups) != LocalUse::kForward;
      if (aggregation::read_document_request(q.trail(), {}).kind ==
          aggregation::DocumentRequest::Kind::kOther) {
        route.reason = RouteReason::kNotOfAll;
        route.status = kNotAllowed;
      }
      break;
    case aggregation::WildcardRequest::Use::kRefused:
      route.kind = RouteKind::kRefusedRead;
      route.status = krm::http_status(*request.refusal);
      route.reason = reason_of_refusal(request, plain);
      break;
  }
  return route;
}

/// What the proxy serves in root while no shard is known to own it; nullopt: nothing.
std::optional<Route> own_root_route(const Question& q) {
  std::string buffer;
  const LocalUse use = local_use(q.plain_trail(buffer), true, q.facts.groups);
  if (use == LocalUse::kForward) {
    return std::nullopt;
  }
  Route route;
  route.kind = use == LocalUse::kServe ? RouteKind::kServed : RouteKind::kOverlaid;
  route.cluster = kRoot;
  return route;
}

/// What is decided here is decided about the canonical trail; what is forwarded is as it was sent.
void choose_handler(const Question& q, Route& route) {
  route.kind = RouteKind::kForwarded;
  if (route.shard->spec.plain) {
    return;
  }
  std::string buffer;
  const std::string_view trail = q.plain_trail(buffer);
  LocalGroups groups = q.facts.groups;
  if (q.facts.groups_of && local_use(trail, false, groups) != LocalUse::kForward) {
    const std::optional<LocalGroups> known = q.facts.groups_of(route.cluster);
    if (!known) {
      route.kind = RouteKind::kAskedFirst;
      return;
    }
    groups = *known;
  }
  switch (local_use(trail, q.facts.own_root && route.cluster == kRoot, groups)) {
    case LocalUse::kForward:
      break;
    case LocalUse::kOverlay:
      route.kind = RouteKind::kOverlaid;
      break;
    case LocalUse::kServe:
      route.kind = RouteKind::kServed;
      if (const auto fact = q.snapshot.cluster(route.cluster);
          fact && fact->inactive && !trail.starts_with("/openapi")) {
        route.reason = RouteReason::kInactive;
        route.status = kForbidden;
      }
      break;
  }
}

Route mount_route(const Question& q, const Resolution& found);

Route cluster_route(const Question& q) {
  const std::string& segment = q.target.cluster;
  if (segment == "*" && q.facts.wildcard) {
    if (!q.has_prefix()) {
      if (auto route = served_everywhere(q)) {
        return std::move(*route);
      }
    }
    return merged_read(q);
  }
  const Resolution found = topology::resolve(q.snapshot, segment);
  if (q.facts.own_root && !found.resolved() && segment == kRoot && !q.has_prefix()) {
    if (auto route = own_root_route(q)) {
      return std::move(*route);
    }
  }
  if (found.kind == Resolution::Kind::kMount && !q.has_prefix()) {
    return mount_route(q, found);
  }
  if (!found.resolved()) {
    return lost(found, segment);
  }
  Route route;
  route.looked_up = true;
  if (q.has_prefix() && found.shard->spec.name != q.target.scope_name) {
    route.reason = RouteReason::kElsewhere;
    route.status = kForbidden;
    route.lookup = Resolution::Kind::kNotFound;
    route.why_not = topology::NotFoundReason::kUnknown;
    return route;
  }
  route.shard = found.shard;
  route.cluster = found.cluster;
  // The way around a Partition's view needs a permission of its own.
  route.takes_right = q.has_prefix() && !found.shard->spec.plain;
  choose_handler(q, route);
  return route;
}

/// Where a mounted Workspace leads: a mount inside is followed, up to a few of them.
Route mount_route(const Question& q, const Resolution& mounted) {
  std::string_view url = mounted.mount_url;
  std::string trail(q.trail());
  for (int hop = 0; hop < kMostMounts; ++hop) {
    MountRoute to = route_mount(q.snapshot, q.facts.mounts, url, trail);
    if (to.kind == MountRoute::Kind::kRefused) {
      Route route = refused(RouteReason::kMountHost, kForbidden);
      route.looked_up = true;
      route.lookup = Resolution::Kind::kNotFound;
      route.why_not = topology::NotFoundReason::kMountHost;
      route.refused_mount = url;
      return route;
    }
    if (to.kind == MountRoute::Kind::kNoRoute) {
      return refused(RouteReason::kMountPath, kNotFound);
    }
    if (to.kind != MountRoute::Kind::kInside) {
      Route route;
      route.kind = RouteKind::kMounted;
      if (to.kind != MountRoute::Kind::kHost) {
        route.shard = q.snapshot.shard(to.shard);
      }
      route.mount = std::move(to);
      return route;
    }
    // A new target, judged as if it had come (SE-024).
    const RequestTarget target = krm::parse_target(
        q.method, to.target, {.shard = false, .opaque_proxy = has_plain_servers(q.snapshot)});
    const bool is_one = target.form == TargetForm::kCluster && target.cluster != "*";
    if (!is_one && target.fault != krm::TargetFault::kTooLong) {
      return refused(RouteReason::kMountPath, kForbidden);
    }
    const Resolution next = is_one ? topology::resolve(q.snapshot, target.cluster) : Resolution();
    if (next.kind == Resolution::Kind::kMount) {
      url = next.mount_url;
      trail = to.target.substr(target.trail);
      continue;
    }
    Route route = target.fault != krm::TargetFault::kNone
                      ? fault_of(target)
                      : cluster_route({target, to.target, q.method, q.snapshot, q.facts});
    route.target = std::move(to.target);
    return route;
  }
  return refused(RouteReason::kMountLoop, kLoop);
}

void choose_service(const Question& q, Route& route) {
  ServiceRoute& service = *route.service;
  route.looked_up = true;
  route.lookup = service.lookup;
  route.why_not = service.reason;
  if (service.refusal) {
    route.kind = service.refused_before_identity ? RouteKind::kRefused : RouteKind::kRefusedService;
    route.reason = service.why;
    route.status = krm::http_status(*service.refusal);
    return;
  }
  if (!service.union_of.empty()) {
    route.kind = RouteKind::kServiceDocument;
  } else if (service.merged) {
    route.kind = RouteKind::kServiceMerged;
    const std::size_t end = service.target.find(krm::kEverywhere) + krm::kEverywhere.size();
    route.wildcard =
        aggregation::read_wildcard(q.method, std::string_view(service.target).substr(end), false);
    if (route.wildcard->refusal) {
      route.reason = reason_of_refusal(*route.wildcard, false);
      route.status = krm::http_status(*route.wildcard->refusal);
    }
  } else if (!service.any_of.empty()) {
    route.kind = RouteKind::kServiceAny;
  } else {
    route.kind = RouteKind::kService;
    route.shard = q.snapshot.shard(service.shard);
  }
}

Route service_route(const Question& q) {
  auto scope = std::make_unique<ScopeFound>(
      find_scope(q.target.scope, q.target.scope_cluster, q.target.scope_name, q.snapshot, q.facts));
  if (scope->reason != RouteReason::kNone) {
    return refused(scope->reason, status_of(scope->reason));
  }
  const auto path = krm::parse_service_path(q.text.substr(q.target.inner));
  if (!path) {
    return refused(RouteReason::kNoVirtualWorkspace, kNotFound);
  }
  Route route;
  route.service =
      route_service({q.snapshot, scope->scope, q.method, q.text, *path, q.target.is_watch});
  route.scope = std::move(scope);
  choose_service(q, route);
  return route;
}

Route plain_route(const Question& q) {
  const bool is_cluster = q.facts.clusters && q.target.form == TargetForm::kCluster;
  if (!is_cluster && q.target.form != TargetForm::kService) {
    const bool below = q.target.form == TargetForm::kNoService;
    return refused(below ? RouteReason::kNoVirtualWorkspace : RouteReason::kNoSuchPath, kNotFound);
  }
  if (q.target.scope == TargetScope::kShard && q.snapshot.shard(q.target.scope_name) == nullptr) {
    return refused(RouteReason::kNoSuchShard, kNotFound);
  }
  if (!is_cluster) {
    return service_route(q);
  }
  if (q.target.scope == TargetScope::kPartition && q.target.cluster != "*") {
    return refused(RouteReason::kNoSuchPath, kNotFound);
  }
  return cluster_route(q);
}

}  // namespace

std::string_view route_kind_name(RouteKind kind) noexcept {
  switch (kind) {
    case RouteKind::kProbe:
      return "probe";
    case RouteKind::kMetrics:
      return "metrics";
    case RouteKind::kFault:
    case RouteKind::kRefused:
    case RouteKind::kRefusedRead:
    case RouteKind::kRefusedService:
      return "refused";
    case RouteKind::kMapped:
      return "mapped";
    case RouteKind::kForwarded:
      return "forwarded";
    case RouteKind::kServed:
      return "served";
    case RouteKind::kOverlaid:
      return "overlaid";
    case RouteKind::kAskedFirst:
      return "asked-first";
    case RouteKind::kMounted:
      return "mounted";
    case RouteKind::kOfOneShard:
      return "of-one-shard";
    case RouteKind::kMergedList:
      return "merged-list";
    case RouteKind::kMergedWatch:
      return "merged-watch";
    case RouteKind::kMergedGet:
      return "merged-get";
    case RouteKind::kMergedDocument:
      return "merged-document";
    case RouteKind::kService:
      return "service";
    case RouteKind::kServiceAny:
      return "service-of-any-shard";
    case RouteKind::kServiceDocument:
      return "service-document";
    case RouteKind::kServiceMerged:
      return "service-merged";
  }
  return "";
}

Route route(const RequestTarget& target, std::string_view text, std::string_view method,
            const topology::Snapshot& snapshot, const RouteFacts& facts) {
  Route route;
  if (target.form == TargetForm::kProbe || target.form == TargetForm::kMetrics) {
    route.kind = target.form == TargetForm::kProbe ? RouteKind::kProbe : RouteKind::kMetrics;
    if (!is_read(method)) {
      route.reason = RouteReason::kMethod;
      route.status = kNotAllowed;
    }
    return route;
  }
  if (target.fault != krm::TargetFault::kNone) {
    return fault_of(target);
  }
  const Question q{target, text, method, snapshot, facts};
  if (auto mapped = mapped_route(q)) {
    return std::move(*mapped);
  }
  if (target.plain_prefix.empty()) {
    return plain_route(q);
  }
  // From here on words are compared as they are.
  std::string plain = target.plain_prefix + std::string(q.trail());
  const RequestTarget again = krm::parse_target(
      method, plain, {.shard = false, .opaque_proxy = has_plain_servers(snapshot)});
  route = plain_route({again, plain, method, snapshot, facts});
  if (route.target.empty()) {
    route.target = std::move(plain);
  }
  return route;
}

ScopeFound find_scope(TargetScope kind, std::string_view cluster, std::string_view name,
                      const topology::Snapshot& snapshot, const RouteFacts& facts) {
  ScopeFound found;
  if (kind == TargetScope::kNone) {
    return found;
  }
  if (kind == TargetScope::kShard) {
    if (const topology::ShardInfo* shard = snapshot.shard(name)) {
      found.scope = one_shard(*shard);
    } else {
      found.reason = RouteReason::kNoSuchShard;
    }
    return found;
  }
  const Resolution where = topology::resolve(snapshot, cluster);
  const bool own = facts.own_root && !where.resolved() && cluster == kRoot;
  if (!where.resolved() && !own) {
    found.reason = reason_of(where);
    return found;
  }
  found.cluster = own ? cluster : where.cluster;
  const auto partition = facts.partition ? facts.partition(found.cluster, name) : std::nullopt;
  if (!partition) {
    found.reason = RouteReason::kNoSuchPartition;
    return found;
  }
  found.scope = shards_of_partition(snapshot, *partition);
  return found;
}

}  // namespace kintsugi::proxy
