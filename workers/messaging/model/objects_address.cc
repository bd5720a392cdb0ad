// Addresses of both fronts, and the settings that hold for them (3.4, MD-8, MD-10, MD-11).
#include <algorithm>

#include "base/strings.h"
#include "workers/messaging/model/internal/parse.h"

namespace kintsugi::workers {

namespace {

constexpr std::size_t kMostQualifiedBytes = 253;

void parse_forwarders(const Fields& spec, Parsed<MessagingAddress>& parsed, AddressExtras& extras) {
  const AddressType type = parsed.object.type;
  for (const Fields& item : spec.objects("forwarders", 16)) {
    Forwarder one;
    one.name = item.required_text("name");
    one.out = item.choice("direction", {"in", "out"}, 0) == 1;
    const std::string remote = item.required_text("remoteAddress");
    const std::size_t slash = remote.find('/');
    if (slash == 0 || slash == std::string::npos || slash + 1 == remote.size()) {
      item.problem("remoteAddress", "must be <connector>/<address>");
      continue;
    }
    one.connector = remote.substr(0, slash);
    one.remote = remote.substr(slash + 1);
    if (type != AddressType::kQueue && !(type == AddressType::kSubscription && one.out)) {
      item.problem("direction", type == AddressType::kSubscription
                                    ? "subscriptions forward out only"
                                    : "only queues and subscriptions forward");
      continue;
    }
    extras.forwarders.push_back(std::move(one));
  }
}

/// MessagingAddress says its type by the member that it has.
Fields type_of_member(const Fields& spec, MessagingAddress& out) {
  constexpr std::string_view kTypes[] = {"anycast", "multicast",    "queue",
                                         "topic",   "subscription", "deadLetter"};
  int found = 0;
  for (std::size_t i = 0; i < std::size(kTypes); ++i) {
    if (spec.object(kTypes[i]).present()) {
      ++found;
      out.type = static_cast<AddressType>(i);
    }
  }
  if (found != 1) {
    spec.problem("queue",
                 "exactly one of anycast, multicast, queue, topic, subscription, "
                 "deadLetter is needed");
  }
  return spec.object(address_type_text(out.type));
}

/// The name of the first member that `of` sets, "" for none.
std::string_view first_override(const AddressSettings& of) {
  return of.requests_depth               ? "spec.resources.requests.queueDepth"
         : of.requests_memory            ? "spec.resources.requests.queueMemory"
         : of.limits_depth               ? "spec.resources.limits.queueDepth"
         : of.limits_memory              ? "spec.resources.limits.queueMemory"
         : of.partitions_min             ? "spec.queue.partitions.min"
         : of.partitions_max             ? "spec.queue.partitions.max"
         : of.ttl_ms                     ? "spec.queue.ttl"
         : !of.expiry_queue.empty()      ? "spec.queue.expiryQueue"
         : !of.dead_letter_queue.empty() ? "spec.queue.deadLetterQueue"
                                         : "";
}

Condition not_validated(std::string_view reason, std::string message) {
  return unsupported("Validated", reason, std::move(message));
}

}  // namespace

std::string_view address_type_text(AddressType type) noexcept {
  switch (type) {
    case AddressType::kAnycast:
      return "anycast";
    case AddressType::kMulticast:
      return "multicast";
    case AddressType::kQueue:
      return "queue";
    case AddressType::kTopic:
      return "topic";
    case AddressType::kSubscription:
      return "subscription";
    case AddressType::kDeadLetter:
      return "deadLetter";
  }
  return "anycast";
}

const AddressExtras& MessagingAddress::extra() const noexcept {
  static const AddressExtras kNone;
  return extras == nullptr ? kNone : *extras;
}

std::string_view address_fault(std::string_view address, AddressType type,
                               std::size_t space_id_bytes) noexcept {
  if (address.empty()) {
    return "is required";
  }
  if (space_id_bytes + 1 + address.size() > kMostQualifiedBytes) {
    return "is longer than 253 bytes together with the id of its space";
  }
  if (address.front() == '$') {
    return "must not begin with $";
  }
  if (!is_valid_utf8(address)) {
    return "must be UTF-8";
  }
  for (const char c : address) {
    if (static_cast<unsigned char>(c) <= 0x20 || static_cast<unsigned char>(c) == 0x7f) {
      return "must have no blanks or control characters";
    }
  }
  if (is_broker_type(type) && address.find("::") != std::string_view::npos) {
    return "must have no ::";  // divides address and queue in names of brokers
  }
  while (true) {  // MH-9: both characters are one separator
    const std::size_t end = address.find_first_of("./");
    const std::string_view segment = address.substr(0, end);
    if (segment.empty()) {
      return "must have no empty segment between . and /";
    }
    if (segment == "*" || segment == "#") {
      return "must have no segment * or #";
    }
    if (end == std::string_view::npos) {
      return "";
    }
    address.remove_prefix(end + 1);
  }
}

Parsed<MessagingAddress> parse_address(const krm::Json& object) {
  Parsed<MessagingAddress> parsed;
  MessagingAddress& out = parsed.object;
  FieldProblems problems;
  AddressExtras extras;
  out.id = parse_identity(object);
  const krm::Json* deleted = object.at({"metadata", "deletionTimestamp"});
  out.deleting = deleted != nullptr && !deleted->is_null();
  out.reschedule = annotation_of(object, "enmasse.io/reschedule") == "true";
  const Fields spec = Fields(&object, "", problems).object("spec");
  out.plan = spec.text("plan");
  if (object.text({"kind"}) == "MessagingAddress") {
    out.address = spec.text("address", out.id.name);
    const Fields own = type_of_member(spec, out);
    out.topic = own.text("topic");
    out.max_consumers =
        static_cast<std::int32_t>(own.integer("maxConsumers", 1, 2'147'483'647).value_or(1));
    // Its member is what spec.queue is elsewhere.
    if (out.type == AddressType::kQueue || out.type == AddressType::kDeadLetter) {
      const krm::Json aside = krm::Json::object(
          {{"queue", spec.copy(address_type_text(out.type), krm::Json::Type::kObject)},
           {"resources", spec.copy("resources", krm::Json::Type::kObject)}});
      const Fields fields(&aside, "spec", problems);
      extras.overrides = parse_settings(fields);
      check_settings(extras.overrides, fields);
    }
  } else {
    if (const std::size_t dot = out.id.name.find('.'); dot != std::string::npos) {
      out.space = out.id.name.substr(0, dot);
    }
    out.address = spec.text("address");
    (void)spec.required_text("type");
    out.type = static_cast<AddressType>(spec.choice(
        "type", {"anycast", "multicast", "queue", "topic", "subscription", "deadLetter"}, 0));
    out.topic = spec.text("topic");
    out.max_consumers = static_cast<std::int32_t>(
        spec.object("subscription").integer("maxConsumers", 1, 2'147'483'647).value_or(1));
    extras.overrides = parse_settings(spec);
    check_settings(extras.overrides, spec);
  }
  const Fields ttl = spec.object("messageTtl");
  extras.ttl_minimum_ms = ttl.integer("minimum", 1, 9'223'372'036'854);
  extras.ttl_maximum_ms = ttl.integer("maximum", 1, 9'223'372'036'854);
  if (extras.ttl_minimum_ms && extras.ttl_maximum_ms &&
      *extras.ttl_minimum_ms > *extras.ttl_maximum_ms) {
    ttl.problem("minimum", "must not be above maximum");
  }
  if (out.type == AddressType::kSubscription && out.topic.empty()) {
    spec.problem("topic", "is required");
  }
  parse_forwarders(spec, parsed, extras);
  if (extras.overrides != AddressSettings() || extras.ttl_minimum_ms || extras.ttl_maximum_ms ||
      !extras.forwarders.empty()) {
    out.extras = std::make_unique<AddressExtras>(std::move(extras));
  }
  if (const std::string_view fault = address_fault(out.address, out.type, 0); !fault.empty()) {
    refuse(parsed, "Validated", "InvalidAddress", "spec.address: " + std::string(fault));
  }
  finish(parsed, "Validated", problems, out.id.generation);
  return parsed;
}

EffectiveSettings effective_settings(const MessagingAddress& address, const AddressPlan* plan) {
  EffectiveSettings out;
  const AddressExtras& extra = address.extra();
  const AddressSettings& own = extra.overrides;
  if (plan != nullptr && plan->type != address.type) {
    out.refused =
        not_validated("PlanTypeMismatch", "spec.plan: plan " + plan->id.name + " is for " +
                                              std::string(address_type_text(plan->type)));
    return out;
  }
  if (plan != nullptr) {
    out.settings = plan->settings;
  }
  const std::string_view field = first_override(own);
  if (!field.empty() && plan != nullptr && !plan->allow_overrides) {
    out.refused = not_validated("OverridesForbidden", std::string(field) + ": plan " +
                                                          plan->id.name + " forbids overrides");
    return out;
  }
  AddressSettings& all = out.settings;
  const auto over = [](auto& to, const auto& from) {
    if (from) {
      to = from;
    }
  };
  over(all.requests_depth, own.requests_depth);
  over(all.requests_memory, own.requests_memory);
  over(all.limits_depth, own.limits_depth);
  over(all.limits_memory, own.limits_memory);
  over(all.partitions_min, own.partitions_min);
  over(all.partitions_max, own.partitions_max);
  over(all.ttl_ms, own.ttl_ms);
  all.expiry_queue = own.expiry_queue.empty() ? all.expiry_queue : own.expiry_queue;
  all.dead_letter_queue =
      own.dead_letter_queue.empty() ? all.dead_letter_queue : own.dead_letter_queue;
  if (extra.ttl_maximum_ms) {
    all.ttl_ms = std::min(all.ttl_ms.value_or(*extra.ttl_maximum_ms), *extra.ttl_maximum_ms);
  }
  out.ttl_minimum_ms = extra.ttl_minimum_ms;
  if (out.ttl_minimum_ms && all.ttl_ms) {
    out.ttl_minimum_ms = std::min(*out.ttl_minimum_ms, *all.ttl_ms);
  }
  out.overridden = !field.empty() || extra.ttl_minimum_ms || extra.ttl_maximum_ms;
  // Of the two sources one may now contradict the other.
  const auto bad = [&out](std::string_view where, std::string_view what) {
    out.refused = not_validated("InvalidField", std::string(where) + ": " + std::string(what));
  };
  if (all.requests_depth && all.limits_depth && *all.requests_depth > *all.limits_depth) {
    bad("spec.resources.requests.queueDepth", "must not be above the limit");
  } else if (all.requests_memory && all.limits_memory &&
             *all.requests_memory > *all.limits_memory) {
    bad("spec.resources.requests.queueMemory", "must not be above the limit");
  } else if (all.partitions_min.value_or(1) > all.partitions_max.value_or(std::max<std::int64_t>(
                                                  1, all.partitions_min.value_or(1)))) {
    bad("spec.queue.partitions.min", "must not be above max");
  } else if (address.type == AddressType::kTopic && all.partitions_max.value_or(1) > 1) {
    out.refused = not_validated("ShardedTopicNotSupported",
                                "spec.queue.partitions.max: topics have one partition");
  } else if (!all.expiry_queue.empty() && all.expiry_queue == address.address) {
    out.refused = not_validated("TargetCycle", "spec.queue.expiryQueue: is the address itself");
  } else if (!all.dead_letter_queue.empty() && all.dead_letter_queue == address.address) {
    out.refused = not_validated("TargetCycle", "spec.queue.deadLetterQueue: is the address itself");
  }
  return out;
}

}  // namespace kintsugi::workers
