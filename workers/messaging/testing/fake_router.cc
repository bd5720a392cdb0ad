// A router's management, as recorded.
#include <algorithm>
#include <array>

#include "workers/messaging/testing/fake_tables.h"

namespace kintsugi::workers {

namespace {

using krm::Json;

constexpr std::string_view kAddress = "org.apache.qpid.dispatch.router.config.address";
constexpr std::string_view kAutoLink = "org.apache.qpid.dispatch.router.config.autoLink";
constexpr std::string_view kLinkRoute = "org.apache.qpid.dispatch.router.config.linkRoute";
constexpr std::string_view kConnector = "org.apache.qpid.dispatch.connector";
constexpr std::string_view kListener = "org.apache.qpid.dispatch.listener";
constexpr std::string_view kSslProfile = "org.apache.qpid.dispatch.sslProfile";
constexpr std::string_view kVhost = "org.apache.qpid.dispatch.vhost";
constexpr std::string_view kRouter = "org.apache.qpid.dispatch.router";
constexpr std::array kTypes = {kAddress,  kAutoLink,   kLinkRoute, kConnector,
                               kListener, kSslProfile, kVhost};

constexpr Duration kConnects = milliseconds(22), kLinks = milliseconds(40);
constexpr Duration kAgent = milliseconds(11);
constexpr std::size_t kHangsAt = 512, kNodes = 65'535;

bool is_core(std::string_view type) {
  return type == kAddress || type == kAutoLink || type == kLinkRoute;
}

FakeAnswer said(std::int64_t code, std::string_view text, Json body = {}) {
  FakeAnswer out;
  out.properties = Json::object({{"statusCode", code}, {"statusDescription", text}});
  out.body = std::move(body);
  return out;
}

Duration nanoseconds_of(double value) { return Duration(static_cast<Duration::rep>(value)); }

/// What an address or link route is found by.
std::string unique_key(std::string_view type, const Json& body) {
  if (type == kVhost) {
    return std::string(body.text({"hostname"}));
  }
  if (type == kAddress) {
    const std::string_view pattern = body.text({"pattern"});
    return std::string(pattern.empty() ? body.text({"prefix"}) : pattern);
  }
  return {};
}

std::vector<std::string> alias_list(const Json& body) {
  std::vector<std::string> out;
  std::string_view rest = body.text({"aliases"});
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (end > 0) {
      out.emplace_back(rest.substr(0, end));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

void add_if_absent(Json& to, std::string_view key, Json value) {
  if (to.find(key) == nullptr) {
    to[key] = std::move(value);
  }
}

}  // namespace

void FakeRouter::restart(TimePoint now) {
  tables_.clear();
  aliases_.clear();
  last_number_ = 0;
  hangs_ = false;
  started_ = now;
}

std::size_t FakeRouter::size(std::string_view type) const {
  const auto at = tables_.find(std::string(type));
  return at == tables_.end() ? 0 : at->second.rows.size();
}

const FakeRouter::Row* FakeRouter::connector(const Json& row) const {
  const auto table = tables_.find(std::string(kConnector));
  if (table == tables_.end()) {
    return nullptr;
  }
  const auto at = table->second.rows.find(std::string(row.text({"connection"})));
  return at == table->second.rows.end() ? nullptr : &at->second;
}

Json FakeRouter::shown(std::string_view type, const std::string& name, const Row& row,
                       TimePoint now) const {
  Json out = row.asked;
  out["name"] = std::string_view(name);
  out["type"] = type;
  out["identity"] = std::to_string(row.number);
  const auto link_state = [&] {
    const Row* to = connector(row.asked);
    const bool active = to != nullptr && now - std::max(row.created, to->created) >= kLinks;
    return Json(active ? "active" : "inactive");
  };
  if (type == kAddress) {
    for (const std::string_view key : {"pattern", "prefix"}) {
      add_if_absent(out, key, nullptr);
    }
    add_if_absent(out, "distribution", "balanced");
    add_if_absent(out, "waypoint", false);
    out["ingressPhase"] = 0;
    out["egressPhase"] = out.find("waypoint")->as_bool() ? 1 : 0;
    out["priority"] = -1;
    out["fallback"] = false;
  } else if (type == kAutoLink) {
    add_if_absent(out, "phase", out.text({"direction"}) == "in" ? 1 : 0);
    add_if_absent(out, "externalAddress", nullptr);
    out["operStatus"] = link_state();
    for (const std::string_view key : {"lastError", "linkRef", "containerId"}) {
      out[key] = nullptr;
    }
  } else if (type == kLinkRoute) {
    for (const std::string_view key :
         {"pattern", "prefix", "addExternalPrefix", "delExternalPrefix", "containerId"}) {
      add_if_absent(out, key, nullptr);
    }
    out["distribution"] = "linkBalanced";
    out["operStatus"] = link_state();
  } else if (type == kConnector) {
    out["identity"] = "connector/" + std::string(out.text({"host"})) + ":" +
                      std::string(out.text({"port"})) + ":" + name;
    add_if_absent(out, "cost", 1);
    const bool up = now - row.created >= kConnects;
    out["connectionStatus"] = up ? "SUCCESS" : "CONNECTING";
    out["connectionMsg"] =
        up ? "[C8] Connection Opened: dir=out host=" + std::string(out.text({"host"})) : "";
  } else if (type == kVhost) {
    out["identity"] = "vhost/" + std::string(out.text({"hostname"}));
    add_if_absent(out, "aliases", nullptr);
    for (const std::string_view key :
         {"maxConnections", "maxConnectionsPerUser", "maxConnectionsPerHost"}) {
      add_if_absent(out, key, 65535);
    }
  }
  return out;
}

Json FakeRouter::self(TimePoint now) const {
  const auto count = [this](std::string_view type) {
    return static_cast<std::int64_t>(size(type));
  };
  const std::int64_t up =
      started_ ? std::chrono::duration_cast<std::chrono::seconds>(now - *started_).count() : 0;
  return Json::object({{"addrCount", count(kAddress) + 5},
                       {"linkCount", connections_ * 2},
                       {"autoLinkCount", count(kAutoLink)},
                       {"linkRouteCount", count(kLinkRoute)},
                       {"connectionCount", connections_},
                       {"memoryUsage", std::int64_t{104857600}},
                       {"uptimeSeconds", up},
                       {"id", std::string_view(id_)},
                       {"name", std::string_view(id_)},
                       {"type", kRouter},
                       {"version", "1.19.0"}});
}

FakeAnswer FakeRouter::create(std::string_view type, Table& table, const std::string& name,
                              const Json& body, TimePoint now) {
  if (table.rows.count(name) != 0) {
    return said(400, is_core(type)
                         ? "Name conflicts with an existing entity"
                         : "adding Entity(name=" + name +
                               ") duplicates unique attribute 'name' from existing Entity(name=" +
                               name + ")");
  }
  const std::string key = unique_key(type, body);
  if (!key.empty() && table.keys.count(key) != 0) {
    return said(400, type == kVhost ? "adding VhostEntity(hostname=" + key +
                                          ") duplicates unique attribute 'hostname' from existing"
                                    : "Already exists");
  }
  Json asked = body.is_object() ? body : Json::object();
  if (type == kAddress) {
    Json* waypoint = asked.find("waypoint");
    const std::string_view distribution = asked.text({"distribution"});
    const bool bogus = !distribution.empty() && distribution != "balanced" &&
                       distribution != "multicast" && distribution != "closest";
    if (!hazards_ && (bogus || (waypoint != nullptr && !waypoint->is_bool()))) {
      return said(400, "Bad value");
    }
    if (waypoint != nullptr && !waypoint->is_bool()) {
      *waypoint = false;
    }
    if (bogus) {
      asked["distribution"] = "balanced";
    }
  } else if (type == kConnector || type == kListener) {
    const std::string_view role = asked.text({"role"});
    if (!role.empty() && role != "normal" && role != "route-container" && role != "edge" &&
        role != "inter-router") {
      return said(400, "ValidationError: Invalid value for 'role': " + std::string(role));
    }
  } else if (type == kVhost) {
    const Json* most = asked.find("maxConnections");
    if (most != nullptr && most->as_integer() < 0) {
      return said(500, "PolicyError: maxConnections is below minimum '0'");
    }
    for (const std::string& alias : alias_list(asked)) {
      if (!aliases_.emplace(alias, name).second) {
        return said(500, "PolicyError: alias '" + alias + "' is in use");
      }
    }
  }
  Row row{++last_number_, now, std::move(asked)};
  const auto at = table.rows.emplace(name, std::move(row)).first;
  table.order.emplace(at->second.number, &at->first);
  if (!key.empty()) {
    table.keys.emplace(key, name);
  }
  return said(201, "Created", shown(type, name, at->second, now));
}

FakeAnswer FakeRouter::update(Table& table, const std::string& name, const Json& body,
                              TimePoint now) {
  const auto at = table.rows.find(name);
  if (at == table.rows.end()) {
    return said(404, "No entity with name=" + name);
  }
  if (body.find("hostname") != nullptr) {
    return said(400, "Cannot update attribute 'hostname' in UPDATE");
  }
  if (body.find("aliases") != nullptr) {
    for (const std::string& alias : alias_list(at->second.asked)) {
      aliases_.erase(alias);
    }
    for (const std::string& alias : alias_list(body)) {
      aliases_.emplace(alias, name);
    }
  }
  for (const krm::JsonMember& member : body.members()) {
    at->second.asked[member.key] = member.value;
  }
  return said(200, "OK", shown(kVhost, name, at->second, now));
}

FakeAnswer FakeRouter::remove(std::string_view type, Table& table, const std::string& name) {
  const auto at = table.rows.find(name);
  if (at == table.rows.end()) {
    return said(404, "Not Found");
  }
  const Json* http = at->second.asked.find("http");
  if (type == kListener && http != nullptr && http->as_bool()) {
    return said(400, "HTTP listeners cannot be deleted");
  }
  if (type == kVhost && !hazards_) {
    for (const std::string& alias : alias_list(at->second.asked)) {
      aliases_.erase(alias);
    }
  }
  table.keys.erase(unique_key(type, at->second.asked));
  table.order.erase(at->second.number);
  table.rows.erase(at);
  return said(204, "No Content");
}

FakeAnswer FakeRouter::query(const Json& properties, const Json& body, TimePoint now) {
  const std::string type(properties.text({"entityType"}));
  const Json* from = properties.find("offset");
  const Json* most = properties.find("count");
  const auto offset =
      static_cast<std::size_t>(from == nullptr ? 0 : std::max<std::int64_t>(0, from->as_integer()));
  const auto count = static_cast<std::size_t>(
      most == nullptr ? 1'000'000'000 : std::max<std::int64_t>(0, most->as_integer()));
  std::vector<Json> found;
  std::size_t position = 0;
  if (type == kRouter) {
    found.push_back(self(now));
  } else if (const auto table = tables_.find(type); table != tables_.end()) {
    for (auto at = table->second.order.begin();
         at != table->second.order.end() && found.size() < count; ++at, ++position) {
      if (position >= offset) {
        found.push_back(shown(type, *at->second, table->second.rows.at(*at->second), now));
      }
    }
  }
  Json names = Json::array();
  if (const Json* asked = body.find("attributeNames"); asked != nullptr && asked->size() > 0) {
    names = *asked;
  } else if (!found.empty()) {
    for (const krm::JsonMember& member : found.front().members()) {
      names.push_back(std::string_view(member.key));
    }
  }
  const std::size_t width = names.size();
  Json results = Json::array();
  for (const Json& each : found) {
    if ((results.size() + 1) * (width + 1) + width + 6 > kNodes) {
      break;  // MH-5
    }
    Json row = Json::array();
    for (const Json& name : names.items()) {
      const Json* value = each.find(name.as_string());
      row.push_back(value == nullptr ? Json() : *value);
    }
    results.push_back(std::move(row));
  }
  FakeAnswer out =
      said(200, "OK",
           Json::object({{"attributeNames", std::move(names)}, {"results", std::move(results)}}));
  if (hazards_) {  // MH-1: each row is looked for from the head
    const auto rows = static_cast<double>(found.size());
    out.cost = nanoseconds_of(25.6 * rows * (static_cast<double>(offset) + rows / 2));
  }
  return out;
}

std::optional<FakeAnswer> FakeRouter::answer(const Json& properties, const Json& body,
                                             TimePoint now) {
  if (!started_) {
    started_ = now;
  }
  if (hangs_) {
    return std::nullopt;
  }
  const std::string_view operation = properties.text({"operation"});
  if (operation == "QUERY") {
    return query(properties, body, now);
  }
  const std::string type(properties.text({"type"}));
  if (type == kRouter) {
    return said(403, "Forbidden");
  }
  if (std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
    return said(400, "No such entity type '" + type + "'");
  }
  const bool core = is_core(type);
  const std::string name(properties.text({"name"}));
  if (core && operation == "UPDATE" && hazards_) {
    return std::nullopt;  // MH-3
  }
  if (core && name.size() > kHangsAt && (operation == "CREATE" || operation == "DELETE")) {
    hangs_ = hazards_;  // MH-4
    return hazards_ ? std::nullopt : std::optional<FakeAnswer>(said(400, "Name is too long"));
  }
  if (name.empty()) {
    return said(400, "No name or identity provided");
  }
  Table& table = tables_[type];
  FakeAnswer out;
  if (operation == "CREATE") {
    out = create(type, table, name, body, now);
  } else if (operation == "READ") {
    const auto at = table.rows.find(name);
    out = at == table.rows.end() ? said(404, "Not Found")
                                 : said(200, "OK", shown(type, name, at->second, now));
    if (hazards_ && type == kAutoLink) {  // MH-2
      out.cost = nanoseconds_of(56.0 * static_cast<double>(table.rows.size()));
    }
  } else if (operation == "UPDATE" && type == kVhost) {
    out = update(table, name, body, now);
  } else if (operation == "DELETE") {
    out = remove(type, table, name);
  } else {
    out = said(501, "Operation '" + std::string(operation) + "' not implemented for " + type +
                        " ['CREATE', 'DELETE', 'READ']");
  }
  if (!core && hazards_) {  // MH-8
    out.cost = kAgent;
    out.serial = true;
  }
  return out;
}

}  // namespace kintsugi::workers
