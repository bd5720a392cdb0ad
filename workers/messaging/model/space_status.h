#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/model/address_status.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

// Status of a space or tenant, and of a plan. As address_status.h says.

/// One connector of the space, and one endpoint.
struct ConnectorView {
  std::string_view name;
  bool valid = true;
  std::string_view message;  ///< why not valid
  struct AtRouter {
    std::string_view host;
    bool connected = false;
    std::string_view message;
  };
  std::vector<AtRouter> routers;
};
struct EndpointView {
  std::string_view name, host;
  bool ready = false;
  std::string_view message;
  std::vector<std::pair<std::string_view, std::int64_t>> ports;  ///< protocol, port
};

struct SpaceStatusInput {
  const MessagingSpace* space = nullptr;
  const std::vector<Condition>* conditions = nullptr;  ///< of parsing; may be null
  std::string_view space_id;
  std::string_view plan;                   ///< name of the plan in force, "" for none
  std::optional<Condition> plan_refused;   ///< PlanFound=False, or PlanApplied=False
  bool plan_needed = true;                 ///< a tenant may be without
  std::string_view infra;                  ///< `<ns>/<name>`, "" when not bound
  std::optional<Condition> infra_refused;  ///< InfraBound=False (tenants: Bound too)
  std::optional<Condition> duplicate;      ///< Ready=False/DuplicateTenant
  bool transactions = false;
  const AddressPlacing* placing = nullptr;  ///< of a space with transactions
  bool broker_connected = false;            ///< its broker is (MS-024)
  std::span<const ComponentView> routers;   ///< progress of the vhost and what goes with it
  std::int64_t min_ready = 0;
  std::int64_t connections_per_router = 65'535;
  std::int64_t addresses = 0, queue_memory = 0;  ///< usage
  std::span<const ConnectorView> connectors;
  std::span<const EndpointView> endpoints;
  bool deleting = false;
  std::string_view waits;  ///< deletion: what it waits for
};
[[nodiscard]] const std::vector<std::string_view>& space_condition_order(bool tenant);
[[nodiscard]] krm::Json space_status(const SpaceStatusInput& input, const krm::Json& from,
                                     std::string_view now, const Redactor* redactor = nullptr);

struct PlanStatusInput {
  const MessagingPlan* plan = nullptr;
  const std::vector<Condition>* conditions = nullptr;
  std::string_view infra;                  ///< "" when not found
  std::optional<Condition> infra_refused;  ///< InfraFound=False
  std::optional<Condition> feasible;       ///< plan_feasible(); absent without an infra
  std::int64_t spaces = 0;
};
[[nodiscard]] krm::Json plan_status(const PlanStatusInput& input, const krm::Json& from,
                                    std::string_view now);

}  // namespace kintsugi::workers
