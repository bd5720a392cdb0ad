#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/model/names.h"
#include "workers/messaging/model/objects.h"
#include "workers/messaging/model/settings.h"

namespace kintsugi::workers {

// What routers and brokers must hold for each object. Functions of their inputs alone; made when
// they are needed and not kept: an address costs no memory here. Source: MD-3, MD-6,
// MD-16, MH-10. Threads: any.

struct Attribute;
using Attributes = std::vector<Attribute>;
using AttributeTexts = std::vector<std::string>;  ///< a list: in requests, never in an entity yet
struct Attribute {
  template <class Value>
  Attribute(std::string_view of, Value is) : name(of), value(std::move(is)) {}

  std::string_view name;  ///< of static life
  std::variant<bool, std::int64_t, std::string, Attributes, AttributeTexts> value;
  bool operator==(const Attribute&) const = default;
};

/// One entity of one component, and one management request to make it.
struct DesiredEntity {
  EntityKind kind = EntityKind::kAddress;
  std::string name;  ///< routers: our entity name; brokers: address, queue or settings match
  Attributes attributes;
  bool operator==(const DesiredEntity&) const = default;
};
[[nodiscard]] const Attribute* find_attribute(const DesiredEntity& entity,
                                              std::string_view name) noexcept;

/// 16 bytes of content: kind, name and attributes. Equal entities have equal hashes, in every
/// process of one version.
using ContentHash = std::array<unsigned char, 16>;
[[nodiscard]] ContentHash content_hash(const DesiredEntity& entity);

/// Names of attributes in which the component's echo differs from what was asked (MH-10). Ours
/// alone are compared; an absent one is its empty value. Brokers echo numbers as texts, too.
/// @param echo  the body of the reply as JSON.
[[nodiscard]] std::vector<std::string_view> differing(const DesiredEntity& entity,
                                                      const krm::Json& echo);

/// The entities of one object, in the order in which they are made: those of brokers first.
struct DesiredEntities {
  struct OnBroker {
    std::string host;
    std::vector<DesiredEntity> entities;
  };
  std::vector<OnBroker> brokers;
  std::vector<DesiredEntity> routers;  ///< the same on each router
  /// Management requests at so many routers.
  [[nodiscard]] std::int64_t requests(std::int64_t routers_connected) const noexcept;
};

/// A broker as routers reach it: host, and the name of the connector to it.
struct BrokerLink {
  std::string host, connector;
};
[[nodiscard]] BrokerLink broker_link(std::string_view owner, const MessagingInfra& infra,
                                     std::string_view host);

/// An address and where it is placed.
struct PlacedAddress {
  const MessagingAddress* address = nullptr;
  std::string_view owner, space_id;
  bool transactional = false;           ///< its space is: nothing at routers
  std::span<const BrokerLink> brokers;  ///< its own; of a deadLetter all; of a transactional
                                        ///< space's, and a topic's, one
  std::string_view broker_name;         ///< N
  /// Exact settings, nullptr when the class says all; one write each queue and broker.
  const BrokerSettings* exact = nullptr;
  /// Forwarders whose connector is known: entity name by the connector's name.
  std::span<const BrokerLink> connectors;
};
/// @returns nothing at all when a broker type has no broker.
[[nodiscard]] DesiredEntities address_entities(const PlacedAddress& placed);

/// The write of a class, once per broker before the first of its queues.
[[nodiscard]] DesiredEntity class_settings_entity(std::string_view settings_class,
                                                  const BrokerSettings& settings);

struct SpaceInput {
  std::string_view owner, space_id;
  const ObjectIdentity* id = nullptr;
  const PlanLimits* limits = nullptr;
  std::int64_t declared_routers = 1;          ///< MD-3
  std::vector<std::string> aliases;           ///< hosts of its endpoints, any order
  const BrokerLink* transactional = nullptr;  ///< its broker
};
[[nodiscard]] std::vector<DesiredEntity> space_entities(const SpaceInput& input);

/// Limit of connections at one router: 0 means none, 65,535 is unlimited.
[[nodiscard]] std::int64_t connections_per_router(const PlanLimits& limits,
                                                  std::int64_t declared_routers) noexcept;

/// One protocol of an endpoint with its own listener.
struct ListenerInput {
  std::string_view owner, space_id;
  const MessagingEndpoint* endpoint = nullptr;
  Protocol protocol = Protocol::kAmqp;
  std::int64_t port = 0;
  bool authenticate = false;
  std::string certificate_directory;  ///< where tls.crt and tls.key of it are
  std::string certificate_hash;       ///< of its content: the profile's name follows it
};
[[nodiscard]] std::vector<DesiredEntity> listener_entities(const ListenerInput& input);

/// A connector of a space; secrets are read by the caller.
struct ConnectorInput {
  std::string_view owner, space_id;
  const MessagingConnector* connector = nullptr;
  std::string username, password;
  std::string certificate_directory, certificate_hash;
};
[[nodiscard]] std::string connector_name(std::string_view owner, std::string_view space_id,
                                         const MessagingConnector& connector);
[[nodiscard]] std::vector<DesiredEntity> connector_entities(const ConnectorInput& input);

/// A router's connector to a broker.
[[nodiscard]] DesiredEntity broker_connector_entity(const BrokerLink& link,
                                                    const ComponentEndpoint& broker,
                                                    const MessagingInfra& infra);

}  // namespace kintsugi::workers
