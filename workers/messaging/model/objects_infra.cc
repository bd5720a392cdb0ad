// MessagingInfra, and the plans of spaces and addresses (3.1, 3.2, 3.4).
#include <algorithm>
#include <limits>
#include <set>

#include "krm/names.h"
#include "workers/messaging/model/internal/parse.h"

namespace kintsugi::workers {

namespace {

constexpr std::int64_t kMostInteger = std::numeric_limits<std::int64_t>::max();

krm::Json parse_image(const Fields& owner, std::string_view key) {
  const krm::Json* value = owner.member(key);
  if (value == nullptr || value->is_string()) {
    return value == nullptr ? krm::Json() : *value;
  }
  const Fields fields = owner.object(key);
  if (fields.present()) {
    (void)fields.required_text("name");
    (void)fields.text("pullPolicy");
  }
  return fields.present() ? *value : krm::Json();
}

void check_keys(const Fields& owner, std::string_view key,
                std::initializer_list<std::string_view> known) {
  const krm::Json* value = owner.member(key);
  if (value == nullptr) {
    return;
  }
  for (const krm::JsonMember& member : value->members()) {
    if (std::find(known.begin(), known.end(), member.key) == known.end()) {
      owner.problem(std::string(key) + "." + member.key, "is unknown");
    }
  }
}

krm::Json parse_pod_template(const Fields& owner) {
  krm::Json copy = owner.copy("podTemplate", krm::Json::Type::kObject);
  const Fields fields = owner.object("podTemplate");
  check_keys(owner, "podTemplate", {"metadata", "spec"});
  check_keys(fields, "metadata", {"labels", "annotations"});
  check_keys(fields, "spec", {"affinity", "tolerations", "resources", "priorityClassName"});
  return copy;
}

std::vector<ComponentEndpoint> parse_components(const Fields& owner) {
  std::vector<ComponentEndpoint> list;
  std::set<std::string> hosts;
  for (const Fields& fields : owner.objects("endpoints", 1'024)) {
    ComponentEndpoint one;
    one.host = fields.required_text("host");
    one.address = fields.text("address", one.host);
    one.port = fields.integer("port", 1, 65535).value_or(0);
    one.group = fields.text("group", "default");
    if (!hosts.insert(one.host).second) {
      fields.problem("host", "must be unique");
      continue;
    }
    list.push_back(std::move(one));
  }
  return list;
}

void parse_replicas(const Fields& router, MessagingInfra::Routers& out) {
  const krm::Json* value = router.member("replicas");
  if (value != nullptr && value->is_integer()) {
    out.min = out.max = router.integer("replicas", 1, 64).value_or(1);
    out.min_ready = std::max<std::int64_t>(0, out.min - 1);
    return;
  }
  const Fields fields = router.object("replicas");
  out.min = fields.integer("min", 1, 64).value_or(1);
  out.max = fields.integer("max", 1, 64).value_or(out.min);
  if (out.max < out.min) {
    fields.problem("max", "must be at least min");
    out.max = out.min;
  }
  out.min_ready =
      fields.integer("minReady", 0, out.min).value_or(std::max<std::int64_t>(0, out.min - 1));
}

void parse_groups(const Fields& router, MessagingInfra::Routers& out) {
  std::set<std::string> names;
  for (const Fields& fields : router.objects("groups", 64)) {
    RouterGroup group;
    group.name = fields.required_text("name");
    group.link_weight = fields.integer("linkWeight", 1, 1000).value_or(out.link_weight);
    if (group.name.size() > 40 || !krm::check_dns1123_label(group.name).empty()) {
      fields.problem("name", "must be a DNS label of at most 40 characters");
    } else if (!names.insert(group.name).second) {
      fields.problem("name", "must be unique");
    } else {
      out.groups.push_back(std::move(group));
    }
  }
  if (out.groups.empty()) {
    out.groups.push_back({"default", out.link_weight});
  }
}

void parse_routers(const Fields& router, Parsed<MessagingInfra>& parsed) {
  MessagingInfra::Routers& out = parsed.object.routers;
  out.image = parse_image(router, "image");
  out.pod_template = parse_pod_template(router);
  parse_replicas(router, out);
  if (router.choice("topology", {"mesh", "ring"}, 0) == 1) {
    parsed.conditions.push_back(unsupported("TopologySupported", "RingNotSupported",
                                            "spec.router.topology: ring is not supported, mesh "
                                            "is used"));
  }
  out.link_weight = router.integer("linkWeight", 1, 1000).value_or(1);
  parse_groups(router, out);
  out.connections_per_router = router.integer("connectionsPerRouter", 1, kMostInteger);
  out.domain = router.text("domain", parsed.object.id.name + "." + parsed.object.id.ns + ".svc");
  if (router.has("domain") && !krm::check_dns1123_subdomain(out.domain).empty()) {
    router.problem("domain", "must be a DNS name");
  }
  const Fields ports = router.object("listenerPorts");
  out.first_port = ports.integer("first", 1024, 65535).value_or(40000);
  out.last_port =
      ports.integer("last", 1024, 65535).value_or(std::max<std::int64_t>(out.first_port, 40999));
  if (out.first_port > out.last_port) {
    ports.problem("first", "must not be above last");
    out.last_port = out.first_port;
  }
  out.authentication_service = router.text("authenticationService");
  out.endpoints = parse_components(router);
  out.worker_threads = router.integer("workerThreads", 1, 1024).value_or(4);
  out.idle_timeout = router.integer("idleTimeout", 0, 86'400).value_or(16);
  out.link_capacity = router.integer("linkCapacity", 1, 1'000'000).value_or(100);
  out.handshake_timeout = router.integer("handshakeTimeout", 0, 86'400).value_or(20);
}

void parse_brokers(const Fields& brokers, Parsed<MessagingInfra>& parsed) {
  MessagingInfra::Brokers& out = parsed.object.brokers;
  out.image = parse_image(brokers, "image");
  out.init_image = parse_image(brokers, "initImage");
  out.pod_template = parse_pod_template(brokers);
  out.min = brokers.integer("min", 0, 256).value_or(0);
  out.max = brokers.integer("max", 0, 256).value_or(std::max<std::int64_t>(out.min, 1));
  if (out.max < out.min) {
    brokers.problem("max", "must be at least min");
    out.max = out.min;
  }
  if (brokers.integer("replicas", 1, 64).value_or(1) > 1) {
    parsed.conditions.push_back(
        unsupported("BrokerHA", "NotSupported", "spec.brokers.replicas: one replica is used"));
  }
  out.policy =
      static_cast<FullPolicy>(brokers.choice("addressFullPolicy", {"PAGE", "BLOCK", "FAIL", "DROP"},
                                             static_cast<std::size_t>(FullPolicy::kFail)));
  out.queue_memory = brokers.quantity("queueMemory");
  if (out.queue_memory && *out.queue_memory == 0) {
    brokers.problem("queueMemory", "must be above 0");
    out.queue_memory.reset();
  }
  out.storage_class = brokers.text("storageClassName");
  out.java_opts = brokers.text("javaOpts");
  if (const krm::Json* storage = brokers.member("storage")) {
    out.storage = *storage;
  }
  out.global_max_size = brokers.quantity("globalMaxSize");
  out.endpoints = parse_components(brokers);
  // 50 % of the pod's memory, before what the broker says of itself.
  const Fields limits =
      brokers.object("podTemplate").object("spec").object("resources").object("limits");
  if (const auto memory = limits.quantity("memory"); memory && !out.queue_memory && *memory > 1) {
    out.queue_memory = *memory / 2;
  }
}

}  // namespace

std::string_view full_policy_text(FullPolicy policy) noexcept {
  switch (policy) {
    case FullPolicy::kPage:
      return "PAGE";
    case FullPolicy::kBlock:
      return "BLOCK";
    case FullPolicy::kFail:
      return "FAIL";
    case FullPolicy::kDrop:
      return "DROP";
  }
  return "FAIL";
}

std::int64_t MessagingInfra::declared_routers(std::int64_t size) const noexcept {
  const auto existing = static_cast<std::int64_t>(routers.endpoints.size());
  return existing > 0 ? existing : size * static_cast<std::int64_t>(routers.groups.size());
}

std::int64_t MessagingInfra::most_brokers() const noexcept {
  const auto existing = static_cast<std::int64_t>(brokers.endpoints.size());
  return existing > 0 ? existing : brokers.max;
}

Parsed<MessagingInfra> parse_infra(const krm::Json& object) {
  Parsed<MessagingInfra> parsed;
  FieldProblems problems;
  parsed.object.id = parse_identity(object);
  const Fields spec = Fields(&object, "", problems).object("spec");
  parsed.object.on_demand = spec.choice("deployment", {"Immediate", "OnDemand"}, 0) == 1;
  parse_routers(spec.object("router"), parsed);
  parse_brokers(spec.object("brokers"), parsed);
  parsed.object.selector = parse_selector(spec);
  finish(parsed, "Ready", problems, parsed.object.id.generation);
  return parsed;
}

std::int64_t link_cost(const MessagingInfra& infra, std::int64_t weight) noexcept {
  std::int64_t largest = infra.routers.link_weight;
  for (const RouterGroup& group : infra.routers.groups) {
    largest = std::max(largest, group.link_weight);
  }
  return weight <= 0 ? 1 : (largest + weight - 1) / weight;
}

Parsed<MessagingPlan> parse_plan(const krm::Json& object) {
  Parsed<MessagingPlan> parsed;
  MessagingPlan& plan = parsed.object;
  FieldProblems problems;
  plan.id = parse_identity(object);
  plan.tenant_plan = object.text({"kind"}) == "MessagingPlan";
  plan.is_default = annotation_of(object, "enmasse.io/default") == "true";
  const Fields spec = Fields(&object, "", problems).object("spec");
  const std::string type = spec.text("addressSpaceType", "shared");
  plan.shared = type == "shared";
  if (!plan.shared) {
    return parsed;  // its own controller judges it
  }
  plan.infra = parse_ref(spec, "messagingInfraRef");
  if (plan.infra.empty() && !plan.tenant_plan) {
    spec.problem("messagingInfraRef", "is required");
  }
  if (plan.infra.ns.empty()) {
    plan.infra.ns = plan.infra.empty() ? "" : plan.id.ns;
  }
  plan.transactions = parse_transactions(spec);
  const Fields requests = spec.object("resources").object("requests");
  const Fields limits = spec.object("resources").object("limits");
  plan.requests.queue_memory = requests.quantity("queueMemory").value_or(0);
  plan.requests.addresses = requests.quantity("addresses").value_or(0);
  plan.requests.connections = requests.quantity("connections").value_or(0);
  plan.limits.queue_memory = limits.quantity("queueMemory");
  plan.limits.addresses = limits.quantity("addresses");
  plan.limits.connections = limits.quantity("connections");
  plan.limits.links_per_connection = limits.quantity("linksPerConnection");
  const auto bound = [&](std::string_view key, std::int64_t request,
                         const std::optional<std::int64_t>& limit) {
    if (limit && request > *limit) {
      requests.problem(key, "must not be above the limit");
    }
  };
  bound("queueMemory", plan.requests.queue_memory, plan.limits.queue_memory);
  bound("addresses", plan.requests.addresses, plan.limits.addresses);
  bound("connections", plan.requests.connections, plan.limits.connections);
  plan.address_plans = spec.texts("addressPlans", 1'000);
  plan.selector = parse_selector(spec);
  finish(parsed, "Ready", problems, plan.id.generation);
  return parsed;
}

Parsed<AddressPlan> parse_address_plan(const krm::Json& object) {
  Parsed<AddressPlan> parsed;
  AddressPlan& plan = parsed.object;
  FieldProblems problems;
  plan.id = parse_identity(object);
  plan.is_default = annotation_of(object, "enmasse.io/default") == "true";
  const Fields spec = Fields(&object, "", problems).object("spec");
  // A word of address spaces of type standard, whose plans are another controller's.
  plan.legacy = spec.text("addressType") == "deadletter";
  if (plan.legacy) {
    plan.type = AddressType::kDeadLetter;
    return parsed;
  }
  (void)spec.required_text("addressType");
  plan.type = static_cast<AddressType>(spec.choice(
      "addressType", {"anycast", "multicast", "queue", "topic", "subscription", "deadLetter"}, 0));
  // The legacy schema counts broker and router in fractions.
  const Fields resources = spec.object("resources");
  plan.legacy = resources.has("broker") || resources.has("router");
  plan.allow_overrides = spec.boolean("allowOverrides", false);
  if (!plan.legacy) {
    plan.settings = parse_settings(spec);
    check_settings(plan.settings, spec);
  }
  if (plan.type == AddressType::kTopic && plan.settings.partitions_max.value_or(1) > 1) {
    refuse(parsed, "Ready", "ShardedTopicNotSupported",
           "spec.queue.partitions.max: topics have one partition");
  }
  finish(parsed, "Ready", problems, plan.id.generation);
  return parsed;
}

}  // namespace kintsugi::workers
