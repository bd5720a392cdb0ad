#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "base/time.h"
#include "krm/json.h"
#include "workers/messaging/model/entities.h"
#include "workers/messaging/model/objects.h"
#include "workers/runtime/status/conditions.h"
#include "workers/runtime/status/redactor.h"

namespace kintsugi::workers {

// Connectors and endpoints alike, as objects of their own or as parts of an AddressSpace: what is
// known of one besides its spec, and what routers hold of it. Functions of their inputs alone.
// Source: MS-068, MS-070 to MS-073, MS-095. Threads: any.

/// Ports by protocol: of listeners, or those that clients use.
using ProtocolPorts = std::vector<std::pair<Protocol, std::int64_t>>;

/// What a status says of one, so that another process goes on with it.
struct PartRecord {
  std::string certificate;  ///< hash of the profile in force, "" for none
  ProtocolPorts ports;      ///< of its own listeners
  std::string alias;        ///< its host, where the space's vhost has it as a name; "" for none
  [[nodiscard]] bool empty() const noexcept {
    return certificate.empty() && ports.empty() && alias.empty();
  }
  bool operator==(const PartRecord&) const = default;
};
/// Of an object of its own: `status.certificate` and `status.internalPorts`. Its alias stands among
/// the parts of its tenant, who has the vhost.
[[nodiscard]] PartRecord record_of_object(const krm::Json& status);
void write_record(krm::Json& status, const PartRecord& record);
/// Of a part of a space: the entry of that name in `status.parts`.
[[nodiscard]] PartRecord record_of_part(const krm::Json& status, std::string_view part);
/// An empty record takes the entry out. The entries stand in the order of their names.
void write_part_record(krm::Json& status, std::string_view part, const PartRecord& record);
/// "connector/<name>", "endpoint/<name>".
[[nodiscard]] std::string connector_part(std::string_view name);
[[nodiscard]] std::string endpoint_part(std::string_view name);

/// What was read and made for one: kept in memory while it is there.
struct PartState {
  // Of a connector.
  Secret username, password;
  std::string version;  ///< of these: stands in their place wherever hashes are shown
  // Of both.
  std::string profile;             ///< hash in force, "" for none
  std::string authority;           ///< PEM by which clients verify an endpoint
  std::int64_t ends = 0;           ///< of an endpoint's certificate, seconds since 1970; 0: unknown
  std::optional<Condition> fault;  ///< why it cannot be made
  bool usable = false;             ///< was complete once: with a fault it stays as it was
  /// As it was then: what routers go on to hold while what is asked for is faulty.
  std::optional<MessagingConnector> good_connector;
  std::optional<MessagingEndpoint> good_endpoint;
  ProtocolPorts ports;
  std::string infra;  ///< infra_text() of where it is
  // When it is looked at again.
  TimePoint read_at{};
  Duration again{};  ///< 0: never
  std::int64_t generation = -1;
};
/// What routers are to hold of one: what is asked for, or while that is faulty, or was not looked
/// at yet, what was good the last time; nullptr: nothing that this process knows of. @param state
/// may be null
[[nodiscard]] const MessagingConnector* to_hold(const Parsed<MessagingConnector>& asked,
                                                const PartState* state) noexcept;
[[nodiscard]] const MessagingEndpoint* to_hold(const Parsed<MessagingEndpoint>& asked,
                                               const PartState* state) noexcept;
/// What must not be seen of one.
[[nodiscard]] Redactor redactor_of(const PartState& state);

/// Of whom and where.
struct PartPlace {
  std::string_view owner, space_id;
  std::string_view certificate_directory;
  bool authenticate = false;  ///< listeners: the infra has an authentication service
};
/// What an entity list is for: routers, or a hash that people may see.
enum class SecretForm : std::uint8_t { kPlain, kVersion };

/// @returns nothing while it must wait for its certificates.
[[nodiscard]] std::vector<DesiredEntity> connector_part_entities(
    const PartPlace& place, const MessagingConnector& connector, const PartState& state,
    SecretForm form);
/// Listeners of those protocols that have a port and, with TLS, a profile; each profile once.
[[nodiscard]] std::vector<DesiredEntity> endpoint_part_entities(const PartPlace& place,
                                                                const MessagingEndpoint& endpoint,
                                                                const PartState& state);

/// Whether an endpoint has listeners of its own: it asks for them, or has its own certificate.
[[nodiscard]] bool needs_listener(const MessagingEndpoint& endpoint) noexcept;
/// Whether a certificate is to be in routers' folders.
[[nodiscard]] bool needs_certificate(const MessagingEndpoint& endpoint) noexcept;
[[nodiscard]] bool needs_certificate(const MessagingConnector& connector) noexcept;
/// Whether anything of it stands in Secrets, which may change at any time.
[[nodiscard]] bool refers_to_secrets(const MessagingConnector& connector) noexcept;
[[nodiscard]] bool refers_to_secrets(const MessagingEndpoint& endpoint) noexcept;
/// The host that clients use: its own, else one below the infra's domain.
[[nodiscard]] std::string endpoint_host(const MessagingEndpoint& endpoint,
                                        std::string_view space_id, std::string_view domain);
/// Whose port it is in the PortPool: the same for an endpoint that is made again.
[[nodiscard]] std::string port_owner(const ObjectIdentity& of, std::string_view endpoint,
                                     Protocol protocol);
/// Ports that clients use: 5672, 5671, 80, 443.
[[nodiscard]] ProtocolPorts external_ports(const MessagingEndpoint& endpoint);

/// Validated=False/SecretNotFound: "spec.credentials.password: there is no key k in Secret s".
[[nodiscard]] Condition secret_not_found(std::string_view field, const SecretText& text);
/// The first forwarder whose connector is not there: Validated=False/ConnectorNotFound (MS-074).
/// @param exists  called with names of connectors
template <class Exists>
[[nodiscard]] std::optional<Condition> forwarder_refused(const MessagingAddress& address,
                                                         Exists&& exists) {
  for (const Forwarder& one : address.extra().forwarders) {
    if (!exists(one.connector)) {
      Condition out;
      out.type = "Validated";
      out.status = ConditionStatus::kFalse;
      out.reason = "ConnectorNotFound";
      out.message = "spec.forwarders: there is no connector " + one.connector + " (" + one.name +
                    ".remoteAddress)";
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace kintsugi::workers
