#include "workers/messaging/control/internal/parts.h"

#include <algorithm>

namespace kintsugi::workers {

namespace {

std::optional<Protocol> protocol_named(std::string_view text) {
  for (const Protocol one :
       {Protocol::kAmqp, Protocol::kAmqps, Protocol::kAmqpWs, Protocol::kAmqpWss}) {
    if (protocol_text(one) == text) {
      return one;
    }
  }
  return std::nullopt;
}

ProtocolPorts ports_of(const krm::Json* list) {
  ProtocolPorts out;
  if (list != nullptr) {
    for (const krm::Json& one : list->items()) {
      const auto protocol = protocol_named(one.text({"protocol"}));
      const krm::Json* const port = one.find("port");
      if (protocol && port != nullptr && port->as_integer() > 0 && port->as_integer() < 65'536) {
        out.emplace_back(*protocol, port->as_integer());
      }
    }
  }
  return out;
}

krm::Json list_of(const ProtocolPorts& ports) {
  krm::Json out = krm::Json::array();
  for (const auto& [protocol, port] : ports) {
    out.push_back(krm::Json::object({{"name", protocol_text(protocol)},
                                     {"port", port},
                                     {"protocol", protocol_text(protocol)}}));
  }
  return out;
}

bool has_tls(const MessagingEndpoint& endpoint) noexcept {
  return std::any_of(endpoint.protocols.begin(), endpoint.protocols.end(), is_tls);
}

void hide(Attributes& attributes, const std::string& version) {
  for (Attribute& one : attributes) {
    if (one.name == "saslUsername" || one.name == "saslPassword") {
      one.value = version;
    }
  }
}

}  // namespace

PartRecord record_of_object(const krm::Json& status) {
  return {std::string(status.text({"certificate"})), ports_of(status.find("internalPorts")),
          std::string(status.text({"alias"}))};
}

void write_record(krm::Json& status, const PartRecord& record) {
  if (record.certificate.empty()) {
    status.erase("certificate");
  } else {
    status["certificate"] = record.certificate;
  }
  if (record.ports.empty()) {
    status.erase("internalPorts");
  } else {
    status["internalPorts"] = list_of(record.ports);
  }
  if (record.alias.empty()) {
    status.erase("alias");
  } else {
    status["alias"] = record.alias;
  }
}

PartRecord record_of_part(const krm::Json& status, std::string_view part) {
  if (const krm::Json* const parts = status.find("parts")) {
    for (const krm::Json& one : parts->items()) {
      if (one.text({"name"}) == part) {
        return record_of_object(one);
      }
    }
  }
  return {};
}

void write_part_record(krm::Json& status, std::string_view part, const PartRecord& record) {
  krm::Json::Array kept;
  if (const krm::Json* const parts = status.find("parts")) {
    for (const krm::Json& one : parts->items()) {
      if (one.text({"name"}) != part) {
        kept.push_back(one);
      }
    }
  }
  if (!record.empty()) {
    krm::Json one = krm::Json::object({{"name", part}});
    write_record(one, record);
    kept.push_back(std::move(one));
  }
  std::sort(kept.begin(), kept.end(), [](const krm::Json& a, const krm::Json& b) {
    return a.text({"name"}) < b.text({"name"});
  });
  if (kept.empty()) {
    status.erase("parts");
  } else {
    status["parts"] = krm::Json(std::move(kept));
  }
}

std::string connector_part(std::string_view name) { return std::string("connector/").append(name); }

std::string endpoint_part(std::string_view name) { return std::string("endpoint/").append(name); }

namespace {

template <class T>
const T* held(const Parsed<T>& asked, const PartState* state,
              std::optional<T> PartState::*good) noexcept {
  const bool good_now =
      state == nullptr || (!state->fault && state->generation == asked.object.id.generation);
  if (asked.valid && good_now) {
    return &asked.object;
  }
  return state != nullptr && state->*good ? &*(state->*good) : nullptr;
}

}  // namespace

const MessagingConnector* to_hold(const Parsed<MessagingConnector>& asked,
                                  const PartState* state) noexcept {
  return held(asked, state, &PartState::good_connector);
}

const MessagingEndpoint* to_hold(const Parsed<MessagingEndpoint>& asked,
                                 const PartState* state) noexcept {
  return held(asked, state, &PartState::good_endpoint);
}

Redactor redactor_of(const PartState& state) {
  Redactor out;
  (void)out.know("username", state.username);
  (void)out.know("password", state.password);
  return out;
}

std::vector<DesiredEntity> connector_part_entities(const PartPlace& place,
                                                   const MessagingConnector& connector,
                                                   const PartState& state, SecretForm form) {
  if (!state.usable || (needs_certificate(connector) && state.profile.empty())) {
    return {};
  }
  ConnectorInput input;
  input.owner = place.owner;
  input.space_id = place.space_id;
  input.connector = &connector;
  input.username = state.username.view();
  input.password = state.password.view();
  input.certificate_hash = state.profile;
  input.certificate_directory = std::string(place.certificate_directory) + "/" + state.profile;
  std::vector<DesiredEntity> out = connector_entities(input);
  wipe(input.password);
  if (form == SecretForm::kVersion) {
    for (DesiredEntity& one : out) {
      hide(one.attributes, state.version);
    }
  }
  return out;
}

std::vector<DesiredEntity> endpoint_part_entities(const PartPlace& place,
                                                  const MessagingEndpoint& endpoint,
                                                  const PartState& state) {
  std::vector<DesiredEntity> out;
  if (!needs_listener(endpoint)) {
    return out;
  }
  for (const auto& [protocol, port] : state.ports) {
    const bool asked = std::find(endpoint.protocols.begin(), endpoint.protocols.end(), protocol) !=
                       endpoint.protocols.end();
    if (!asked || (is_tls(protocol) && state.profile.empty())) {
      continue;
    }
    ListenerInput input;
    input.owner = place.owner;
    input.space_id = place.space_id;
    input.endpoint = &endpoint;
    input.protocol = protocol;
    input.port = port;
    input.authenticate = place.authenticate;
    input.certificate_hash = state.profile;
    input.certificate_directory = std::string(place.certificate_directory) + "/" + state.profile;
    for (DesiredEntity& one : listener_entities(input)) {
      if (std::find(out.begin(), out.end(), one) == out.end()) {
        out.push_back(std::move(one));
      }
    }
  }
  return out;
}

bool needs_listener(const MessagingEndpoint& endpoint) noexcept {
  return endpoint.dedicated ||
         (endpoint.tls == MessagingEndpoint::Tls::kSelfsigned && has_tls(endpoint));
}

bool needs_certificate(const MessagingEndpoint& endpoint) noexcept {
  return has_tls(endpoint) && needs_listener(endpoint);
}

bool needs_certificate(const MessagingConnector& connector) noexcept {
  return connector.tls && !(connector.ca_cert.empty() && connector.client_cert.empty());
}

bool refers_to_secrets(const MessagingConnector& connector) noexcept {
  const SecretText* const all[] = {&connector.username, &connector.password, &connector.ca_cert,
                                   &connector.client_cert, &connector.client_key};
  return std::any_of(std::begin(all), std::end(all),
                     [](const SecretText* one) { return !one->secret.empty(); });
}

bool refers_to_secrets(const MessagingEndpoint& endpoint) noexcept {
  return !endpoint.tls_key.secret.empty() || !endpoint.tls_certificate.secret.empty();
}

std::string endpoint_host(const MessagingEndpoint& endpoint, std::string_view space_id,
                          std::string_view domain) {
  return endpoint.host.empty() ? std::string(space_id).append(".").append(domain) : endpoint.host;
}

std::string port_owner(const ObjectIdentity& of, std::string_view endpoint, Protocol protocol) {
  return std::string(of.cluster)
      .append("|")
      .append(of.ns)
      .append("|")
      .append(of.name)
      .append("|")
      .append(endpoint)
      .append("|")
      .append(protocol_text(protocol));
}

ProtocolPorts external_ports(const MessagingEndpoint& endpoint) {
  ProtocolPorts out;
  for (const Protocol one : endpoint.protocols) {
    out.emplace_back(one, external_port(one));
  }
  return out;
}

Condition secret_not_found(std::string_view field, const SecretText& text) {
  Condition out;
  out.type = "Validated";
  out.status = ConditionStatus::kFalse;
  out.reason = "SecretNotFound";
  out.message = std::string(field) + ": there is no key " + text.key + " in Secret " + text.secret;
  return out;
}

}  // namespace kintsugi::workers
