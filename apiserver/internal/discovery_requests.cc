#include <algorithm>

#include "apiserver/internal/discovery.h"
#include "apiserver/internal/handlers.h"
#include "apiserver/internal/openapi.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/server_impl.h"
#include "krm/protobuf.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

using krm::Json;

constexpr std::string_view kAggregatedType =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

enum class DiscoveryForm : std::uint8_t { kNone, kPlain, kAggregated };

/// Which form comes first among those that the client accepts. Aggregated forms other than v2 are
/// passed over: who asks for v2beta1 can take the plain documents (AM-112).
DiscoveryForm pick_form(const Request& request) {
  for (const AcceptClause& clause : request.accept) {
    const bool json =
        clause.type == "application/json" || clause.type == "*/*" || clause.type == "application/*";
    const std::string_view as = clause.parameter("as");
    if (as.empty() &&
        (json || clause.type == "application/yaml" || clause.type == krm::kProtobufMediaType)) {
      return DiscoveryForm::kPlain;
    }
    if (json && as == "APIGroupDiscoveryList" && clause.parameter("g") == "apidiscovery.k8s.io" &&
        clause.parameter("v") == "v2") {
      return DiscoveryForm::kAggregated;
    }
  }
  return DiscoveryForm::kNone;
}

Error not_acceptable() {
  return Error(Errc::kNotAcceptable,
               "only the following media types are accepted: application/json, application/yaml, "
               "application/vnd.kubernetes.protobuf");
}

/// @param has_protobuf  it is one of the typed documents.
void send_document(const RequestPtr& request, std::string json, bool has_protobuf = true) {
  const std::optional<Form> form = negotiate(request->accept, Offer{true, has_protobuf, false});
  const bool pretty = request->form.pretty;
  request->form = form.value_or(Form());
  request->form.pretty = pretty;
  if (!form) {
    send_error(*request, not_acceptable());
    return;
  }
  send_json(*request, 200, std::move(json));
}

void send_aggregated(const RequestPtr& request, bool core) {
  const auto document = request->server.discovery(*request).aggregated(request->cluster, core);
  const std::string tag = '"' + document->etag + '"';
  http::HeaderList headers = answer_headers(*request, kAggregatedType);
  headers.set("cache-control", "public");
  headers.add("etag", tag);
  headers.add("vary", "Accept");
  if (request->header("if-none-match") == tag) {
    headers.remove("content-type");
    send_body(*request, 304, std::move(headers), std::string());
    return;
  }
  send_body(*request, 200, std::move(headers), document->json + "\n");
}

/// /api and /apis.
void send_roots(const RequestPtr& request, bool core) {
  const DiscoveryForm form = pick_form(*request);
  if (form == DiscoveryForm::kAggregated) {
    send_aggregated(request, core);
    return;
  }
  if (form == DiscoveryForm::kNone) {
    request->form = Form();
    send_error(*request, not_acceptable());
    return;
  }
  Server& server = request->server;
  if (!core) {
    send_document(request, server.discovery(*request).groups(request->cluster));
    return;
  }
  Json versions = Json::array();
  if (request->view != nullptr || server.discovery(*request).has_core(request->cluster)) {
    versions.push_back("v1");
  }
  Json address = Json::object(
      {{"clientCIDR", "0.0.0.0/0"}, {"serverAddress", server.params().server_address}});
  send_document(request,
                Json::object({{"kind", "APIVersions"},
                              {"versions", std::move(versions)},
                              {"serverAddressByClientCIDRs", Json::array({std::move(address)})}})
                    .dump());
}

Json paths_document(const RequestPtr& request) {
  Json list = Json::array();
  for (std::string& path : request->server.discovery(*request).paths(request->cluster)) {
    list.push_back(std::move(path));
  }
  return Json::object({{"paths", std::move(list)}});
}

void send_paths(const RequestPtr& request) {
  send_document(request, paths_document(request).dump(), false);
}

/// A virtual workspace says what it has.
void send_no_path(const RequestPtr& request) {
  if (request->view == nullptr) {
    send_unknown_path(*request);
    return;
  }
  send_body(*request, 404, answer_headers(*request, "application/json"),
            paths_document(request).dump() + "\n");
}

/// Nothing there; while definitions are loaded that is not known yet (AM-034).
void send_missing(const RequestPtr& request, bool is_status) {
  if (!request->registry().ready(request->cluster)) {
    send_error(*request, krm::unavailable("the resource definitions are still being loaded", 1));
  } else if (is_status) {
    send_error(*request, krm::path_not_found());
  } else {
    send_unknown_path(*request);
  }
}

void send_found(const RequestPtr& request, std::string json, bool group_known) {
  if (json.empty()) {
    send_missing(request, group_known);
  } else {
    send_document(request, std::move(json));
  }
}

}  // namespace

void handle_discovery(const RequestPtr& request) {
  if (is_openapi_path(request->info.path)) {
    handle_openapi(request);
    return;
  }
  Discovery& discovery = request->server.discovery(*request);
  const std::string& cluster = request->cluster;
  std::vector<std::string_view> parts;
  for (const std::string_view part : split(request->info.path, '/')) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  if (parts.empty()) {
    send_paths(request);
  } else if (parts[0] == "api" && parts.size() == 1) {
    send_roots(request, true);
  } else if (parts[0] == "apis" && parts.size() == 1) {
    send_roots(request, false);
  } else if (parts[0] == "api" && parts.size() == 2) {
    send_found(request, discovery.resources(cluster, "", parts[1]), true);
  } else if (parts[0] == "apis" && parts.size() == 2) {
    send_found(request, discovery.group(cluster, parts[1]), false);
  } else if (parts[0] == "apis" && parts.size() == 3) {
    send_found(request, discovery.resources(cluster, parts[1], parts[2]),
               !discovery.group(cluster, parts[1]).empty());
  } else {
    send_no_path(request);
  }
}

}  // namespace kintsugi::apiserver::internal
