#include "workers/messaging/control/internal/end_reports.h"

#include <algorithm>

#include "base/strings.h"
#include "base/time.h"
#include "workers/messaging/control/internal/kinds.h"

namespace kintsugi::workers {

namespace {

/// A status that is written condition by condition.
class Report {
 public:
  Report(const krm::Json& from, const std::vector<std::string_view>& order, std::int64_t generation,
         std::string_view now, const Redactor* redactor)
      : status_(from), rules_{order, redactor}, generation_(generation), now_(now) {
    status_["observedGeneration"] = generation;
  }

  void say(Condition condition) {
    condition.observed_generation = generation_;
    set_condition(status_, rules_, condition, now_);
  }
  void say(std::string_view type, ConditionStatus value, std::string_view reason,
           std::string message = {}) {
    Condition out;
    out.type = type;
    out.status = value;
    out.reason = reason;
    out.message = std::move(message);
    say(std::move(out));
  }
  [[nodiscard]] bool is_true(std::string_view type) const {
    const krm::Json* const one = find_condition(status_, type);
    return one != nullptr && one->text({"status"}) == "True";
  }
  /// Ready follows from others: the first of them that is not True says why it is not.
  void say_ready(std::initializer_list<std::string_view> needed, bool deleting) {
    std::string_view phase = "Active";
    std::string message;
    if (deleting) {
      say("Ready", ConditionStatus::kFalse, "Terminating", "it is being deleted");
    }
    for (const std::string_view type : needed) {
      if (deleting || is_true(type)) {
        continue;
      }
      const krm::Json* const why = find_condition(status_, type);
      phase = type == "Validated" || type == "ConfiguredTLS" ? "Failed" : "Configuring";
      say("Ready", ConditionStatus::kFalse, why == nullptr ? "Pending" : why->text({"reason"}),
          why == nullptr ? std::string() : std::string(why->text({"message"})));
      break;
    }
    if (phase == "Active" && !deleting) {
      say("Ready", ConditionStatus::kTrue, "Ready");
    }
    const krm::Json* const ready = find_condition(status_, "Ready");
    status_["phase"] = deleting ? std::string_view("Terminating") : phase;
    if (const std::string_view text = ready->text({"message"}); !text.empty()) {
      status_["message"] = text;
    } else {
      status_.erase("message");
    }
  }
  [[nodiscard]] krm::Json& status() noexcept { return status_; }
  [[nodiscard]] const ConditionRules& rules() const noexcept { return rules_; }

 private:
  krm::Json status_;
  ConditionRules rules_;
  std::int64_t generation_;
  std::string_view now_;
};

const Condition* refused_type(const std::vector<Condition>* conditions, std::string_view type) {
  if (conditions != nullptr) {
    for (const Condition& one : *conditions) {
      if (one.type == type && one.status == ConditionStatus::kFalse) {
        return &one;
      }
    }
  }
  return nullptr;
}

/// Created: at how many routers it is as wanted.
Condition created(std::span<const ComponentView> routers, std::int64_t min_ready) {
  Condition out;
  out.type = "Created";
  std::int64_t there = 0;
  std::string lacking;
  bool failed = false;
  for (const ComponentView& one : routers) {
    if (one.connected && one.progress.settled()) {
      ++there;
      continue;
    }
    if (lacking.empty() || (!failed && !one.progress.error.empty())) {
      failed = !one.progress.error.empty();
      lacking = failed          ? "router " + std::string(one.host) + ": " + one.progress.error
                : one.connected ? "router " + std::string(one.host) + " is being configured"
                                : "router " + std::string(one.host) + " is not connected";
    }
  }
  const bool enough = there > 0 && there >= min_ready;
  out.status = enough ? ConditionStatus::kTrue : ConditionStatus::kFalse;
  out.reason = enough   ? (lacking.empty() ? "Created" : "Degraded")
               : failed ? "Failed"
                        : "Configuring";
  out.message = lacking.empty() && !enough ? "there is no router" : lacking;
  return out;
}

Condition connected(std::span<const ConnectorView::AtRouter> links) {
  Condition out;
  out.type = "Connected";
  const ConnectorView::AtRouter* down = nullptr;
  bool any = false;
  for (const ConnectorView::AtRouter& one : links) {
    any = any || one.connected;
    if (!one.connected && (down == nullptr || (down->message.empty() && !one.message.empty()))) {
      down = &one;
    }
  }
  out.status = any             ? ConditionStatus::kTrue
               : links.empty() ? ConditionStatus::kUnknown
                               : ConditionStatus::kFalse;
  out.reason = any ? (down == nullptr ? "Connected" : "Degraded") : "NotConnected";
  if (down != nullptr) {
    out.message = "not connected at router " + std::string(down->host);
    out.message.append(down->message.empty() ? "" : ": ").append(down->message);
  }
  return out;
}

std::string_view exposure_text(MessagingEndpoint::Exposure exposure) noexcept {
  constexpr std::string_view kTexts[] = {"cluster", "ingress", "route", "nodePort", "loadBalancer"};
  return kTexts[static_cast<std::size_t>(exposure)];
}

krm::Json ports_json(const ProtocolPorts& ports) {
  krm::Json out = krm::Json::array();
  for (const auto& [protocol, port] : ports) {
    out.push_back(krm::Json::object({{"name", protocol_text(protocol)},
                                     {"port", port},
                                     {"protocol", protocol_text(protocol)}}));
  }
  return out;
}

void say_tls(Report& out, const EndpointReport& report) {
  const MessagingEndpoint& endpoint = *report.endpoint;
  const PartState* const state = report.state;
  if (const Condition* const why = refused_type(report.conditions, "ConfiguredTLS")) {
    out.say(*why);
  } else if (state != nullptr && state->fault && state->fault->type == "ConfiguredTLS") {
    out.say(*state->fault);
  } else if (!needs_certificate(endpoint)) {
    out.say("ConfiguredTLS", ConditionStatus::kTrue,
            endpoint.tls == MessagingEndpoint::Tls::kNone ? "NoTls" : "SharedCertificate");
  } else if (state == nullptr || state->profile.empty()) {
    out.say("ConfiguredTLS", ConditionStatus::kFalse, "WaitingForCertificate",
            "the certificate is not at all routers yet");
  } else {
    out.say("ConfiguredTLS", ConditionStatus::kTrue, "Configured");
  }
}

void say_ports(Report& out, const EndpointReport& report) {
  const PartState* const state = report.state;
  if (!needs_listener(*report.endpoint)) {
    out.say("AllocatedPorts", ConditionStatus::kTrue, "Shared", "it uses the shared listeners");
  } else if (report.refused && report.refused->type == "AllocatedPorts") {
    out.say(*report.refused);
  } else if (state == nullptr || state->ports.size() < report.endpoint->protocols.size()) {
    out.say("AllocatedPorts", ConditionStatus::kFalse, "Pending", "it has no ports yet");
  } else {
    out.say("AllocatedPorts", ConditionStatus::kTrue, "Allocated");
  }
  if (report.service) {
    out.say(*report.service);
  } else if (report.has_service) {
    out.say("ServiceCreated", ConditionStatus::kFalse, "Pending", "it is not written yet");
  } else if (needs_listener(*report.endpoint)) {
    out.say("ServiceCreated", ConditionStatus::kUnknown, "NotManaged",
            "no Service is made: routers listen at their own hosts, at internalPorts");
  } else {
    out.say("ServiceCreated", ConditionStatus::kTrue, "Shared");
  }
}

void say_endpoint_created(Report& out, const EndpointReport& report) {
  if (const Condition* const why = refused_type(report.conditions, "Created")) {
    out.say(*why);
  } else if (report.refused && report.refused->type == "Created") {
    out.say(*report.refused);
  } else if (!report.project_ready) {
    out.say("Created", ConditionStatus::kFalse, "ProjectNotReady",
            report.project.empty() ? "the namespace has no tenant"
                                   : "the tenant is not at the routers yet");
  } else if (!needs_listener(*report.endpoint)) {
    out.say("Created", ConditionStatus::kTrue, "Shared");
  } else if (!out.is_true("ConfiguredTLS") || !out.is_true("AllocatedPorts")) {
    out.say("Created", ConditionStatus::kFalse, "Pending", "it is not at the routers yet");
  } else {
    out.say(created(report.routers, report.min_ready));
  }
}

}  // namespace

const std::vector<std::string_view>& connector_condition_order() {
  static const std::vector<std::string_view> order{"Validated", "Created", "Connected", "Ready"};
  return order;
}

const std::vector<std::string_view>& endpoint_condition_order() {
  static const std::vector<std::string_view> order{
      "FoundProject", "ConfiguredTLS", "AllocatedPorts", "ServiceCreated", "Created", "Ready"};
  return order;
}

krm::Json connector_status(const ConnectorReport& report, const krm::Json& from,
                           std::string_view now, const Redactor* redactor) {
  Report out(from, connector_condition_order(), report.connector->id.generation, now, redactor);
  if (const Condition* const why = refused_type(report.conditions, "Validated")) {
    out.say(*why);
  } else if (report.refused) {
    out.say(*report.refused);
  } else {
    out.say("Validated", ConditionStatus::kTrue, "Valid");
  }
  if (!report.space_message.empty()) {
    out.say("Created", ConditionStatus::kFalse, "TenantNotReady",
            std::string(report.space_message));
  } else if (report.waits_for_files) {
    out.say("Created", ConditionStatus::kFalse, "WaitingForCertificate",
            "its certificates are not at all routers yet");
  } else if (!out.is_true("Validated") && report.routers.empty()) {
    out.say("Created", ConditionStatus::kFalse, "NotValidated");
  } else {
    out.say(created(report.routers, report.min_ready));
  }
  out.say(connected(report.links));
  out.say_ready({"Validated", "Created", "Connected"}, report.deleting);
  krm::Json routers = krm::Json::array();
  for (const ConnectorView::AtRouter& one : report.links) {
    krm::Json at = krm::Json::object({{"connected", one.connected}, {"host", one.host}});
    if (!one.message.empty()) {
      at["message"] =
          redactor == nullptr ? printable(one.message) : peer_message(one.message, *redactor);
    }
    routers.push_back(std::move(at));
  }
  out.status()["routers"] = std::move(routers);
  return std::move(out.status());
}

krm::Json endpoint_status(const EndpointReport& report, const krm::Json& from,
                          std::string_view now) {
  const MessagingEndpoint& endpoint = *report.endpoint;
  Report out(from, endpoint_condition_order(), endpoint.id.generation, now, nullptr);
  if (report.project.empty()) {
    out.say("FoundProject", ConditionStatus::kFalse, "NotFound", "the namespace has no tenant");
  } else {
    out.say("FoundProject", ConditionStatus::kTrue, "Found");
  }
  say_tls(out, report);
  say_ports(out, report);
  say_endpoint_created(out, report);
  const Condition* const malformed = refused_type(report.conditions, "Ready");
  if (malformed != nullptr && !report.deleting) {
    out.say(*malformed);
    out.status()["phase"] = "Failed";
    out.status()["message"] = malformed->message;
  } else if (report.has_service) {
    out.say_ready({"FoundProject", "ConfiguredTLS", "AllocatedPorts", "ServiceCreated", "Created"},
                  report.deleting);
  } else {
    out.say_ready({"FoundProject", "ConfiguredTLS", "AllocatedPorts", "Created"}, report.deleting);
  }
  krm::Json& status = out.status();
  status["type"] = exposure_text(endpoint.exposure);
  status["host"] = report.host;
  status["ports"] = ports_json(external_ports(endpoint));
  krm::Json tls = krm::Json::object();
  if (report.state != nullptr && needs_certificate(endpoint)) {
    if (!report.state->authority.empty()) {
      tls["caCertificate"] = report.state->authority;
    }
    if (report.state->ends > 0) {
      tls["notAfter"] = rfc3339(report.state->ends);
    }
  }
  status["tls"] = std::move(tls);
  return std::move(status);
}

krm::Json export_object(const ExportInput& input) {
  using Kind = MessagingEndpoint::Export::Kind;
  const ObjectIdentity& space = input.endpoint->id;
  const bool secret = input.what->kind == Kind::kSecret;
  krm::Json out =
      krm::Json::object({{"apiVersion", "v1"}, {"kind", secret ? "Secret" : "ConfigMap"}});
  krm::Json& metadata = out["metadata"];
  metadata["name"] = input.what->name;
  metadata["namespace"] = space.ns;
  metadata["labels"] = krm::Json::object({{"app.kubernetes.io/managed-by", "kintsugi"}});
  const Resource& owner = resource_of(MessagingKind::kAddressSpace);
  metadata["ownerReferences"] =
      krm::Json::array({krm::Json::object({{"apiVersion", owner.group + "/" + owner.version},
                                           {"kind", owner.kind},
                                           {"name", space.name},
                                           {"uid", space.uid}})});
  krm::Json data = krm::Json::object();
  const auto add = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) {
      data[key] = secret ? krm::Json(base64_encode(value)) : krm::Json(value);
    }
  };
  add("service.host", input.host);
  for (const auto& [protocol, port] : input.ports) {
    add("service.port." + to_lower(protocol_text(protocol)), std::to_string(port));
  }
  for (const auto& [protocol, port] : input.listeners) {
    add("listener.port." + to_lower(protocol_text(protocol)), std::to_string(port));
  }
  add("ca.crt", input.authority);
  out["data"] = std::move(data);
  return out;
}

std::string_view export_resource(MessagingEndpoint::Export::Kind kind) noexcept {
  using Kind = MessagingEndpoint::Export::Kind;
  return kind == Kind::kConfigMap ? "configmaps" : kind == Kind::kSecret ? "secrets" : "";
}

bool is_our_export(const krm::Json& object) noexcept {
  return object.text({"metadata", "labels", "app.kubernetes.io/managed-by"}) == "kintsugi";
}

std::optional<std::string> export_patch(const krm::Json& has, const krm::Json& wanted) {
  const krm::Json* const there = has.find("data");
  const krm::Json& data = *wanted.find("data");
  if (there != nullptr && *there == data) {
    return std::nullopt;
  }
  krm::Json patch = krm::Json::object();
  krm::Json& change = patch["data"];
  change = data;
  if (there != nullptr) {
    for (const krm::JsonMember& one : there->members()) {
      if (data.find(one.key) == nullptr) {
        change[one.key] = nullptr;
      }
    }
  }
  return patch.dump();
}

}  // namespace kintsugi::workers
