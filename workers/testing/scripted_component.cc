#include "workers/testing/scripted_component.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {

namespace {

constexpr std::string_view kPrefix = "org.apache.qpid.dispatch.";

const std::string& property(const ManagementRequest& request, std::string_view name) {
  static const std::string kEmpty;
  for (const Attribute& one : request.properties) {
    if (one.name == name) {
      if (const auto* text = std::get_if<std::string>(&one.value)) {
        return *text;
      }
    }
  }
  return kEmpty;
}

std::int64_t number_property(const ManagementRequest& request, std::string_view name) {
  for (const Attribute& one : request.properties) {
    if (one.name == name) {
      return std::get<std::int64_t>(one.value);
    }
  }
  return 0;
}

krm::Json as_json(const Attributes& attributes) {
  krm::Json out = krm::Json::object();
  for (const Attribute& one : attributes) {
    if (const auto* flag = std::get_if<bool>(&one.value)) {
      out[one.name] = *flag;
    } else if (const auto* number = std::get_if<std::int64_t>(&one.value)) {
      out[one.name] = *number;
    } else if (const auto* text = std::get_if<std::string>(&one.value)) {
      out[one.name] = std::string_view(*text);
    } else if (const auto* inner = std::get_if<Attributes>(&one.value)) {
      out[one.name] = as_json(*inner);
    }
  }
  return out;
}

bool is_core(std::string_view type) {
  return type.find("router.config.") != std::string_view::npos;
}

bool is_link(std::string_view type) {
  return type.find("autoLink") != std::string_view::npos ||
         type.find("linkRoute") != std::string_view::npos;
}

std::string text_of(const krm::Json& value) {
  return value.is_string() ? std::string(value.as_string()) : value.dump();
}

}  // namespace

ManagementReply router_reply(std::int64_t code, std::string_view text, krm::Json body) {
  return {krm::Json::object({{"statusCode", code}, {"statusDescription", text}}), std::move(body)};
}

ManagementReply broker_reply(const krm::Json& value) {
  krm::Json list = krm::Json::array();
  list.push_back(value);
  return {krm::Json::object({{"_AMQ_OperationSucceeded", true}}), krm::Json(list.dump())};
}

ManagementReply broker_exception(std::string_view text) {
  krm::Json list = krm::Json::array();
  list.push_back(krm::Json(text));
  return {krm::Json::object({{"_AMQ_OperationSucceeded", false}}), krm::Json(list.dump())};
}

ManagementReply ScriptedComponent::answer(const ManagementRequest& request) {
  return kind_ == ComponentKind::kRouter ? router(request) : broker(request);
}

void ScriptedComponent::restart() {
  entities.clear();
  addresses.clear();
  queues.clear();
  settings.clear();
  uptime = 0;
}

int ScriptedComponent::sent_for_entities() const {
  int out = 0;
  for (const auto& [operation, count] : counts) {
    const bool asks = operation == "QUERY" || operation == "READ" ||
                      operation.substr(0, 3) == "get" || operation == "listQueues" ||
                      operation == "NodeID" || operation == "Version" ||
                      operation == "GlobalMaxSize";
    out += asks ? 0 : count;
  }
  return out;
}

krm::Json ScriptedComponent::shown(const std::string& type, const std::string& name,
                                   const krm::Json& made) const {
  krm::Json out = made;
  out["name"] = std::string_view(name);
  if (is_link(type)) {
    out["operStatus"] = links_active ? "active" : "inactive";
    out["lastError"] = links_active ? krm::Json() : krm::Json("no route");
  } else if (type == std::string(kPrefix) + "connector") {
    out["connectionStatus"] = links_active ? "SUCCESS" : "CONNECTING";
    out["connectionMsg"] = links_active ? "Connection Opened" : "Connection refused";
  }
  return out;
}

ManagementReply ScriptedComponent::table(const std::string& type,
                                         const ManagementRequest& request) {
  krm::Json columns = krm::Json::array(), rows = krm::Json::array();
  if (type == kRouterType) {
    std::int64_t links = 0, routes = 0;
    for (const auto& [key, entity] : entities) {
      links += key.first.find("autoLink") != std::string::npos ? 1 : 0;
      routes += key.first.find("linkRoute") != std::string::npos ? 1 : 0;
    }
    for (const char* one : {"addrCount", "linkCount", "autoLinkCount", "linkRouteCount",
                            "connectionCount", "memoryUsage", "uptimeSeconds", "id"}) {
      columns.push_back(one);
    }
    rows.push_back(krm::Json::array({12, 3, links, routes, 1, 1000, uptime, "r0"}));
  } else {
    std::vector<std::string> names = {"name"};
    for (const auto& [key, made] : entities) {
      if (key.first == type) {
        const krm::Json all = shown(type, key.second, made);
        for (const krm::JsonMember& member : all.members()) {
          if (std::find(names.begin(), names.end(), member.key) == names.end()) {
            names.push_back(member.key);
          }
        }
      }
    }
    for (const std::string& one : names) {
      columns.push_back(std::string_view(one));
    }
    const std::int64_t offset = number_property(request, "offset");
    const std::int64_t count = number_property(request, "count");
    std::int64_t at = 0;
    for (const auto& [key, made] : entities) {
      if (key.first != type) {
        continue;
      }
      if (at >= offset && at < offset + count) {
        const krm::Json all = shown(type, key.second, made);
        krm::Json row = krm::Json::array();
        for (const std::string& one : names) {
          const krm::Json* value = all.find(one);
          row.push_back(value == nullptr ? krm::Json() : *value);
        }
        rows.push_back(row);
      }
      ++at;
    }
  }
  return router_reply(200, "OK",
                      krm::Json::object({{"attributeNames", columns}, {"results", rows}}));
}

ManagementReply ScriptedComponent::router(const ManagementRequest& request) {
  const std::string& operation = property(request, "operation");
  const std::string& name = property(request, "name");
  ++counts[operation];
  if (operation == "QUERY") {
    log.push_back(operation + " " + property(request, "entityType"));
    return table(property(request, "entityType"), request);
  }
  log.push_back(operation + " " + name);
  if (instead) {
    if (std::optional<ManagementReply> out = instead(operation, name)) {
      return *out;
    }
  }
  const Key key{property(request, "type"), name};
  const auto at = entities.find(key);
  const auto* body = std::get_if<Attributes>(&request.body);
  if (operation == "CREATE") {
    if (at != entities.end()) {
      return router_reply(400, is_core(key.first)
                                   ? "Name conflicts with an existing entity"
                                   : "adding Entity() duplicates unique attribute 'name' from "
                                     "existing Entity()");
    }
    entities[key] = as_json(*body);
    return router_reply(201, "Created", shown(key.first, name, entities[key]));
  }
  if (operation == "UPDATE" && is_core(key.first)) {
    ++core_updates;
  }
  if (at == entities.end()) {
    return router_reply(404, "Not Found");
  }
  if (operation == "READ") {
    return router_reply(200, "OK", shown(key.first, name, at->second));
  }
  if (operation == "DELETE") {
    entities.erase(at);
    return router_reply(204, "No Content");
  }
  const krm::Json changes = as_json(*body);
  for (const krm::JsonMember& member : changes.members()) {
    at->second[member.key] = member.value;
  }
  return router_reply(200, "OK", shown(key.first, name, at->second));
}

ManagementReply ScriptedComponent::broker(const ManagementRequest& request) {
  if (const std::string& attribute = property(request, "_AMQ_Attribute"); !attribute.empty()) {
    ++counts[attribute];
    log.push_back(attribute);
    const std::string& resource = property(request, "_AMQ_ResourceName");
    if (attribute == "RoutingTypes") {
      const auto at = addresses.find(resource.substr(8));
      return at == addresses.end()
                 ? broker_exception("AMQ229067: Cannot find resource with name " + resource)
                 : broker_reply(krm::Json::array({std::string_view(at->second)}));
    }
    if (attribute == "NodeID") {
      return node.empty() ? broker_exception("Problem while retrieving attribute NodeID")
                          : broker_reply(std::string_view(node));
    }
    return attribute == "Version" ? broker_reply("2.44.0") : broker_reply(std::int64_t{268435456});
  }
  const std::string& operation = property(request, "_AMQ_OperationName");
  krm::Json list = *krm::Json::parse(std::get<std::string>(request.body));
  const krm::Json::Array& parameters = list.items();
  krm::Json document = krm::Json::object();
  std::string name;
  if (!parameters.empty()) {
    name = parameters[0].as_string();
    if (operation == "createQueue" || operation == "updateQueue") {
      document = *krm::Json::parse(name);
      name = document.text({"name"});
    }
  }
  ++counts[operation];
  log.push_back(operation + (name.empty() ? "" : " " + name));
  if (instead) {
    if (std::optional<ManagementReply> out = instead(operation, name)) {
      return *out;
    }
  }
  const auto queue = queues.find(name);
  if (operation == "createAddress") {
    if (addresses.count(name) != 0) {
      return broker_exception("AMQ229204: Address already exists: " + name);
    }
    addresses[name] = parameters[1].as_string();
    return broker_reply(krm::Json("Address [name=" + name + ", routingTypes={" + addresses[name] +
                                  "}, autoCreated=false]"));
  }
  if (operation == "deleteAddress") {
    for (const auto& [other, of] : queues) {
      if (of.attributes.text({"address"}) == name) {
        return broker_exception("AMQ229205: Address " + name + " has bindings");
      }
    }
    return addresses.erase(name) == 0
               ? broker_exception("AMQ229203: Address Does Not Exist: " + name)
               : broker_reply(nullptr);
  }
  if (operation == "createQueue") {
    if (queue != queues.end()) {
      return broker_reply(krm::Json(document.dump()));  // BH-2
    }
    if (addresses.count(std::string(document.text({"address"}))) == 0) {
      return broker_exception("AMQ229203: Address Does Not Exist: x");
    }
    queues[name] = {document, next_id_++, 0};
    document["id"] = queues[name].id;
    return broker_reply(krm::Json(document.dump()));
  }
  if (operation == "updateQueue") {
    if (queue == queues.end()) {
      return broker_exception("AMQ229017: Queue " + name + " does not exist");
    }
    for (const krm::JsonMember& member : document.members()) {
      queue->second.attributes[member.key] = member.value;
    }
    krm::Json all = queue->second.attributes;
    all["id"] = queue->second.id;
    return broker_reply(krm::Json(all.dump()));
  }
  if (operation == "destroyQueue") {
    if (queue == queues.end()) {
      return broker_exception("AMQ229017: Queue " + name + " does not exist");
    }
    lost_messages += queue->second.messages > 0 ? 1 : 0;
    queues.erase(queue);
    return broker_reply(nullptr);
  }
  if (operation == "addAddressSettings") {
    settings[name] = *krm::Json::parse(parameters[1].as_string());
    return broker_reply(nullptr);
  }
  if (operation == "removeAddressSettings") {
    settings.erase(name);
    return broker_reply(nullptr);
  }
  if (operation == "getAddressSettingsAsJSON") {
    const auto at = settings.find(name);
    return broker_reply(krm::Json(at == settings.end() ? "{}" : at->second.dump()));
  }
  if (operation == "getQueueNames" || operation == "getAddressNames") {
    krm::Json names = krm::Json::array({"DLQ"});
    if (operation == "getQueueNames") {
      for (const auto& [one, of] : queues) {
        names.push_back(std::string_view(one));
      }
    } else {
      for (const auto& [one, of] : addresses) {
        names.push_back(std::string_view(one));
      }
    }
    return broker_reply(names);
  }
  if (operation == "listQueues") {
    krm::Json data = krm::Json::array();
    const krm::Json filter = name.empty() ? krm::Json() : *krm::Json::parse(name);
    const std::int64_t page = parameters[1].as_integer(), size = parameters[2].as_integer();
    std::int64_t at = 0;
    for (const auto& [one, of] : queues) {
      if (!filter.is_null() && filter.text({"value"}) != one) {
        continue;
      }
      if (at >= (page - 1) * size && at < page * size) {
        krm::Json row = krm::Json::object({{"name", std::string_view(one)}});
        for (const auto& [asked, listed] :
             {std::pair("address", "address"), std::pair("routing-type", "routingType"),
              std::pair("durable", "durable"), std::pair("max-consumers", "maxConsumers"),
              std::pair("purge-on-no-consumers", "purgeOnNoConsumers")}) {
          if (const krm::Json* value = of.attributes.find(asked)) {
            row[listed] = text_of(*value);
          }
        }
        row["messageCount"] = std::to_string(of.messages);
        row["consumerCount"] = "0";
        data.push_back(row);
      }
      ++at;
    }
    return broker_reply(krm::Json(krm::Json::object({{"data", data}, {"count", at}}).dump()));
  }
  return broker_exception("AMQ229069: no operation " + operation);
}

PipelineBench::PipelineBench(ComponentKind kind, ComponentPipeline::Params params)
    : component(kind),
      pipeline(
          [&] {
            params.kind = kind;
            params.owner = "test";
            return params;
          }(),
          {[this](ObjectId object) {
             const auto at = objects.find(object);
             return at == objects.end() ? std::vector<DesiredEntity>() : at->second;
           },
           [this](ObjectId object) { ++told[object]; },
           [this](const DriftRepair& repair) { repairs.push_back(repair); },
           [](std::string_view name) { return name.find("space-") != std::string_view::npos; },
           [] {}, [this] { return shared; }}) {}

void PipelineBench::want(ObjectId object, std::vector<DesiredEntity> entities, bool first) {
  // What is deleted may be asked for no more; what is wanted is.
  objects[object] = std::move(entities);
  pipeline.want(object, objects[object], first);
}

void PipelineBench::ready() { pipeline.on_ready("qpid-dispatch-router", "1.19.0", now); }

void PipelineBench::lost() {
  waiting.clear();
  pipeline.on_lost("cut", now);
}

void PipelineBench::restart() {
  component.restart();
  booted = now;
}

std::size_t PipelineBench::pump() {
  while (std::optional<ComponentPipeline::Send> send = pipeline.next(now)) {
    waiting.push_back({send->tag, std::move(send->request)});
  }
  return waiting.size();
}

bool PipelineBench::answer_one() {
  if (waiting.empty()) {
    return false;
  }
  const Waiting one = std::move(waiting.front());
  waiting.pop_front();
  component.uptime = (now - booted) / seconds(1);
  const ManagementReply reply = component.answer(one.request);
  pipeline.on_answer(one.tag, &reply, now);
  return true;
}

bool PipelineBench::lose_one(bool done) {
  if (waiting.empty()) {
    return false;
  }
  const Waiting one = std::move(waiting.front());
  waiting.pop_front();
  if (done) {
    (void)component.answer(one.request);
  }
  pipeline.on_answer(one.tag, nullptr, now);
  return true;
}

void PipelineBench::settle() {
  for (pump(); answer_one(); pump()) {
  }
}

void PipelineBench::run(Duration time) {
  const TimePoint end = now + time;
  settle();
  while (const std::optional<TimePoint> due = pipeline.next_timer()) {
    if (*due > end) {
      break;
    }
    now = std::max(*due, now);
    pipeline.on_timer(now);
    settle();
  }
  now = end;
}

std::string test_name(EntityKind kind, int n, std::string_view direction) {
  return entity_name("test", kind, "object-" + std::to_string(n), {}, direction);
}

std::vector<DesiredEntity> router_queue(int n, std::string_view distribution) {
  const std::string address = "space-a/q" + std::to_string(n);
  std::vector<DesiredEntity> out;
  out.push_back(
      {EntityKind::kAddress,
       test_name(EntityKind::kAddress, n),
       {{"pattern", address}, {"distribution", std::string(distribution)}, {"waypoint", true}}});
  for (const std::string_view direction : {"in", "out"}) {
    out.push_back({EntityKind::kAutoLink,
                   test_name(EntityKind::kAutoLink, n, direction),
                   {{"address", address},
                    {"direction", std::string(direction)},
                    {"connection", std::string("b0")},
                    {"externalAddress", address}}});
  }
  return out;
}

std::vector<DesiredEntity> broker_queue(int n, std::string_view settings_class,
                                        std::int64_t consumers) {
  std::string name = "space-a/q" + std::to_string(n);
  std::vector<DesiredEntity> out;
  if (!settings_class.empty()) {
    name = std::string(settings_class) + "." + name;
    out.push_back({EntityKind::kAddressSettings,
                   std::string(settings_class) + ".#",
                   {{"expiryDelay", std::int64_t{1000}}}});
  }
  out.push_back({EntityKind::kBrokerAddress, name, {{"routing-type", std::string("ANYCAST")}}});
  out.push_back({EntityKind::kQueue,
                 name,
                 {{"address", name},
                  {"routing-type", std::string("ANYCAST")},
                  {"durable", true},
                  {"max-consumers", consumers},
                  {"purge-on-no-consumers", false},
                  {"auto-create-address", false}}});
  return out;
}

DesiredEntity test_vhost(int n, std::int64_t connections) {
  return {EntityKind::kVhost,
          test_name(EntityKind::kVhost, n),
          {{"hostname", "space-" + std::to_string(n)},
           {"aliases", std::string("a.example")},
           {"maxConnections", connections}}};
}

}  // namespace kintsugi::workers
