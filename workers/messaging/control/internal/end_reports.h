#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/control/internal/parts.h"
#include "workers/messaging/model/address_status.h"
#include "workers/messaging/model/space_status.h"

namespace kintsugi::workers {

// Status of MessagingConnectors and MessagingEndpoints, and what is exported of an endpoint.
// Functions of their inputs alone. Source: MS-068 to MS-073, MS-090. Threads: any.

struct ConnectorReport {
  const MessagingConnector* connector = nullptr;
  const std::vector<Condition>* conditions = nullptr;  ///< of parsing; may be null
  std::optional<Condition> refused;                    ///< Validated=False
  std::string_view space_message;  ///< why its tenant is not ready for it, "" when it is
  bool waits_for_files = false;    ///< its certificates are on their way to the routers
  std::span<const ComponentView> routers;
  std::span<const ConnectorView::AtRouter> links;  ///< of connected routers
  std::int64_t min_ready = 1;
  bool deleting = false;
};
[[nodiscard]] const std::vector<std::string_view>& connector_condition_order();
/// phase, message, routers[] and the conditions Validated, Created, Connected, Ready.
[[nodiscard]] krm::Json connector_status(const ConnectorReport& report, const krm::Json& from,
                                         std::string_view now, const Redactor* redactor = nullptr);

struct EndpointReport {
  const MessagingEndpoint* endpoint = nullptr;
  const std::vector<Condition>* conditions = nullptr;  ///< of parsing; may be null
  std::string_view project;                            ///< who it is of, "" when there is none
  bool project_ready = false;                          ///< its vhost is at the routers
  std::string_view host;
  const PartState* state = nullptr;
  std::optional<Condition> refused;        ///< AllocatedPorts, Created: False
  std::span<const ComponentView> routers;  ///< of its own listeners
  std::int64_t min_ready = 1;
  bool deleting = false;
  bool has_service = false;          ///< its infra's routers have Services (MS-068)
  std::optional<Condition> service;  ///< ServiceCreated, once it was written
};
[[nodiscard]] const std::vector<std::string_view>& endpoint_condition_order();
[[nodiscard]] krm::Json endpoint_status(const EndpointReport& report, const krm::Json& from,
                                        std::string_view now);

/// What an endpoint of a space says to others (MS-090): a ConfigMap or Secret of the space's
/// namespace with host, ports and the CA; owned by the space. Services are not written.
struct ExportInput {
  const MessagingEndpoint* endpoint = nullptr;
  const MessagingEndpoint::Export* what = nullptr;
  std::string_view host;
  ProtocolPorts ports;      ///< that clients use
  ProtocolPorts listeners;  ///< of its own at the routers
  std::string_view authority;
};
[[nodiscard]] krm::Json export_object(const ExportInput& input);
/// "configmaps", "secrets"; "" for what is not written.
[[nodiscard]] std::string_view export_resource(MessagingEndpoint::Export::Kind kind) noexcept;
/// Whether one that is there was written by us; others stay as they are.
[[nodiscard]] bool is_our_export(const krm::Json& object) noexcept;
/// The merge patch that makes what is there say what the export says; nullopt: it does.
[[nodiscard]] std::optional<std::string> export_patch(const krm::Json& has,
                                                      const krm::Json& wanted);

}  // namespace kintsugi::workers
