// Answers of a router's $management.
#include <algorithm>

#include "base/strings.h"
#include "workers/messaging/wire/internal/entity_wire.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {

namespace {

constexpr std::size_t kMostNodes = 60'000;  // MH-5
/// What routers do not tell again, and nobody else shall read.
constexpr std::string_view kSecretAttribute = "saslPassword";

const krm::Json* status_code(const ManagementReply& reply) {
  const krm::Json* code = reply.properties.find("statusCode");
  return code != nullptr && code->is_integer() ? code : nullptr;
}

bool is_success(std::int64_t code) { return code >= 200 && code < 300; }

/// Not below 1.12 and the like; "1.19.0-SNAPSHOT" is 1.19.
bool is_at_least(std::string_view version, std::uint32_t major, std::uint32_t minor) {
  const std::size_t dot = version.find('.');
  if (dot == std::string_view::npos) {
    return false;
  }
  const auto first = parse_decimal<std::uint32_t>(version.substr(0, dot));
  version.remove_prefix(dot + 1);
  const std::size_t end = version.find_first_of(".-");
  const auto second = parse_decimal<std::uint32_t>(version.substr(0, end));
  return first && second && (*first > major || (*first == major && *second >= minor));
}

std::string without_secret(const DesiredEntity& entity, std::string_view text) {
  std::string out(text);
  const Attribute* secret = find_attribute(entity, kSecretAttribute);
  const auto* value = secret != nullptr ? std::get_if<std::string>(&secret->value) : nullptr;
  if (value == nullptr || value->empty()) {
    return out;
  }
  for (std::size_t at = 0; (at = out.find(*value, at)) != std::string::npos; at += 3) {
    out.replace(at, value->size(), "***");
  }
  return out;
}

bool echoes(const DesiredEntity& entity, const krm::Json& body) {
  const auto other = differing(entity, body);
  return std::all_of(other.begin(), other.end(),
                     [](std::string_view name) { return name == kSecretAttribute; });
}

Verdict refusal(Operation operation, std::int64_t code, std::string_view text) {
  if (code == 401 || code == 403) {
    return Verdict::kForbidden;
  }
  if (code == 404 && operation != Operation::kCreate) {
    return Verdict::kMissing;
  }
  const bool same_name = text == "Name conflicts with an existing entity" ||
                         text.find("duplicates unique attribute 'name'") != text.npos;
  return code == 400 && operation == Operation::kCreate && same_name ? Verdict::kExists
                                                                     : Verdict::kRefused;
}

}  // namespace

Expected<QueryPage> query_page(const ManagementReply& reply) {
  const krm::Json* code = status_code(reply);
  if (code == nullptr) {
    return fail(Errc::kInvalid, "an answer without statusCode");
  }
  if (const std::int64_t number = code->as_integer(); !is_success(number)) {
    return fail(number == 401 || number == 403 ? Errc::kForbidden : Errc::kUnavailable,
                std::to_string(number) + " " +
                    wire::printable(reply.properties.text({"statusDescription"})));
  }
  const krm::Json* names = reply.body.find("attributeNames");
  const krm::Json* results = reply.body.find("results");
  if (names == nullptr || !names->is_array() || results == nullptr || !results->is_array()) {
    return fail(Errc::kInvalid, "not a table");
  }
  const std::size_t width = names->size();
  if (width >= kMostNodes || results->size() * (width + 1) + width + 6 >= kMostNodes) {
    return fail(Errc::kInvalid, "a table of " + std::to_string(results->size()) +
                                    " rows is cut where it is decoded");
  }
  QueryPage out;
  out.columns.reserve(width);
  for (const krm::Json& name : names->items()) {
    if (!name.is_string()) {
      return fail(Errc::kInvalid, "a column without a name");
    }
    out.columns.emplace_back(name.as_string());
  }
  out.rows.reserve(results->size());
  for (const krm::Json& row : results->items()) {
    if (!row.is_array() || row.size() != width) {
      return fail(Errc::kInvalid, "a row that is not as wide as the table");
    }
    out.rows.push_back(row);
  }
  return out;
}

Expected<RouterCounters> router_counters(const ManagementReply& reply) {
  auto page = query_page(reply);
  if (!page) {
    return fail(std::move(page.error()));
  }
  if (page->rows.size() != 1) {
    return fail(Errc::kInvalid, std::to_string(page->rows.size()) + " routers in one answer");
  }
  RouterCounters out;
  const struct {
    std::string_view column;
    std::int64_t* value;
  } numbers[] = {{"addrCount", &out.addresses},         {"linkCount", &out.links},
                 {"autoLinkCount", &out.auto_links},    {"linkRouteCount", &out.link_routes},
                 {"connectionCount", &out.connections}, {"memoryUsage", &out.memory},
                 {"uptimeSeconds", &out.uptime_seconds}};
  const auto value_of = [&page](std::string_view column) -> const krm::Json* {
    const auto at = std::find(page->columns.begin(), page->columns.end(), column);
    return at == page->columns.end()
               ? nullptr
               : &page->rows.front().items()[static_cast<std::size_t>(at - page->columns.begin())];
  };
  for (const auto& number : numbers) {
    const krm::Json* value = value_of(number.column);
    if (value != nullptr && value->is_integer() && value->as_integer() >= 0) {
      *number.value = value->as_integer();
    } else if (number.value != &out.memory) {  // some builds do not tell it
      return fail(Errc::kInvalid, "no number of " + std::string(number.column));
    }
  }
  if (const krm::Json* id = value_of("id")) {
    out.id = wire::printable(id->as_string());
  }
  return out;
}

LinkStatus link_status(EntityKind kind, const krm::Json& entity) {
  LinkStatus out;
  const bool connector = kind == EntityKind::kConnector;
  if (!connector && kind != EntityKind::kAutoLink && kind != EntityKind::kLinkRoute) {
    return out;
  }
  const krm::Json* state = entity.find(connector ? "connectionStatus" : "operStatus");
  if (state != nullptr && state->is_string()) {
    out.state = state->as_string() == (connector ? "SUCCESS" : "active") ? LinkState::kActive
                                                                         : LinkState::kInactive;
  }
  out.message = wire::printable(entity.text({connector ? "connectionMsg" : "lastError"}));
  return out;
}

bool is_supported_router(std::string_view product, std::string_view version) noexcept {
  return product == "qpid-dispatch-router" && is_at_least(version, 1, 12);
}

bool is_supported_broker(std::string_view version) noexcept { return is_at_least(version, 2, 32); }

namespace wire {

EntityOutcome router_entity_outcome(Operation operation, const DesiredEntity& entity,
                                    const ManagementReply& reply) {
  EntityOutcome out;
  const krm::Json* code = status_code(reply);
  if (code == nullptr) {
    out.text = "an answer without statusCode";
    return out;
  }
  out.code = code->as_integer();
  const std::string_view text = reply.properties.text({"statusDescription"});
  out.text = printable(without_secret(entity, text));
  if (!is_success(out.code)) {
    out.verdict = refusal(operation, out.code, text);
    return out;
  }
  if (operation == Operation::kDelete) {
    out.verdict = Verdict::kDone;
    return out;
  }
  if (!reply.body.is_object()) {
    out.text = "an answer without the entity";
    return out;
  }
  out.body = reply.body;
  out.body.erase(kSecretAttribute);
  out.verdict = echoes(entity, reply.body) ? Verdict::kDone : Verdict::kDifferent;
  return out;
}

}  // namespace wire

}  // namespace kintsugi::workers
