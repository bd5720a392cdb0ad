// Requests to a broker's activemq.management.
#include "workers/messaging/wire/internal/entity_wire.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {

namespace {

constexpr std::string_view kBroker = "broker";
/// A name is of one queue; a broker that does not know the filter shows others as well.
constexpr std::int64_t kQueuesOfRead = 10;

ManagementRequest resource_request(std::string_view resource, std::string_view what,
                                   std::string_view of, std::string body) {
  ManagementRequest out;
  out.properties.reserve(2);
  out.properties.emplace_back("_AMQ_ResourceName", std::string(resource));
  out.properties.emplace_back(what, std::string(of));
  out.body = std::move(body);
  return out;
}

/// An entity's own document: a string element of the parameters.
std::string document(const DesiredEntity& entity, bool named) {
  krm::Json out = wire::attributes_json(entity.attributes);
  if (named) {
    out["name"] = std::string_view(entity.name);
  }
  return out.dump();
}

ManagementRequest address_request(Operation operation, const DesiredEntity& entity) {
  if (operation == Operation::kRead) {
    return broker_attribute("address." + entity.name, "RoutingTypes");
  }
  if (operation == Operation::kDelete) {
    return broker_call(kBroker, "deleteAddress", krm::Json::array({entity.name}));
  }
  const Attribute* routing = find_attribute(entity, "routing-type");
  const auto* type = routing != nullptr ? std::get_if<std::string>(&routing->value) : nullptr;
  return broker_call(
      kBroker, "createAddress",
      krm::Json::array({entity.name, type != nullptr ? *type : std::string("ANYCAST")}));
}

ManagementRequest queue_request(Operation operation, const DesiredEntity& entity) {
  switch (operation) {
    case Operation::kCreate:
      return broker_call(kBroker, "createQueue", krm::Json::array({document(entity, true), true}));
    case Operation::kUpdate:  // BH-7: never by destroying it
      return broker_call(kBroker, "updateQueue", krm::Json::array({document(entity, true)}));
    case Operation::kDelete:
      return broker_call(kBroker, "destroyQueue",
                         krm::Json::array({entity.name, true}));  // with who consumes
    case Operation::kRead:
      break;
  }
  const krm::Json filter = krm::Json::object(
      {{"field", "name"}, {"operation", "EQUALS"}, {"value", std::string_view(entity.name)}});
  return broker_call(kBroker, "listQueues", krm::Json::array({filter.dump(), 1, kQueuesOfRead}));
}

ManagementRequest settings_request(Operation operation, const DesiredEntity& entity) {
  switch (operation) {
    case Operation::kCreate:
    case Operation::kUpdate:
      return broker_call(kBroker, "addAddressSettings",
                         krm::Json::array({entity.name, document(entity, false)}));
    case Operation::kRead:
      return broker_call(kBroker, "getAddressSettingsAsJSON", krm::Json::array({entity.name}));
    case Operation::kDelete:
      break;
  }
  return broker_call(kBroker, "removeAddressSettings", krm::Json::array({entity.name}));
}

ManagementRequest divert_request(Operation operation, const DesiredEntity& entity) {
  if (operation == Operation::kRead) {
    return broker_attribute("divert." + entity.name, "ForwardingAddress");
  }
  if (operation == Operation::kDelete) {
    return broker_call(kBroker, "destroyDivert", krm::Json::array({entity.name}));
  }
  return broker_call(kBroker, "createDivert", krm::Json::array({document(entity, true)}));
}

}  // namespace

ManagementRequest broker_call(std::string_view resource, std::string_view operation,
                              const krm::Json& parameters) {
  return resource_request(resource, "_AMQ_OperationName", operation,
                          parameters.is_array() ? parameters.dump() : "[]");
}

ManagementRequest broker_attribute(std::string_view resource, std::string_view attribute) {
  return resource_request(resource, "_AMQ_Attribute", attribute, "[]");
}

ManagementRequest list_queues_request(std::int64_t page, std::int64_t size) {
  return broker_call(kBroker, "listQueues", krm::Json::array({"", page, size}));
}

namespace wire {

ManagementRequest broker_entity_request(Operation operation, const DesiredEntity& entity) {
  switch (entity.kind) {
    case EntityKind::kBrokerAddress:
      return address_request(operation, entity);
    case EntityKind::kQueue:
      return queue_request(operation, entity);
    case EntityKind::kAddressSettings:
      return settings_request(operation, entity);
    default:
      return divert_request(operation, entity);
  }
}

}  // namespace wire

}  // namespace kintsugi::workers
