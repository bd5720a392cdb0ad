// ProxyHandler: lists and watches over several shards.
#include <algorithm>

#include "aggregation/list/merged_get.h"
#include "aggregation/rights/reviewed_read.h"
#include "aggregation/shard_answer.h"
#include "aggregation/wildcard_route.h"
#include "auth/impersonation.h"
#include "auth/impersonation_modes.h"
#include "krm/status.h"
#include "proxy/gates/impersonate.h"
#include "proxy/handler.h"
#include "proxy/routing/local_kinds.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kPartitions = "/partitions/";
constexpr std::string_view kEverywhere = "/clusters/*";

/// What finding the members again takes of a request.
http::RequestHead asked_of(const http::RequestHead& head) {
  http::RequestHead asked;
  asked.method = head.method;
  asked.target = head.target;
  return asked;
}

/// What the client put before the path of a document, decoded: links of OpenAPI begin with it.
std::string client_root(std::string_view target) {
  std::string path = krm::shown_path(target);
  path.resize(std::min(path.size(), path.find(kEverywhere) + kEverywhere.size()));
  return path;
}

/// The rights that a list or watch of one server takes.
auth::Attributes attributes_of(const krm::RequestInfo& info) {
  auth::Attributes out;
  out.verb = info.verb;
  out.group = info.group;
  out.version = info.version;
  out.resource = info.resource;
  out.ns = info.ns;
  out.name = info.name;
  return out;
}

auth::ReviewSelectors selectors_of(const krm::RequestInfo& info) {
  return {std::string(info.query.get("labelSelector").value_or("")),
          std::string(info.query.get("fieldSelector").value_or(""))};
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

}  // namespace

std::string ProxyHandler::canonical(const Prefix& prefix) const {
  if (!prefix.partition) {
    return {};
  }
  const topology::Resolution where = topology::resolve(params_.view->current(), prefix.cluster);
  return std::string(kPartitions) +
         (where.resolved() ? std::string(where.cluster) : prefix.cluster) + "/" +
         prefix.name;  // a root of our own
}

ProxyHandler::Answer ProxyHandler::merged_request(http::RequestHead head,
                                                  http::ResponseStream& stream, Prefix prefix,
                                                  std::string trail) {
  aggregation::ensure_audit_id(head);
  const topology::Snapshot& facts = params_.view->current();
  if (!facts.shards_listed() || facts.shards().empty()) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  if (prefix.partition) {
    if (const auto scope = scope_of(head, prefix); !scope) {
      return serving::answer_error(head, stream, scope.error());
    }
  }
  if (auto refused = identify(head, stream)) {
    return refused;
  }
  if (looped(head)) {
    return serving::answer_error(head, stream, serving::loop_detected());
  }
  if (prefix.length != 0 && !prefix.partition) {  // one shard, as it is (U6)
    const topology::ShardInfo* const only = facts.shard(prefix.name);
    if (only == nullptr) {  // it went while the request waited
      return serving::answer_no_route(head, stream);
    }
    if (only->spec.plain) {  // it decides itself who may do what
      return dispatch(std::move(head), stream, *only, only->spec.name, trail);
    }
    const topology::ShardId shard = only->id;
    std::string path = krm::shown_path(head.target);
    return authorized_request(
        std::move(head), stream, std::move(path),
        [this, &stream, shard, trail](http::RequestHead authorized) {
          const topology::ShardInfo* info = params_.view->current().shard(shard);
          shards::ShardClient* client = params_.pool.find(shard);
          if (info == nullptr || client == nullptr) {
            return serving::answer_error(authorized, stream, serving::not_known_yet());
          }
          authorized.target = topology::shard_target(*info, "*", trail);
          add_forwarding_headers(authorized, stream.peer());
          return forward(forward_, std::move(authorized), stream, *client);
        });
  }
  const topology::ShardInfo& first = *facts.shards().front();
  aggregation::WildcardRequest request =
      aggregation::read_wildcard(head.method, trail, first.spec.plain);
  if (request.use != aggregation::WildcardRequest::Use::kDocument &&
      serving::is_nobody(head, stream.peer())) {
    return serving::answer_error(head, stream, krm::unauthorized());  // AGG-1705
  }
  std::shared_ptr<const aggregation::ReviewPlan> reviews;
  if (request.use == aggregation::WildcardRequest::Use::kMerge && first.spec.plain &&
      is_reviewable(request.info, request.path)) {
    auto plan = review_plan(head, stream.peer(), request.info, std::nullopt);
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
  if (request.refusal) {
    return serving::answer_error(head, stream, *request.refusal);
  }
  if (request.use == aggregation::WildcardRequest::Use::kDocument) {
    return merged_document(std::move(head), stream, prefix, trail);
  }
  aggregation::MergeRoute route;
  route.scope = {canonical(prefix) + std::string(kEverywhere), request.info.group,
                 request.info.resource};
  route.info = std::move(request.info);
  route.path = topology::shard_target(first, "*", request.path);
  route.reviews = std::move(reviews);
  if (prefix.partition) {
    route.members = [this, asked = asked_of(head), prefix] {
      const auto scope = scope_of(asked, prefix);
      return scope ? aggregation::members_of(merge_, scope->members)
                   : std::vector<aggregation::Member>();
    };
  } else {
    route.members = [this] { return aggregation::all_members(merge_); };
  }
  add_forwarding_headers(head, stream.peer());
  if (request.use == aggregation::WildcardRequest::Use::kGet) {
    return aggregation::answer_merged_get(merge_, std::move(head), stream, std::move(route));
  }
  return aggregation::answer_merged(merge_, std::move(head), stream, std::move(route));
}

Expected<std::shared_ptr<const aggregation::ReviewPlan>> ProxyHandler::review_plan(
    const http::RequestHead& head, const http::PeerInfo& peer, const krm::RequestInfo& info,
    std::optional<Judge> judge) const {
  const serving::ConnectionIdentity* identity = serving::identity_of(peer);
  // Whom shards are told of, with nothing that is kept from them.
  const auto caller = auth::read_identity_headers(head.headers, params_.identity_headers);
  if (merge_.reviewer == nullptr || identity == nullptr || !identity->user || !caller) {
    return std::shared_ptr<const aggregation::ReviewPlan>();
  }
  auto wanted = auth::read_impersonation(head.headers, *caller);
  if (!wanted) {
    return fail(std::move(wanted.error()));
  }
  auth::Attributes read = attributes_of(info);
  read.user = *caller;
  const auth::ReviewSelectors selectors = selectors_of(info);
  aggregation::ReviewPlan plan;
  plan.caller = caller->name;
  aggregation::ReviewPlan::Check right{read, selectors};
  if (judge) {
    plan.judge = std::move(judge->server);
    plan.is_for_all = std::move(judge->is_for_all);
    right = {std::move(judge->right)};
    right.attributes.user = *caller;
  }
  if (!*wanted) {
    plan.ways = {{std::move(right)}};
    return std::make_shared<const aggregation::ReviewPlan>(std::move(plan));
  }
  plan.caller += " as " + (*wanted)->name;
  for (auth::Mode& mode : auth::impersonation_modes(**wanted, read)) {
    aggregation::ReviewPlan::Way& way = plan.ways.emplace_back();
    for (auth::ModeStep& step : mode.steps) {
      // The first right of a constrained mode is one to the read, on behalf of somebody.
      const bool on_read = way.empty() && mode.name != auth::ModeName::kClassic;
      way.push_back({std::move(step.attributes), on_read ? selectors : auth::ReviewSelectors(),
                     step.spares, std::move(step.fault)});
    }
    right.attributes.user = std::move(mode.user);
    way.push_back(right);
  }
  return std::make_shared<const aggregation::ReviewPlan>(std::move(plan));
}

std::function<std::optional<aggregation::ReviewServer>()> ProxyHandler::judge_of(
    std::string owner) const {
  return [this, owner = std::move(owner)]() -> std::optional<aggregation::ReviewServer> {
    const topology::Snapshot& facts = params_.view->current();
    const topology::Resolution where = topology::resolve(facts, owner);
    if (!where.resolved() || where.shard == nullptr) {
      return std::nullopt;
    }
    return aggregation::ReviewServer{where.shard->id, "/clusters/" + std::string(where.cluster)};
  };
}

ProxyHandler::Answer ProxyHandler::merged_document(http::RequestHead head,
                                                   http::ResponseStream& stream, Prefix prefix,
                                                   std::string_view trail) {
  const topology::Snapshot& facts = params_.view->current();
  const topology::ShardInfo& first = *facts.shards().front();
  aggregation::DocumentRoute route;
  route.request = aggregation::read_document_request(trail, head.headers.get("accept"));
  if (route.request.kind == aggregation::DocumentRequest::Kind::kOther) {  // AGG-201
    return serving::answer_error(
        head, stream,
        Error(Errc::kMethodNotAllowed,
              first.spec.plain ? "this is of one server; ask for it at /clusters/<name>/"
                               : "this is of one shard; ask for it at /shards/<name>/clusters/*/"));
  }
  if (serving::is_nobody(head, stream.peer())) {
    return serving::answer_error(head, stream, krm::unauthorized());
  }
  const std::string& path = route.request.path;
  const auto scope = scope_of(head, prefix);
  for (const auto& shard : facts.shards()) {
    if (scope && scope->has(shard->id)) {
      route.sources.push_back(source_of(*shard, topology::shard_target(*shard, "*", path)));
    }
  }
  sort_by_slot(*merge_.slots, route.sources);
  route.root = client_root(head.target);
  if (!prefix.partition && !first.spec.plain &&
      local_use(path, false, possible_groups(params_.groups)) != LocalUse::kForward) {
    route.local_target = std::string(kEverywhere) + path;
  }
  route.verbs = {"list", "watch"};
  if (first.spec.plain) {
    route.verbs.push_back("get");
  }
  add_forwarding_headers(head, stream.peer());
  return aggregation::answer_document(documents_, std::move(head), stream, std::move(route));
}

aggregation::DocumentRoute::Source ProxyHandler::source_of(const topology::ShardInfo& shard,
                                                           std::string target) const {
  return {shard.id, aggregation::slot_uid(shard.spec), std::move(target)};
}

ProxyHandler::Answer ProxyHandler::united_service(http::RequestHead head,
                                                  http::ResponseStream& stream,
                                                  ServiceRoute service) {
  aggregation::ensure_audit_id(head);
  if (looped(head)) {
    return serving::answer_error(head, stream, serving::loop_detected());
  }
  const std::size_t end = service.target.find(kEverywhere) + kEverywhere.size();
  aggregation::DocumentRoute route;
  route.request = aggregation::read_document_request(std::string_view(service.target).substr(end),
                                                     head.headers.get("accept"));
  for (const topology::ShardId shard : service.union_of) {
    if (const topology::ShardInfo* info = params_.view->current().shard(shard)) {
      route.sources.push_back(source_of(*info, service.target.substr(0, end) + route.request.path));
    }
  }
  sort_by_slot(*merge_.slots, route.sources);
  route.virtual_url = true;
  route.root = client_root(head.target);
  add_forwarding_headers(head, stream.peer());
  return aggregation::answer_document(documents_, std::move(head), stream, std::move(route));
}

ProxyHandler::Answer ProxyHandler::merged_service(http::RequestHead head,
                                                  http::ResponseStream& stream, Prefix prefix,
                                                  ServiceRoute service) {
  aggregation::ensure_audit_id(head);
  if (looped(head)) {
    return serving::answer_error(head, stream, serving::loop_detected());
  }
  const std::size_t end = service.target.find(kEverywhere) + kEverywhere.size();
  aggregation::WildcardRequest request =
      aggregation::read_wildcard(head.method, std::string_view(service.target).substr(end), false);
  if (request.refusal) {
    return serving::answer_error(head, stream, *request.refusal);
  }
  aggregation::MergeRoute route;
  // Names, which stay the same, not the paths that the client may have sent.
  if (const auto path = parse_service_path(service.target);
      path && path->kind == VirtualWorkspace::kApiExport &&
      aggregation::is_plain_segment(path->object) && path->object == path->object_raw &&
      is_reviewable(request.info, request.path) &&
      are_claims_known(params_.view->current(), path->owner)) {
    // Maximal permission policies of claimed APIs judge whoever the shards are told of.
    const auto is_for_all = [this, owner = path->owner, name = path->object,
                             group = request.info.group, resource = request.info.resource] {
      const topology::Snapshot& facts = params_.view->current();
      return !facts.claims_foreign(topology::resolve(facts, owner).cluster, name, group, resource);
    };
    if (is_for_all()) {
      auto plan = review_plan(
          head, stream.peer(), request.info,
          Judge{judge_of(path->owner), content_of(path->object, request.info), is_for_all});
      if (!plan) {
        return serving::answer_error(head, stream, plan.error());
      }
      route.reviews = std::move(*plan);
    }
  }
  route.scope = {canonical(prefix) + service.target.substr(0, end), request.info.group,
                 request.info.resource};
  route.path = service.target.substr(0, end) + request.path;
  route.info = std::move(request.info);
  route.virtual_url = true;
  route.members = [this, asked = asked_of(head), prefix] {
    std::vector<aggregation::Member> members;
    const auto scope = scope_of(asked, prefix);
    const auto path = parse_service_path(prefix.rest(asked.target));
    if (!scope || !path) {
      return members;
    }
    const std::vector<WildcardShard> shards =
        read_shards({params_.view->current(), *scope, asked.method, asked.target, *path});
    std::vector<const topology::ShardInfo*> all;
    for (const WildcardShard& one : shards) {
      all.push_back(one.shard);
    }
    members = aggregation::members_of(merge_, all);
    for (aggregation::Member& member : members) {
      member.needed = std::any_of(shards.begin(), shards.end(), [&](const WildcardShard& one) {
        return one.shard->id == member.id && one.contacted();
      });
    }
    return members;
  };
  add_forwarding_headers(head, stream.peer());
  return aggregation::answer_merged(merge_, std::move(head), stream, std::move(route));
}

void ProxyHandler::set_slots(aggregation::SlotHistoryPtr slots, aggregation::TokenKeys keys) {
  merge_.keys = std::move(keys);
  merge_.set_slots(std::move(slots));
}

}  // namespace kintsugi::proxy
