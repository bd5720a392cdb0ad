#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "krm/selector.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

// The objects of the messaging role as one model for both fronts: AddressSpace with Address,
// and MessagingTenant with MessagingAddress. Reading never fails and never throws: what is wrong
// with an object is a condition, defaults stand where a field is absent or wrong. No I/O. Threads:
// any. Source: docs/spec/messaging.md.

/// Who an object is. `created` in seconds since 1970, 0 when unknown.
struct ObjectIdentity {
  std::string cluster, ns, name, uid;
  std::int64_t created = 0;
  std::int64_t generation = 0;
};

/// The order of "oldest first": creation, then uid, then cluster, namespace and name.
[[nodiscard]] bool is_older(const ObjectIdentity& a, const ObjectIdentity& b) noexcept;

/// An object as read. Of an invalid one nothing is sent; conditions of a valid one tell what of it
/// is not supported and ignored.
template <class Object>
struct Parsed {
  Object object;
  bool valid = true;
  std::vector<Condition> conditions;
};

/// A reference to another object; ns "" means the referring object's.
struct ObjectRef {
  std::string ns, name;
  [[nodiscard]] bool empty() const noexcept { return name.empty(); }
  bool operator==(const ObjectRef&) const = default;
};

/// Which namespaces an infra or a plan is for.
struct NamespaceSelector {
  bool any = true;  ///< absent: every namespace
  std::vector<std::string> names;
  bool has_labels = false;
  krm::Selector labels;
};

/// Components that exist already: then no CR is emitted for them.
struct ComponentEndpoint {
  std::string host;     ///< name of the component, unique
  std::string address;  ///< where to connect, `host` when absent
  std::int64_t port = 0;
  std::string group;
  bool plain = false;  ///< in the clear and anonymous, whatever the configuration says
};

struct RouterGroup {
  std::string name;
  std::int64_t link_weight = 1;
};

enum class FullPolicy : std::uint8_t { kPage, kBlock, kFail, kDrop };
[[nodiscard]] std::string_view full_policy_text(FullPolicy policy) noexcept;

/// MessagingInfra.
struct MessagingInfra {
  ObjectIdentity id;
  bool on_demand = false;
  struct Routers {
    krm::Json image, pod_template;  ///< null when absent; image a string or {name, pullPolicy}
    std::int64_t min = 1, max = 1, min_ready = 0;  ///< of each group (MD-1)
    std::vector<RouterGroup> groups;               ///< at least one
    std::int64_t link_weight = 1;
    std::optional<std::int64_t> connections_per_router;
    std::string domain;
    std::int64_t first_port = 40000, last_port = 40999;
    std::string authentication_service;
    std::vector<ComponentEndpoint> endpoints;
    std::int64_t worker_threads = 4, idle_timeout = 16, link_capacity = 100, handshake_timeout = 20;
  } routers;
  struct Brokers {
    krm::Json image, init_image, pod_template, storage;
    std::int64_t min = 0, max = 1;
    FullPolicy policy = FullPolicy::kFail;
    std::optional<std::int64_t> queue_memory;  ///< bytes; else what the broker says of itself
    std::string storage_class, java_opts;
    std::optional<std::int64_t> global_max_size;
    std::vector<ComponentEndpoint> endpoints;
  } brokers;
  NamespaceSelector selector;

  /// Declared routers of all groups at a size per group; existing ones are as many as they are.
  [[nodiscard]] std::int64_t declared_routers(std::int64_t size) const noexcept;
  /// Most brokers there may ever be.
  [[nodiscard]] std::int64_t most_brokers() const noexcept;
};
[[nodiscard]] Parsed<MessagingInfra> parse_infra(const krm::Json& object);

/// MD-7: what a weight inside or between groups costs: ⌈largest / weight⌉.
[[nodiscard]] std::int64_t link_cost(const MessagingInfra& infra, std::int64_t weight) noexcept;

struct PlanRequests {
  std::int64_t queue_memory = 0, addresses = 0, connections = 0;
  bool operator==(const PlanRequests&) const = default;
};
struct PlanLimits {
  std::optional<std::int64_t> queue_memory, addresses, connections, links_per_connection;
  bool operator==(const PlanLimits&) const = default;
};

/// AddressSpacePlan of type shared, or MessagingPlan.
struct MessagingPlan {
  ObjectIdentity id;
  bool shared = true;        ///< false: of another type, never touched
  bool tenant_plan = false;  ///< a MessagingPlan
  bool is_default = false;
  ObjectRef infra;
  bool transactions = false;
  PlanRequests requests;
  PlanLimits limits;
  std::vector<std::string> address_plans;  ///< allow-list; empty: all
  NamespaceSelector selector;
};
[[nodiscard]] Parsed<MessagingPlan> parse_plan(const krm::Json& object);

enum class AddressType : std::uint8_t {
  kAnycast,
  kMulticast,
  kQueue,
  kTopic,
  kSubscription,
  kDeadLetter
};
[[nodiscard]] std::string_view address_type_text(AddressType type) noexcept;
/// Whether brokers hold it.
[[nodiscard]] constexpr bool is_broker_type(AddressType type) noexcept {
  return type != AddressType::kAnycast && type != AddressType::kMulticast;
}

/// What a plan says of its addresses and an address may say for itself. Absent: nothing said.
struct AddressSettings {
  std::optional<std::int64_t> requests_depth, requests_memory, limits_depth, limits_memory;
  std::optional<std::int64_t> partitions_min, partitions_max;
  std::optional<std::int64_t> ttl_ms;
  std::string expiry_queue, dead_letter_queue;  ///< local addresses, "" for none
  bool operator==(const AddressSettings&) const = default;
};

struct AddressPlan {
  ObjectIdentity id;
  AddressType type = AddressType::kAnycast;
  bool legacy = false;  ///< of another type's schema: without settings
  bool is_default = false;
  bool allow_overrides = false;
  AddressSettings settings;
};
/// AddressPlan and MessagingAddressPlan.
[[nodiscard]] Parsed<AddressPlan> parse_address_plan(const krm::Json& object);

/// A text that is written down, or stands in a Secret of the object's namespace.
struct SecretText {
  std::string value;
  std::string secret, key;
  [[nodiscard]] bool empty() const noexcept { return value.empty() && secret.empty(); }
};

enum class Protocol : std::uint8_t { kAmqp, kAmqps, kAmqpWs, kAmqpWss };
[[nodiscard]] std::string_view protocol_text(Protocol protocol) noexcept;
[[nodiscard]] std::int64_t external_port(Protocol protocol) noexcept;
[[nodiscard]] constexpr bool is_tls(Protocol protocol) noexcept {
  return protocol == Protocol::kAmqps || protocol == Protocol::kAmqpWss;
}

/// MessagingEndpoint, or one of AddressSpace.spec.endpoints.
struct MessagingEndpoint {
  ObjectIdentity id;  ///< of the space when it stands in one
  std::string name;
  std::vector<Protocol> protocols;
  std::string host;
  enum class Exposure : std::uint8_t { kCluster, kIngress, kRoute, kNodePort, kLoadBalancer };
  Exposure exposure = Exposure::kCluster;
  enum class Termination : std::uint8_t { kPassthrough, kEdge, kReencrypt };
  Termination termination = Termination::kPassthrough;
  enum class Tls : std::uint8_t { kNone, kSelfsigned, kOpenshift, kExternal, kWildcard };
  Tls tls = Tls::kNone;
  SecretText tls_key, tls_certificate;
  std::vector<std::string> tls_protocols;
  std::string tls_ciphers;
  bool dedicated = false;  ///< own listener: asked for, or needed by an own certificate
  krm::Json annotations;
  struct Export {
    enum class Kind : std::uint8_t { kConfigMap, kSecret, kService } kind = Kind::kConfigMap;
    std::string name;
  };
  std::vector<Export> exports;
};
[[nodiscard]] Parsed<MessagingEndpoint> parse_endpoint(const krm::Json& object);

/// MessagingConnector, or one of AddressSpace.spec.connectors.
struct MessagingConnector {
  ObjectIdentity id;  ///< of the space when it stands in one
  std::string name;
  struct Peer {
    std::string host;
    std::int64_t port = 0;
  };
  std::vector<Peer> peers;  ///< the first, then those to fail over to
  std::string role = "route-container";
  std::optional<std::int64_t> idle_timeout, max_frame_size;
  bool tls = false;
  SecretText ca_cert, client_cert, client_key, username, password;
  struct Pattern {
    std::string name, pattern;
  };
  std::vector<Pattern> addresses;
};
/// @param allow_local  the configuration lets connectors point at this machine.
[[nodiscard]] Parsed<MessagingConnector> parse_connector(const krm::Json& object,
                                                         bool allow_local = false);

inline constexpr std::size_t kMostConnectors = 64, kMostEndpoints = 64;

/// AddressSpace of type shared, MessagingTenant or MessagingProject.
struct MessagingSpace {
  ObjectIdentity id;
  enum class Front : std::uint8_t { kAddressSpace, kTenant, kProject };
  Front front = Front::kAddressSpace;
  bool shared = true;         ///< false: of another type, never touched (MR-1)
  bool owned = false;         ///< made from the namespace's annotations
  bool migrates = false;      ///< of another type: asks for a shared copy (MS-093)
  std::string migrated_from;  ///< of a copy: what it was made of
  ObjectRef plan, infra;
  bool transactions = false;
  std::string authentication_service;
  std::vector<Parsed<MessagingEndpoint>> endpoints;
  std::vector<Parsed<MessagingConnector>> connectors;
  [[nodiscard]] bool is_tenant() const noexcept { return front != Front::kAddressSpace; }
};
[[nodiscard]] Parsed<MessagingSpace> parse_space(const krm::Json& object, bool allow_local = false);

/// The tenant that a namespace's annotations ask for; nullopt for none.
/// @param unknown  set when enmasse.io/messaging has a value that is neither true nor false.
[[nodiscard]] std::optional<MessagingSpace> tenant_of_namespace(const krm::Json& ns,
                                                                bool* unknown = nullptr);

struct Forwarder {
  std::string name, connector, remote;  ///< remoteAddress is `<connector>/<remote>`
  bool out = false;
};

/// What few addresses have.
struct AddressExtras {
  AddressSettings overrides;
  std::optional<std::int64_t> ttl_minimum_ms, ttl_maximum_ms;
  std::vector<Forwarder> forwarders;
};

/// Address or MessagingAddress. Shape: 100,000s of them; texts of the space are not in it.
struct MessagingAddress {
  ObjectIdentity id;
  std::string space;  ///< name of the AddressSpace, "" for the tenant of the namespace
  std::string address, plan, topic;
  std::unique_ptr<AddressExtras> extras;  ///< null: none
  std::int32_t max_consumers = 1;         ///< of a subscription
  AddressType type = AddressType::kAnycast;
  bool reschedule = false;  ///< annotation: a lost broker's address may move
  bool deleting = false;

  [[nodiscard]] const AddressExtras& extra() const noexcept;
};
[[nodiscard]] Parsed<MessagingAddress> parse_address(const krm::Json& object);

/// What is wrong with an address as a name for the routers (MH-9, BH-8); "" for nothing.
/// @param space_id_bytes  length of the space's id, for the limit of 253 B of both.
[[nodiscard]] std::string_view address_fault(std::string_view address, AddressType type,
                                             std::size_t space_id_bytes) noexcept;

/// The settings that hold for an address: the plan's, and its own where the plan lets it.
struct EffectiveSettings {
  AddressSettings settings;
  bool overridden = false;                     ///< it has settings of its own
  std::optional<std::int64_t> ttl_minimum_ms;  ///< from messageTtl; its maximum is in `settings`
  std::optional<Condition> refused;            ///< Validated=False (MD-8, plan type, bounds)
};
/// @param plan  null: the built-in empty plan, whose settings nobody forbids to override.
[[nodiscard]] EffectiveSettings effective_settings(const MessagingAddress& address,
                                                   const AddressPlan* plan);

}  // namespace kintsugi::workers
