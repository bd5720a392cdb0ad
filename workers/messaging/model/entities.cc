// Entities of addresses and spaces, and how all are compared.
#include "workers/messaging/model/entities.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "base/strings.h"

namespace kintsugi::workers {

namespace {

constexpr std::int64_t kUnlimitedConnections = 65535;

void write_number(std::string& out, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) {
    out += static_cast<char>(value >> (8 * i));
  }
}

void write_text(std::string& out, std::string_view text) {
  write_number(out, text.size());
  out += text;
}

void write_attributes(std::string& out, const Attributes& attributes) {
  for (const Attribute& one : attributes) {
    write_text(out, one.name);
    out += static_cast<char>(one.value.index());
    if (const auto* flag = std::get_if<bool>(&one.value)) {
      out += *flag ? '1' : '0';
    } else if (const auto* number = std::get_if<std::int64_t>(&one.value)) {
      write_number(out, static_cast<std::uint64_t>(*number));
    } else if (const auto* text = std::get_if<std::string>(&one.value)) {
      write_text(out, *text);
    } else if (const auto* inner = std::get_if<Attributes>(&one.value)) {
      write_number(out, inner->size());
      write_attributes(out, *inner);
    } else {
      const auto& texts = std::get<AttributeTexts>(one.value);
      write_number(out, texts.size());
      for (const std::string& each : texts) {
        write_text(out, each);
      }
    }
  }
}

bool is_broker_kind(EntityKind kind) noexcept { return entity_kind_text(kind).empty(); }

bool same_value(const Attribute& asked, const krm::Json* echo, bool as_text) {
  if (const auto* flag = std::get_if<bool>(&asked.value)) {
    if (echo != nullptr && echo->is_string()) {
      return as_text && echo->as_string() == (*flag ? "true" : "false");
    }
    return echo == nullptr || echo->is_null() ? !*flag
                                              : echo->is_bool() && echo->as_bool() == *flag;
  }
  if (const auto* number = std::get_if<std::int64_t>(&asked.value)) {
    if (echo == nullptr) {
      return false;
    }
    return echo->is_string() ? as_text && echo->as_string() == std::to_string(*number)
                             : echo->is_integer() && echo->as_integer() == *number;
  }
  if (const auto* text = std::get_if<std::string>(&asked.value)) {
    return echo == nullptr || echo->is_null() ? text->empty()
                                              : echo->is_string() && echo->as_string() == *text;
  }
  if (const auto* texts = std::get_if<AttributeTexts>(&asked.value)) {
    if (echo == nullptr || echo->is_null()) {
      return texts->empty();
    }
    return echo->is_array() &&
           std::equal(texts->begin(), texts->end(), echo->items().begin(), echo->items().end(),
                      [](const std::string& text, const krm::Json& each) {
                        return each.is_string() && each.as_string() == text;
                      });
  }
  const auto& inner = std::get<Attributes>(asked.value);
  return echo != nullptr && echo->is_object() &&
         std::all_of(inner.begin(), inner.end(), [&](const Attribute& one) {
           return same_value(one, echo->find(one.name), as_text);
         });
}

DesiredEntity router_address(const PlacedAddress& placed, std::string_view identity,
                             std::string pattern, std::string_view distribution, bool waypoint) {
  DesiredEntity entity{
      EntityKind::kAddress, entity_name(placed.owner, EntityKind::kAddress, identity), {}};
  entity.attributes.reserve(3);
  entity.attributes.emplace_back("pattern", std::move(pattern));
  entity.attributes.emplace_back("distribution", std::string(distribution));
  entity.attributes.emplace_back("waypoint", waypoint);
  return entity;
}

DesiredEntity auto_link(const PlacedAddress& placed, std::string_view identity,
                        const BrokerLink& link, std::string_view direction, std::string address,
                        std::string external) {
  DesiredEntity entity{
      EntityKind::kAutoLink,
      entity_name(placed.owner, EntityKind::kAutoLink, identity, link.host, direction),
      {}};
  entity.attributes.reserve(4);
  entity.attributes.emplace_back("address", std::move(address));
  entity.attributes.emplace_back("direction", std::string(direction));
  entity.attributes.emplace_back("connection", link.connector);
  entity.attributes.emplace_back("externalAddress", std::move(external));
  return entity;
}

DesiredEntity link_route(std::string_view owner, std::string_view identity, const BrokerLink& link,
                         std::string_view direction, std::string prefix) {
  DesiredEntity entity{EntityKind::kLinkRoute,
                       entity_name(owner, EntityKind::kLinkRoute, identity, link.host, direction),
                       {}};
  entity.attributes.emplace_back("prefix", std::move(prefix));
  entity.attributes.emplace_back("direction", std::string(direction));
  entity.attributes.emplace_back("connection", link.connector);
  return entity;
}

Attributes settings_attributes(const BrokerSettings& from) {
  Attributes out;
  const auto number = [&out](std::string_view name, const std::optional<std::int64_t>& value) {
    if (value) {
      out.emplace_back(name, *value);
    }
  };
  const auto text = [&out](std::string_view name, const std::optional<std::string>& value) {
    if (value) {
      out.emplace_back(name, *value);
    }
  };
  number("maxSizeBytes", from.max_size_bytes);
  number("pageSizeBytes", from.page_size_bytes);
  number("maxSizeMessages", from.max_size_messages);
  text("addressFullMessagePolicy", from.full_policy);
  number("expiryDelay", from.expiry_delay);
  number("minExpiryDelay", from.min_expiry_delay);
  number("maxExpiryDelay", from.max_expiry_delay);
  text("expiryAddress", from.expiry_address);
  text("deadLetterAddress", from.dead_letter_address);
  return out;
}

/// The order of 11.2: address, exact settings, queue.
void broker_entities(const PlacedAddress& placed, const std::string& topic,
                     DesiredEntities::OnBroker& out) {
  const MessagingAddress& address = *placed.address;
  const std::string name(placed.broker_name);
  const bool multicast =
      address.type == AddressType::kTopic || address.type == AddressType::kSubscription;
  const std::string routing = multicast ? "MULTICAST" : "ANYCAST";
  if (address.type != AddressType::kSubscription) {
    out.entities.push_back({EntityKind::kBrokerAddress, name, {{"routing-type", routing}}});
    if (placed.exact != nullptr) {
      out.entities.push_back(
          {EntityKind::kAddressSettings, name, settings_attributes(*placed.exact)});
    }
  }
  if (address.type == AddressType::kTopic) {
    return;
  }
  const bool subscription = address.type == AddressType::kSubscription;
  DesiredEntity queue{EntityKind::kQueue, name, {}};
  queue.attributes.emplace_back("address", subscription ? topic : name);
  queue.attributes.emplace_back("routing-type", routing);
  queue.attributes.emplace_back("durable", true);
  queue.attributes.emplace_back("max-consumers",
                                std::int64_t{subscription ? address.max_consumers : -1});
  queue.attributes.emplace_back("purge-on-no-consumers", false);
  queue.attributes.emplace_back("auto-create-address", false);
  out.entities.push_back(std::move(queue));
}

void router_entities(const PlacedAddress& placed, const std::string& topic,
                     std::vector<DesiredEntity>& out) {
  const MessagingAddress& address = *placed.address;
  const std::string identity = entity_identity(address.id);
  const std::string qualified = qualified_address(placed.space_id, address.address);
  const std::string name(placed.broker_name);
  switch (address.type) {
    case AddressType::kAnycast:
    case AddressType::kMulticast:
      out.push_back(router_address(placed, identity, qualified,
                                   address.type == AddressType::kAnycast ? "balanced" : "multicast",
                                   false));
      return;
    case AddressType::kQueue:
      out.push_back(router_address(placed, identity, qualified, "balanced", true));
      for (const BrokerLink& link : placed.brokers) {
        out.push_back(auto_link(placed, identity, link, "in", qualified, name));
        out.push_back(auto_link(placed, identity, link, "out", qualified, name));
      }
      break;
    case AddressType::kDeadLetter:
      out.push_back(router_address(placed, identity, qualified, "balanced", true));
      for (const BrokerLink& link : placed.brokers) {
        out.push_back(auto_link(placed, identity, link, "in", qualified, name));
      }
      return;
    case AddressType::kTopic:
      for (const BrokerLink& link : placed.brokers) {
        out.push_back(link_route(placed.owner, identity, link, "in", qualified));
        out.push_back(link_route(placed.owner, identity, link, "out", qualified));
      }
      return;
    case AddressType::kSubscription:
      out.push_back(router_address(placed, identity, qualified, "balanced", true));
      for (const BrokerLink& link : placed.brokers) {
        out.push_back(
            auto_link(placed, identity, link, "in", qualified, full_queue_name(topic, name)));
      }
      break;
  }
  for (const Forwarder& one : address.extra().forwarders) {
    for (const BrokerLink& link : placed.connectors) {
      if (link.host != one.connector) {
        continue;
      }
      const std::string_view direction = one.out ? "out" : "in";
      DesiredEntity entity = auto_link(placed, identity + "|forwarder|" + one.name, link, direction,
                                       qualified, one.remote);
      if (one.out) {
        // It takes what the brokers give, as a consumer does.
        entity.attributes.emplace_back("phase", std::int64_t{1});
      } else {
        entity.attributes.emplace_back("phase", std::int64_t{0});
      }
      out.push_back(std::move(entity));
    }
  }
}

}  // namespace

const Attribute* find_attribute(const DesiredEntity& entity, std::string_view name) noexcept {
  const auto at = std::find_if(entity.attributes.begin(), entity.attributes.end(),
                               [name](const Attribute& one) { return one.name == name; });
  return at == entity.attributes.end() ? nullptr : &*at;
}

ContentHash content_hash(const DesiredEntity& entity) {
  std::string text;
  text.reserve(512);
  text += static_cast<char>(entity.kind);
  write_text(text, entity.name);
  write_attributes(text, entity.attributes);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  ContentHash out{};
  for (std::size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<unsigned char>(hash.low64 >> (8 * i));
    out[8 + i] = static_cast<unsigned char>(hash.high64 >> (8 * i));
  }
  return out;
}

std::vector<std::string_view> differing(const DesiredEntity& entity, const krm::Json& echo) {
  std::vector<std::string_view> out;
  for (const Attribute& one : entity.attributes) {
    if (one.name == "saslPassword") {
      continue;  // no echo has it
    }
    if (!same_value(one, echo.find(one.name), is_broker_kind(entity.kind))) {
      out.push_back(one.name);
    }
  }
  return out;
}

std::int64_t DesiredEntities::requests(std::int64_t routers_connected) const noexcept {
  std::size_t n = static_cast<std::size_t>(routers_connected) * routers.size();
  for (const OnBroker& broker : brokers) {
    n += broker.entities.size();
  }
  return static_cast<std::int64_t>(n);
}

BrokerLink broker_link(std::string_view owner, const MessagingInfra& infra, std::string_view host) {
  return {std::string(host),
          entity_name(owner, EntityKind::kConnector, entity_identity(infra.id), host)};
}

DesiredEntities address_entities(const PlacedAddress& placed) {
  DesiredEntities out;
  const MessagingAddress& address = *placed.address;
  if (is_broker_type(address.type) && placed.brokers.empty()) {
    return out;
  }
  std::string topic;
  if (address.type == AddressType::kSubscription) {
    topic = qualified_address(placed.space_id, address.topic);
  }
  if (is_broker_type(address.type)) {
    out.brokers.reserve(placed.brokers.size());
    for (const BrokerLink& link : placed.brokers) {
      broker_entities(placed, topic,
                      out.brokers.emplace_back(DesiredEntities::OnBroker{link.host, {}}));
    }
  }
  if (!placed.transactional || !is_broker_type(address.type)) {
    router_entities(placed, topic, out.routers);
  }
  return out;
}

DesiredEntity class_settings_entity(std::string_view settings_class,
                                    const BrokerSettings& settings) {
  return {EntityKind::kAddressSettings, std::string(settings_class) + ".#",
          settings_attributes(settings)};
}

std::int64_t connections_per_router(const PlanLimits& limits,
                                    std::int64_t declared_routers) noexcept {
  if (!limits.connections) {
    return kUnlimitedConnections;
  }
  const std::int64_t routers = std::max<std::int64_t>(1, declared_routers);
  const std::int64_t each = *limits.connections / routers + (*limits.connections % routers != 0);
  return std::min(each, kUnlimitedConnections);
}

std::vector<DesiredEntity> space_entities(const SpaceInput& input) {
  std::vector<DesiredEntity> out;
  const std::string identity = entity_identity(*input.id);
  std::vector<std::string> aliases = input.aliases;
  std::sort(aliases.begin(), aliases.end());
  aliases.erase(std::unique(aliases.begin(), aliases.end()), aliases.end());
  Attributes group = {{"remoteHosts", std::string("*")},
                      {"sources", std::string("*")},
                      {"targets", std::string("*")},
                      {"allowDynamicSource", true},
                      {"allowAnonymousSender", true}};
  if (input.limits->links_per_connection) {
    group.emplace_back("maxSenders", *input.limits->links_per_connection);  // MD-6
    group.emplace_back("maxReceivers", *input.limits->links_per_connection);
  }
  Attributes groups;
  groups.emplace_back("$default", std::move(group));
  DesiredEntity vhost{
      EntityKind::kVhost, entity_name(input.owner, EntityKind::kVhost, identity), {}};
  vhost.attributes.emplace_back("hostname", std::string(input.space_id));
  vhost.attributes.emplace_back("aliases", join(aliases, ","));
  vhost.attributes.emplace_back("maxConnections",
                                connections_per_router(*input.limits, input.declared_routers));
  vhost.attributes.emplace_back("allowUnknownUser", true);
  vhost.attributes.emplace_back("groups", std::move(groups));
  out.push_back(std::move(vhost));
  if (input.transactional != nullptr) {
    for (const std::string_view direction : {"in", "out"}) {
      out.push_back(link_route(input.owner, identity, *input.transactional, direction,
                               std::string(input.space_id)));
    }
  }
  return out;
}

}  // namespace kintsugi::workers
