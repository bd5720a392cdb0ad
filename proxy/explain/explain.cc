#include "proxy/explain/explain.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "base/time.h"
#include "krm/path_prefixes.h"
#include "krm/request_target.h"
#include "krm/service_path.h"
#include "krm/status.h"
#include "proxy/explain/internal/explain_right.h"
#include "proxy/routing/request.h"
#include "proxy/routing/route_reason.h"
#include "proxy/routing/router.h"
#include "proxy/routing/service_route.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using krm::RequestTarget;
using krm::TargetForm;
using topology::Resolution;
using topology::ShardInfo;

constexpr std::string_view kSlices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/";

Json steps_json(const std::vector<topology::ExplainStep>& steps) {
  Json list = Json::array();
  const std::int64_t now = unix_seconds();
  for (const topology::ExplainStep& step : steps) {
    Json item = Json::object({{"segment", step.segment},
                              {"shard", step.shard},
                              {"cluster", step.cluster},
                              {"source", step.source},
                              {"note", step.note}});
    if (step.changed != 0) {
      item["ageSeconds"] = now - static_cast<std::int64_t>(step.changed);
    }
    list.push_back(std::move(item));
  }
  return list;
}

/// One row of "shards": a shard that takes part in reads, or why it does not.
Json row(std::string_view shard, bool selected, bool effective, bool contacted,
         std::string_view why) {
  Json item = Json::object({{"shard", shard},
                            {"selected", selected},
                            {"effective", effective},
                            {"contacted", contacted}});
  if (!why.empty()) {
    item["why"] = why;
  }
  return item;
}

}  // namespace

Json explain_slice(const topology::Snapshot& index, const ExplainSources& sources,
                   std::string_view cluster, std::string_view name) {
  const auto slice = sources.slice ? sources.slice(cluster, name) : std::nullopt;
  if (!slice) {
    return Json::object({{"found", false}});
  }
  Json result = Json::object({{"found", true}});
  for (const std::string_view field : {"endpoints", "conditions", "shardSelector"}) {
    if (const Json* value = slice->at({"status", field})) {
      result[field] = *value;
    }
  }
  const auto parts = sources.slice_shards ? sources.slice_shards(*slice) : std::nullopt;
  if (!parts) {
    return result;
  }
  const std::string_view path = slice->text({"spec", "export", "path"});
  const Resolution home = topology::resolve(index, path.empty() ? cluster : path);
  const std::string_view export_name = slice->text({"spec", "export", "name"});
  Json rows = Json::array();
  for (const endpointslice::ShardPart& part : *parts) {
    const ShardInfo* info = index.shard(part.shard);
    const bool consumes =
        info != nullptr && index.has_consumer(info->id, home.cluster, export_name);
    const bool open = info != nullptr && !info->is_synced(topology::Resource::kBindings);
    const bool contacted = part.selected && (consumes || open);
    rows.push_back(row(part.shard, part.selected, part.effective, contacted,
                       !part.why.empty() ? std::string_view(part.why)
                       : contacted       ? std::string_view()
                                         : "it holds no APIBinding of the export"));
  }
  result["shards"] = std::move(rows);
  return result;
}

namespace {

/// What is asked, in the words of the router.
struct Asked {
  Request request;
  Route route;
  [[nodiscard]] const std::string& text() const { return request.head.target; }
  [[nodiscard]] const RequestTarget& target() const { return request.target; }
  [[nodiscard]] const krm::ServicePath& service() { return *request.target.path; }
};

/// The facts that the loops decide with, as far as the control loop has them.
RouteFacts facts_of(const ExplainSources& sources, const ExplainSources::Mapping& mapping,
                    const ToldGroups* told = nullptr) {
  RouteFacts facts;
  facts.mapping = mapping.entries.get();
  facts.clusters = mapping.clusters;
  facts.console = sources.console;
  facts.wildcard = sources.wildcard;
  facts.own_root = sources.own_root;
  facts.info = sources.info;
  facts.groups = sources.groups;
  if (sources.ask_groups) {
    facts.groups_of = [told](std::string_view cluster) {
      return told != nullptr && told->groups && told->cluster == cluster
                 ? std::optional<LocalGroups>(*told->groups)
                 : std::nullopt;
    };
  }
  facts.mounts = sources.mounts;
  facts.partition = sources.partition;
  return facts;
}

/// The path of a URL behind whatever the external URL has in front of it.
std::string_view path_of_url(std::string_view path) {
  if (path.find("://") == std::string_view::npos) {
    return path;
  }
  std::size_t first = std::string_view::npos;
  for (const std::string_view begin :
       {krm::kShardsPrefix, krm::kPartitionsPrefix, krm::kServicesPrefix, krm::kClustersPrefix}) {
    first = std::min(first, path.find(begin));
  }
  return first == std::string_view::npos ? path : path.substr(first);
}

Asked ask(const topology::Snapshot& index, const RouteFacts& facts, std::string_view input,
          std::string_view method) {
  const bool plain = has_plain_servers(index);
  const std::string_view path = path_of_url(input);
  Asked asked;
  asked.request.head.method = method;
  asked.request.lead_to(read_target(
      method, path.starts_with('/') ? std::string(path) : krm::cluster_root(percent_encode(path)),
      plain));
  if (asked.target().form == TargetForm::kNoService) {
    // An endpoint's URL ends where a client appends /clusters/….
    LedTarget endpoint = read_target(
        method,
        asked.text().substr(0, asked.target().query) + std::string(krm::kEverywhere) + "/api",
        plain);
    if (endpoint.target.form == TargetForm::kService && endpoint.target.cluster == "*") {
      asked.request.lead_to(std::move(endpoint));
    }
  }
  asked.route = route(asked.request, index, facts);
  return asked;
}

/// The target from which the route goes on.
void follow(Asked& asked) {
  if (asked.route.led != nullptr) {
    asked.request.lead_to(std::move(*asked.route.led));
  }
}

std::vector<topology::ExplainStep> steps_of(const topology::Snapshot& index, Asked& asked) {
  std::vector<topology::ExplainStep> steps;
  const auto tell = [&](std::string_view cluster) {
    if (!cluster.empty() && cluster != "*") {
      (void)topology::explain(index, cluster, steps);
    }
  };
  if (asked.target().fault != krm::TargetFault::kNone) {
    return steps;
  }
  tell(asked.target().scope_cluster);
  if (asked.route.kind == RouteKind::kMapped) {
    tell(asked.route.wanted);
  } else if (asked.target().form == TargetForm::kService) {
    tell(asked.service().owner);
    tell(asked.target().cluster);
  } else if (asked.target().form == TargetForm::kCluster) {
    tell(asked.target().cluster);
  }
  return steps;
}

Json names_of(const topology::Snapshot& index, const std::vector<topology::ShardId>& shards) {
  Json names = Json::array();
  for (const topology::ShardId id : shards) {
    names.push_back(index.shard(id)->spec.name);
  }
  return names;
}

/// "kind" of what led nowhere: that of the lookup where there was one.
std::string_view kind_of_refusal(const Route& route) {
  if (route.kind == RouteKind::kFault) {
    return route.reason == RouteReason::kUnclean ? "redirect" : "refused";
  }
  if (route.looked_up && route.lookup != Resolution::Kind::kResolved) {
    return topology::kind_name(route.lookup);
  }
  switch (route.reason) {
    case RouteReason::kNotKnownYet:
      return topology::kind_name(Resolution::Kind::kNotKnown);
    case RouteReason::kUnavailable:
      return topology::kind_name(Resolution::Kind::kUnavailable);
    default:
      return route.status == 404 || route.status == 403 ? "not-found" : "refused";
  }
}

std::string_view kind_of(const Asked& asked) {
  switch (asked.route.kind) {
    case RouteKind::kProbe:
    case RouteKind::kMetrics:
    case RouteKind::kConsole:
      return "built-in";
    case RouteKind::kFault:
    case RouteKind::kRefused:
      return kind_of_refusal(asked.route);
    case RouteKind::kMapped:
      return "mapped";
    case RouteKind::kMounted:
      return topology::kind_name(Resolution::Kind::kMount);
    default:
      break;
  }
  if (asked.target().form == TargetForm::kService) {
    return "virtual-workspace";
  }
  return asked.target().cluster == "*" ? "all-clusters"
                                       : topology::kind_name(Resolution::Kind::kResolved);
}

/// Who answers.
std::string_view handler_of(const Asked& asked) {
  switch (asked.route.kind) {
    case RouteKind::kMapped:
      return "backend";
    case RouteKind::kMounted:
      return asked.route.mount->kind == MountRoute::Kind::kHost ? "host" : "shard";
    case RouteKind::kForwarded:
    case RouteKind::kOfOneShard:
    case RouteKind::kService:
    case RouteKind::kServiceAny:
      return "shard";
    case RouteKind::kOverlaid:
      return asked.route.shard != nullptr ? "proxy and shard" : "proxy";
    case RouteKind::kAskedFirst:
      return "proxy or shard";
    case RouteKind::kMergedList:
    case RouteKind::kMergedWatch:
    case RouteKind::kMergedGet:
    case RouteKind::kMergedDocument:
    case RouteKind::kServiceDocument:
    case RouteKind::kServiceMerged:
      return asked.route.status != 0 ? "proxy"
             : asked.route.with_own  ? "proxy and shards"
                                     : "shards";
    default:
      return "proxy";
  }
}

void put_shard(const Asked& asked, Json& result) {
  const Route& route = asked.route;
  const ShardInfo& shard = *route.shard;
  const std::string_view trail = std::string_view(asked.text()).substr(asked.target().trail);
  result["shard"] = shard.spec.name;
  result["up"] = shard.up;
  if (route.kind == RouteKind::kService) {
    result["upstream"] = shard.spec.virtual_workspace_url + route.service->target;
  } else if (route.kind != RouteKind::kServed && route.kind != RouteKind::kMounted) {
    result["upstream"] = topology::shard_url(shard, route.cluster, trail);
  }
}

/// The shards that a read of all logical clusters asks.
Json merged_over(const topology::Snapshot& index, const Route& route) {
  const ScopeFound everything;
  const ServiceScope& scope = route.scope != nullptr ? route.scope->scope : everything.scope;
  Json names = Json::array();
  for (const auto& shard : index.shards()) {
    if (scope.has(shard->id)) {
      names.push_back(shard->spec.name);
    }
  }
  return names;
}

void put_service(const topology::Snapshot& index, std::string_view method, Asked& asked,
                 Json& result) {
  const ServiceRoute& service = *asked.route.service;
  const krm::ServicePath& path = asked.service();
  result["virtualWorkspace"] = path.name;
  if (service.refusal) {
    result["message"] = std::string(service.refusal->message());
  } else if (!service.union_of.empty()) {
    result["unionOf"] = names_of(index, service.union_of);
  } else if (!service.any_of.empty()) {
    result["anyOf"] = names_of(index, service.any_of);
    const ShardInfo& first = *index.shard(service.any_of.front());
    result["upstream"] = first.spec.virtual_workspace_url + service.target;
    result["up"] = first.up;
  } else if (service.merged && asked.route.status == 0) {
    Json names = Json::array();
    for (const WildcardShard& one :
         read_shards({index, asked.route.scope->scope, method, asked.text(), path})) {
      if (one.contacted()) {
        names.push_back(one.shard->spec.name);
      }
    }
    result["mergedOver"] = std::move(names);
  }
}

void put_rest(const topology::Snapshot& index, std::string_view method, Asked& asked,
              Json& result) {
  const Route& route = asked.route;
  if (route.shard != nullptr) {
    put_shard(asked, result);
  }
  if (!route.cluster.empty()) {
    result["cluster"] = route.cluster;
  }
  switch (route.kind) {
    case RouteKind::kFault:
      result[asked.target().fault == krm::TargetFault::kUnclean ? "location" : "message"] =
          asked.target().reason;
      break;
    case RouteKind::kMapped:
      result["backend"] = route.mapped->backend;
      result["entry"] = route.mapped->path;
      break;
    case RouteKind::kMounted:
      result["target"] = route.mount->target;
      if (route.mount->kind == MountRoute::Kind::kHost) {
        result["upstream"] = route.mount->origin + route.mount->target;
      }
      break;
    case RouteKind::kMergedList:
    case RouteKind::kMergedWatch:
    case RouteKind::kMergedGet:
    case RouteKind::kMergedDocument:
      if (route.status == 0) {
        result["mergedOver"] = merged_over(index, route);
      }
      break;
    default:
      break;
  }
  if (route.service) {
    put_service(index, method, asked, result);
  } else if (route.wildcard && route.wildcard->refusal) {
    result["message"] = std::string(route.wildcard->refusal->message());
  }
}

/// Rows of "shards" for a virtual workspace that covers several.
std::optional<Json> wildcard_rows(const topology::Snapshot& index, Asked& asked) {
  if (!asked.route.service || asked.target().cluster != "*") {
    return std::nullopt;
  }
  const krm::ServicePath& path = asked.service();
  if (path.kind != krm::VirtualWorkspace::kApiExport &&
      path.kind != krm::VirtualWorkspace::kInitializing &&
      path.kind != krm::VirtualWorkspace::kTerminating) {
    return std::nullopt;
  }
  const Resolution home = topology::resolve(index, path.owner);
  const std::string_view owner = home.resolved() ? home.cluster : std::string_view(path.owner);
  Json rows = Json::array();
  for (const WildcardShard& one : wildcard_shards(index, asked.route.scope->scope, path, owner)) {
    rows.push_back(
        row(one.shard->spec.name, one.member, one.member && one.consumes, one.contacted(),
            !one.member       ? "the prefix of the URL leaves it out"
            : one.contacted() ? (one.consumes ? "" : "its APIBindings are not listed yet")
                              : "it holds no APIBinding of the export"));
  }
  return rows;
}

/// The result without steps and rows.
Json result_of(const topology::Snapshot& index, std::string_view method, Asked& asked) {
  const Route& route = asked.route;
  Json result = Json::object({{"kind", kind_of(asked)},
                              {"route", route_kind_name(route.kind)},
                              {"handler", handler_of(asked)}});
  if (route.reason != RouteReason::kNone) {
    result["reason"] = route_reason_name(route.reason);
  }
  if (route.status != 0) {
    result["status"] = static_cast<std::int64_t>(route.status);
  }
  if (route.takes_right) {
    result["permission"] = to_lower(method) + " " + krm::shown_path(asked.text()) + " in root";
  }
  put_rest(index, method, asked, result);
  return result;
}

/// Its groups as shards are told of them. A ServiceAccount is one of the logical cluster that it is
/// asked about: of another one it would have no rights there.
auth::UserInfo as_the_proxy_passes_it(auth::UserInfo user, const std::string& cluster,
                                      const ExplainSources& sources) {
  if (const auto account = auth::parse_service_account_user(user.name)) {
    for (std::string& group : auth::service_account_groups(account->ns)) {
      user.groups.push_back(std::move(group));
    }
    user.extra.emplace_back(auth::kExtraClusterName, std::vector<std::string>{cluster});
  }
  auth::add_authenticated_group(user);
  if (sources.passed_groups) {
    user.groups = sources.passed_groups(user.groups);
  }
  return user;
}

}  // namespace

Json explain_path(const topology::Snapshot& index, const ExplainSources& sources,
                  std::string_view path, std::string_view method, const ToldGroups* told) {
  const ExplainSources::Mapping mapping =
      sources.mapping ? sources.mapping() : ExplainSources::Mapping();
  const RouteFacts facts = facts_of(sources, mapping, told);
  Asked asked = ask(index, facts, path, method);
  Json document = Json::object({{"input", path}, {"steps", steps_json(steps_of(index, asked))}});
  std::string mount;
  if (asked.target().form == TargetForm::kCluster &&
      asked.target().fault == krm::TargetFault::kNone) {
    mount = topology::resolve(index, asked.target().cluster).mount_url;
  }
  follow(asked);
  Json result = result_of(index, method, asked);
  if (asked.route.kind == RouteKind::kAskedFirst && told != nullptr && !told->groups) {
    result["status"] = static_cast<std::int64_t>(krm::http_status(told->groups.error()));
    result["message"] = std::string(told->groups.error().message());
    result["handler"] = "proxy";
  }
  if (!mount.empty()) {
    result["mount"] = mount;
  }
  if (auto rows = wildcard_rows(index, asked)) {
    document["shards"] = std::move(*rows);
  }
  const std::string trail = krm::canonical_trail(
      std::string_view(asked.text()).substr(std::min(asked.target().trail, asked.text().size())));
  if (asked.target().form == TargetForm::kCluster && asked.route.shard != nullptr &&
      trail.starts_with(kSlices)) {
    const std::string_view name = std::string_view(trail).substr(kSlices.size());
    document["slice"] = explain_slice(index, sources, asked.route.cluster,
                                      name.substr(0, name.find_first_of("/?")));
  }
  document["result"] = std::move(result);
  document["right"] = right_json(right_of(index, asked.request, asked.route, sources.reviewed));
  return document;
}

void explain(const std::function<const topology::Snapshot&()>& index, const ExplainSources& sources,
             std::string path, std::string method, std::function<void(krm::Json document)> done) {
  Json document = explain_path(index(), sources, path, method);
  const Json& result = *document.find("result");
  if (!sources.ask_groups || result.text({"route"}) != route_kind_name(RouteKind::kAskedFirst)) {
    done(std::move(document));
    return;
  }
  const std::string cluster(result.text({"cluster"}));
  sources.ask_groups(cluster, [index, &sources, cluster, path = std::move(path),
                               method = std::move(method),
                               done = std::move(done)](const Expected<LocalGroups>& groups) {
    const ToldGroups told{cluster, groups ? Expected<LocalGroups>(*groups)
                                          : Expected<LocalGroups>(fail(groups.error().clone()))};
    done(explain_path(index(), sources, path, method, &told));
  });
}

void explain_for(const std::function<const topology::Snapshot&()>& index,
                 const ExplainSources& sources, std::string path, std::string method,
                 auth::UserInfo user, std::function<void(krm::Json document)> done) {
  explain(index, sources, std::move(path), std::move(method),
          [&sources, user = std::move(user), done = std::move(done)](Json document) mutable {
            const Json right = *document.find("right");
            auto asked = right_from(right);
            const std::string cluster = asked ? asked->cluster : "";
            user = as_the_proxy_passes_it(std::move(user), cluster, sources);
            Json review = Json::object({{"user", user.name}, {"groups", Json::array()}});
            for (const std::string& group : user.groups) {
              review["groups"].push_back(group);
            }
            if (!asked || !sources.review) {
              review["why"] = asked ? "there is nobody to ask" : right.text({"why"});
              document["review"] = std::move(review);
              done(std::move(document));
              return;
            }
            asked->user = std::move(user);
            sources.review(*asked, [document = std::move(document), review = std::move(review),
                                    done](const Expected<auth::Decision>& decision) mutable {
              if (decision) {
                review["allowed"] = decision->allowed;
                review["reason"] = decision->reason;
              } else {
                review["error"] = decision.error().message();
              }
              document["review"] = std::move(review);
              done(std::move(document));
            });
          });
}

Json route_forms(const topology::Snapshot& index, const ExplainSources& sources) {
  const ExplainSources::Mapping mapping =
      sources.mapping ? sources.mapping() : ExplainSources::Mapping();
  const RouteFacts facts = facts_of(sources, mapping);
  const std::string shard =
      index.shards().empty() ? std::string("none") : index.shards().front()->spec.name;
  const std::string root(krm::kRootClusterPath), all(krm::kEverywhere);
  const std::string services(krm::kServicesPrefix);
  const std::string of_shard = std::string(krm::kShardsPrefix) + shard;
  const std::string of_export = services + "apiexport/root/x";
  struct Form {
    std::string_view shown;
    std::string example;
  };
  const std::string resource = "/api/v1/configmaps";
  const std::array<Form, 19> forms = {{
      {"/livez, /readyz", "/livez"},
      {"/healthz, /version", "/version"},
      {"/metrics", "/metrics"},
      {"/clusters/<cluster>/…", root + resource},
      {"/clusters/<cluster>/apis", root + "/apis"},
      {"/clusters/<cluster>/apis/topology.kcp.io/…",
       root + "/apis/topology.kcp.io/v1alpha1/partitions"},
      {"/clusters/<cluster>/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/…",
       root + "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"},
      {"/clusters/*/… (list)", all + resource},
      {"/clusters/*/… (watch)", all + resource + "?watch=true"},
      {"/clusters/*/apis, /clusters/*/openapi/…", all + "/apis"},
      {"/clusters/*/apis/topology.kcp.io/…", all + "/apis/topology.kcp.io/v1alpha1/partitions"},
      {"/shards/<shard>/clusters/<cluster>/…", of_shard + root + resource},
      {"/shards/<shard>/clusters/*/…", of_shard + all + resource},
      {"/services/<vw>/…/clusters/<cluster>/…", of_export + root + resource},
      {"/services/<vw>/…/clusters/*/… (list)", of_export + all + resource},
      {"/services/<vw>/…/clusters/*/apis", of_export + all + "/apis"},
      {"/services/replication/…/clusters/*/…", services + "replication/root/x" + all + "/apis"},
      {"/services/admin/…", services + "admin/apis"},
      {"/shards/<shard>/services/…", of_shard + of_export + all + resource},
  }};
  Json list = Json::array();
  for (const Form& form : forms) {
    Asked asked = ask(index, facts, form.example, "GET");
    Json one = Json::object({{"path", form.shown},
                             {"example", form.example},
                             {"route", route_kind_name(asked.route.kind)},
                             {"handler", handler_of(asked)}});
    if (asked.route.reason != RouteReason::kNone) {
      one["reason"] = route_reason_name(asked.route.reason);
    }
    if (asked.route.status != 0) {
      one["status"] = static_cast<std::int64_t>(asked.route.status);
    }
    list.push_back(std::move(one));
  }
  if (mapping.entries != nullptr) {
    for (const MappingEntry& entry : mapping.entries->entries()) {
      if (!entry.is_clusters()) {
        list.push_back(Json::object({{"path", entry.path},
                                     {"route", route_kind_name(RouteKind::kMapped)},
                                     {"handler", "backend"},
                                     {"backend", entry.backend}}));
      }
    }
  }
  return list;
}

}  // namespace kintsugi::proxy
