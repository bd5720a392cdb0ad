#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/model/admission.h"
#include "workers/messaging/model/objects.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

// Status of an infra. Functions of their inputs alone. Source: MS-001, MS-003, MS-004, MS-005,
// MS-006, MS-079. Threads: any.

inline constexpr std::size_t kMostListed = 64;  ///< routers or brokers; of more a summary

struct RouterView {
  std::string_view host, group;
  bool connected = false, synchronized = false;
  std::int64_t entities = 0, pending = 0;
  std::string_view last_sync;  ///< RFC 3339, "" for never
  std::string_view error;      ///< of its connection or its trouble
  std::string_view trouble;    ///< reason, "UnsupportedRouter"; "" for none
  bool configured = false;     ///< was synchronized since it connected; new work does not undo it
};
struct InfraBrokerView {
  std::string_view host;
  bool connected = false, synchronized = false;  ///< of management
  std::int64_t queues = 0, memory = 0, classes = 0;
  std::string_view error, trouble;
};
/// A connector from a router to a broker that is not up.
struct BrokenConnector {
  std::string_view router, broker, message;
};

struct InfraStatusInput {
  const MessagingInfra* infra = nullptr;
  const std::vector<Condition>* conditions = nullptr;  ///< of parsing; may be null
  bool wanted = true;                                  ///< false: OnDemand and nobody has asked
  /// Whether certificates of routers are ours to make: an operator makes these.
  bool makes_certificates = false;
  /// Then CaCreated and CertCreated; null: it is not known yet, and what was said stays.
  const Condition *ca_created = nullptr, *cert_created = nullptr;
  std::int64_t routers_wanted = 0, brokers_wanted = 0;  ///< of all groups
  /// Why operators are not told, or there is nobody to tell.
  std::optional<Condition> routers_refused, brokers_refused;
  std::span<const RouterView> routers;
  std::span<const InfraBrokerView> brokers;
  std::span<const BrokenConnector> broken;  ///< of connected routers; the first are told
  std::int64_t connectors_up = 0;           ///< that are seen up, of routers x brokers
  std::string_view shared;                  ///< who else has its routers, "" for nobody
  InfraCapacity capacity;
  PlanRequests requested;
  std::optional<Condition> groups_spread;
  bool deleting = false;
  std::string_view waits;  ///< deletion: what it waits for (MS-009)
};
[[nodiscard]] const std::vector<std::string_view>& infra_condition_order();
[[nodiscard]] krm::Json infra_status(const InfraStatusInput& input, const krm::Json& from,
                                     std::string_view now, const Redactor* redactor = nullptr);

/// Routers that must be in order: minReady of each group, existing ones as many as there are less
/// the declared slack of one group; at least 1 while there is any.
[[nodiscard]] std::int64_t routers_needed(const MessagingInfra& infra, std::int64_t declared);

}  // namespace kintsugi::workers
