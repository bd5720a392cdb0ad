#pragma once

#include <string_view>

#include "workers/messaging/model/condition_of.h"
#include "workers/messaging/model/internal/fields.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

/// metadata; the cluster from annotation kcp.io/cluster.
[[nodiscard]] ObjectIdentity parse_identity(const krm::Json& object);
[[nodiscard]] std::string_view annotation_of(const krm::Json& object,
                                             std::string_view name) noexcept;
/// A string, or {name, namespace}.
[[nodiscard]] ObjectRef parse_ref(const Fields& owner, std::string_view key);
[[nodiscard]] NamespaceSelector parse_selector(const Fields& spec);
/// Capabilities: whether `transactions` (or its alias) is among them; others are problems.
[[nodiscard]] bool parse_transactions(const Fields& spec);
[[nodiscard]] AddressSettings parse_settings(const Fields& spec);
/// resources and queue of a plan or an address, and their bounds among each other.
void check_settings(const AddressSettings& settings, const Fields& spec);
[[nodiscard]] Parsed<MessagingEndpoint> parse_space_endpoint(const Fields& fields,
                                                             const ObjectIdentity& space);
[[nodiscard]] Parsed<MessagingConnector> parse_connector_fields(const Fields& fields,
                                                                bool allow_local);

/// Adds `type`=False and makes the object invalid, when there are problems.
template <class Object>
void refuse(Parsed<Object>& parsed, std::string_view type, std::string_view reason,
            std::string message) {
  parsed.valid = false;
  parsed.conditions.push_back(refusal(type, reason, std::move(message)));
}

/// A condition that makes nothing invalid.
[[nodiscard]] inline Condition unsupported(std::string_view type, std::string_view reason,
                                           std::string message) {
  return refusal(type, reason, std::move(message));
}

template <class Object>
void finish(Parsed<Object>& parsed, std::string_view type, const FieldProblems& problems,
            std::int64_t generation) {
  if (!problems.empty()) {
    refuse(parsed, type, "InvalidField", problems.text());
  }
  for (Condition& condition : parsed.conditions) {
    condition.observed_generation = generation;
  }
}

}  // namespace kintsugi::workers
