#include "workers/messaging/model/internal/parse.h"

#include <algorithm>
#include <tuple>

#include "krm/annotations.h"
#include "krm/strict_time.h"

namespace kintsugi::workers {

std::string_view annotation_of(const krm::Json& object, std::string_view name) noexcept {
  const krm::Json* value = object.at({"metadata", "annotations", name});
  return value == nullptr ? std::string_view() : value->as_string();
}

ObjectIdentity parse_identity(const krm::Json& object) {
  ObjectIdentity id;
  id.cluster = annotation_of(object, krm::kClusterAnnotation);
  id.ns = object.text({"metadata", "namespace"});
  id.name = object.text({"metadata", "name"});
  id.uid = object.text({"metadata", "uid"});
  if (const auto at = krm::parse_rfc3339(object.text({"metadata", "creationTimestamp"}))) {
    id.created = at->seconds;
  }
  if (const krm::Json* generation = object.at({"metadata", "generation"})) {
    id.generation = generation->as_integer();
  }
  return id;
}

bool is_older(const ObjectIdentity& a, const ObjectIdentity& b) noexcept {
  return std::tie(a.created, a.uid, a.cluster, a.ns, a.name) <
         std::tie(b.created, b.uid, b.cluster, b.ns, b.name);
}

ObjectRef parse_ref(const Fields& owner, std::string_view key) {
  ObjectRef ref;
  const krm::Json* value = owner.member(key);
  if (value != nullptr && value->is_string()) {
    ref.name = value->as_string();
  } else if (value != nullptr) {
    const Fields fields = owner.object(key);
    ref.ns = fields.text("namespace");
    ref.name = fields.present() ? fields.required_text("name") : "";
  }
  return ref;
}

NamespaceSelector parse_selector(const Fields& spec) {
  NamespaceSelector selector;
  const Fields fields = spec.object("namespaceSelector");
  if (!fields.present()) {
    return selector;
  }
  selector.names = fields.texts("matchNames", 10'000);
  selector.any = fields.member("matchNames") == nullptr && !fields.has("matchLabels") &&
                 !fields.has("matchExpressions");  // {} selects everything
  selector.has_labels = fields.has("matchLabels") || fields.has("matchExpressions");
  if (selector.has_labels) {
    krm::Json labels = krm::Json::object();
    for (const std::string_view key : {"matchLabels", "matchExpressions"}) {
      if (fields.has(key)) {
        labels[key] = *fields.member(key);
      }
    }
    Expected<krm::Selector> parsed = krm::Selector::from_json(labels);
    if (!parsed) {
      spec.problem("namespaceSelector", parsed.error().message());
      selector.has_labels = false;  // never "everything"
    } else {
      selector.labels = std::move(*parsed);
    }
  }
  return selector;
}

bool parse_transactions(const Fields& spec) {
  const std::vector<std::string> list = spec.texts("capabilities", 64);
  bool found = false;
  for (const std::string& item : list) {
    if (item == "transactions" || item == "transactional") {
      found = true;
    } else {
      spec.problem("capabilities", "must be one of transactions");
    }
  }
  return found;
}

AddressSettings parse_settings(const Fields& spec) {
  AddressSettings out;
  const Fields requests = spec.object("resources").object("requests");
  const Fields limits = spec.object("resources").object("limits");
  out.requests_depth = requests.quantity("queueDepth");
  out.requests_memory = requests.quantity("queueMemory");
  out.limits_depth = limits.quantity("queueDepth");
  out.limits_memory = limits.quantity("queueMemory");
  const Fields queue = spec.object("queue");
  const Fields partitions = queue.object("partitions");
  out.partitions_min = partitions.integer("min", 1, 16);
  out.partitions_max = partitions.integer("max", 1, 16);
  if (out.partitions_max && *out.partitions_max < out.partitions_min.value_or(1)) {
    partitions.problem("max", "must be at least min");
  }
  out.ttl_ms = queue.duration_ms("ttl");
  // The tenant's front names the two after what they are.
  out.expiry_queue = queue.text(queue.has("expiryQueue") ? "expiryQueue" : "expiryAddress");
  out.dead_letter_queue =
      queue.text(queue.has("deadLetterQueue") ? "deadLetterQueue" : "deadLetterAddress");
  return out;
}

void check_settings(const AddressSettings& settings, const Fields& spec) {
  const auto above = [&](const std::optional<std::int64_t>& request,
                         const std::optional<std::int64_t>& limit, std::string_view field) {
    if (request && limit && *request > *limit) {
      spec.problem(field, "must not be above the limit");
    }
  };
  above(settings.requests_depth, settings.limits_depth, "resources.requests.queueDepth");
  above(settings.requests_memory, settings.limits_memory, "resources.requests.queueMemory");
}

}  // namespace kintsugi::workers
