// Entities of endpoints, connectors and infras (5.2).
#include "base/strings.h"
#include "workers/messaging/model/entities.h"

namespace kintsugi::workers {

namespace {

DesiredEntity ssl_profile(std::string_view owner, std::string_view identity,
                          std::string_view content, const std::string& directory,
                          bool own_certificate, bool authority) {
  DesiredEntity entity{
      EntityKind::kSslProfile, entity_name(owner, EntityKind::kSslProfile, identity, content), {}};
  if (own_certificate) {
    entity.attributes.emplace_back("certFile", directory + "/tls.crt");
    entity.attributes.emplace_back("privateKeyFile", directory + "/tls.key");
  }
  if (authority) {
    entity.attributes.emplace_back("caCertFile", directory + "/ca.crt");
  }
  return entity;
}

}  // namespace

std::vector<DesiredEntity> listener_entities(const ListenerInput& input) {
  std::vector<DesiredEntity> out;
  const MessagingEndpoint& endpoint = *input.endpoint;
  const std::string identity = entity_identity(endpoint.id) + "|endpoint|" + endpoint.name;
  DesiredEntity listener{
      EntityKind::kListener,
      entity_name(input.owner, EntityKind::kListener, identity, protocol_text(input.protocol)),
      {}};
  Attributes& list = listener.attributes;
  list.emplace_back("host", std::string("0.0.0.0"));
  list.emplace_back("port", std::to_string(input.port));
  list.emplace_back("role", std::string("normal"));
  list.emplace_back("multiTenant", true);
  list.emplace_back("policyVhost", std::string(input.space_id));
  list.emplace_back("authenticatePeer", input.authenticate);
  list.emplace_back("idleTimeoutSeconds", std::int64_t{16});
  if (input.protocol == Protocol::kAmqpWs || input.protocol == Protocol::kAmqpWss) {
    list.emplace_back("http", true);
  }
  if (is_tls(input.protocol)) {
    DesiredEntity profile = ssl_profile(input.owner, identity, input.certificate_hash,
                                        input.certificate_directory, true, false);
    if (!endpoint.tls_ciphers.empty()) {
      profile.attributes.emplace_back("ciphers", endpoint.tls_ciphers);
    }
    if (!endpoint.tls_protocols.empty()) {
      profile.attributes.emplace_back("protocols", join(endpoint.tls_protocols, " "));
    }
    list.emplace_back("sslProfile", profile.name);
    list.emplace_back("requireSsl", true);
    out.push_back(std::move(profile));
  }
  out.push_back(std::move(listener));
  return out;
}

std::string connector_name(std::string_view owner, std::string_view space_id,
                           const MessagingConnector& connector) {
  return entity_name(owner, EntityKind::kConnector,
                     std::string(space_id) + "|connector|" + connector.name);
}

std::vector<DesiredEntity> connector_entities(const ConnectorInput& input) {
  std::vector<DesiredEntity> out;
  const MessagingConnector& connector = *input.connector;
  const std::string identity = std::string(input.space_id) + "|connector|" + connector.name;
  DesiredEntity entity{
      EntityKind::kConnector, connector_name(input.owner, input.space_id, connector), {}};
  const auto port_of = [&connector](const MessagingConnector::Peer& peer) {
    return std::to_string(peer.port > 0 ? peer.port : connector.tls ? 5671 : 5672);
  };
  Attributes& list = entity.attributes;
  list.emplace_back("host", connector.peers.front().host);
  list.emplace_back("port", port_of(connector.peers.front()));
  list.emplace_back("role", connector.role);
  list.emplace_back("cost", std::int64_t{1});
  std::string others;
  for (std::size_t i = 1; i < connector.peers.size(); ++i) {
    others += (others.empty() ? "" : ", ");
    others += (connector.tls ? "amqps://" : "amqp://") + connector.peers[i].host + ":" +
              port_of(connector.peers[i]);
  }
  if (!others.empty()) {
    list.emplace_back("failoverUrls", std::move(others));
  }
  if (connector.idle_timeout) {
    list.emplace_back("idleTimeoutSeconds", *connector.idle_timeout);
  }
  if (connector.max_frame_size) {
    list.emplace_back("maxFrameSize", *connector.max_frame_size);
  }
  if (!input.username.empty()) {
    list.emplace_back("saslMechanisms", std::string("PLAIN"));
    list.emplace_back("saslUsername", input.username);
    list.emplace_back("saslPassword", input.password);
  }
  if (connector.tls) {
    DesiredEntity profile =
        ssl_profile(input.owner, identity, input.certificate_hash, input.certificate_directory,
                    !connector.client_cert.empty(), !connector.ca_cert.empty());
    list.emplace_back("sslProfile", profile.name);
    out.push_back(std::move(profile));
  }
  const BrokerLink link{connector.name, entity.name};
  out.push_back(std::move(entity));
  // Clients say `<name>/<pattern>`, which a multi-tenant listener puts their space in front of.
  const std::string prefix = std::string(input.space_id) + "/" + connector.name + "/";
  for (const MessagingConnector::Pattern& one : connector.addresses) {
    for (const std::string_view direction : {"in", "out"}) {
      DesiredEntity route{
          EntityKind::kLinkRoute,
          entity_name(input.owner, EntityKind::kLinkRoute, identity, one.pattern, direction),
          {}};
      route.attributes.emplace_back("pattern", prefix + one.pattern);
      route.attributes.emplace_back("direction", std::string(direction));
      route.attributes.emplace_back("connection", link.connector);
      route.attributes.emplace_back("delExternalPrefix", prefix);
      out.push_back(std::move(route));
    }
  }
  return out;
}

DesiredEntity broker_connector_entity(const BrokerLink& link, const ComponentEndpoint& broker,
                                      const MessagingInfra& infra) {
  DesiredEntity entity{EntityKind::kConnector, link.connector, {}};
  entity.attributes.emplace_back("host", broker.address);
  entity.attributes.emplace_back("port", std::to_string(broker.port > 0 ? broker.port : 5672));
  entity.attributes.emplace_back("role", std::string("route-container"));
  entity.attributes.emplace_back("cost", std::int64_t{1});
  entity.attributes.emplace_back("idleTimeoutSeconds", infra.routers.idle_timeout);
  entity.attributes.emplace_back("linkCapacity", infra.routers.link_capacity);
  return entity;
}

}  // namespace kintsugi::workers
