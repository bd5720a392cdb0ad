// What routers and brokers have in common: which operation is sent at all, and to whom.
#include "workers/messaging/wire/internal/entity_wire.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {

namespace wire {

namespace {

constexpr std::size_t kMostText = 512;

/// Bytes of the character that begins here, 0 when it is none.
std::size_t character_at(std::string_view text, std::uint32_t& code) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    code = first;
    return 1;
  }
  const std::size_t length = first >= 0xF0 && first < 0xF5   ? 4
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xC2 && first < 0xE0 ? 2
                                                             : 0;
  if (length == 0 || text.size() < length) {
    return 0;
  }
  code = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) {
      return 0;
    }
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

bool is_shown(std::uint32_t code) {
  return code >= 0x20 && (code < 0x7F || code > 0x9F) && !(code >= 0x200B && code <= 0x200F) &&
         !(code >= 0x2028 && code <= 0x202E) && !(code >= 0x2060 && code <= 0x206F) &&
         code != 0xFEFF;
}

krm::Json value_json(const Attribute& one) {
  if (const auto* flag = std::get_if<bool>(&one.value)) {
    return *flag;
  }
  if (const auto* number = std::get_if<std::int64_t>(&one.value)) {
    return *number;
  }
  if (const auto* text = std::get_if<std::string>(&one.value)) {
    return std::string_view(*text);
  }
  if (const auto* inner = std::get_if<Attributes>(&one.value)) {
    return attributes_json(*inner);
  }
  krm::Json list = krm::Json::array();
  for (const std::string& each : std::get<AttributeTexts>(one.value)) {
    list.push_back(std::string_view(each));
  }
  return list;
}

}  // namespace

bool is_broker_entity(EntityKind kind) noexcept { return entity_kind_text(kind).empty(); }

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::uint32_t code = 0;
    const std::size_t length = character_at(text, code);
    const bool blank = code == '\n' || code == '\r' || code == '\t';
    const std::string_view shown = length == 0 || (!is_shown(code) && !blank) ? "?"
                                   : blank                                    ? " "
                                           : text.substr(0, length);
    if (out.size() + shown.size() > kMostText) {
      break;
    }
    out += shown;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

krm::Json attributes_json(const Attributes& attributes) {
  krm::Json out = krm::Json::object();
  for (const Attribute& one : attributes) {
    out[one.name] = value_json(one);
  }
  return out;
}

}  // namespace wire

bool is_agent_kind(EntityKind kind) noexcept {
  return kind == EntityKind::kVhost || kind == EntityKind::kListener ||
         kind == EntityKind::kSslProfile || kind == EntityKind::kConnector;
}

bool is_allowed(EntityKind kind, Operation operation) noexcept {
  return operation != Operation::kUpdate || kind == EntityKind::kVhost ||
         kind == EntityKind::kQueue || kind == EntityKind::kAddressSettings;
}

Expected<ManagementRequest> entity_request(Operation operation, const DesiredEntity& entity) {
  if (!is_allowed(entity.kind, operation)) {
    return fail(Errc::kInvalid, "entities of this type cannot be updated");
  }
  if (entity.name.empty()) {
    return fail(Errc::kInvalid, "an entity without a name");
  }
  if (wire::is_broker_entity(entity.kind)) {
    return wire::broker_entity_request(operation, entity);
  }
  if (entity.name.size() > kMaxRouterName) {
    return fail(Errc::kInvalid, "a name of " + std::to_string(entity.name.size()) +
                                    " bytes, where a router takes " +
                                    std::to_string(kMaxRouterName));
  }
  return wire::router_entity_request(operation, entity);
}

EntityOutcome entity_outcome(Operation operation, const DesiredEntity& entity,
                             const ManagementReply& reply) {
  return wire::is_broker_entity(entity.kind)
             ? wire::broker_entity_outcome(operation, entity, reply)
             : wire::router_entity_outcome(operation, entity, reply);
}

}  // namespace kintsugi::workers
