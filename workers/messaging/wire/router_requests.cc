// Requests to a router's $management.
#include <algorithm>

#include "workers/messaging/wire/internal/entity_wire.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {

namespace {

constexpr std::int64_t kMostNodes = 60'000;  // MH-5
constexpr std::size_t kWidestTable = 48;     // columns of a table asked for as a whole

std::string_view operation_text(Operation operation) {
  switch (operation) {
    case Operation::kCreate:
      return "CREATE";
    case Operation::kRead:
      return "READ";
    case Operation::kUpdate:
      return "UPDATE";
    case Operation::kDelete:
      break;
  }
  return "DELETE";
}

/// The name stands in the application-properties alone: in a body it is not seen.
ManagementRequest named_request(Operation operation, EntityKind kind, std::string_view name) {
  ManagementRequest out;
  out.properties.reserve(3);
  out.properties.emplace_back("operation", std::string(operation_text(operation)));
  out.properties.emplace_back("type", std::string(router_type(kind)));
  out.properties.emplace_back("name", std::string(name));
  out.body = Attributes{};
  return out;
}

}  // namespace

std::string_view router_type(EntityKind kind) noexcept {
  switch (kind) {
    case EntityKind::kAddress:
      return "org.apache.qpid.dispatch.router.config.address";
    case EntityKind::kAutoLink:
      return "org.apache.qpid.dispatch.router.config.autoLink";
    case EntityKind::kLinkRoute:
      return "org.apache.qpid.dispatch.router.config.linkRoute";
    case EntityKind::kConnector:
      return "org.apache.qpid.dispatch.connector";
    case EntityKind::kListener:
      return "org.apache.qpid.dispatch.listener";
    case EntityKind::kSslProfile:
      return "org.apache.qpid.dispatch.sslProfile";
    case EntityKind::kVhost:
      return "org.apache.qpid.dispatch.vhost";
    case EntityKind::kBrokerAddress:
    case EntityKind::kQueue:
    case EntityKind::kAddressSettings:
    case EntityKind::kDivert:
      break;
  }
  return {};
}

ManagementRequest clear_aliases_request(std::string_view name) {
  ManagementRequest out = named_request(Operation::kUpdate, EntityKind::kVhost, name);
  out.body = Attributes{{"aliases", std::string()}};
  return out;
}

std::int64_t most_rows(std::size_t columns) noexcept {
  const auto wide = static_cast<std::int64_t>(
      std::min<std::size_t>(columns == 0 ? kWidestTable : columns, kMostNodes));
  return std::max<std::int64_t>(1, (kMostNodes - 1 - 6 - wide) / (wide + 1));
}

ManagementRequest query_request(std::string_view type, std::span<const std::string_view> columns,
                                std::int64_t offset, std::int64_t count) {
  ManagementRequest out;
  out.properties.reserve(4);
  out.properties.emplace_back("operation", std::string("QUERY"));
  out.properties.emplace_back("entityType", std::string(type));
  out.properties.emplace_back("offset", offset);
  out.properties.emplace_back("count", count);
  Attributes body;
  body.emplace_back("attributeNames", AttributeTexts(columns.begin(), columns.end()));
  out.body = std::move(body);
  return out;
}

ManagementRequest router_counters_request() {
  constexpr std::string_view kColumns[] = {
      "addrCount",       "linkCount",   "autoLinkCount", "linkRouteCount",
      "connectionCount", "memoryUsage", "uptimeSeconds", "id"};
  return query_request(kRouterType, kColumns, 0, 1);
}

namespace wire {

ManagementRequest router_entity_request(Operation operation, const DesiredEntity& entity) {
  ManagementRequest out = named_request(operation, entity.kind, entity.name);
  if (operation == Operation::kCreate) {
    out.body = entity.attributes;
  } else if (operation == Operation::kUpdate) {
    Attributes changeable;
    std::copy_if(entity.attributes.begin(), entity.attributes.end(), std::back_inserter(changeable),
                 [](const Attribute& one) { return one.name != "hostname"; });
    out.body = std::move(changeable);
  }
  return out;
}

}  // namespace wire

}  // namespace kintsugi::workers
