#include "workers/messaging/model/component_resources.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/digest.h"
#include "base/strings.h"

namespace kintsugi::workers {

namespace {

using krm::Json;

constexpr std::string_view kSpecHash = "kintsugi.dev/spec-hash";
constexpr std::string_view kGroupLabel = "kintsugi.dev/group";
constexpr std::string_view kInterconnectLabel = "interconnect_cr";
constexpr std::string_view kArtemisLabel = "ActiveMQArtemis";

std::string group_name(const MessagingInfra& infra, const RouterGroup& group) {
  return infra.id.name + "-" + group.name;
}

/// Name of an image, from a string or {name, pullPolicy}.
std::string_view image_of(const Json& image) {
  return image.is_string() ? image.as_string() : image.text({"name"});
}

void copy_member(const Json& from, std::initializer_list<std::string_view> path, Json& to,
                 std::string_view key) {
  if (const Json* value = from.at(path)) {
    to[key] = *value;
  }
}

Json resource(const MessagingInfra& infra, std::string_view version, std::string_view kind,
              const std::string& name, Json spec, const Json& pod_template) {
  Json out = Json::object({{"apiVersion", version}, {"kind", kind}});
  Json& metadata = out["metadata"];
  metadata["name"] = name;
  metadata["namespace"] = infra.id.ns;
  metadata.make({"labels"})[kInfraLabel] = infra.id.name;
  copy_member(pod_template, {"metadata", "annotations"}, metadata, "annotations");
  metadata.make({"annotations"})[kSpecHash] = sha256_hex(spec.dump()).substr(0, 32);
  if (!infra.id.uid.empty()) {
    metadata["ownerReferences"] =
        Json::array({Json::object({{"apiVersion", "admin.enmasse.io/v1beta1"},
                                   {"kind", "MessagingInfra"},
                                   {"name", infra.id.name},
                                   {"uid", infra.id.uid},
                                   {"controller", true},
                                   {"blockOwnerDeletion", true}})});
  }
  out["spec"] = std::move(spec);
  return out;
}

/// MR-7: pods of a group stay away from zones of other groups, and from each other's nodes.
Json router_affinity(const MessagingInfra& infra, const RouterGroup& group,
                     const Json& pod_template) {
  const Json* given = pod_template.at({"spec", "affinity"});
  Json affinity = given != nullptr && given->is_object() ? *given : Json::object();
  if (infra.routers.groups.size() > 1) {
    Json others = Json::array();
    for (const RouterGroup& other : infra.routers.groups) {
      if (other.name != group.name) {
        others.push_back(group_name(infra, other));
      }
    }
    Json term = Json::object({{"topologyKey", "topology.kubernetes.io/zone"}});
    term["labelSelector"] = Json::object(
        {{"matchExpressions", Json::array({Json::object({{"key", kInterconnectLabel},
                                                         {"operator", "In"},
                                                         {"values", std::move(others)}})})}});
    affinity.make({"podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"})
        .push_back(std::move(term));
  }
  return affinity;
}

Json listener(std::string_view name, std::int64_t port) {
  return Json::object({{"name", name}, {"host", "0.0.0.0"}, {"port", port}});
}

Json router_spec(const MessagingInfra& infra, const RouterGroup& group, std::int64_t size) {
  const MessagingInfra::Routers& routers = infra.routers;
  Json spec = Json::object();
  Json& plan = spec["deploymentPlan"];
  plan = Json::object({{"size", size}, {"role", "interior"}, {"placement", "AntiAffinity"}});
  if (const std::string_view image = image_of(routers.image); !image.empty()) {
    plan["image"] = image;
  }
  if (const std::string_view policy = routers.image.text({"pullPolicy"}); !policy.empty()) {
    plan["pullPolicy"] = policy;
  }
  copy_member(routers.pod_template, {"spec", "resources"}, plan, "resources");
  copy_member(routers.pod_template, {"spec", "tolerations"}, plan, "tolerations");
  copy_member(routers.pod_template, {"spec", "priorityClassName"}, plan, "priorityClassName");
  copy_member(routers.pod_template, {"metadata", "labels"}, plan, "labels");
  copy_member(routers.pod_template, {"metadata", "annotations"}, plan, "annotations");
  plan.make({"labels"})[kInfraLabel] = infra.id.name;
  plan["labels"][kGroupLabel] = group.name;
  plan["labels"][kComponentLabel] = "router";
  if (Json affinity = router_affinity(infra, group, routers.pod_template); affinity.size() > 0) {
    plan["affinity"] = std::move(affinity);
  }
  const std::string profile = "internal";
  spec["sslProfiles"] = Json::array({Json::object({{"name", profile},
                                                   {"credentials", router_certificate_name(infra)},
                                                   {"caCert", router_ca_name(infra)}})});
  Json inter = listener("inter-router", kInterRouterPort);
  inter["sslProfile"] = profile;
  inter["saslMechanisms"] = "EXTERNAL";
  inter["authenticatePeer"] = true;
  inter["cost"] = link_cost(infra, routers.link_weight);
  spec["interRouterListeners"] = Json::array({std::move(inter)});
  Json management = listener("management", kRouterManagementPort);
  management["sslProfile"] = profile;
  management["saslMechanisms"] = "EXTERNAL";
  management["authenticatePeer"] = true;
  management["idleTimeoutSeconds"] = routers.idle_timeout;
  management["linkCapacity"] = routers.link_capacity;
  Json internal = listener("cluster", kClusterPort);
  internal["sslProfile"] = profile;
  internal["multiTenant"] = true;
  internal["idleTimeoutSeconds"] = routers.idle_timeout;
  internal["linkCapacity"] = routers.link_capacity;
  internal["initialHandshakeTimeoutSeconds"] = routers.handshake_timeout;
  if (!routers.authentication_service.empty()) {
    internal["authenticatePeer"] = true;
    internal["saslPlugin"] = routers.authentication_service;
  }
  Json liveness = listener("liveness", kLivenessPort);
  liveness["http"] = true;
  liveness["healthz"] = true;
  spec["listeners"] =
      Json::array({std::move(management), std::move(internal), std::move(liveness)});
  Json connectors = Json::array();
  for (const RouterGroup& other : routers.groups) {
    if (other.name == group.name) {
      continue;
    }
    connectors.push_back(
        Json::object({{"name", other.name},
                      {"host", group_name(infra, other) + "." + infra.id.ns + ".svc"},
                      {"port", kInterRouterPort},
                      {"sslProfile", profile},
                      {"verifyHostname", false},
                      {"cost", link_cost(infra, other.link_weight)}}));
  }
  if (connectors.size() > 0) {
    spec["interRouterConnectors"] = std::move(connectors);
  }
  spec["router"] = Json::object({{"workerThreads", routers.worker_threads},
                                 {"defaultDistribution", "unavailable"},
                                 {"allowResumableLinkRoute", false}});
  spec["policy"] = Json::object({{"enableVhostPolicy", true}});
  return spec;
}

Json broker_spec(const MessagingInfra& infra) {
  const MessagingInfra::Brokers& brokers = infra.brokers;
  Json spec = Json::object();
  Json& plan = spec["deploymentPlan"];
  plan = Json::object({{"size", 1}, {"persistenceEnabled", true}, {"requireLogin", false}});
  if (const std::string_view image = image_of(brokers.image); !image.empty()) {
    plan["image"] = image;
  }
  if (const std::string_view image = image_of(brokers.init_image); !image.empty()) {
    plan["initImage"] = image;
  }
  if (const std::string_view policy = brokers.image.text({"pullPolicy"}); !policy.empty()) {
    plan["imagePullPolicy"] = policy;
  }
  for (const std::string_view key : {"resources", "affinity", "tolerations"}) {
    copy_member(brokers.pod_template, {"spec", key}, plan, key);
  }
  copy_member(brokers.pod_template, {"metadata", "labels"}, plan, "labels");
  copy_member(brokers.pod_template, {"metadata", "annotations"}, plan, "annotations");
  plan.make({"labels"})[kInfraLabel] = infra.id.name;
  if (!brokers.storage_class.empty()) {
    plan.make({"storage"})["storageClassName"] = brokers.storage_class;
  }
  if (!brokers.storage.is_null()) {
    plan.make({"storage"})["size"] = brokers.storage;
  }
  if (!brokers.java_opts.empty()) {
    spec["env"] =
        Json::array({Json::object({{"name", "JAVA_ARGS_APPEND"}, {"value", brokers.java_opts}})});
  }
  spec["acceptors"] = Json::array({Json::object(
      {{"name", "amqp"}, {"port", kBrokerPort}, {"protocols", "amqp"}, {"expose", false}})});
  Json properties = Json::array();  // BH-1: at start, not by management
  properties.push_back("addressSettings.#.addressFullMessagePolicy=" +
                       std::string(full_policy_text(brokers.policy)));
  properties.push_back("addressSettings.#.autoCreateAddresses=false");
  properties.push_back("addressSettings.#.autoCreateQueues=false");
  properties.push_back("addressSettings.#.autoDeleteAddresses=false");
  properties.push_back("addressSettings.#.autoDeleteQueues=false");
  properties.push_back("addressSettings.\"activemq.management#\".autoCreateAddresses=true");
  properties.push_back("addressSettings.\"activemq.management#\".autoCreateQueues=true");
  if (brokers.global_max_size) {
    properties.push_back("globalMaxSize=" + std::to_string(*brokers.global_max_size));
  }
  spec["brokerProperties"] = std::move(properties);
  return spec;
}

/// Whether all that is wanted is there; what is there besides is no difference.
bool contains(const Json& stored, const Json& wanted) {
  if (wanted.is_object()) {
    return stored.is_object() && std::all_of(wanted.members().begin(), wanted.members().end(),
                                             [&stored](const krm::JsonMember& member) {
                                               const Json* value = stored.find(member.key);
                                               return value != nullptr &&
                                                      contains(*value, member.value);
                                             });
  }
  if (wanted.is_array()) {
    return stored.is_array() && std::equal(stored.items().begin(), stored.items().end(),
                                           wanted.items().begin(), wanted.items().end(), contains);
  }
  return stored == wanted;
}

}  // namespace

std::string router_ca_name(const MessagingInfra& infra) { return infra.id.name + "-ca"; }

std::string router_certificate_name(const MessagingInfra& infra) {
  return infra.id.name + "-router-cert";
}

std::vector<std::string> router_hosts(const MessagingInfra& infra) {
  std::vector<std::string> out;
  for (const RouterGroup& group : infra.routers.groups) {
    out.push_back(group_name(infra, group) + "." + infra.id.ns + ".svc");
  }
  out.push_back(infra.routers.domain);
  out.push_back("*." + infra.routers.domain);
  return out;
}

std::string broker_resource_name(const MessagingInfra& infra, std::int64_t index) {
  return infra.id.name + "-b" + std::to_string(index);
}

std::vector<Json> router_resources(const MessagingInfra& infra, std::int64_t size) {
  std::vector<Json> out;
  if (!infra.routers.endpoints.empty()) {
    return out;
  }
  for (const RouterGroup& group : infra.routers.groups) {
    out.push_back(resource(infra, kInterconnectVersion, "Interconnect", group_name(infra, group),
                           router_spec(infra, group, size), infra.routers.pod_template));
  }
  return out;
}

std::vector<Json> broker_resources(const MessagingInfra& infra, std::int64_t brokers) {
  std::vector<Json> out;
  if (!infra.brokers.endpoints.empty()) {
    return out;
  }
  for (std::int64_t i = 0; i < brokers; ++i) {
    out.push_back(resource(infra, kArtemisVersion, "ActiveMQArtemis",
                           broker_resource_name(infra, i), broker_spec(infra),
                           infra.brokers.pod_template));
  }
  return out;
}

bool same_spec(const Json& stored, const Json& wanted) {
  const Json* spec = stored.find("spec");
  const auto ours = [&](std::string_view key) {
    const Json* want = wanted.at({"metadata", key});
    const Json* have = stored.at({"metadata", key});
    return want == nullptr || (have != nullptr && contains(*have, *want));
  };
  return spec != nullptr && ours("labels") && ours("annotations") &&
         contains(*spec, *wanted.find("spec"));
}

Json updated_resource(const Json& stored, const Json& wanted) {
  Json out = stored;
  out["spec"] = *wanted.find("spec");
  for (const std::string_view key : {"labels", "annotations"}) {
    if (const Json* want = wanted.at({"metadata", key})) {
      for (const krm::JsonMember& member : want->members()) {
        out.make({"metadata", key})[member.key] = member.value;
      }
    }
  }
  return out;
}

std::vector<Component> components_of(const MessagingInfra& infra, std::span<const Json> pods) {
  std::vector<Component> out;
  std::map<std::string, std::string, std::less<>> groups;  // by name of the resource
  for (const RouterGroup& group : infra.routers.groups) {
    groups.emplace(group_name(infra, group), group.name);
  }
  for (const ComponentEndpoint& endpoint : infra.routers.endpoints) {
    out.push_back({false, 0, endpoint});
  }
  for (std::size_t i = 0; i < infra.brokers.endpoints.size(); ++i) {
    out.push_back({true, static_cast<std::int64_t>(i), infra.brokers.endpoints[i]});
  }
  const std::string prefix = infra.id.name + "-b";
  for (const Json& pod : pods) {
    const std::string_view address = pod.text({"status", "podIP"});
    if (address.empty() || pod.at({"metadata", "deletionTimestamp"}) != nullptr ||
        pod.text({"metadata", "namespace"}) != infra.id.ns) {
      continue;
    }
    Component one;
    one.endpoint.host = pod.text({"metadata", "name"});
    one.endpoint.address = address;
    const auto group = groups.find(pod.text({"metadata", "labels", kInterconnectLabel}));
    const std::string_view artemis = pod.text({"metadata", "labels", kArtemisLabel});
    if (group != groups.end() && infra.routers.endpoints.empty()) {
      one.endpoint.port = kRouterManagementPort;
      one.endpoint.group = group->second;
    } else if (artemis.starts_with(prefix) && infra.brokers.endpoints.empty()) {
      const auto index = parse_decimal<std::int64_t>(artemis.substr(prefix.size()));
      if (!index) {
        continue;
      }
      one.broker = true;
      one.index = *index;
      one.endpoint.port = kBrokerPort;
      one.endpoint.group = "default";
      one.endpoint.plain = true;  // as its acceptor is
    } else {
      continue;
    }
    out.push_back(std::move(one));
  }
  // Routers of the spec keep their order, which only their index tells: it is set below.
  const bool by_host = infra.routers.endpoints.empty();
  std::stable_sort(out.begin(), out.end(), [by_host](const Component& a, const Component& b) {
    if (a.broker != b.broker) {
      return b.broker;
    }
    if (a.broker) {
      return std::tie(a.index, a.endpoint.host) < std::tie(b.index, b.endpoint.host);
    }
    return by_host && std::tie(a.endpoint.group, a.endpoint.host) <
                          std::tie(b.endpoint.group, b.endpoint.host);
  });
  std::map<std::string, std::int64_t, std::less<>> next;
  for (Component& one : out) {
    if (!one.broker) {
      one.index = next[one.endpoint.group]++;
    }
  }
  return out;
}

Condition groups_spread(const MessagingInfra& infra,
                        std::span<const std::pair<std::string, std::string>> zones) {
  Condition condition;
  condition.type = "GroupsSpread";
  condition.status = ConditionStatus::kTrue;
  condition.reason = infra.routers.groups.size() > 1 ? "Spread" : "OneGroup";
  if (infra.routers.groups.size() < 2) {
    return condition;
  }
  std::map<std::string, std::set<std::string>> groups;
  for (const auto& [group, zone] : zones) {
    groups[zone].insert(group);
  }
  for (const auto& [zone, list] : groups) {
    if (list.size() > 1) {
      condition.status = ConditionStatus::kFalse;
      condition.reason = "SharedZone";
      condition.message = "zone " + zone + " has routers of groups " +
                          join(std::vector<std::string>(list.begin(), list.end()), ", ");
      return condition;
    }
  }
  if (zones.empty()) {
    condition.status = ConditionStatus::kUnknown;
    condition.reason = "ZonesUnknown";
    condition.message = "no router's zone is known";
  }
  return condition;
}

}  // namespace kintsugi::workers
