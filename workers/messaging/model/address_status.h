#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/model/entities.h"
#include "workers/messaging/model/objects.h"
#include "workers/messaging/pipeline/component_pipeline.h"
#include "workers/messaging/placing/address_scheduler.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

// Status of an address, of what is known of it. Functions of their inputs alone. Texts of
// components are printable and bounded (set_condition, kMaxMessage). Source: MS-005, MS-017,
// MS-024, MS-056 and the conditions of docs/spec/messaging.md. Threads: any.

/// A link at a router that is not active.
struct InactiveLink {
  bool route = false;  ///< link route, else autolink
  bool out = false;
  std::string_view broker;
};
/// Which link an entity name belongs to: looked up among what the address wants at routers.
/// @param text  ObjectProgress::link_error, or anything that has the entity's name in it.
[[nodiscard]] std::optional<InactiveLink> find_link(std::span<const DesiredEntity> routers,
                                                    std::span<const BrokerLink> brokers,
                                                    std::string_view text);

/// How an object is at one component.
struct ComponentView {
  std::string_view host;
  ComponentKind kind = ComponentKind::kRouter;
  bool connected = false;
  ObjectProgress progress;
  std::optional<InactiveLink> inactive;  ///< routers: the first link that is not active, if known
};

struct AddressStatusInput {
  const MessagingAddress* address = nullptr;
  std::string_view space_id;       ///< "" when there is no space
  std::string_view space_kind;     ///< "Tenant", "Project", "Space": type of the condition Found…
  bool space_ready = false;        ///< its vhost is there; without it nothing is begun
  std::string_view space_message;  ///< why it was not found
  const std::vector<Condition>* conditions = nullptr;  ///< of parsing; may be null
  /// Validated=False, or Scheduled=False by a limit; the first that holds.
  std::optional<Condition> refused;
  const AddressPlacing* placing = nullptr;  ///< broker types; null: not asked yet
  std::string_view broker_name;             ///< N, "" for none
  std::string_view plan;                    ///< name of the plan, "" for the built-in one
  const EffectiveSettings* settings = nullptr;
  /// Routers of the infra, and brokers that it is on. Of routers that are gone nothing is said.
  std::span<const ComponentView> components;
  std::int64_t min_ready = 0;  ///< routers of which at least so many must be in order: declared
                               ///< ones less those that may be down
  std::string_view waits;      ///< deletion: what it waits for, "" for nothing
};

/// Order of the conditions.
[[nodiscard]] const std::vector<std::string_view>& address_condition_order(
    std::string_view space_kind);

/// The whole status in place of `from`; fields that are none of ours stay.
/// @param from  status as it is there.
/// @param now   RFC 3339, for conditions that change.
[[nodiscard]] krm::Json address_status(const AddressStatusInput& input, const krm::Json& from,
                                       std::string_view now, const Redactor* redactor = nullptr);

/// The Ready condition alone: its status, reason and message (MS-005): up to
/// `routers - min_ready` routers may lack; then it is True and says so.
[[nodiscard]] Condition address_ready(const AddressStatusInput& input);

}  // namespace kintsugi::workers
