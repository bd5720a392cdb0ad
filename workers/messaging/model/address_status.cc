#include "workers/messaging/model/address_status.h"

#include <algorithm>

#include "workers/messaging/model/internal/status_parts.h"

namespace kintsugi::workers {

namespace {

using krm::Json;

Condition not_ready(std::string_view reason, std::string message) {
  return condition_of("Ready", ConditionStatus::kFalse, reason, std::move(message));
}

/// What a router lacks for the address to be of use there; "" for nothing.
Condition router_fault(const ComponentView& router) {
  const ObjectProgress& progress = router.progress;
  const std::string host(router.host);
  if (!router.connected) {
    return not_ready("RouterNotConnected", "no connection to router " + host);
  }
  if (progress.applied < progress.wanted) {
    return progress.error.empty()
               ? not_ready("AddressMissing", "address missing on router " + host)
               : not_ready("RouterRefused", "router " + host + ": " + progress.error);
  }
  if (progress.active >= progress.links) {
    return condition_of("Ready", ConditionStatus::kTrue, "Ready");
  }
  std::string text;
  if (router.inactive && router.inactive->route) {
    text = "link route inactive";
  } else if (router.inactive) {
    text = std::string("no active autolink ") + (router.inactive->out ? "out to" : "in from") +
           " broker " + std::string(router.inactive->broker) + " on router " + host;
  } else {
    text = "no active link on router " + host;
  }
  if (router.inactive && router.inactive->route) {
    text += std::string(" ") + (router.inactive->out ? "out to" : "in from") + " broker " +
            std::string(router.inactive->broker) + " on router " + host;
  }
  if (!progress.link_error.empty()) {
    text += ": " + progress.link_error;
  }
  return not_ready(progress.link_unknown ? "LinkUnknown" : "LinkInactive", std::move(text));
}

Condition broker_fault(const ComponentView& broker) {
  const std::string host(broker.host);
  if (!broker.connected) {
    return not_ready("BrokerNotConnected", "no connection from broker " + host);
  }
  if (broker.progress.applied < broker.progress.wanted) {
    return broker.progress.error.empty()
               ? not_ready("QueueMissing", "queue not on broker " + host)
               : not_ready("BrokerRefused",
                           "queue not on broker " + host + ": " + broker.progress.error);
  }
  return condition_of("Ready", ConditionStatus::kTrue, "Ready");
}

bool is_true(const Condition& condition) { return condition.status == ConditionStatus::kTrue; }

/// Created: whether all that was sent was taken.
Condition created(const AddressStatusInput& input) {
  std::size_t open = 0;
  for (const ComponentView& one : input.components) {
    if (!one.progress.error.empty()) {
      return condition_of("Created", ConditionStatus::kFalse, "Refused",
                          std::string(one.host) + ": " + one.progress.error);
    }
    open += one.progress.settled() ? 0 : 1;
  }
  if (input.components.empty()) {
    return condition_of("Created", ConditionStatus::kFalse, "NoComponents",
                        "there is no router yet");
  }
  return open == 0 ? condition_of("Created", ConditionStatus::kTrue, "Created")
                   : condition_of("Created", ConditionStatus::kFalse, "Configuring",
                                  std::to_string(open) + " of " +
                                      std::to_string(input.components.size()) +
                                      " components are not configured yet");
}

Json brokers_of(const AddressStatusInput& input, std::string_view state_gone) {
  Json list = Json::array();
  if (input.placing == nullptr) {
    return list;
  }
  for (const std::string& host : input.placing->hosts) {
    std::string_view state = state_gone;
    for (const ComponentView& one : input.components) {
      if (one.kind == ComponentKind::kBroker && one.host == host) {
        state = one.progress.settled() && one.progress.wanted > 0 ? "Active" : "Scheduled";
      }
    }
    list.push_back(Json::object({{"host", host}, {"state", state}}));
  }
  return list;
}

}  // namespace

std::optional<InactiveLink> find_link(std::span<const DesiredEntity> routers,
                                      std::span<const BrokerLink> brokers, std::string_view text) {
  for (const DesiredEntity& entity : routers) {
    const bool route = entity.kind == EntityKind::kLinkRoute;
    if ((!route && entity.kind != EntityKind::kAutoLink) ||
        text.find(entity.name) == std::string_view::npos) {
      continue;
    }
    InactiveLink link;
    link.route = route;
    const auto value = [&entity](std::string_view name) {
      const Attribute* one = find_attribute(entity, name);
      const std::string* said = one == nullptr ? nullptr : std::get_if<std::string>(&one->value);
      return said == nullptr ? std::string_view() : std::string_view(*said);
    };
    link.out = value("direction") == "out";
    for (const BrokerLink& broker : brokers) {
      if (broker.connector == value("connection")) {
        link.broker = broker.host;
      }
    }
    return link;
  }
  return std::nullopt;
}

const std::vector<std::string_view>& address_condition_order(std::string_view space_kind) {
  static const std::vector<std::string_view> kTenant{"FoundTenant", "Validated", "Scheduled",
                                                     "Created", "Ready"};
  static const std::vector<std::string_view> kProject{"FoundProject", "Validated", "Scheduled",
                                                      "Created", "Ready"};
  static const std::vector<std::string_view> kSpace{"FoundSpace", "Validated", "Scheduled",
                                                    "Created", "Ready"};
  return space_kind == "Tenant" ? kTenant : space_kind == "Project" ? kProject : kSpace;
}

Condition address_ready(const AddressStatusInput& input) {
  if (input.placing != nullptr && input.placing->reason == PlacingReason::kBrokerGone) {
    return not_ready("BrokerGone", input.placing->message);
  }
  for (const ComponentView& one : input.components) {
    if (one.kind == ComponentKind::kBroker) {
      if (Condition fault = broker_fault(one); !is_true(fault)) {
        return fault;
      }
    }
  }
  std::int64_t routers = 0, in_order = 0;
  Condition first = not_ready("NoRouters", "there is no router yet");
  for (const ComponentView& one : input.components) {
    if (one.kind != ComponentKind::kRouter) {
      continue;
    }
    Condition fault = router_fault(one);
    if (is_true(fault)) {
      ++in_order;
    } else if (routers == in_order) {
      first = std::move(fault);
    }
    ++routers;
  }
  if (in_order == 0 || in_order < std::min(input.min_ready, routers)) {
    return first;
  }
  Condition ready = condition_of("Ready", ConditionStatus::kTrue, "Ready");
  if (in_order < routers) {
    ready.reason = "Degraded";
    ready.message = "degraded: " + first.message;
  }
  return ready;
}

Json address_status(const AddressStatusInput& input, const Json& from, std::string_view now,
                    const Redactor* redactor) {
  const MessagingAddress& address = *input.address;
  StatusWriter out(from, address_condition_order(input.space_kind), now, redactor,
                   address.id.generation);
  const std::string_view found = address_condition_order(input.space_kind).front();
  for (const std::string_view other : {"FoundTenant", "FoundProject", "FoundSpace"}) {
    if (other != found) {
      out.drop(other);
    }
  }
  std::string stopped;  // why what follows was not begun
  std::string_view phase = "Configuring";
  if (input.space_id.empty()) {
    stopped =
        input.space_message.empty() ? "there is no such space" : std::string(input.space_message);
    out.set(found, ConditionStatus::kFalse, "NotFound", stopped);
    phase = "Pending";
  } else {
    out.set(found, ConditionStatus::kTrue, "Found");
  }
  const Condition* invalid = nullptr;
  if (input.conditions != nullptr) {
    for (const Condition& one : *input.conditions) {
      if (one.type == "Validated" && one.status == ConditionStatus::kFalse && invalid == nullptr) {
        invalid = &one;
      }
    }
  }
  if (invalid == nullptr && input.refused && input.refused->type == "Validated") {
    invalid = &*input.refused;
  }
  const auto waiting = [&out](std::string_view type, const std::string& why) {
    out.set(type, ConditionStatus::kUnknown, "Waiting", why);
  };
  if (invalid != nullptr) {
    out.set(*invalid);
    stopped = stopped.empty() ? invalid->message : stopped;
    phase = phase == "Pending" ? phase : invalid->reason == "TargetNotFound" ? "Pending" : "Failed";
  } else {
    out.set_true("Validated");
  }
  const bool placed = is_broker_type(address.type);
  if (!stopped.empty()) {
    waiting("Scheduled", stopped);
  } else if (input.refused) {
    out.set(*input.refused);
    stopped = input.refused->message;
    phase = "Pending";
  } else if (!placed) {
    out.set("Scheduled", ConditionStatus::kTrue, "NotNeeded");
  } else if (input.placing == nullptr) {
    stopped = "it was not placed yet";
    waiting("Scheduled", stopped);
    phase = "Pending";
  } else {
    const AddressPlacing& placing = *input.placing;
    out.set("Scheduled", placing.scheduled() ? ConditionStatus::kTrue : ConditionStatus::kFalse,
            placing_reason_text(placing.reason), placing.message);
    if (!placing.scheduled() && placing.hosts.empty()) {
      stopped = placing.message;
      phase = "Pending";
    }
  }
  if (stopped.empty() && !input.space_ready) {
    stopped = "its space is not at the routers yet";
    phase = "Pending";
  }
  if (stopped.empty()) {
    out.set(created(input));
    const Condition ready = address_ready(input);
    out.set(ready);
    phase = is_true(ready) ? "Active" : "Configuring";
  } else {
    waiting("Created", stopped);
    out.set("Ready", ConditionStatus::kFalse, "NotReady", stopped);
  }
  if (address.deleting) {
    phase = "Terminating";
    out.set("Ready", ConditionStatus::kFalse, "Terminating",
            input.waits.empty() ? "it is being deleted" : std::string(input.waits));
  }
  Json& status = out.json();
  status["type"] = address_type_text(address.type);
  if (!input.space_id.empty()) {
    status["spaceId"] = input.space_id;
  }
  if (!input.broker_name.empty()) {
    status["brokerAddress"] = input.broker_name;
  }
  if (placed && input.placing != nullptr) {
    status["brokers"] = brokers_of(input, "Scheduled");
  }
  if (input.settings != nullptr) {
    Json plan = Json::object();
    if (!input.plan.empty()) {
      plan["name"] = input.plan;
    }
    plan["partitions"] = std::max<std::int64_t>(
        1, input.placing == nullptr ? 1 : static_cast<std::int64_t>(input.placing->hosts.size()));
    const AddressSettings& settings = input.settings->settings;
    const auto resource = [&plan](std::string_view which, std::string_view what,
                                  const std::optional<std::int64_t>& value) {
      if (value) {
        plan.make({"resources", which})[what] = *value;
      }
    };
    resource("requests", "queueDepth", settings.requests_depth);
    resource("requests", "queueMemory", settings.requests_memory);
    resource("limits", "queueDepth", settings.limits_depth);
    resource("limits", "queueMemory", settings.limits_memory);
    status["planStatus"] = std::move(plan);
  }
  if (const auto& forwarders = address.extra().forwarders; !forwarders.empty()) {
    const bool ready = out.is("Ready", "True");
    Json list = Json::array();
    for (const Forwarder& one : forwarders) {
      Json entry = Json::object({{"name", one.name}, {"isReady", ready}});
      entry["messages"] = Json::array();
      if (!ready) {
        entry["messages"].push_back(find_condition(status, "Ready")->text({"message"}));
      }
      list.push_back(std::move(entry));
    }
    status["forwarders"] = std::move(list);
  } else {
    status.erase("forwarders");
  }
  return out.finish(phase, true);
}

}  // namespace kintsugi::workers
