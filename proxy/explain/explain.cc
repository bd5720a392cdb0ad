#include "proxy/explain/explain.h"

#include <algorithm>

#include "base/strings.h"
#include "base/time.h"
#include "krm/request_target.h"
#include "krm/status.h"
#include "proxy/routing/local_kinds.h"
#include "proxy/routing/service_route.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using topology::Resolution;
using topology::ShardInfo;

constexpr std::string_view kShards = "/shards/";
constexpr std::string_view kPartitions = "/partitions/";
constexpr std::string_view kServices = "/services/";
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

void put_failure(Json& result, Resolution::Kind kind, topology::NotFoundReason reason) {
  if (kind == Resolution::Kind::kNotFound || kind == Resolution::Kind::kMount) {
    result["answer"] = "E1";
    result["reason"] = topology::reason_name(reason);
  } else if (kind == Resolution::Kind::kNotKnown) {
    result["answer"] = "E2";
  } else if (kind == Resolution::Kind::kUnavailable) {
    result["answer"] = "E3";
  }
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

struct Below {
  std::string_view rest;
  std::optional<ServiceScope> scope;  ///< nullopt: the prefix leads nowhere
  std::string_view fault;
};

Below below_prefix(const topology::Snapshot& index, const ExplainSources& sources,
                   std::string_view target) {
  const auto segment_end = [&](std::size_t from) {
    return std::min(target.find('/', from), target.size());
  };
  if (target.starts_with(kShards)) {
    const std::size_t end = segment_end(kShards.size());
    const ShardInfo* shard = index.shard(target.substr(kShards.size(), end - kShards.size()));
    if (shard == nullptr) {
      return {target.substr(end), std::nullopt, "no such shard"};
    }
    return {target.substr(end), one_shard(*shard), {}};
  }
  if (!target.starts_with(kPartitions)) {
    return {target, ServiceScope{}, {}};
  }
  const std::size_t middle = segment_end(kPartitions.size());
  const std::size_t end = segment_end(std::min(middle + 1, target.size()));
  const std::string cluster =
      percent_decode(target.substr(kPartitions.size(), middle - kPartitions.size())).value_or("");
  const Resolution home = topology::resolve(index, cluster);
  const std::string name =
      percent_decode(target.substr(std::min(middle + 1, end), end - std::min(middle + 1, end)))
          .value_or("");
  const auto partition =
      home.resolved() && sources.partition ? sources.partition(home.cluster, name) : std::nullopt;
  if (!partition) {
    return {target.substr(end), std::nullopt, "no such Partition"};
  }
  return {target.substr(end), shards_of_partition(index, *partition), {}};
}

Json wildcard_rows(const topology::Snapshot& index, const ServiceScope& scope,
                   const ServicePath& path, std::string_view owner) {
  Json rows = Json::array();
  for (const WildcardShard& one : wildcard_shards(index, scope, path, owner)) {
    rows.push_back(
        row(one.shard->spec.name, one.member, one.member && one.consumes, one.contacted(),
            !one.member       ? "the prefix of the URL leaves it out"
            : one.contacted() ? (one.consumes ? "" : "its APIBindings are not listed yet")
                              : "it holds no APIBinding of the export"));
  }
  return rows;
}

Json explain_service(const topology::Snapshot& index, const ServiceScope& scope,
                     const ServicePath& path, std::string_view input) {
  std::vector<topology::ExplainStep> steps;
  std::string owner = path.owner;
  if (!owner.empty()) {
    const Resolution home = topology::explain(index, path.owner, steps);
    if (home.resolved()) {
      owner = home.cluster;
    }
  }
  if (!path.cluster.empty() && path.cluster != "*") {
    (void)topology::explain(index, path.cluster, steps);
  }
  const ServiceRoute route = route_service({index, scope, "GET", input, path});
  Json result = Json::object({{"kind", "virtual-workspace"}, {"virtualWorkspace", path.name}});
  if (route.refusal) {
    put_failure(result, route.lookup, route.reason);
    result["status"] = static_cast<std::int64_t>(krm::http_status(*route.refusal));
    result["message"] = std::string(route.refusal->message());
  } else if (!route.union_of.empty()) {
    Json names = Json::array();
    for (const topology::ShardId id : route.union_of) {
      names.push_back(index.shard(id)->spec.name);
    }
    result["unionOf"] = std::move(names);
  } else if (route.merged) {
    Json names = Json::array();
    for (const WildcardShard& one : read_shards({index, scope, "GET", input, path})) {
      if (one.contacted()) {
        names.push_back(one.shard->spec.name);
      }
    }
    result["mergedOver"] = std::move(names);
  } else {
    std::vector<topology::ShardId> to = route.any_of;
    if (to.empty()) {
      to.push_back(route.shard);
    }
    Json names = Json::array();
    for (const topology::ShardId id : to) {
      names.push_back(index.shard(id)->spec.name);
    }
    const ShardInfo& first = *index.shard(to.front());
    result["upstream"] = first.spec.virtual_workspace_url + route.target;
    result["up"] = first.up;
    if (route.any_of.empty()) {
      result["shard"] = first.spec.name;
    } else {
      result["anyOf"] = std::move(names);
    }
  }
  Json document = Json::object({{"input", input}, {"steps", steps_json(steps)}});
  const bool merged = path.kind == VirtualWorkspace::kApiExport ||
                      path.kind == VirtualWorkspace::kInitializing ||
                      path.kind == VirtualWorkspace::kTerminating;
  if (path.cluster == "*" && merged) {
    document["shards"] = wildcard_rows(index, scope, path, owner);
  }
  document["result"] = std::move(result);
  return document;
}

Json explain_fault(std::string_view input, const krm::RequestTarget& parsed) {
  const bool moved = parsed.fault == krm::TargetFault::kUnclean;
  Json result = Json::object({{"kind", moved ? "redirect" : "refused"}});
  result["status"] = moved ? 307 : parsed.fault == krm::TargetFault::kTooLong ? 414 : 400;
  result[moved ? "location" : "message"] = parsed.reason;
  return Json::object({{"input", input}, {"steps", Json::array()}, {"result", std::move(result)}});
}

/// The path of a URL behind whatever the external URL has in front of it.
std::string_view path_of_url(std::string_view path) {
  if (path.find("://") == std::string_view::npos) {
    return path;
  }
  std::size_t first = std::string_view::npos;
  for (const std::string_view begin :
       {kShards, kPartitions, kServices, std::string_view("/clusters/")}) {
    first = std::min(first, path.find(begin));
  }
  return first == std::string_view::npos ? path : path.substr(first);
}

Json explain_cluster(const topology::Snapshot& index, const ExplainSources& sources,
                     std::string_view input, std::string_view segment, std::string_view rest) {
  std::vector<topology::ExplainStep> steps;
  const Resolution found = topology::explain(index, segment, steps);
  Json result = Json::object({{"kind", topology::kind_name(found.kind)}});
  Json document = Json::object({{"input", input}, {"steps", steps_json(steps)}});
  if (found.resolved()) {
    result["shard"] = found.shard->spec.name;
    result["cluster"] = found.cluster;
    result["up"] = found.shard->up;
    const LocalUse use = local_use(rest, false, sources.groups);
    result["handler"] = use == LocalUse::kServe     ? "proxy"
                        : use == LocalUse::kOverlay ? "proxy and shard"
                                                    : "shard";
    if (use != LocalUse::kServe) {
      result["upstream"] = topology::shard_url(*found.shard, found.cluster, rest);
    }
    if (rest.starts_with(kSlices)) {
      const std::string_view name = rest.substr(kSlices.size());
      document["slice"] =
          explain_slice(index, sources, found.cluster, name.substr(0, name.find_first_of("/?")));
    }
  } else if (found.kind == Resolution::Kind::kMount) {
    result["mount"] = found.mount_url;
  } else {
    put_failure(result, found.kind, found.reason);
  }
  document["result"] = std::move(result);
  return document;
}

}  // namespace

Json explain_path(const topology::Snapshot& index, const ExplainSources& sources,
                  std::string_view path) {
  const std::string_view asked = path_of_url(path);
  const krm::RequestTarget parsed = krm::parse_target("GET", asked);
  if (parsed.fault != krm::TargetFault::kNone && asked.starts_with('/')) {
    return explain_fault(path, parsed);
  }
  const std::string target =
      asked.starts_with('/') ? krm::canonical_target(asked, parsed) : std::string(asked);
  const Below below = below_prefix(index, sources, target);
  if (below.rest.starts_with(kServices)) {
    const auto service = parse_service_path(below.rest);
    // An endpoint's URL ends where a client appends /clusters/….
    const std::string longer =
        std::string(below.rest.substr(0, below.rest.find('?'))) + "/clusters/*/api";
    const auto endpoint = service ? std::nullopt : parse_service_path(longer);
    if (below.scope && (service || endpoint)) {
      return explain_service(index, *below.scope, service ? *service : *endpoint, path);
    }
    return Json::object(
        {{"input", path},
         {"steps", Json::array()},
         {"result", Json::object({{"kind", "not-found"},
                                  {"answer", "E4"},
                                  {"reason", below.scope ? "no virtual workspace serves this path"
                                                         : below.fault}})}});
  }
  if (const auto cluster = krm::split_cluster_path(below.rest)) {
    return explain_cluster(index, sources, path, cluster->segment, cluster->rest);
  }
  return explain_cluster(index, sources, path, path, {});
}

}  // namespace kintsugi::proxy
