#include "workers/messaging/model/infra_status.h"

#include <algorithm>

#include "workers/messaging/model/internal/status_parts.h"

namespace kintsugi::workers {

namespace {

using krm::Json;

std::string counted(std::int64_t n, std::int64_t of, std::string_view what) {
  return std::to_string(n) + " of " + std::to_string(of) + " " + std::string(what);
}

Condition routers_created(const InfraStatusInput& input) {
  const auto there = static_cast<std::int64_t>(input.routers.size());
  if (there < input.routers_wanted && input.routers_refused) {
    return *input.routers_refused;
  }
  return there >= input.routers_wanted
             ? condition_of("RoutersCreated", ConditionStatus::kTrue, "RoutersCreated")
             : condition_of("RoutersCreated", ConditionStatus::kFalse, "Waiting",
                            "there are " + counted(there, input.routers_wanted, "routers"));
}

Condition brokers_created(const InfraStatusInput& input) {
  const auto there = static_cast<std::int64_t>(input.brokers.size());
  if (there < input.brokers_wanted && input.brokers_refused) {
    return *input.brokers_refused;
  }
  return there >= input.brokers_wanted
             ? condition_of("BrokersCreated", ConditionStatus::kTrue, "BrokersCreated")
             : condition_of("BrokersCreated", ConditionStatus::kFalse, "Waiting",
                            "there are " + counted(there, input.brokers_wanted, "brokers"));
}

/// MS-003, MS-004: management of all brokers, and a connector from each router to each.
Condition brokers_connected(const InfraStatusInput& input) {
  for (const InfraBrokerView& broker : input.brokers) {
    if (!broker.trouble.empty() || !broker.connected) {
      const std::string host(broker.host);
      return condition_of("BrokersConnected", ConditionStatus::kFalse,
                          broker.trouble.empty() ? "NotConnected" : broker.trouble,
                          (broker.connected ? "broker " : "no connection to broker ") + host +
                              (broker.error.empty() ? "" : ": " + std::string(broker.error)));
    }
  }
  if (!input.broken.empty()) {
    const BrokenConnector& one = input.broken.front();
    std::string text = "no connection from broker " + std::string(one.broker) + " on router " +
                       std::string(one.router);
    text += one.message.empty() ? "" : ": " + std::string(one.message);
    if (input.broken.size() > 1) {
      text += "; and " + std::to_string(input.broken.size() - 1) + " more";
    }
    return condition_of("BrokersConnected", ConditionStatus::kFalse, "NotConnected", text);
  }
  const auto connected = static_cast<std::int64_t>(
      std::count_if(input.routers.begin(), input.routers.end(),
                    [](const RouterView& router) { return router.connected; }));
  const std::int64_t all = connected * static_cast<std::int64_t>(input.brokers.size());
  if (input.connectors_up < all) {
    return condition_of("BrokersConnected", ConditionStatus::kFalse, "Connecting",
                        counted(input.connectors_up, all, "connectors are up"));
  }
  return condition_of("BrokersConnected", ConditionStatus::kTrue, "BrokersConnected");
}

template <class View>
std::string unsynchronized(std::span<const View> list, std::string_view kind,
                           std::string_view* reason) {
  for (const View& one : list) {
    if (!one.synchronized || !one.trouble.empty()) {
      *reason = one.trouble.empty() ? "Configuring" : one.trouble;
      return std::string(kind) + " " + std::string(one.host) +
             (!one.error.empty() ? ": " + std::string(one.error)
              : one.connected    ? " is being configured"
                                 : " is not connected");
    }
  }
  return {};
}

Json bounded(std::string_view text) { return {cut_utf8(printable(text), kMaxMessage)}; }

/// The list of components, or of many a summary (RT-85).
template <class View, class Entry>
Json listed(std::span<const View> list, std::string_view name, Json& status, const Entry& entry) {
  Json out = Json::array();
  for (const View& one : list) {
    // Of many the first of those that are not in order are told.
    if (list.size() <= kMostListed || (!one.synchronized && out.size() < kMostListed)) {
      out.push_back(entry(one));
    }
  }
  const std::string summary = std::string(name) + "Summary";
  if (list.size() <= kMostListed) {
    status.erase(summary);
    return out;
  }
  const auto count = [&list](auto member) {
    return static_cast<std::int64_t>(
        std::count_if(list.begin(), list.end(), [member](const View& v) { return v.*member; }));
  };
  status[summary] = Json::object({{"total", static_cast<std::int64_t>(list.size())},
                                  {"connected", count(&View::connected)},
                                  {"synchronized", count(&View::synchronized)}});
  return out;
}

Json capacity_json(const InfraCapacity& capacity) {
  Json out = Json::object();
  const auto put = [&out](std::string_view name, const std::optional<std::int64_t>& value) {
    if (value) {
      out[name] = *value;
    }
  };
  put("queueMemory", capacity.queue_memory);
  put("addresses", capacity.addresses);
  put("connections", capacity.connections);
  return out;
}

}  // namespace

const std::vector<std::string_view>& infra_condition_order() {
  static const std::vector<std::string_view> kOrder{
      "CaCreated",    "CertCreated",       "RoutersCreated", "BrokersCreated", "BrokersConnected",
      "Synchronized", "TopologySupported", "GroupsSpread",   "BrokerHA",       "Ready"};
  return kOrder;
}

std::int64_t routers_needed(const MessagingInfra& infra, std::int64_t declared) {
  const MessagingInfra::Routers& routers = infra.routers;
  const auto groups = static_cast<std::int64_t>(routers.groups.size());
  const std::int64_t slack =
      (routers.min - routers.min_ready) * (routers.endpoints.empty() ? groups : 1);
  return std::clamp<std::int64_t>(declared - slack, std::min<std::int64_t>(1, declared), declared);
}

Json infra_status(const InfraStatusInput& input, const Json& from, std::string_view now,
                  const Redactor* redactor) {
  const MessagingInfra& infra = *input.infra;
  StatusWriter out(from, infra_condition_order(), now, redactor, infra.id.generation);
  bool invalid = false, is_mesh = true, is_single = true;
  if (input.conditions != nullptr) {
    for (const Condition& one : *input.conditions) {
      out.set(one);
      is_mesh = is_mesh && one.type != "TopologySupported";
      is_single = is_single && one.type != "BrokerHA";
      invalid = invalid || one.reason == "InvalidField";
    }
  }
  if (is_mesh) {
    out.set("TopologySupported", ConditionStatus::kTrue, "Mesh");
  }
  if (is_single) {
    out.set("BrokerHA", ConditionStatus::kTrue, "NotRequested");
  }
  if (input.groups_spread) {
    out.set(*input.groups_spread);
  }
  std::string_view phase = "Configuring";
  if (!input.wanted) {
    for (const std::string_view type : {"CaCreated", "CertCreated", "RoutersCreated",
                                        "BrokersCreated", "BrokersConnected", "Synchronized"}) {
      out.set(type, ConditionStatus::kUnknown, "OnDemand", "no space refers to it yet");
    }
    out.set("Ready", ConditionStatus::kFalse, "OnDemand", "no space refers to it yet");
    phase = "Pending";
  } else {
    const auto made = [&](std::string_view type, const Condition* is) {
      if (!input.makes_certificates) {
        out.set(type, ConditionStatus::kTrue, "NotManaged");
      } else if (is != nullptr) {
        out.set(*is);
      } else if (!out.is(type, "True") && !out.is(type, "False")) {
        out.set(type, ConditionStatus::kFalse, "Waiting", "it is not written yet");
      }
    };
    made("CaCreated", input.ca_created);
    made("CertCreated", input.cert_created);
    const Condition routers = routers_created(input), brokers = brokers_created(input),
                    connected = brokers_connected(input);
    out.set(routers);
    out.set(brokers);
    out.set(connected);
    std::string_view reason = "Synchronized";
    std::string behind = unsynchronized(input.routers, "router", &reason);
    if (behind.empty()) {
      behind = unsynchronized(input.brokers, "broker", &reason);
    }
    if (behind.empty() && !input.shared.empty()) {
      out.set("Synchronized", ConditionStatus::kTrue, "SharedRouter", std::string(input.shared));
    } else {
      out.set("Synchronized", behind.empty() ? ConditionStatus::kTrue : ConditionStatus::kFalse,
              reason, behind);
    }
    const auto in_order = static_cast<std::int64_t>(
        std::count_if(input.routers.begin(), input.routers.end(), [](const RouterView& router) {
          return router.connected && (router.synchronized || router.configured) &&
                 router.trouble.empty();
        }));
    const std::int64_t declared =
        std::max(input.routers_wanted, static_cast<std::int64_t>(input.routers.size()));
    const std::int64_t needed = routers_needed(infra, declared);
    std::string fault;
    for (const std::string_view type :
         {"CaCreated", "CertCreated", "BrokersCreated", "BrokersConnected"}) {
      if (fault.empty() && !out.is(type, "True")) {
        fault = find_condition(out.json(), type)->text({"message"});
      }
    }
    if (in_order < needed || declared == 0) {
      fault = counted(in_order, declared, "routers are in order") + ", " + std::to_string(needed) +
              " are needed" + (behind.empty() ? "" : ": " + behind);
    }
    if (fault.empty()) {
      phase = "Active";
      const bool degraded = in_order < declared;
      out.set("Ready", ConditionStatus::kTrue,
              degraded ? std::string_view("Degraded") : std::string_view("Ready"),
              degraded ? "degraded: " + counted(in_order, declared, "routers are in order") +
                             (behind.empty() ? "" : ": " + behind)
                       : std::string());
    } else {
      out.set("Ready", ConditionStatus::kFalse, invalid ? "InvalidField" : "NotReady", fault);
    }
  }
  if (input.deleting) {
    phase = "Terminating";
    out.set("Ready", ConditionStatus::kFalse, "Terminating",
            input.waits.empty() ? "it is being deleted" : std::string(input.waits));
  }
  Json& status = out.json();
  status["capacity"] = capacity_json(input.capacity);
  status["requested"] = Json::object({{"queueMemory", input.requested.queue_memory},
                                      {"addresses", input.requested.addresses},
                                      {"connections", input.requested.connections}});
  status["routers"] =
      listed<RouterView>(input.routers, "routers", status, [](const RouterView& one) {
        Json entry = Json::object({{"host", one.host},
                                   {"group", one.group},
                                   {"connected", one.connected},
                                   {"synchronized", one.synchronized},
                                   {"entities", one.entities},
                                   {"pendingEntities", one.pending}});
        if (!one.last_sync.empty()) {
          entry["lastSync"] = one.last_sync;
        }
        if (!one.error.empty()) {
          entry["lastError"] = bounded(one.error);
        }
        return entry;
      });
  status["brokers"] =
      listed<InfraBrokerView>(input.brokers, "brokers", status, [](const InfraBrokerView& one) {
        return Json::object({{"host", one.host},
                             {"connected", one.connected},
                             {"synchronized", one.synchronized},
                             {"queues", one.queues},
                             {"queueMemoryRequested", one.memory},
                             {"settingsClasses", one.classes}});
      });
  Json done = out.finish(phase, false);
  if (const Json* ready = find_condition(done, "Ready")) {
    done["message"] = ready->text({"message"});
  }
  return done;
}

}  // namespace kintsugi::workers
