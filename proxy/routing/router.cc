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
  TargetReadings& readings;  ///< of `target` and `text`

  /// What follows the cluster, as it was sent.
  [[nodiscard]] std::string_view trail() const { return text.substr(target.trail); }
  /// The same in the form that is compared; `buffer` keeps what had to be made.
  [[nodiscard]] std::string_view plain_trail(std::string& buffer) const {
    return target.escaped ? std::string_view(buffer = krm::canonical_trail(trail())) : trail();
  }
  [[nodiscard]] bool has_prefix() const { return target.scope != TargetScope::kNone; }
  /// What is asked for below the cluster.
  [[nodiscard]] const krm::RequestInfo& info() const {
    return *readings.info(method, text, target);
  }
  /// Where the cluster leads.
  [[nodiscard]] const Resolution& found() const { return readings.found(snapshot, target); }
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

/// What an entry of the mapping file answers. @return false: none does
bool to_entry(const Question& q, Route& route) {
  RouteTable::Match match = q.facts.mapping->find(q.text.substr(0, q.target.query));
  if (match.entry == nullptr || !outranks(match, q.target, q.facts.clusters)) {
    return false;
  }
  if (!match.cluster.empty() && match.cluster != "*") {
    const Resolution found = topology::resolve(q.snapshot, match.cluster);
    if (!found.resolved() && found.kind != Resolution::Kind::kMount) {
      route = lost(found, match.cluster);
      return true;
    }
    route.looked_up = true;
  }
  route.kind = RouteKind::kMapped;
  route.mapped = match.entry;
  route.wanted = std::move(match.cluster);
  return true;
}

/// One store, one space of resourceVersions: nothing has to be merged (T-01). @return false: no
/// kind of ours
bool serve_everywhere(const Question& q, Route& route) {
  const std::string plain = without_identity(krm::canonical_trail(q.trail()));
  if (plain.starts_with("/openapi") ||
      local_use(plain, false, q.facts.groups) != LocalUse::kServe || !q.info().is_resource) {
    return false;
  }
  route.kind = RouteKind::kServed;
  route.cluster = "*";
  return true;
}

RouteReason reason_of_refusal(const aggregation::WildcardRequest& request, bool plain) {
  if (krm::http_status(*request.refusal) == kBadRequest) {
    return !plain && !request.info.ns.empty() ? RouteReason::kNamespaced
                                              : RouteReason::kBadQuestion;
  }
  return request.info.is_resource ? RouteReason::kVerb : RouteReason::kMethod;
}

void read_merged(const Question& q, Route& route) {
  const topology::Snapshot& shards = q.snapshot;
  if (!shards.shards_listed() || shards.shards().empty()) {
    route = refused(RouteReason::kNotKnownYet, kNotNow);
    return;
  }
  if (q.has_prefix()) {
    ScopeFound found = find_scope(q.target.scope, q.target.scope_cluster, q.target.scope_name,
                                  q.snapshot, q.facts);
    if (found.reason != RouteReason::kNone) {
      route = refused(found.reason, status_of(found.reason));
      return;
    }
    if (q.target.scope == TargetScope::kShard) {  // one shard, as it is (U6)
      route.kind = RouteKind::kOfOneShard;
      route.shard = found.scope.members.front();
      route.takes_right = !route.shard->spec.plain;  // plain ones decide themselves who may what
      route.cluster = route.takes_right ? std::string_view("*") : route.shard->spec.name;
      return;
    }
    route.scope = std::make_unique<ScopeFound>(std::move(found));
  }
  const bool plain = shards.shards().front()->spec.plain;
  route.wildcard = std::make_unique<aggregation::WildcardRequest>(
      aggregation::read_wildcard(q.method, q.trail(), q.info(), plain));
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
}

/// What the proxy serves in root while no shard is known to own it. @return false: nothing
bool serve_own_root(const Question& q, Route& route) {
  std::string buffer;
  const LocalUse use = local_use(q.plain_trail(buffer), true, q.facts.groups);
  if (use == LocalUse::kForward) {
    return false;
  }
  route.kind = use == LocalUse::kServe ? RouteKind::kServed : RouteKind::kOverlaid;
  route.cluster = kRoot;
  return true;
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

void follow_mount(const Question& q, const Resolution& mounted, Route& route);

void to_cluster(const Question& q, Route& route) {
  const std::string& segment = q.target.cluster;
  if (segment == "*" && q.facts.wildcard) {
    if (q.has_prefix() || !serve_everywhere(q, route)) {
      read_merged(q, route);
    }
    return;
  }
  const Resolution& found = q.found();
  if (q.facts.own_root && !found.resolved() && segment == kRoot && !q.has_prefix() &&
      serve_own_root(q, route)) {
    return;
  }
  if (found.kind == Resolution::Kind::kMount && !q.has_prefix()) {
    follow_mount(q, found, route);
    return;
  }
  if (!found.resolved()) {
    route = lost(found, segment);
    return;
  }
  route.looked_up = true;
  if (q.has_prefix() && found.shard->spec.name != q.target.scope_name) {
    route.reason = RouteReason::kElsewhere;
    route.status = kForbidden;
    route.lookup = Resolution::Kind::kNotFound;
    route.why_not = topology::NotFoundReason::kUnknown;
    return;
  }
  route.shard = found.shard;
  route.cluster = found.cluster;
  // The way around a Partition's view needs a permission of its own.
  route.takes_right = q.has_prefix() && !found.shard->spec.plain;
  choose_handler(q, route);
}

/// Where a mounted Workspace leads: a mount inside is followed, up to a few of them.
void follow_mount(const Question& q, const Resolution& mounted, Route& route) {
  std::string_view url = mounted.mount_url;
  std::string trail(q.trail());
  for (int hop = 0; hop < kMostMounts; ++hop) {
    MountRoute to = route_mount(q.snapshot, q.facts.mounts, url, trail);
    if (to.kind == MountRoute::Kind::kRefused) {
      route = refused(RouteReason::kMountHost, kForbidden);
      route.looked_up = true;
      route.lookup = Resolution::Kind::kNotFound;
      route.why_not = topology::NotFoundReason::kMountHost;
      route.refused_mount = url;
      return;
    }
    if (to.kind == MountRoute::Kind::kNoRoute) {
      route = refused(RouteReason::kMountPath, kNotFound);
      return;
    }
    if (to.kind != MountRoute::Kind::kInside) {
      route.kind = RouteKind::kMounted;
      if (to.kind != MountRoute::Kind::kHost) {
        route.shard = q.snapshot.shard(to.shard);
      }
      route.mount = std::make_unique<MountRoute>(std::move(to));
      return;
    }
    // A new target, judged as if it had come (SE-024).
    auto led = std::make_unique<LedTarget>(
        read_target(q.method, std::move(to.target), has_plain_servers(q.snapshot)));
    const RequestTarget& target = led->target;
    const bool is_one = target.form == TargetForm::kCluster && target.cluster != "*";
    if (!is_one && target.fault != krm::TargetFault::kTooLong) {
      route = refused(RouteReason::kMountPath, kForbidden);
      return;
    }
    const Resolution next = is_one ? led->readings.found(q.snapshot, target) : Resolution();
    if (next.kind == Resolution::Kind::kMount) {
      url = next.mount_url;
      trail = led->text.substr(target.trail);
      continue;
    }
    if (target.fault != krm::TargetFault::kNone) {
      route = fault_of(target);
    } else {
      to_cluster({target, led->text, q.method, q.snapshot, q.facts, led->readings}, route);
    }
    route.led = std::move(led);
    return;
  }
  route = refused(RouteReason::kMountLoop, kLoop);
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
    route.wildcard = std::make_unique<aggregation::WildcardRequest>(aggregation::read_wildcard(
        q.method, std::string_view(service.target).substr(end), q.info(), false));
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

void to_service(const Question& q, Route& route) {
  auto scope = std::make_unique<ScopeFound>(
      find_scope(q.target.scope, q.target.scope_cluster, q.target.scope_name, q.snapshot, q.facts));
  if (scope->reason != RouteReason::kNone) {
    route = refused(scope->reason, status_of(scope->reason));
    return;
  }
  const bool of_all = q.target.cluster == "*", of_one = !of_all && !q.target.cluster.empty();
  route.service = std::make_unique<ServiceRoute>(
      route_service({q.snapshot, scope->scope, q.method, q.text, *q.target.path, q.target.is_watch,
                     of_all ? &q.info() : nullptr, of_one ? &q.found() : nullptr}));
  route.scope = std::move(scope);
  choose_service(q, route);
}

void to_built_in(const Question& q, Route& route) {
  const bool is_cluster = q.facts.clusters && q.target.form == TargetForm::kCluster;
  if (!is_cluster && q.target.form != TargetForm::kService) {
    const bool below = q.target.form == TargetForm::kNoService;
    route = refused(below ? RouteReason::kNoVirtualWorkspace : RouteReason::kNoSuchPath, kNotFound);
  } else if (q.target.scope == TargetScope::kShard &&
             q.snapshot.shard(q.target.scope_name) == nullptr) {
    route = refused(RouteReason::kNoSuchShard, kNotFound);
  } else if (!is_cluster) {
    to_service(q, route);
  } else if (q.target.scope == TargetScope::kPartition && q.target.cluster != "*") {
    route = refused(RouteReason::kNoSuchPath, kNotFound);
  } else {
    to_cluster(q, route);
  }
}

}  // namespace

std::string_view route_kind_name(RouteKind kind) noexcept {
  switch (kind) {
    case RouteKind::kProbe:
      return "probe";
    case RouteKind::kMetrics:
      return "metrics";
    case RouteKind::kConsole:
      return "console";
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

bool is_console(std::string_view target) noexcept {
  constexpr std::string_view kPage = "/ui";
  return target.starts_with(kPage) && (target.size() == kPage.size() ||
                                       target[kPage.size()] == '/' || target[kPage.size()] == '?');
}

Route route(Request& request, const topology::Snapshot& snapshot, const RouteFacts& facts) {
  Route route;
  const RequestTarget& target = request.target;
  const std::string& method = request.head.method;
  if (target.form == TargetForm::kProbe || target.form == TargetForm::kMetrics ||
      (target.form == TargetForm::kInfo && facts.info)) {
    route.kind = target.form == TargetForm::kMetrics ? RouteKind::kMetrics : RouteKind::kProbe;
    if (!is_read(method)) {
      route.reason = RouteReason::kMethod;
      route.status = kNotAllowed;
    }
    return route;
  }
  if (target.fault != krm::TargetFault::kNone) {
    route = fault_of(target);
    return route;
  }
  const Question q{target, request.head.target, method, snapshot, facts, request.readings};
  if (facts.console && is_console(request.head.target)) {
    route.kind = RouteKind::kConsole;
    return route;
  }
  if (facts.mapping != nullptr && to_entry(q, route)) {
    return route;
  }
  if (target.plain_prefix.empty()) {
    to_built_in(q, route);
    return route;
  }
  // From here on words are compared as they are.
  auto led = std::make_unique<LedTarget>(read_target(
      method, target.plain_prefix + std::string(q.trail()), has_plain_servers(snapshot)));
  to_built_in({led->target, led->text, method, snapshot, facts, led->readings}, route);
  if (route.led == nullptr) {
    route.led = std::move(led);
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
