#include "workers/messaging/model/space_status.h"

#include <algorithm>

#include "workers/messaging/model/internal/status_parts.h"

namespace kintsugi::workers {

namespace {

using krm::Json;
constexpr std::size_t kMostEntries = 64;

Json texts(std::string_view text) {
  Json list = Json::array();
  if (!text.empty()) {
    list.push_back(cut_utf8(printable(text), kMaxMessage));
  }
  return list;
}

/// VhostApplied: everything of the space is at all routers that are needed.
Condition vhost_applied(const SpaceStatusInput& input) {
  std::int64_t applied = 0;
  std::string first;
  for (const ComponentView& router : input.routers) {
    const std::string host(router.host);
    const bool there = router.progress.wanted > 0 &&  // before that nothing was asked for
                       router.progress.applied == router.progress.wanted;
    if (router.connected && there) {
      ++applied;
    } else if (first.empty()) {
      first = !router.connected               ? "no connection to router " + host
              : router.progress.error.empty() ? "vhost missing on router " + host
                                              : "router " + host + ": " + router.progress.error;
    }
  }
  const auto all = static_cast<std::int64_t>(input.routers.size());
  if (applied == 0 || applied < std::min(input.min_ready, all)) {
    return condition_of("VhostApplied", ConditionStatus::kFalse,
                        all == 0 ? "NoRouters" : "Configuring",
                        all == 0 ? "there is no router yet" : first);
  }
  return condition_of("VhostApplied", ConditionStatus::kTrue,
                      applied < all ? "Degraded" : "VhostApplied",
                      applied < all ? "degraded: " + first : std::string());
}

bool connector_ready(const ConnectorView& one) {
  return one.valid && !one.routers.empty() &&
         std::all_of(one.routers.begin(), one.routers.end(),
                     [](const ConnectorView::AtRouter& at) { return at.connected; });
}

std::string connector_message(const ConnectorView& one) {
  if (!one.valid) {
    return std::string(one.message);
  }
  for (const ConnectorView::AtRouter& at : one.routers) {
    if (!at.connected) {
      return "connector " + std::string(one.name) + " is not connected on router " +
             std::string(at.host) +
             (at.message.empty() ? std::string() : ": " + std::string(at.message));
    }
  }
  return one.routers.empty() ? "connector " + std::string(one.name) + " is on no router yet"
                             : std::string();
}

void write_lists(const SpaceStatusInput& input, Json& status) {
  Json connectors = Json::array();
  for (const ConnectorView& one :
       input.connectors.first(std::min<std::size_t>(input.connectors.size(), kMostEntries))) {
    connectors.push_back(Json::object({{"name", one.name},
                                       {"isReady", connector_ready(one)},
                                       {"messages", texts(connector_message(one))}}));
  }
  Json endpoints = Json::array();
  for (const EndpointView& one :
       input.endpoints.first(std::min<std::size_t>(input.endpoints.size(), kMostEntries))) {
    Json ports = Json::array();
    for (const auto& [name, port] : one.ports) {
      ports.push_back(Json::object({{"name", name}, {"port", port}}));
    }
    endpoints.push_back(Json::object({{"name", one.name},
                                      {"serviceHost", one.host},
                                      {"servicePorts", std::move(ports)},
                                      {"messages", texts(one.message)}}));
  }
  status["connectors"] = std::move(connectors);
  status["endpointStatuses"] = std::move(endpoints);
}

}  // namespace

const std::vector<std::string_view>& space_condition_order(bool tenant) {
  static const std::vector<std::string_view> kSpace{
      "PlanFound",       "InfraBound",     "Scheduled", "VhostApplied",
      "ConnectorsReady", "EndpointsReady", "Ready"};
  static const std::vector<std::string_view> kTenant{
      "PlanFound",    "InfraBound",      "Bound",          "PlanApplied", "Scheduled",
      "VhostApplied", "ConnectorsReady", "EndpointsReady", "Ready"};
  return tenant ? kTenant : kSpace;
}

Json space_status(const SpaceStatusInput& input, const Json& from, std::string_view now,
                  const Redactor* redactor) {
  const MessagingSpace& space = *input.space;
  const bool tenant = space.is_tenant();
  StatusWriter out(from, space_condition_order(tenant), now, redactor, space.id.generation);
  std::string stopped;  // why it is not ready
  std::string_view phase = "Configuring", reason = "NotReady";
  const auto stop = [&](const Condition& why, std::string_view then) {
    if (stopped.empty()) {
      stopped = why.message.empty() ? std::string(why.reason) : why.message;
      phase = then;
    }
  };
  if (input.conditions != nullptr) {
    for (const Condition& one : *input.conditions) {
      out.set(one);
      if (one.status == ConditionStatus::kFalse && one.reason == "InvalidField") {
        stop(one, "Failed");
      }
    }
  }
  if (input.duplicate) {
    stop(*input.duplicate, "Failed");
    reason = input.duplicate->reason;
  }
  if (input.plan_refused) {
    Condition refused = *input.plan_refused;
    if (refused.type == "PlanFound" || refused.type == "PlanApplied") {
      out.set(refused);
    }
    if (tenant) {
      refused.type = "PlanApplied";
      out.set(refused);
    }
    stop(*input.plan_refused, "Pending");
  } else {
    const std::string_view how = input.plan.empty() ? "NoPlan" : "PlanFound";
    if (!input.plan.empty() || !input.plan_needed) {
      out.set("PlanFound", ConditionStatus::kTrue, how);
      if (tenant) {
        out.set("PlanApplied", ConditionStatus::kTrue,
                input.plan.empty() ? std::string_view("NoPlan") : std::string_view("PlanApplied"));
      }
    }
  }
  if (input.infra_refused) {
    Condition refused = *input.infra_refused;
    refused.type = "InfraBound";
    out.set(refused);
    if (tenant) {
      refused.type = "Bound";
      out.set(refused);
    }
    stop(*input.infra_refused, "Pending");
  } else if (!input.infra.empty()) {
    out.set_true("InfraBound");
    if (tenant) {
      out.set_true("Bound");
    }
  }
  if (!input.transactions) {
    out.set("Scheduled", ConditionStatus::kTrue, "NotNeeded");
  } else if (input.placing != nullptr) {
    const AddressPlacing& placing = *input.placing;
    const Condition scheduled = condition_of(
        "Scheduled", placing.scheduled() ? ConditionStatus::kTrue : ConditionStatus::kFalse,
        placing_reason_text(placing.reason), placing.message);
    out.set(scheduled);
    if (!placing.scheduled()) {
      stop(scheduled, "Pending");
    }
  }
  const Condition vhost = vhost_applied(input);
  if (stopped.empty()) {
    out.set(vhost);
    if (vhost.status != ConditionStatus::kTrue) {
      stop(vhost, "Configuring");
    }
  } else {
    out.set("VhostApplied", ConditionStatus::kUnknown, "Waiting", stopped);
  }
  const auto first_of = [](auto list, const auto& message) {
    for (const auto& one : list) {
      if (std::string text = message(one); !text.empty()) {
        return text;
      }
    }
    return std::string();
  };
  const std::string connectors = first_of(input.connectors, connector_message);
  out.set("ConnectorsReady", connectors.empty() ? ConditionStatus::kTrue : ConditionStatus::kFalse,
          connectors.empty() ? "ConnectorsReady" : "NotConnected", connectors);
  const std::string endpoints = first_of(input.endpoints, [](const EndpointView& one) {
    return one.ready ? std::string()
                     : "endpoint " + std::string(one.name) + ": " +
                           (one.message.empty() ? "not ready" : std::string(one.message));
  });
  out.set("EndpointsReady", endpoints.empty() ? ConditionStatus::kTrue : ConditionStatus::kFalse,
          endpoints.empty() ? "EndpointsReady" : "NotReady", endpoints);
  if (stopped.empty() && input.transactions && input.placing != nullptr &&
      !input.broker_connected) {
    const std::string host =
        input.placing->hosts.empty() ? std::string() : input.placing->hosts.front();
    stopped = input.placing->reason == PlacingReason::kBrokerGone
                  ? input.placing->message
                  : "no connection from broker " + host;
    reason =
        input.placing->reason == PlacingReason::kBrokerGone ? "BrokerGone" : "BrokerNotConnected";
    phase = "Configuring";
  }
  if (stopped.empty()) {
    phase = "Active";
    out.set("Ready", ConditionStatus::kTrue,
            vhost.reason == "Degraded" ? std::string_view("Degraded") : std::string_view("Ready"),
            vhost.message);
  } else {
    out.set("Ready", ConditionStatus::kFalse, reason, stopped);
  }
  if (input.deleting) {
    phase = "Terminating";
    out.set("Ready", ConditionStatus::kFalse, "Terminating",
            input.waits.empty() ? "it is being deleted" : std::string(input.waits));
  }
  Json& status = out.json();
  if (!input.space_id.empty()) {
    status["spaceId"] = input.space_id;
  }
  if (!input.plan.empty()) {
    status["appliedPlan"] = input.plan;
  }
  if (!input.infra.empty()) {
    status["effectiveConnectionsPerRouter"] = input.connections_per_router;
  }
  if (input.transactions && input.placing != nullptr && !input.placing->hosts.empty()) {
    status["broker"] = Json::object({{"host", input.placing->hosts.front()},
                                     {"state", input.broker_connected ? "Active" : "Scheduled"}});
  } else {
    status.erase("broker");
  }
  status["usage"] =
      Json::object({{"addresses", input.addresses}, {"queueMemory", input.queue_memory}});
  write_lists(input, status);
  Json done = out.finish(phase, true);
  const Json::Array& all = done.find("messages")->items();
  done["message"] = all.empty() ? Json("") : all.front();
  return done;
}

Json plan_status(const PlanStatusInput& input, const Json& from, std::string_view now) {
  const MessagingPlan& plan = *input.plan;
  StatusWriter out(from, {"Validated", "InfraFound", "Feasible"}, now, nullptr, plan.id.generation);
  std::string_view phase = "Active";
  if (input.conditions != nullptr) {
    for (const Condition& one : *input.conditions) {
      out.set(one);
      phase = one.status == ConditionStatus::kFalse ? "Failed" : phase;
    }
  }
  if (input.infra_refused) {
    Condition refused = *input.infra_refused;
    refused.type = "InfraFound";
    out.set(refused);
    phase = "Pending";
  } else if (!input.infra.empty()) {
    out.set_true("InfraFound");
  }
  if (input.feasible) {
    out.set(*input.feasible);
    phase =
        input.feasible->status == ConditionStatus::kFalse && phase == "Active" ? "Failed" : phase;
  } else {
    out.set("Feasible", ConditionStatus::kUnknown, "NoInfra");
  }
  Json& status = out.json();
  status["cost"] = Json::object({{"queueMemory", plan.requests.queue_memory},
                                 {"addresses", plan.requests.addresses},
                                 {"connections", plan.requests.connections}});
  status["spaces"] = input.spaces;
  status["capabilities"] = plan.transactions ? Json::array({"transactions"}) : Json::array();
  return out.finish(phase, false);
}

}  // namespace kintsugi::workers
