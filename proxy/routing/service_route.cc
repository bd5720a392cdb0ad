#include "proxy/routing/service_route.h"

#include <algorithm>

#include "aggregation/documents/document_request.h"
#include "krm/request_info.h"
#include "krm/status.h"
#include "serving/answer.h"
#include "topology/partition_set.h"

namespace kintsugi::proxy {
namespace {

using krm::service_target;
using krm::ServicePath;
using krm::VirtualWorkspace;
using topology::Resolution;
using topology::Resource;
using topology::ShardInfo;

std::vector<const ShardInfo*> by_name(const topology::Snapshot& facts) {
  std::vector<const ShardInfo*> shards;
  for (const auto& info : facts.shards()) {
    shards.push_back(info.get());
  }
  std::sort(shards.begin(), shards.end(),
            [](const auto* a, const auto* b) { return a->spec.name < b->spec.name; });
  return shards;
}

ServiceRoute refuse(RouteReason why, Error error, bool before_identity) {
  ServiceRoute route;
  route.why = why;
  route.refusal = std::move(error);
  route.refused_before_identity = before_identity;
  return route;
}

ServiceRoute outside(const ServiceQuestion& q) {
  ServiceRoute route =
      refuse(RouteReason::kElsewhere, serving::not_permitted(q.method, q.asked), true);
  route.lookup = Resolution::Kind::kNotFound;
  route.reason = topology::NotFoundReason::kUnknown;
  return route;
}

/// E1, E2 or E3 of a lookup that did not lead to a shard.
ServiceRoute unresolved(const ServiceQuestion& q, const Resolution& found) {
  const bool open = found.kind == Resolution::Kind::kNotKnown;
  ServiceRoute route = refuse(reason_of(found),
                              open ? serving::not_known_yet()
                              : found.kind == Resolution::Kind::kUnavailable
                                  ? serving::workspace_unavailable()
                                  : serving::not_permitted(q.method, q.asked),
                              true);
  route.lookup = found.kind;
  route.reason = found.reason;
  return route;
}

ServiceRoute go_to(const ShardInfo& shard, std::string target) {
  ServiceRoute route;
  route.shard = shard.id;
  route.target = std::move(target);
  return route;
}

std::vector<const ShardInfo*> members_of(const ServiceQuestion& q) {
  return q.scope.limited ? q.scope.members : by_name(q.facts);
}

ServiceRoute any_up(const ServiceQuestion& q, std::string target) {
  ServiceRoute route;
  for (const ShardInfo* shard : members_of(q)) {
    if (shard->up && shard->usable) {
      route.any_of.push_back(shard->id);
    }
  }
  route.target = std::move(target);
  if (route.any_of.empty()) {
    route.why = RouteReason::kNoShardUp;
    route.refusal = serving::shard_unreachable(q.is_watch);
  }
  return route;
}

/// A shard to stand for all when none holds what is read: its answer is an empty list, so it must
/// not hold anything that the scope leaves out.
const ShardInfo* stand_in(const std::vector<WildcardShard>& shards, const ShardInfo* owner,
                          bool discovery) {
  const ShardInfo* best = nullptr;
  int best_rank = 0;
  for (const WildcardShard& one : shards) {
    if (!discovery && (one.consumes || one.open)) {
      continue;
    }
    const int rank = (one.shard->up ? 4 : 0) + (one.shard == owner ? 2 : 0) + (one.member ? 1 : 0);
    if (best == nullptr || rank > best_rank) {
      best = one.shard;
      best_rank = rank;
    }
  }
  return best;
}

/// Lists and watches of clusters/* are merged, unless a prefix names one shard. Discovery and
/// OpenAPI are the union over the shards that would be read.
ServiceRoute choose_wildcard_shard(const ServiceQuestion& q, std::string_view owner,
                                   const ShardInfo* owner_shard, bool discovery) {
  std::string target = service_target(q.path, owner, "*");
  if (!discovery) {
    ServiceRoute route;
    route.merged = true;
    route.owner = owner;
    route.target = std::move(target);
    return route;
  }
  const std::vector<WildcardShard> shards = wildcard_shards(q.facts, q.scope, q.path, owner);
  const ShardInfo* chosen = nullptr;
  ServiceRoute several;
  for (const WildcardShard& one : shards) {
    if (!one.contacted()) {
      continue;
    }
    several.union_of.push_back(one.shard->id);
    if (chosen == nullptr || (one.shard->up && !chosen->up)) {
      chosen = one.shard;
    }
  }
  chosen = chosen != nullptr ? chosen : stand_in(shards, owner_shard, true);
  const bool document = aggregation::read_document_request(q.path.trail, {}).kind !=
                        aggregation::DocumentRequest::Kind::kOther;
  if (document && chosen != nullptr) {
    if (several.union_of.empty()) {
      several.union_of.push_back(chosen->id);
    }
    several.target = std::move(target);
    return several;
  }
  return chosen != nullptr ? go_to(*chosen, std::move(target))
                           : refuse(RouteReason::kNotKnownYet, serving::not_known_yet(), false);
}

ServiceRoute wildcard(const ServiceQuestion& q, std::string_view owner,
                      const ShardInfo* owner_shard) {
  switch (q.path.kind) {
    case VirtualWorkspace::kMigrating:
      return refuse(RouteReason::kNoVirtualWorkspace, krm::path_not_found(), true);
    case VirtualWorkspace::kApiResourceSchema:
      return q.scope.has(owner_shard->id) ? go_to(*owner_shard, service_target(q.path, owner, "*"))
                                          : outside(q);
    case VirtualWorkspace::kReplication:
      return owner_shard->up && q.scope.has(owner_shard->id)
                 ? go_to(*owner_shard, service_target(q.path, owner, "*"))
                 : any_up(q, service_target(q.path, owner, "*"));
    default:
      break;
  }
  if (q.scope.native) {  // what it refuses, it refuses in its own words
    return go_to(*q.scope.members.front(), service_target(q.path, owner, "*"));
  }
  const krm::RequestInfo info =
      q.info != nullptr ? *q.info : krm::parse_request_info(q.method, q.path.trail);
  if (q.method == "HEAD" || q.method == "OPTIONS" || q.method == "TRACE" ||
      (!info.is_resource && q.method != "GET")) {  // AGG-1706
    return refuse(RouteReason::kMethod, krm::method_not_allowed(), false);
  }
  if (info.is_resource && info.verb != "list" && info.verb != "watch") {
    return refuse(RouteReason::kVerb,
                  krm::wildcard_not_allowed(info.verb, info.qualified_resource()), false);
  }
  if (info.is_resource && !info.ns.empty()) {
    return refuse(RouteReason::kNamespaced,
                  krm::bad_request("cross-cluster LIST and WATCH are required to be "
                                   "cross-namespace, not scoped to namespace " +
                                   info.ns),
                  false);
  }
  return choose_wildcard_shard(q, owner, owner_shard, !info.is_resource);
}

/// Means in a target what it means here.
bool is_plain(std::string_view cluster) {
  return std::all_of(cluster.begin(), cluster.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ':';
  });
}

/// A name that leads nowhere is left to the shard to judge, like the types of the system, which are
/// in no workspace; unless it decides about the shard.
bool passes_as_it_is(const ServicePath& path) {
  const bool routes = path.kind == VirtualWorkspace::kReplication ||
                      path.kind == VirtualWorkspace::kApiResourceSchema;
  const bool system = !path.type.empty() && path.owner.starts_with("system:");
  return !routes && krm::is_workspace_path(path.owner) &&
         (system || path.owner.find(':') == std::string::npos);
}

}  // namespace

bool ServiceScope::has(topology::ShardId shard) const noexcept {
  return !limited || std::any_of(members.begin(), members.end(),
                                 [shard](const ShardInfo* one) { return one->id == shard; });
}

ServiceScope one_shard(const ShardInfo& shard) { return {true, true, {&shard}}; }

ServiceScope shards_of_partition(const topology::Snapshot& facts, const krm::Json& partition) {
  ServiceScope scope{true, false, {}};
  const auto selector = topology::selector_of(partition.at({"spec", "selector"}));
  if (!selector) {
    return scope;
  }
  const auto matches = [&selector](const ShardInfo& shard) {
    return std::all_of(selector->requirements().begin(), selector->requirements().end(),
                       [&shard](const krm::Requirement& one) {
                         const std::string* value = shard.spec.label(one.key);
                         return one.matches(value != nullptr
                                                ? std::optional<std::string_view>(*value)
                                                : std::nullopt);
                       });
  };
  for (const ShardInfo* shard : by_name(facts)) {
    if (matches(*shard)) {
      scope.members.push_back(shard);
    }
  }
  return scope;
}

std::vector<WildcardShard> wildcard_shards(const topology::Snapshot& facts,
                                           const ServiceScope& scope, const ServicePath& path,
                                           std::string_view owner) {
  const bool by_binding = path.kind == VirtualWorkspace::kApiExport;
  const std::vector<topology::ShardId> consumers =
      by_binding ? facts.consumers(owner, path.object) : std::vector<topology::ShardId>();
  std::vector<WildcardShard> shards;
  for (const ShardInfo* info : by_name(facts)) {
    WildcardShard one;
    one.shard = info;
    one.member = scope.has(info->id);
    one.consumes = !by_binding || std::binary_search(consumers.begin(), consumers.end(), info->id);
    one.open = !one.consumes && !info->is_synced(Resource::kBindings);
    shards.push_back(one);
  }
  return shards;
}

ServiceRoute route_service(const ServiceQuestion& q) {
  const ServicePath& path = q.path;
  if (path.kind == VirtualWorkspace::kAdmin) {
    return any_up(q, service_target(path, {}, {}));
  }
  if (path.kind == VirtualWorkspace::kOther) {  // only the shard that is asked can know it
    return q.scope.limited && q.scope.members.size() == 1
               ? go_to(*q.scope.members.front(), service_target(path, {}, {}))
               : refuse(RouteReason::kNoVirtualWorkspace, krm::path_not_found(), true);
  }
  std::string_view owner = path.owner;
  const ShardInfo* owner_shard = nullptr;
  if (!owner.empty()) {
    const Resolution found = topology::resolve(q.facts, owner);
    if (found.resolved()) {
      owner = found.cluster;
      owner_shard = found.shard;
    } else if (!passes_as_it_is(path)) {
      return unresolved(q, found);
    }
  }
  if (path.cluster == "*") {
    return wildcard(q, owner, owner_shard);
  }
  const Resolution found = q.found != nullptr ? *q.found : topology::resolve(q.facts, path.cluster);
  if (!found.resolved()) {
    const bool nowhere = found.kind == Resolution::Kind::kNotFound && is_plain(path.cluster);
    return q.scope.native && nowhere
               ? go_to(*q.scope.members.front(), service_target(path, owner, path.cluster))
               : unresolved(q, found);
  }
  const ShardInfo& shard =
      path.kind == VirtualWorkspace::kApiResourceSchema ? *owner_shard : *found.shard;
  if (q.scope.native) {  // it refuses what is not its own
    return go_to(*q.scope.members.front(), service_target(path, owner, found.cluster));
  }
  if (!q.scope.has(shard.id)) {
    return outside(q);
  }
  return go_to(shard, service_target(path, owner, found.cluster));
}

std::vector<WildcardShard> read_shards(const ServiceQuestion& q) {
  const Resolution found = topology::resolve(q.facts, q.path.owner);
  const std::string_view owner = found.resolved() ? found.cluster : std::string_view(q.path.owner);
  std::vector<WildcardShard> shards = wildcard_shards(q.facts, q.scope, q.path, owner);
  const bool none = std::none_of(shards.begin(), shards.end(),
                                 [](const WildcardShard& one) { return one.contacted(); });
  const ShardInfo* instead =
      none ? stand_in(shards, found.resolved() ? found.shard : nullptr, false) : nullptr;
  for (WildcardShard& one : shards) {
    if (one.shard == instead) {
      one.member = one.consumes = true;
    }
  }
  std::erase_if(shards, [](const WildcardShard& one) { return !one.member; });
  return shards;
}

}  // namespace kintsugi::proxy
