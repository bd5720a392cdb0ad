#include "workers/messaging/model/endpoint_resources.h"

#include <algorithm>

#include "base/strings.h"
#include "workers/messaging/model/component_resources.h"
#include "workers/messaging/model/names.h"

namespace kintsugi::workers {

namespace {

using krm::Json;
using Exposure = MessagingEndpoint::Exposure;
using Termination = MessagingEndpoint::Termination;

constexpr ResourcePlace kPlaces[] = {
    {"Service", "/api/v1", "services"},
    {"Ingress", "/apis/networking.k8s.io/v1", "ingresses"},
    {"Route", "/apis/route.openshift.io/v1", "routes"},
};

Json resource(const EndpointResourceInput& input, std::string_view version, std::string_view kind) {
  Json out = Json::object({{"apiVersion", version}, {"kind", kind}});
  Json& metadata = out["metadata"];
  metadata["name"] = endpoint_resource_name(*input.endpoint);
  metadata["namespace"] = input.infra->id.ns;
  metadata["labels"] = Json::object({{"app.kubernetes.io/managed-by", "kintsugi"},
                                     {kInfraLabel, input.infra->id.name},
                                     {"kintsugi.dev/space", input.space_id}});
  if (input.endpoint->annotations.is_object() && input.endpoint->annotations.size() > 0) {
    metadata["annotations"] = input.endpoint->annotations;
  }
  return out;
}

/// Names of ports are DNS labels: "amqp-wss".
std::string port_name(Protocol protocol) { return to_lower(protocol_text(protocol)); }

std::string_view service_type(Exposure exposure) noexcept {
  return exposure == Exposure::kNodePort       ? "NodePort"
         : exposure == Exposure::kLoadBalancer ? "LoadBalancer"
                                               : "ClusterIP";
}

Json service(const EndpointResourceInput& input) {
  Json out = resource(input, "v1", "Service");
  Json ports = Json::array();
  for (const Protocol protocol : input.endpoint->protocols) {
    const auto own = std::find_if(input.listeners.begin(), input.listeners.end(),
                                  [&](const auto& one) { return one.first == protocol; });
    ports.push_back(
        Json::object({{"name", port_name(protocol)},
                      {"port", external_port(protocol)},
                      {"protocol", "TCP"},
                      {"targetPort", own == input.listeners.end() ? kClusterPort : own->second}}));
  }
  out["spec"] = Json::object({{"type", service_type(input.endpoint->exposure)},
                              {"ports", std::move(ports)},
                              {"selector", Json::object({{kInfraLabel, input.infra->id.name},
                                                         {kComponentLabel, "router"}})}});
  return out;
}

Json ingress(const EndpointResourceInput& input) {
  const Protocol protocol = input.endpoint->protocols.front();
  Json out = resource(input, "networking.k8s.io/v1", "Ingress");
  if (is_tls(protocol)) {
    // The routers have the certificate; what is in front passes TLS on.
    out.make({"metadata", "annotations"})["nginx.ingress.kubernetes.io/ssl-passthrough"] = "true";
  }
  Json backend = Json::object(
      {{"service", Json::object({{"name", endpoint_resource_name(*input.endpoint)},
                                 {"port", Json::object({{"name", port_name(protocol)}})}})}});
  Json path =
      Json::object({{"path", "/"}, {"pathType", "Prefix"}, {"backend", std::move(backend)}});
  Json& spec = out["spec"];
  spec["rules"] = Json::array(
      {Json::object({{"host", input.host},
                     {"http", Json::object({{"paths", Json::array({std::move(path)})}})}})});
  if (is_tls(protocol)) {
    spec["tls"] = Json::array({Json::object({{"hosts", Json::array({input.host})}})});
  }
  return out;
}

Json route(const EndpointResourceInput& input) {
  constexpr std::string_view kTerminations[] = {"passthrough", "edge", "reencrypt"};
  const Protocol protocol = input.endpoint->protocols.front();
  const Termination termination = input.endpoint->termination;
  Json out = resource(input, "route.openshift.io/v1", "Route");
  Json& spec = out["spec"];
  spec["host"] = input.host;
  spec["to"] =
      Json::object({{"kind", "Service"}, {"name", endpoint_resource_name(*input.endpoint)}});
  spec["port"] = Json::object({{"targetPort", port_name(protocol)}});
  if (is_tls(protocol) || termination == Termination::kEdge) {
    spec["tls"] =
        Json::object({{"termination", kTerminations[static_cast<std::size_t>(termination)]}});
  }
  return out;
}

}  // namespace

std::string endpoint_resource_name(const MessagingEndpoint& endpoint) {
  const std::string hash =
      hash_letters(entity_identity(endpoint.id) + "|endpoint/" + endpoint.name, 13);
  std::string name = to_lower(endpoint.name).substr(0, 63 - hash.size() - 1);
  for (char& c : name) {
    c = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
  }
  name.erase(0, std::min(name.find_first_not_of("-0123456789"), name.size()));
  return name.empty() ? "e-" + hash : name + "-" + hash;
}

std::vector<Json> endpoint_resources(const EndpointResourceInput& input) {
  std::vector<Json> out{service(input)};
  if (input.endpoint->exposure == Exposure::kIngress) {
    out.push_back(ingress(input));
  } else if (input.endpoint->exposure == Exposure::kRoute) {
    out.push_back(route(input));
  }
  return out;
}

const ResourcePlace* resource_place(std::string_view kind) noexcept {
  const auto* const at =
      std::find_if(std::begin(kPlaces), std::end(kPlaces),
                   [kind](const ResourcePlace& one) { return one.kind == kind; });
  return at == std::end(kPlaces) ? nullptr : at;
}

std::vector<std::string> resource_texts(const std::vector<Json>& resources) {
  std::vector<std::string> out;
  for (const Json& one : resources) {
    out.push_back(std::string(one.text({"kind"})) + "/" +
                  std::string(one.text({"metadata", "name"})));
  }
  return out;
}

std::vector<std::string> recorded_resources(const Json& status) {
  std::vector<std::string> out;
  if (const Json* const list = status.find("resources")) {
    for (const Json& one : list->items()) {
      out.emplace_back(one.as_string());
    }
  }
  return out;
}

void record_resources(Json& status, const std::vector<std::string>& texts) {
  if (texts.empty()) {
    status.erase("resources");
    return;
  }
  Json list = Json::array();
  for (const std::string& one : texts) {
    list.push_back(one);
  }
  status["resources"] = std::move(list);
}

std::vector<std::string> left_over(const std::vector<std::string>& before,
                                   const std::vector<std::string>& now) {
  std::vector<std::string> out;
  for (const std::string& one : before) {
    if (std::find(now.begin(), now.end(), one) == now.end()) {
      out.push_back(one);
    }
  }
  return out;
}

}  // namespace kintsugi::workers
