// A broker's management, as recorded.
#include <algorithm>
#include <random>
#include <string>

#include "workers/messaging/testing/fake_tables.h"

namespace kintsugi::workers {

namespace {

using krm::Json;

const char* flag_text(bool value) { return value ? "true" : "false"; }

Json inner_document(const Json& text) {
  auto out = Json::parse(text.as_string());
  return out && out->is_object() ? std::move(*out) : Json();
}

/// Keys that the broker has; others it leaves out without a word (BH-3).
constexpr std::string_view kSettingsKeys[] = {
    "maxSizeBytes",     "pageSizeBytes",  "maxSizeMessages", "addressFullMessagePolicy",
    "expiryDelay",      "minExpiryDelay", "maxExpiryDelay",  "expiryAddress",
    "deadLetterAddress"};

/// Like no other one, in any process.
std::string new_node() {
  std::random_device source;
  std::string out;
  for (int i = 0; i < 4; ++i) {
    out.append(out.empty() ? "" : "-").append(std::to_string(source()));
  }
  return out;
}

/// Of matches: `#` is everything below, `*` one word.
bool is_matched(std::string_view match, std::string_view address) {
  if (match == address || match == "#") {
    return true;
  }
  constexpr std::string_view kBelow = ".#";
  return match.size() > kBelow.size() && match.substr(match.size() - 2) == kBelow &&
         address.substr(0, match.size() - 1) == match.substr(0, match.size() - 1);
}

}  // namespace

FakeBroker::FakeBroker(bool hazards) : hazards_(hazards), node_(new_node()) {}

void FakeBroker::restart() {
  node_ = new_node();
  addresses_.clear();
  queues_.clear();
  order_.clear();
  settings_.clear();
  diverts_.clear();
}

Json FakeBroker::shown(const std::string& name, const Queue& queue, bool listed) {
  if (listed) {
    return Json::object({{"id", std::to_string(queue.id)},
                         {"name", std::string_view(name)},
                         {"address", std::string_view(queue.address)},
                         {"routingType", std::string_view(queue.routing)},
                         {"durable", flag_text(queue.durable)},
                         {"maxConsumers", std::to_string(queue.max_consumers)},
                         {"purgeOnNoConsumers", flag_text(queue.purge)},
                         {"consumerCount", "0"},
                         {"messageCount", "0"}});
  }
  return Json::object({{"id", queue.id},
                       {"name", std::string_view(name)},
                       {"address", std::string_view(queue.address)},
                       {"routing-type", std::string_view(queue.routing)},
                       {"durable", queue.durable},
                       {"max-consumers", queue.max_consumers},
                       {"purge-on-no-consumers", queue.purge}});
}

FakeBroker::Said FakeBroker::create_address(const std::string& name, std::string_view routing) {
  Said out;
  if (!addresses_.emplace(name, Address{std::string(routing), {}}).second) {
    out.exception = "AMQ229204: Address already exists: " + name;
    return out;
  }
  out.value =
      "Address [name=" + name + ", routingTypes={" + std::string(routing) + "}, autoCreated=false]";
  return out;
}

FakeBroker::Said FakeBroker::delete_address(const std::string& name) {
  Said out;
  const auto at = addresses_.find(name);
  if (at == addresses_.end()) {
    out.exception = "AMQ229203: Address Does Not Exist: " + name;
  } else if (!at->second.queues.empty()) {
    out.exception = "AMQ229205: Address " + name + " has bindings";
  } else {
    addresses_.erase(at);
    out.is_void = true;
  }
  return out;
}

FakeBroker::Said FakeBroker::create_queue(const Json& asked, bool ignore_if_exists) {
  Said out;
  const std::string name(asked.text({"name"}));
  const std::string address(asked.text({"address"}));
  const std::string routing(asked.text({"routing-type"}));
  if (const auto at = queues_.find(name); at != queues_.end()) {
    if (!ignore_if_exists) {
      out.exception = "AMQ229019: Queue " + name + " already exists on address " + address;
    } else {
      out.value = (hazards_ ? asked : shown(name, at->second, false)).dump();
    }
    return out;
  }
  const auto to = addresses_.find(address);
  if (to == addresses_.end()) {
    out.exception = "AMQ229203: Address Does Not Exist: " + address;
    return out;
  }
  if (to->second.routing.find(routing) == std::string::npos) {
    out.exception = "AMQ229207: Can not create queue with routing type: " + routing +
                    ", Supported routing types for address: " + address + " are [" +
                    to->second.routing + "]";
    return out;
  }
  Queue queue;
  queue.id = ++last_id_;
  queue.address = address;
  queue.routing = routing;
  const Json* most = asked.find("max-consumers");
  queue.max_consumers = most == nullptr ? -1 : most->as_integer(-1);
  const Json* durable = asked.find("durable");
  queue.durable = durable == nullptr || durable->as_bool(true);
  const Json* purge = asked.find("purge-on-no-consumers");
  queue.purge = purge != nullptr && purge->as_bool();
  Json echo = asked;
  echo["id"] = queue.id;
  const auto at = queues_.emplace(name, std::move(queue)).first;
  order_.emplace(at->second.id, &at->first);
  to->second.queues.insert(name);
  out.value = echo.dump();
  return out;
}

FakeBroker::Said FakeBroker::update_queue(const Json& asked) {
  Said out;
  const std::string name(asked.text({"name"}));
  const auto at = queues_.find(name);
  if (at == queues_.end()) {
    out.exception = "AMQ229017: Queue " + name + " does not exist";
    return out;
  }
  if (const Json* most = asked.find("max-consumers")) {
    at->second.max_consumers = most->as_integer(-1);
  }
  if (const Json* purge = asked.find("purge-on-no-consumers")) {
    at->second.purge = purge->as_bool();
  }
  out.value = shown(name, at->second, false).dump();
  return out;
}

FakeBroker::Said FakeBroker::destroy_queue(const std::string& name) {
  Said out;
  const auto at = queues_.find(name);
  if (at == queues_.end()) {
    out.exception = "AMQ229017: Queue " + name + " does not exist";
    return out;
  }
  if (const auto address = addresses_.find(at->second.address); address != addresses_.end()) {
    address->second.queues.erase(name);
  }
  order_.erase(at->second.id);
  queues_.erase(at);
  out.is_void = true;
  return out;
}

FakeBroker::Said FakeBroker::list_queues(std::string_view options, std::int64_t page,
                                         std::int64_t size) const {
  Json data = Json::array();
  std::int64_t count = 0;
  const Json filter = options.empty() ? Json() : inner_document(Json(options));
  if (const std::string_view value = filter.text({"value"}); !value.empty()) {
    if (const auto at = queues_.find(std::string(value)); at != queues_.end()) {
      data.push_back(shown(at->first, at->second, true));
      count = 1;
    }
  } else {
    count = static_cast<std::int64_t>(queues_.size());
    const std::int64_t begin = (page - 1) * size;
    std::int64_t position = 0;
    for (auto at = order_.begin(); at != order_.end() && position < begin + size;
         ++at, ++position) {
      if (position >= begin) {
        data.push_back(shown(*at->second, queues_.at(*at->second), true));
      }
    }
  }
  Said out;
  out.value = Json::object({{"data", std::move(data)}, {"count", count}}).dump();
  return out;
}

Duration FakeBroker::settings_cost(std::string_view match) const {
  if (!hazards_) {
    return {};
  }
  const bool wildcard = match.find_first_of("*#") != std::string_view::npos;
  return std::chrono::microseconds(queues_.size() * (wildcard ? 21 : 7));  // BH-1
}

FakeBroker::Said FakeBroker::add_settings(const std::string& match, std::string_view document) {
  Said out;
  const Json asked = inner_document(Json(document));
  const Json* most = asked.find("maxSizeBytes");
  const Json* page = asked.find("pageSizeBytes");
  const std::int64_t page_bytes = page == nullptr ? 10485760 : page->as_integer();
  if (most != nullptr && most->as_integer() < -1) {
    out.exception = "Invalid argument on maxSizeBytes";
  } else if (most != nullptr && most->as_integer() > 0 && most->as_integer() < page_bytes) {
    out.exception = "pageSize has to be lower than maxSizeBytes. Invalid argument (" +
                    std::to_string(page_bytes) + " < " + std::to_string(most->as_integer()) + ")";
  } else {
    Json kept = Json::object();
    for (const std::string_view key : kSettingsKeys) {
      if (const Json* value = asked.find(key)) {
        kept[key] = *value;
      }
    }
    settings_[match] = std::move(kept);
    out.is_void = true;
    out.cost = settings_cost(match);
  }
  return out;
}

FakeBroker::Said FakeBroker::merged_settings(std::string_view match) const {
  Json merged = Json::object({{"addressFullMessagePolicy", "PAGE"},
                              {"maxSizeBytes", -1},
                              {"pageSizeBytes", 10485760},
                              {"maxSizeMessages", -1},
                              {"expiryDelay", -1}});
  std::vector<const std::pair<const std::string, Json>*> matching;
  for (const auto& each : settings_) {
    if (is_matched(each.first, match)) {
      matching.push_back(&each);
    }
  }
  std::sort(matching.begin(), matching.end(),
            [](const auto* a, const auto* b) { return a->first.size() < b->first.size(); });
  for (const auto* each : matching) {
    for (const krm::JsonMember& member : each->second.members()) {
      merged[member.key] = member.value;
    }
  }
  Said out;
  out.value = merged.dump();
  return out;
}

FakeBroker::Said FakeBroker::call(std::string_view operation, const Json::Array& parameters) {
  const auto text = [&parameters](std::size_t i) { return std::string(parameters[i].as_string()); };
  const auto are = [&parameters](std::initializer_list<Json::Type> types) {
    return std::equal(parameters.begin(), parameters.end(), types.begin(), types.end(),
                      [](const Json& value, Json::Type type) { return value.type() == type; });
  };
  constexpr auto kText = Json::Type::kString;
  constexpr auto kNumber = Json::Type::kInteger;
  Said out;
  if (operation == "createAddress" && are({kText, kText})) {
    return create_address(text(0), parameters[1].as_string());
  }
  if (operation == "deleteAddress" && are({kText})) {
    return delete_address(text(0));
  }
  if (operation == "createQueue" && (are({kText}) || are({kText, Json::Type::kBool}))) {
    return create_queue(inner_document(parameters[0]),
                        parameters.size() == 2 && parameters[1].as_bool());
  }
  if (operation == "updateQueue" && are({kText})) {
    return update_queue(inner_document(parameters[0]));
  }
  if (operation == "destroyQueue" && (are({kText}) || are({kText, Json::Type::kBool}))) {
    return destroy_queue(text(0));
  }
  if (operation == "listQueues" && are({kText, kNumber, kNumber})) {
    return list_queues(parameters[0].as_string(), parameters[1].as_integer(),
                       parameters[2].as_integer());
  }
  if ((operation == "getQueueNames" || operation == "getAddressNames") && parameters.empty()) {
    out.value = Json::array({"$sys.mqtt.sessions", "DLQ", "ExpiryQueue"});
    if (operation == "getQueueNames") {
      for (const auto& each : order_) {
        out.value.push_back(std::string_view(*each.second));
      }
    } else {
      for (const auto& each : addresses_) {
        out.value.push_back(std::string_view(each.first));
      }
    }
    return out;
  }
  if (operation == "addAddressSettings" && are({kText, kText})) {
    return add_settings(text(0), parameters[1].as_string());
  }
  if (operation == "removeAddressSettings" && are({kText})) {
    settings_.erase(text(0));
    out.is_void = true;
    out.cost = settings_cost(parameters[0].as_string());
    return out;
  }
  if (operation == "getAddressSettingsAsJSON" && are({kText})) {
    return merged_settings(parameters[0].as_string());
  }
  if (operation == "createDivert" && are({kText})) {
    Json divert = inner_document(parameters[0]);
    const std::string name(divert.text({"name"}));
    diverts_[name] = std::move(divert);
    out.is_void = true;
    return out;
  }
  if (operation == "destroyDivert" && are({kText})) {
    diverts_.erase(text(0));
    out.is_void = true;
    return out;
  }
  out.exception =
      "AMQ229069: no operation " + std::string(operation) + "/" + std::to_string(parameters.size());
  return out;
}

FakeBroker::Said FakeBroker::attribute(std::string_view resource, std::string_view name) const {
  Said out;
  constexpr std::string_view kAddress = "address.", kDivert = "divert.";
  if (resource == "broker") {
    if (name == "Version") {
      out.value = "2.44.0";
      return out;
    }
    if (name == "GlobalMaxSize") {
      out.value = 268435456;
      return out;
    }
    if (name == "NodeID") {
      out.value = std::string_view(node_);
      return out;
    }
  } else if (resource.substr(0, kAddress.size()) == kAddress) {
    const auto at = addresses_.find(std::string(resource.substr(kAddress.size())));
    if (at == addresses_.end()) {
      out.exception = "AMQ229067: Cannot find resource with name " + std::string(resource);
      return out;
    }
    if (name == "RoutingTypes") {
      out.value = Json::array({std::string_view(at->second.routing)});
      return out;
    }
  } else if (resource.substr(0, kDivert.size()) == kDivert) {
    const auto at = diverts_.find(std::string(resource.substr(kDivert.size())));
    if (at == diverts_.end()) {
      out.exception = "AMQ229067: Cannot find resource with name " + std::string(resource);
      return out;
    }
    if (name == "ForwardingAddress") {
      out.value = at->second.text({"forwarding-address"});
      return out;
    }
  } else {
    out.exception = "AMQ229067: Cannot find resource with name " + std::string(resource);
    return out;
  }
  out.exception = "Problem while retrieving attribute " + std::string(name);
  return out;
}

FakeAnswer FakeBroker::answer(const Json& properties, const Json& body) {
  const std::string_view resource = properties.text({"_AMQ_ResourceName"});
  const std::string_view operation = properties.text({"_AMQ_OperationName"});
  Said said;
  if (!operation.empty()) {
    const auto parameters = Json::parse(body.as_string("[]"));
    if (resource != "broker") {
      said.exception = "AMQ229067: Cannot find resource with name " + std::string(resource);
    } else if (!parameters || !parameters->is_array()) {
      said.exception = "Invalid JSON";
    } else {
      said = call(operation, parameters->items());
    }
  } else {
    said = attribute(resource, properties.text({"_AMQ_Attribute"}));
  }
  FakeAnswer out;
  out.cost = said.cost;
  out.properties = Json::object({{"_AMQ_OperationSucceeded", said.exception.empty()}});
  if (!said.exception.empty()) {
    out.body = Json::array({std::string_view(said.exception)}).dump();
  } else if (!said.is_void) {
    out.body = Json::array({std::move(said.value)}).dump();
  }
  return out;
}

}  // namespace kintsugi::workers
