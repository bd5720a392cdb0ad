// Answers of a broker's activemq.management.
#include <algorithm>

#include "base/strings.h"
#include "workers/messaging/wire/internal/entity_wire.h"
#include "workers/messaging/wire/management.h"

namespace kintsugi::workers {

namespace {

constexpr std::size_t kMostDepth = 64;  // of what a broker writes

// Numbers of the broker's exceptions.
constexpr std::int64_t kQueueMissing = 229017, kQueueExists = 229019, kNotValidated = 229031,
                       kNoPermission = 229032, kResourceMissing = 229067, kAddressMissing = 229203,
                       kAddressExists = 229204, kAddressBound = 229205, kNoQueuePermission = 229213;

/// A queue as createQueue names its attributes, and as listQueues does.
constexpr struct {
  std::string_view asked, listed;
} kQueueNames[] = {{"address", "address"},
                   {"routing-type", "routingType"},
                   {"durable", "durable"},
                   {"max-consumers", "maxConsumers"},
                   {"purge-on-no-consumers", "purgeOnNoConsumers"}};

Expected<krm::Json> parse_value(std::string_view text) {
  krm::Json::ParseOptions options;
  options.max_depth = kMostDepth;
  return krm::Json::parse(text, options);
}

/// The number behind AMQ at the beginning of an exception's text, 0 without one.
std::int64_t exception_number(std::string_view text) {
  if (text.substr(0, 3) != "AMQ") {
    return 0;
  }
  text.remove_prefix(3);
  return parse_decimal<std::uint32_t>(text.substr(0, text.find(':'))).value_or(0);
}

/// Of the component as a whole: we have no rights, or it took the request no further.
bool is_forbidden(std::string_view text) {
  const std::int64_t number = exception_number(text);
  return number == kNotValidated || number == kNoPermission || number == kNoQueuePermission ||
         text.starts_with("amqp:unauthorized-access") || says_full(text);
}

constexpr std::string_view kNoText = "an exception without a text";

/// What a broker answered, before it means anything.
struct Said {
  bool is_answer = false, succeeded = false;
  krm::Json value;   ///< succeeded: the one value
  std::string text;  ///< else: the exception's
};

Said read_reply(const ManagementReply& reply) {
  Said out;
  const krm::Json* succeeded = reply.properties.find("_AMQ_OperationSucceeded");
  if (succeeded == nullptr || !succeeded->is_bool()) {
    out.text = "an answer without _AMQ_OperationSucceeded";
    return out;
  }
  out.succeeded = succeeded->as_bool();
  if (reply.body.is_null()) {
    out.is_answer = true;
    out.text = out.succeeded ? "" : kNoText;
    return out;
  }
  auto body = reply.body.is_string() ? parse_value(reply.body.as_string())
                                     : Expected<krm::Json>(fail(Errc::kInvalid));
  if (!body || !body->is_array() || body->size() != 1) {
    out.text = "an answer that is no array of one value";
    return out;
  }
  krm::Json& value = body->edit_items().front();
  if (!out.succeeded && !value.is_string() && !value.is_null()) {
    out.text = "an exception that is no text";
    return out;
  }
  out.is_answer = true;
  if (out.succeeded) {
    out.value = std::move(value);
  } else {
    out.text = value.as_string(kNoText);
  }
  return out;
}

/// Values that are a document themselves come as text. Null when it is none.
krm::Json inner_object(const krm::Json& value) {
  if (!value.is_string()) {
    return {};
  }
  auto inner = parse_value(value.as_string());
  return inner && inner->is_object() ? std::move(*inner) : krm::Json();
}

Verdict refusal(Operation operation, EntityKind kind, std::string_view text) {
  if (is_forbidden(text)) {
    return Verdict::kForbidden;
  }
  const std::int64_t number = exception_number(text);
  if (operation == Operation::kCreate) {
    const bool exists = kind == EntityKind::kQueue
                            ? number == kQueueExists
                            : kind == EntityKind::kBrokerAddress && number == kAddressExists;
    return exists ? Verdict::kExists : Verdict::kRefused;
  }
  if (operation == Operation::kDelete && number == kAddressBound) {
    return Verdict::kBlocked;
  }
  const bool missing = number == kQueueMissing || number == kAddressMissing ||
                       (operation == Operation::kRead && number == kResourceMissing);
  return missing ? Verdict::kMissing : Verdict::kRefused;
}

Verdict compared(const DesiredEntity& entity, const krm::Json& echo) {
  return differing(entity, echo).empty() ? Verdict::kDone : Verdict::kDifferent;
}

/// "Address [name=N, routingTypes={ANYCAST}, autoCreated=false]" as an object; null when the text
/// is not such a one.
krm::Json address_of_text(const DesiredEntity& entity, std::string_view text) {
  const std::string begin = "Address [name=" + entity.name + ",";
  constexpr std::string_view kTypes = " routingTypes={";
  const std::size_t types = text.find(kTypes, std::min(text.size(), begin.size()));
  if (text.substr(0, begin.size()) != begin || types == text.npos) {
    return {};
  }
  text.remove_prefix(types + kTypes.size());
  const std::size_t end = text.find('}');
  return end == text.npos ? krm::Json()
                          : krm::Json::object({{"name", std::string_view(entity.name)},
                                               {"routing-type", text.substr(0, end)}});
}

void judge_address(Operation operation, const DesiredEntity& entity, krm::Json value,
                   EntityOutcome& out) {
  if (operation == Operation::kRead) {
    if (!value.is_array()) {
      return;
    }
    std::vector<std::string> types;
    for (const krm::Json& one : value.items()) {
      types.emplace_back(one.as_string());
    }
    out.body = krm::Json::object({{"name", std::string_view(entity.name)},
                                  {"routing-type", std::string_view(join(types, ","))}});
    out.verdict = compared(entity, out.body);
    return;
  }
  if (operation != Operation::kCreate || !value.is_string()) {
    return;
  }
  out.body = address_of_text(entity, value.as_string());
  // Words of another version say no more than that it is there.
  out.verdict = out.body.is_null() ? Verdict::kExists : compared(entity, out.body);
}

void judge_queue(Operation operation, const DesiredEntity& entity, const ManagementReply& reply,
                 const krm::Json& value, EntityOutcome& out) {
  if (operation == Operation::kRead) {
    auto page = list_queues_page(reply);
    if (!page) {
      return;
    }
    const auto at =
        std::find_if(page->queues.begin(), page->queues.end(),
                     [&entity](const krm::Json& one) { return one.text({"name"}) == entity.name; });
    if (at == page->queues.end()) {
      out.verdict = Verdict::kMissing;
      return;
    }
    out.verdict = queue_differs(entity, *at).empty() ? Verdict::kDone : Verdict::kDifferent;
    out.body = std::move(*at);
    return;
  }
  krm::Json echo = inner_object(value);
  if (!echo.is_object()) {
    return;
  }
  const krm::Json* id = echo.find("id");
  if (operation == Operation::kCreate && (id == nullptr || id->is_null())) {
    out.verdict = Verdict::kExists;  // BH-2: the echo is our own request
    return;
  }
  for (const std::string_view name : differing(entity, echo)) {
    out.text.append(out.text.empty() ? "" : ", ").append(name);
  }
  out.verdict = out.text.empty() ? Verdict::kDone : Verdict::kDifferent;
  if (!out.text.empty()) {
    out.text.append(" differs and cannot be changed");
  }
  out.body = std::move(echo);
}

void judge_divert(Operation operation, const DesiredEntity& entity, const krm::Json& value,
                  EntityOutcome& out) {
  if (operation != Operation::kRead) {
    out.verdict = Verdict::kDone;
    return;
  }
  if (!value.is_string()) {
    return;
  }
  const Attribute* forwarding = find_attribute(entity, "forwarding-address");
  const auto* asked =
      forwarding != nullptr ? std::get_if<std::string>(&forwarding->value) : nullptr;
  const bool same = asked != nullptr && *asked == value.as_string();
  out.body = krm::Json::object(
      {{"name", std::string_view(entity.name)}, {"forwarding-address", value.as_string()}});
  out.verdict = same ? Verdict::kDone : Verdict::kDifferent;
}

}  // namespace

bool says_full(std::string_view text) noexcept {
  return text.starts_with("amqp:resource-limit-exceeded");
}

Expected<krm::Json> broker_value(const ManagementReply& reply) {
  Said said = read_reply(reply);
  if (!said.is_answer) {
    return fail(Errc::kInvalid, std::move(said.text));
  }
  if (!said.succeeded) {
    const Errc code = is_forbidden(said.text) ? Errc::kForbidden : Errc::kUnavailable;
    return fail(code, wire::printable(said.text));
  }
  return std::move(said.value);
}

Expected<QueuePage> list_queues_page(const ManagementReply& reply) {
  auto value = broker_value(reply);
  if (!value) {
    return fail(std::move(value.error()));
  }
  krm::Json page = inner_object(*value);
  krm::Json* data = page.find("data");
  const krm::Json* count = page.find("count");
  if (data == nullptr || !data->is_array() || count == nullptr || !count->is_integer() ||
      count->as_integer() < 0) {
    return fail(Errc::kInvalid, "not a page of queues");
  }
  QueuePage out;
  out.count = count->as_integer();
  out.queues = std::move(data->edit_items());
  if (!std::all_of(out.queues.begin(), out.queues.end(), [](const krm::Json& one) {
        return one.is_object() && !one.text({"name"}).empty();
      })) {
    return fail(Errc::kInvalid, "a queue without a name");
  }
  return out;
}

std::vector<std::string_view> queue_differs(const DesiredEntity& queue, const krm::Json& listed) {
  DesiredEntity shown{queue.kind, queue.name, {}};
  krm::Json there = krm::Json::object();
  for (const auto& name : kQueueNames) {
    const Attribute* asked = find_attribute(queue, name.asked);
    if (asked == nullptr) {
      continue;
    }
    shown.attributes.push_back(*asked);
    if (const krm::Json* value = listed.find(name.listed)) {
      there[name.asked] = *value;
    }
  }
  return differing(shown, there);
}

namespace wire {

EntityOutcome broker_entity_outcome(Operation operation, const DesiredEntity& entity,
                                    const ManagementReply& reply) {
  EntityOutcome out;
  Said said = read_reply(reply);
  if (!said.is_answer) {
    out.text = std::move(said.text);
    return out;
  }
  if (!said.succeeded) {
    out.code = exception_number(said.text);
    out.verdict = refusal(operation, entity.kind, said.text);
    out.text = printable(said.text);
    return out;
  }
  out.code = 200;
  if (operation == Operation::kDelete) {
    out.verdict = Verdict::kDone;
    return out;
  }
  switch (entity.kind) {
    case EntityKind::kBrokerAddress:
      judge_address(operation, entity, std::move(said.value), out);
      break;
    case EntityKind::kQueue:
      judge_queue(operation, entity, reply, said.value, out);
      break;
    case EntityKind::kAddressSettings:
      // What is written is read back by its own request (BH-3).
      out.body = inner_object(said.value);
      out.verdict = operation != Operation::kRead ? Verdict::kDone
                    : out.body.is_object()        ? compared(entity, out.body)
                                                  : Verdict::kMalformed;
      break;
    default:
      judge_divert(operation, entity, said.value, out);
  }
  if (out.verdict == Verdict::kMalformed) {
    out.text = "an answer that is not of its operation";
  }
  return out;
}

}  // namespace wire

}  // namespace kintsugi::workers
