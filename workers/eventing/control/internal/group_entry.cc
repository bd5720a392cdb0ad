#include "workers/eventing/control/internal/group_entry.h"

#include <array>
#include <optional>
#include <utility>

#include "net/upstream.h"
#include "workers/eventing/model/iso_duration.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::int32_t kMostDigits = 1'000'000'000;

void refuse(GroupEntry& out, GroupTrouble trouble, std::string message) {
  if (out.trouble == GroupTrouble::kNone) {
    out.trouble = trouble;
    out.message = std::move(message);
  }
}

TextMap text_map(const Json* value) {
  TextMap out;
  if (value != nullptr) {
    for (const krm::JsonMember& one : value->members()) {
      out.emplace(one.key, one.value.as_string());
    }
  }
  return out;
}

std::vector<DialectedFilter> dialected_list(const Json& value, int depth);

/// What is nested deeper than a contract takes is no filter any more, which judge_egress() refuses.
DialectedFilter dialected(const Json& value, int depth) {
  using Kind = DialectedFilter::Kind;
  DialectedFilter out;
  constexpr std::pair<std::string_view, Kind> kByAttributes[] = {
      {"exact", Kind::kExact}, {"prefix", Kind::kPrefix}, {"suffix", Kind::kSuffix}};
  for (const auto& [name, kind] : kByAttributes) {
    if (const Json* const attributes = value.find(name)) {
      out.kind = kind;
      out.attributes = text_map(attributes);
      return out;
    }
  }
  if (depth > static_cast<int>(kMaxFilterDepth)) {
    return out;
  }
  for (const auto& [name, kind] : {std::pair("all", Kind::kAll), {"any", Kind::kAny}}) {
    if (const Json* const list = value.find(name)) {
      out.kind = kind;
      out.filters = dialected_list(*list, depth + 1);
      return out;
    }
  }
  if (const Json* const inner = value.find("not")) {
    out.kind = Kind::kNot;
    out.filters.push_back(dialected(*inner, depth + 1));
  } else if (const Json* const expression = value.find("cesql")) {
    out.kind = Kind::kCesql;
    out.expression = expression->as_string();
  }
  return out;
}

std::vector<DialectedFilter> dialected_list(const Json& value, int depth) {
  std::vector<DialectedFilter> out;
  for (const Json& one : value.items()) {
    out.push_back(dialected(one, depth));
  }
  return out;
}

/// A destination's URL; "" with a text why.
std::string sink_url(const Json& destination, std::string& why) {
  const std::string uri(destination.text({"uri"}));
  if (destination.find("ref") != nullptr) {
    why = "references are not resolved here; uri is";
    return {};
  }
  const auto parsed = net::Url::parse(uri.substr(0, uri.find('?')));
  if (!parsed) {
    why = uri.empty() ? "has no uri" : std::string(parsed.error().message());
    return {};
  }
  return uri;
}

void read_sinks(GroupEntry& out, const Json& spec, Egress& egress) {
  std::string why;
  const Json none;
  const Json* const subscriber = spec.find("subscriber");
  out.subscriber = sink_url(subscriber == nullptr ? none : *subscriber, why);
  if (!why.empty()) {
    refuse(out, GroupTrouble::kPropagateSubscriberUri, "subscriber: " + why);
  }
  egress.destination = out.subscriber;
  egress.destination_ca_certs = out.subscriber_ca_certs = spec.text({"subscriber", "CACerts"});
  if (const Json* const sink = spec.at({"delivery", "deadLetterSink"})) {
    why.clear();
    out.dead_letter = sink_url(*sink, why);
    out.dead_letter_ca_certs = sink->text({"CACerts"});
    if (!why.empty()) {
      refuse(out, GroupTrouble::kPropagateDeadLetterSinkUri, "deadLetterSink: " + why);
    }
  }
  const Json* const url_reply = spec.at({"reply", "URLReply"});
  const Json* const topic_reply = spec.at({"reply", "topicReply", "enabled"});
  const Json* const url_enabled = spec.at({"reply", "URLReply", "enabled"});
  if (url_reply != nullptr && url_enabled != nullptr && url_enabled->as_bool()) {
    why.clear();
    const Json* const destination = url_reply->find("Destination");
    egress.reply_strategy = ReplyStrategy::kUrl;
    egress.reply_url = sink_url(destination == nullptr ? none : *destination, why);
    egress.reply_url_ca_certs = url_reply->text({"Destination", "CACerts"});
    if (!why.empty()) {
      refuse(out, GroupTrouble::kReconcileConsumer, "reply: " + why);
    }
  } else if (topic_reply != nullptr && topic_reply->as_bool()) {
    egress.reply_strategy = ReplyStrategy::kOriginalTopic;
  } else {
    egress.reply_strategy = ReplyStrategy::kDiscard;
  }
}

void read_delivery(GroupEntry& out, const Json& delivery, Egress& egress) {
  egress.delivery_order = delivery.text({"ordering"}) == "ordered" ? DeliveryOrder::kOrdered
                                                                   : DeliveryOrder::kUnordered;
  out.latest = delivery.text({"initialOffset"}) != "earliest";
  EgressConfig config;
  config.dead_letter = out.dead_letter;
  config.dead_letter_ca_certs = out.dead_letter_ca_certs;
  if (const Json* const retry = delivery.find("retry")) {
    config.retry = static_cast<std::uint32_t>(retry->as_integer());
  }
  config.backoff_policy = delivery.text({"backoffPolicy"}) == "linear"
                              ? BackoffPolicy::kLinear
                              : BackoffPolicy::kExponential;
  for (const auto& [key, target] :
       {std::pair("backoffDelay", &config.backoff_delay), std::pair("timeout", &config.timeout)}) {
    if (const Json* const text = delivery.find(key)) {
      const auto value = parse_iso_duration(text->as_string());
      if (!value) {
        refuse(out, GroupTrouble::kReconcileConsumer,
               std::string("delivery.") + key + ": \"" + std::string(text->as_string()) +
                   "\" is no duration by ISO 8601");
      }
      *target = value.value_or(0);
    }
  }
  if (config != EgressConfig()) {
    egress.egress_config = std::move(config);
  }
}

std::string setting(const Json& spec, std::string_view key) {
  std::string out(spec.text({"configs", key}));
  return out.empty() ? std::string(spec.text({"configs", "Configs", key})) : out;
}

KeyType key_type(std::string_view text) {
  constexpr std::pair<std::string_view, KeyType> kTypes[] = {
      {"int", KeyType::kInteger}, {"float", KeyType::kDouble}, {"byte-array", KeyType::kByteArray}};
  for (const auto& [name, type] : kTypes) {
    if (text == name) {
      return type;
    }
  }
  return KeyType::kString;
}

}  // namespace

GroupEntry group_entry(std::string_view ns, std::string_view name, const Json& object,
                       ContractFormat format) {
  GroupEntry out;
  const Json none = Json::object();
  const Json* const found = object.at({"spec", "template", "spec"});
  const Json& spec = found == nullptr ? none : *found;
  const Json* const delivery = spec.find("delivery");
  Egress egress;
  ContractResource& resource = out.resource;
  resource.uid = egress.uid = object.text({"metadata", "uid"});
  if (const Json* const topics = spec.find("topics")) {
    for (const Json& topic : topics->items()) {
      resource.topics.emplace_back(topic.as_string());
    }
  }
  out.bootstrap = resource.bootstrap_servers = setting(spec, "bootstrap.servers");
  out.group_id = egress.consumer_group = setting(spec, "group.id");
  egress.key_type = key_type(spec.text({"configs", "keyType"}));
  read_sinks(out, spec, egress);
  read_delivery(out, delivery == nullptr ? none : *delivery, egress);
  if (const Json* const attributes = spec.at({"filters", "filter", "attributes"})) {
    egress.filter = text_map(attributes);
  }
  if (const Json* const filters = spec.at({"filters", "filters"})) {
    egress.dialected_filter = dialected_list(*filters, 1);
  }
  if (const Json* const extensions = spec.at({"ceOverrides", "extensions"})) {
    resource.cloud_event_overrides = text_map(extensions);
  }
  if (const Json* const auth = spec.find("auth"); auth != nullptr && auth->size() > 0) {
    refuse(out, GroupTrouble::kAuthSecret, "auth: credentials for Kafka are not supported");
  }
  const Json* const top = object.at({"spec", "topLevelResourceRef"});
  Reference reference;
  reference.uuid = resource.uid;
  reference.ns = top == nullptr || top->text({"namespace"}).empty() ? ns : top->text({"namespace"});
  reference.name = top == nullptr || top->text({"name"}).empty() ? name : top->text({"name"});
  reference.kind = top == nullptr || top->text({"kind"}).empty() ? std::string_view("ConsumerGroup")
                                                                 : top->text({"kind"});
  resource.reference = egress.reference = reference;
  egress.vreplicas = 1;
  if (const auto judged = judge_egress(resource, egress); !judged) {
    out.filter_unsupported =
        out.trouble == GroupTrouble::kNone && judged.error().code() == Errc::kNotAcceptable;
    refuse(out, GroupTrouble::kReconcileConsumer, std::string(judged.error().message()));
  }
  egress.vreplicas = kMostDigits;
  resource.egresses = {std::move(egress)};
  out.bytes = static_cast<std::int64_t>(encoded_size(resource, format));
  resource.egresses.front().vreplicas = 0;
  return out;
}

std::string_view pool_of_group(const Json& object) noexcept {
  const std::string_view kind = object.text({"spec", "topLevelResourceRef", "kind"});
  if (kind == "Trigger" || kind == "Broker") {
    return kEventingPools[0];
  }
  return kind == "KafkaChannel" || kind == "Subscription" ? kEventingPools[1] : kEventingPools[2];
}

}  // namespace kintsugi::workers
