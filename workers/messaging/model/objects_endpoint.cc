// Endpoints and connectors, as objects of their own and as parts of an AddressSpace (3.3, 3.5).
#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "krm/names.h"
#include "workers/messaging/model/internal/parse.h"

namespace kintsugi::workers {

namespace {

SecretText parse_secret_text(const Fields& owner, std::string_view key) {
  SecretText text;
  const Fields fields = owner.object(key);
  if (!fields.present()) {
    return text;
  }
  text.value = fields.text("value");
  const Fields from = fields.object("valueFromSecret");
  if (from.present()) {
    text.secret = from.required_text("name");
    text.key = from.required_text("key");
  }
  if (text.value.empty() == text.secret.empty()) {
    owner.problem(key, "needs one of value, valueFromSecret");
  }
  return text;
}

std::optional<Protocol> protocol_of(std::string_view text) {
  const std::string lower = to_lower(text);
  const std::pair<std::string_view, Protocol> names[] = {
      {"amqp", Protocol::kAmqp},      {"amqps", Protocol::kAmqps},
      {"amqp-ws", Protocol::kAmqpWs}, {"amqp-wss", Protocol::kAmqpWss},
      {"amqpws", Protocol::kAmqpWs},  {"amqpwss", Protocol::kAmqpWss}};
  for (const auto& [name, protocol] : names) {
    if (lower == name) {
      return protocol;
    }
  }
  return std::nullopt;
}

void parse_protocols(const Fields& spec, MessagingEndpoint& out) {
  const std::string_view key = spec.has("protocols") ? "protocols" : "ports";
  for (const std::string& text : spec.texts(key, 16)) {
    const std::optional<Protocol> protocol = protocol_of(text);
    if (!protocol) {
      spec.problem(key, "must be AMQP, AMQPS, AMQP-WS or AMQP-WSS");
    } else if (std::find(out.protocols.begin(), out.protocols.end(), *protocol) ==
               out.protocols.end()) {
      out.protocols.push_back(*protocol);
    }
  }
  if (out.protocols.empty()) {
    spec.problem(key, "needs at least one");
  }
}

void parse_tls(const Fields& spec, Parsed<MessagingEndpoint>& parsed) {
  using Tls = MessagingEndpoint::Tls;
  MessagingEndpoint& out = parsed.object;
  const std::string_view key = spec.has("tls") ? "tls" : "cert";
  const Fields tls = spec.object(key);
  if (!tls.present()) {
    return;
  }
  out.tls_protocols = tls.member("protocols") != nullptr && tls.member("protocols")->is_string()
                          ? std::vector<std::string>{tls.text("protocols")}
                          : tls.texts("protocols", 16);
  out.tls_ciphers = tls.text("ciphers");
  if (tls.has("letsencrypt")) {
    refuse(parsed, "ConfiguredTLS", "NotSupported",
           tls.path_of("letsencrypt") + ": is not supported");
    return;
  }
  int kinds = 0;
  for (const std::string_view kind : {"selfsigned", "openshift", "external", "secret"}) {
    kinds += tls.object(kind).present() ? 1 : 0;
  }
  if (kinds != 1) {
    tls.problem("selfsigned", "exactly one of selfsigned, openshift, external is needed");
    return;
  }
  if (tls.has("selfsigned")) {
    out.tls = Tls::kSelfsigned;
  } else if (tls.has("openshift")) {
    out.tls = Tls::kOpenshift;
  } else if (tls.has("secret")) {
    out.tls = Tls::kExternal;
    const std::string secret = tls.object("secret").required_text("name");
    out.tls_key = {"", secret, "tls.key"};
    out.tls_certificate = {"", secret, "tls.crt"};
  } else {
    out.tls = Tls::kExternal;
    const Fields external = tls.object("external");
    out.tls_key = parse_secret_text(external, "key");
    out.tls_certificate = parse_secret_text(external, "certificate");
    if (out.tls_key.empty() || out.tls_certificate.empty()) {
      tls.problem("external", "needs key and certificate");
    }
  }
}

void parse_exposure(const Fields& spec, MessagingEndpoint& out) {
  using Exposure = MessagingEndpoint::Exposure;
  const std::pair<std::string_view, Exposure> kinds[] = {{"cluster", Exposure::kCluster},
                                                         {"ingress", Exposure::kIngress},
                                                         {"route", Exposure::kRoute},
                                                         {"nodePort", Exposure::kNodePort},
                                                         {"loadBalancer", Exposure::kLoadBalancer},
                                                         {"loadbalancer", Exposure::kLoadBalancer}};
  int found = 0;
  for (const auto& [key, exposure] : kinds) {
    const Fields fields = spec.object(key);
    if (!fields.present()) {
      continue;
    }
    ++found;
    out.exposure = exposure;
    if (fields.has("annotations")) {
      out.annotations = fields.copy("annotations", krm::Json::Type::kObject);
    }
    if (exposure == Exposure::kRoute) {
      out.host = out.host.empty() ? fields.text("host") : out.host;
      out.termination = static_cast<MessagingEndpoint::Termination>(
          fields.choice("tlsTermination", {"passthrough", "edge", "reencrypt"}, 0));
    }
  }
  if (found != 1) {
    spec.problem("cluster",
                 "exactly one of cluster, ingress, route, nodePort, loadBalancer is needed");
  }
}

/// The rules that bind fields to each other (3.5).
void check_endpoint(Parsed<MessagingEndpoint>& parsed, const std::string& path) {
  using Exposure = MessagingEndpoint::Exposure;
  using Termination = MessagingEndpoint::Termination;
  MessagingEndpoint& one = parsed.object;
  const bool edge = one.exposure == Exposure::kRoute && one.termination == Termination::kEdge;
  const bool any_tls = std::any_of(one.protocols.begin(), one.protocols.end(), is_tls);
  const bool refused = std::any_of(parsed.conditions.begin(), parsed.conditions.end(),
                                   [](const Condition& c) { return c.type == "ConfiguredTLS"; });
  if (any_tls && one.tls == MessagingEndpoint::Tls::kNone && !edge && !refused) {
    refuse(parsed, "ConfiguredTLS", "TlsRequired",
           path + ".tls: is required by the protocols with TLS");
  }
  if (one.exposure == Exposure::kIngress && one.host.empty()) {
    refuse(parsed, "Created", "HostRequired", path + ".host: is required by ingress");
  }
  if (one.exposure == Exposure::kIngress || one.exposure == Exposure::kRoute) {
    if (one.protocols.size() > 1) {
      refuse(parsed, "Created", "OneProtocol",
             path + ".protocols: exactly one over route or ingress");
    } else if (one.protocols.size() == 1 && one.protocols[0] == Protocol::kAmqp) {
      refuse(parsed, "Created", "ProtocolNotRoutable",
             path + ".protocols: AMQP without TLS cannot pass route or ingress");
    }
  }
  if (one.exposure == Exposure::kRoute && one.termination != Termination::kPassthrough &&
      std::find(one.protocols.begin(), one.protocols.end(), Protocol::kAmqps) !=
          one.protocols.end()) {
    refuse(parsed, "Created", "PassthroughRequired",
           path + ".route.tlsTermination: AMQPS needs passthrough");
  }
  one.dedicated = one.dedicated || one.tls == MessagingEndpoint::Tls::kExternal;
}

/// What points at this machine or its link (16).
/// This machine, and what only its own link reaches. Of numbers only those with four parts are
/// addresses to us; the system's resolver reads others as such, too (127.1, 0x7f000001).
bool is_local_host(std::string_view host) {
  std::string lower = to_lower(host);
  if (lower.ends_with('.')) {
    lower.pop_back();
  }
  std::string_view text = lower;
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
  }
  if (text.find(':') != std::string_view::npos) {
    in6_addr six{};
    const std::string address(text.substr(0, text.find('%')));
    if (::inet_pton(AF_INET6, address.c_str(), &six) != 1) {
      return true;  // nothing that a router could reach
    }
    const unsigned char* const bytes = six.s6_addr;
    const bool four = IN6_IS_ADDR_V4MAPPED(&six) || IN6_IS_ADDR_V4COMPAT(&six);
    return IN6_IS_ADDR_UNSPECIFIED(&six) || IN6_IS_ADDR_LOOPBACK(&six) ||
           IN6_IS_ADDR_LINKLOCAL(&six) ||
           (four && (bytes[12] == 0 || bytes[12] == 127 || (bytes[12] == 169 && bytes[13] == 254)));
  }
  const std::string_view last = text.substr(text.rfind('.') + 1);
  const bool number = last.starts_with("0x") ||
                      (!last.empty() && last.find_first_not_of("0123456789") == last.npos);
  in_addr four{};
  if (number && ::inet_pton(AF_INET, lower.c_str(), &four) != 1) {
    return true;
  }
  return text == "localhost" || text.ends_with(".localhost") ||
         (number &&
          (text.starts_with("127.") || text.starts_with("0.") || text.starts_with("169.254.")));
}

bool has_blank(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) == 0x7f;
  });
}

}  // namespace

std::string_view protocol_text(Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::kAmqp:
      return "AMQP";
    case Protocol::kAmqps:
      return "AMQPS";
    case Protocol::kAmqpWs:
      return "AMQP-WS";
    case Protocol::kAmqpWss:
      return "AMQP-WSS";
  }
  return "AMQP";
}

std::int64_t external_port(Protocol protocol) noexcept {
  switch (protocol) {
    case Protocol::kAmqp:
      return 5672;
    case Protocol::kAmqps:
      return 5671;
    case Protocol::kAmqpWs:
      return 80;
    case Protocol::kAmqpWss:
      return 443;
  }
  return 5672;
}

Parsed<MessagingEndpoint> parse_endpoint(const krm::Json& object) {
  Parsed<MessagingEndpoint> parsed;
  FieldProblems problems;
  parsed.object.id = parse_identity(object);
  parsed.object.name = parsed.object.id.name;
  const Fields spec = Fields(&object, "", problems).object("spec");
  parsed.object.host = spec.text("host");
  parse_protocols(spec, parsed.object);
  parse_tls(spec, parsed);
  parse_exposure(spec, parsed.object);
  if (spec.has("annotations")) {
    parsed.object.annotations = spec.copy("annotations", krm::Json::Type::kObject);
  }
  parsed.object.dedicated = spec.boolean("dedicated", false);
  check_endpoint(parsed, "spec");
  finish(parsed, "Ready", problems, parsed.object.id.generation);
  return parsed;
}

Parsed<MessagingEndpoint> parse_space_endpoint(const Fields& fields, const ObjectIdentity& space) {
  using Exposure = MessagingEndpoint::Exposure;
  using Tls = MessagingEndpoint::Tls;
  Parsed<MessagingEndpoint> parsed;
  MessagingEndpoint& out = parsed.object;
  FieldProblems problems;
  const Fields own = fields.with(problems);
  out.id = space;
  out.name = own.required_text("name");
  const std::size_t service =
      own.choice("service", {"messaging", "messaging-wss", "mqtt", "console"}, 0);
  if (service > 1) {
    refuse(parsed, "Ready", "NotSupported", own.path_of("service") + ": is not supported");
    return parsed;
  }
  const Fields cert = own.object("cert");
  if (cert.present()) {
    const std::size_t provider =
        cert.choice("provider", {"selfsigned", "openshift", "certBundle", "wildcard"}, 0);
    out.tls =
        std::array{Tls::kSelfsigned, Tls::kOpenshift, Tls::kExternal, Tls::kWildcard}[provider];
    const std::string secret = cert.text("secretName");
    const std::string key = cert.text("tlsKey");
    const std::string certificate = cert.text("tlsCert");
    if (out.tls == Tls::kExternal) {
      out.tls_key = key.empty() ? SecretText{"", secret, "tls.key"} : SecretText{key, "", ""};
      out.tls_certificate =
          certificate.empty() ? SecretText{"", secret, "tls.crt"} : SecretText{certificate, "", ""};
      if (out.tls_key.empty() || out.tls_certificate.empty()) {
        cert.problem("secretName", "is required without tlsKey and tlsCert");
      }
    }
  }
  const bool secured = out.tls != Tls::kNone;
  out.protocols = service == 1 ? std::vector{secured ? Protocol::kAmqpWss : Protocol::kAmqpWs}
                  : secured    ? std::vector{Protocol::kAmqp, Protocol::kAmqps}
                               : std::vector{Protocol::kAmqp};
  const Fields expose = own.object("expose");
  if (expose.present()) {
    out.exposure = expose.choice("type", {"route", "loadbalancer"}, 0) == 0
                       ? Exposure::kRoute
                       : Exposure::kLoadBalancer;
    out.annotations = expose.copy("annotations", krm::Json::Type::kObject);
    if (out.exposure == Exposure::kRoute) {
      out.host = expose.text("routeHost");
      out.termination = static_cast<MessagingEndpoint::Termination>(
          expose.choice("routeTlsTermination", {"passthrough", "edge", "reencrypt"}, 0));
      if (service == 0) {
        out.protocols = {Protocol::kAmqps};  // what a route can carry
      }
    }
  }
  for (const Fields& item : own.objects("exports", 64)) {
    MessagingEndpoint::Export one;
    one.kind = static_cast<MessagingEndpoint::Export::Kind>(
        item.choice("kind", {"ConfigMap", "Secret", "Service"}, 0));
    one.name = item.required_text("name");
    out.exports.push_back(std::move(one));
  }
  check_endpoint(parsed, own.path());
  finish(parsed, "Ready", problems, space.generation);
  return parsed;
}

Parsed<MessagingConnector> parse_connector_fields(const Fields& fields, bool allow_local) {
  Parsed<MessagingConnector> parsed;
  MessagingConnector& out = parsed.object;
  for (const Fields& item : fields.objects("endpointHosts", 16)) {
    MessagingConnector::Peer peer;
    peer.host = item.required_text("host");
    peer.port = item.integer("port", 1, 65535).value_or(0);
    if (peer.host.size() > 253 || has_blank(peer.host)) {
      item.problem("host", "must be a host name");
    } else if (!allow_local && is_local_host(peer.host)) {
      refuse(parsed, "Validated", "ForbiddenHost", item.path_of("host") + ": is not allowed");
    }
    out.peers.push_back(std::move(peer));
  }
  if (out.peers.empty()) {
    fields.problem("endpointHosts", "needs at least one");
  }
  constexpr std::string_view kRoles[] = {"normal", "route-container", "edge"};
  out.role = kRoles[fields.choice("role", {"normal", "route-container", "edge"}, 1)];
  out.idle_timeout = fields.integer("idleTimeout", 0, 86'400);
  out.max_frame_size = fields.integer("maxFrameSize", 512, 2'147'483'647);
  const Fields tls = fields.object("tls");
  out.tls = tls.present();
  out.ca_cert = parse_secret_text(tls, "caCert");
  out.client_cert = parse_secret_text(tls, "clientCert");
  out.client_key = parse_secret_text(tls, "clientKey");
  const Fields credentials = fields.object("credentials");
  if (credentials.present()) {
    out.username = parse_secret_text(credentials, "username");
    out.password = parse_secret_text(credentials, "password");
    if (out.username.empty() || out.password.empty()) {
      fields.problem("credentials", "needs username and password");
    }
  }
  for (const Fields& item : fields.objects("addresses", 256)) {
    MessagingConnector::Pattern one;
    one.name = item.required_text("name");
    one.pattern = item.required_text("pattern");
    if (one.pattern.size() > 200 || has_blank(one.pattern) || one.pattern.starts_with('/') ||
        one.pattern.starts_with('.') || one.pattern.find("//") != std::string::npos) {
      item.problem("pattern", "must be words between single separators");
    }
    out.addresses.push_back(std::move(one));
  }
  return parsed;
}

Parsed<MessagingConnector> parse_connector(const krm::Json& object, bool allow_local) {
  FieldProblems problems;
  const Fields spec = Fields(&object, "", problems).object("spec");
  Parsed<MessagingConnector> parsed = parse_connector_fields(spec, allow_local);
  parsed.object.id = parse_identity(object);
  parsed.object.name = parsed.object.id.name;
  if (parsed.object.name.find('/') != std::string::npos) {
    problems.add("metadata.name", "must have no slash");
  }
  finish(parsed, "Validated", problems, parsed.object.id.generation);
  return parsed;
}

}  // namespace kintsugi::workers
