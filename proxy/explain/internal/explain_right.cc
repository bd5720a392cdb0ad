#include "proxy/explain/internal/explain_right.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "krm/path_prefixes.h"
#include "krm/request_target.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

auth::Attributes path_right(std::string_view cluster, std::string verb, std::string path) {
  auth::Attributes out;
  out.cluster = cluster;
  out.is_resource = false;
  out.verb = std::move(verb);
  out.path = std::move(path);
  return out;
}

auth::Attributes object_right(std::string_view cluster, const krm::RequestInfo& info) {
  auth::Attributes out;
  out.cluster = cluster;
  out.verb = info.verb;
  out.group = info.group;
  out.version = info.version;
  out.resource = info.resource;
  out.subresource = info.subresource;
  out.ns = info.ns;
  out.name = info.name;
  return out;
}

ExplainedRight of_cluster(Request& request, std::string_view cluster) {
  const std::size_t trail = request.target.trail;
  const std::string_view path =
      std::string_view(request.head.target)
          .substr(trail, request.target.query - std::min(trail, request.target.query));
  if (path.empty() || path == "/") {
    return {path_right(cluster, "access", "/"), {}};
  }
  const krm::RequestInfo& info = *request.info();
  return {
      info.is_resource ? object_right(cluster, info) : path_right(cluster, info.verb, info.path),
      {}};
}

/// Whoever reads or writes by an export's virtual workspace needs the export's content.
ExplainedRight of_service(const topology::Snapshot& index, Request& request) {
  const krm::ServicePath& path = *request.target.path;
  const topology::Resolution home = topology::resolve(index, path.owner);
  const krm::RequestInfo& info = *request.info();
  if (path.kind != krm::VirtualWorkspace::kApiExport || !home.resolved() || !info.is_resource) {
    return {std::nullopt, "the shards decide that by themselves"};
  }
  auth::Attributes out;
  out.cluster = home.cluster;
  out.verb = info.verb;
  out.group = "apis.kcp.io";
  out.version = "v1alpha1";
  out.resource = "apiexports";
  out.subresource = "content";
  out.name = path.object;
  return {std::move(out), {}};
}

}  // namespace

ExplainedRight right_of(const topology::Snapshot& index, Request& request, const Route& route,
                        bool reviewed) {
  const auto in_root = [&] {
    return ExplainedRight{
        path_right("root", to_lower(request.head.method), krm::shown_path(request.head.target)),
        {}};
  };
  switch (route.kind) {
    case RouteKind::kFault:
    case RouteKind::kRefused:
      return {std::nullopt, "it is refused, whoever asks"};
    case RouteKind::kProbe:
      return {std::nullopt, "everybody may"};
    case RouteKind::kMetrics:
      return in_root();
    case RouteKind::kMapped:
    case RouteKind::kMounted:
      return {std::nullopt, "what is behind it decides"};
    default:
      break;
  }
  if (route.takes_right) {
    return in_root();
  }
  if (route.status != 0) {
    return {std::nullopt, "it is refused, whoever asks"};
  }
  if (request.target.form == krm::TargetForm::kService) {
    return of_service(index, request);
  }
  if (request.target.form != krm::TargetForm::kCluster) {
    return {std::nullopt, "nobody is asked"};
  }
  if (request.target.cluster == "*") {
    return reviewed ? in_root() : ExplainedRight{std::nullopt, "each shard decides that by itself"};
  }
  return of_cluster(request, route.cluster);
}

Json right_json(const ExplainedRight& right) {
  if (!right.asked) {
    return Json::object({{"why", right.why}});
  }
  const auth::Attributes& asked = *right.asked;
  Json out = Json::object({{"cluster", asked.cluster}, {"verb", asked.verb}});
  if (!asked.is_resource) {
    out["path"] = asked.path;
    return out;
  }
  for (const auto& [member, value] :
       {std::pair("group", &asked.group), std::pair("version", &asked.version),
        std::pair("resource", &asked.resource), std::pair("subresource", &asked.subresource),
        std::pair("namespace", &asked.ns), std::pair("name", &asked.name)}) {
    out[member] = *value;
  }
  return out;
}

std::optional<auth::Attributes> right_from(const Json& json) {
  if (json.find("verb") == nullptr) {
    return std::nullopt;
  }
  auth::Attributes out;
  out.cluster = json.text({"cluster"});
  out.verb = json.text({"verb"});
  out.path = json.text({"path"});
  out.is_resource = json.find("path") == nullptr;
  out.group = json.text({"group"});
  out.version = json.text({"version"});
  out.resource = json.text({"resource"});
  out.subresource = json.text({"subresource"});
  out.ns = json.text({"namespace"});
  out.name = json.text({"name"});
  return out;
}

}  // namespace kintsugi::proxy
