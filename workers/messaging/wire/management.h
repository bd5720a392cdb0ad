#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "workers/messaging/model/entities.h"

namespace kintsugi::workers {

// What is said to a router's `$management` and a broker's `activemq.management`, and what their
// answers mean. Functions of their inputs alone; AMQP itself is in amqp/. Source:
// docs/spec/messaging.md, MH and BH rows. Threads: any.

enum class ComponentKind : std::uint8_t { kRouter, kBroker };

/// A request without its correlation. Numbers go as int if they fit into 32 bits, else as long.
struct ManagementRequest {
  Attributes properties;                       ///< application-properties: flat
  std::variant<std::string, Attributes> body;  ///< brokers: a JSON array; routers: an AMQP map
};

/// An answer: maps as objects, lists as arrays, symbols as strings, null as null; anything that
/// JSON has no word for is null.
struct ManagementReply {
  krm::Json properties, body;
};

enum class Operation : std::uint8_t { kCreate, kRead, kUpdate, kDelete };

/// What an answer means.
enum class Verdict : std::uint8_t {
  kDone,       ///< and the echo is what was asked for
  kExists,     ///< create: there is one of that name already; it is to be compared
  kDifferent,  ///< done, but the echo or what exists differs from what was asked (MH-10, BH-2)
  kMissing,    ///< read, update, delete: there is none
  kBlocked,    ///< delete of a broker address that has queues
  kRefused,    ///< this entity only: any other code or exception
  kForbidden,  ///< 401, 403: the component as a whole
  kMalformed,  ///< no answer to such a request: statusCode missing, body not of its shape
};
struct EntityOutcome {
  Verdict verdict = Verdict::kMalformed;
  std::int64_t code = 0;  ///< statusCode of routers; brokers: 200, or the number behind AMQ, or 0
  std::string text;       ///< of the component, for people; at most 512 bytes, printable
  krm::Json body;         ///< the entity as it is there, where the answer has one; else null
};

/// Whether a component of that kind can do it at all: UPDATE of core types never answers (MH-3).
[[nodiscard]] bool is_allowed(EntityKind kind, Operation operation) noexcept;
/// Types of the router's Python agent: slow and not in parallel (MH-8).
[[nodiscard]] bool is_agent_kind(EntityKind kind) noexcept;

/// The request for one entity. Which component it is for follows from the kind. At brokers an
/// address is read as the attribute RoutingTypes of `address.<name>` and a divert as the attribute
/// ForwardingAddress of `divert.<name>`: O(1) there; a queue by listQueues with a filter: linear in
/// its queues; settings as merged for the match. A queue is created with ignoreIfExists (BH-2) and
/// updated by updateQueue (BH-7); an update of settings writes the match again (BH-1). An update of
/// a vhost leaves out its hostname, which cannot change.
/// @error kInvalid  is_allowed says no, or a name of more than kMaxRouterName (MH-4).
[[nodiscard]] Expected<ManagementRequest> entity_request(Operation operation,
                                                         const DesiredEntity& entity);
/// What the answer to that request means. A queue that createQueue did not make, and a broker
/// address told in unknown words, are kExists: to be read and compared. Settings are compared when
/// they are read alone (BH-3). "Already exists" of another name is kRefused, and so is a queue
/// whose address is missing (code 229203). Passwords are neither compared nor told.
[[nodiscard]] EntityOutcome entity_outcome(Operation operation, const DesiredEntity& entity,
                                           const ManagementReply& reply);

/// Before DELETE of a vhost its aliases are emptied (MH-7): an update to be sent first.
[[nodiscard]] ManagementRequest clear_aliases_request(std::string_view name);

// Routers.

/// One page of a table. @param columns  empty: all. @param count  at most most_rows(columns).
[[nodiscard]] ManagementRequest query_request(std::string_view type,
                                              std::span<const std::string_view> columns,
                                              std::int64_t offset, std::int64_t count);
/// Full type name of a kind: "org.apache.qpid.dispatch.router.config.autoLink".
[[nodiscard]] std::string_view router_type(EntityKind kind) noexcept;
inline constexpr std::string_view kRouterType = "org.apache.qpid.dispatch.router";
/// Rows of a page so that its body stays below the decoder's bound (MH-5). For no columns, which
/// are all: as if these were 48.
[[nodiscard]] std::int64_t most_rows(std::size_t columns) noexcept;

struct QueryPage {
  std::vector<std::string> columns;
  std::vector<krm::Json> rows;  ///< arrays, as many values as columns
};
/// @error kInvalid  not a table, a row of another length, or cut at the decoder's bound (MH-5).
/// @error kForbidden, kUnavailable  the router's code, with its text.
[[nodiscard]] Expected<QueryPage> query_page(const ManagementReply& reply);

/// What a router says of itself; counts of all that it holds, not of ours alone.
struct RouterCounters {
  std::int64_t addresses = 0, links = 0, auto_links = 0, link_routes = 0, connections = 0;
  std::int64_t memory = 0, uptime_seconds = 0;
  std::string id;
};
[[nodiscard]] ManagementRequest router_counters_request();
/// @error kInvalid
[[nodiscard]] Expected<RouterCounters> router_counters(const ManagementReply& reply);

/// State of an autolink, link route or connector as READ or QUERY shows it.
enum class LinkState : std::uint8_t { kUnknown, kActive, kInactive };
struct LinkStatus {
  LinkState state = LinkState::kUnknown;
  std::string message;  ///< lastError, connectionMsg; at most 512 bytes
};
/// @param entity  the body of a READ, or a row as an object.
[[nodiscard]] LinkStatus link_status(EntityKind kind, const krm::Json& entity);

/// Whether a router of this product and version is one that these rules hold for.
[[nodiscard]] bool is_supported_router(std::string_view product, std::string_view version) noexcept;

// Brokers.

/// One operation of a resource ("broker", "queue.<n>"); parameters are a JSON array.
[[nodiscard]] ManagementRequest broker_call(std::string_view resource, std::string_view operation,
                                            const krm::Json& parameters);
[[nodiscard]] ManagementRequest broker_attribute(std::string_view resource,
                                                 std::string_view attribute);
/// The one value of a broker's answer; null for void.
/// @error kInvalid  not such an answer. kUnavailable  the exception's text; kForbidden  no rights.
[[nodiscard]] Expected<krm::Json> broker_value(const ManagementReply& reply);
/// Whether a refusal is that of a broker without memory: it takes no request at all (BH-5).
[[nodiscard]] bool says_full(std::string_view text) noexcept;
/// BH-9: 2.32 and later. False for what is no version.
[[nodiscard]] bool is_supported_broker(std::string_view version) noexcept;
/// Queues of a page of listQueues.
struct QueuePage {
  std::vector<krm::Json> queues;  ///< objects whose values are strings
  std::int64_t count = 0;         ///< of all pages
};
[[nodiscard]] ManagementRequest list_queues_request(std::int64_t page, std::int64_t size);
[[nodiscard]] Expected<QueuePage> list_queues_page(const ManagementReply& reply);
/// What differs of a queue that exists from what is asked for (BH-2, MS-081), to be set right with
/// updateQueue (BH-7).
[[nodiscard]] std::vector<std::string_view> queue_differs(const DesiredEntity& queue,
                                                          const krm::Json& listed);

}  // namespace kintsugi::workers
