#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"

namespace kintsugi::workers {

struct DeliveryCondition {
  std::string type;  ///< "Reconciled", "Deleted"
  bool holds = false;
  std::string reason, message;
  bool operator==(const DeliveryCondition&) const = default;
};

/// What an agent tells of an object. Source: CM-16, CM-18, CM-21.
struct DeliveryStatus {
  std::optional<std::int64_t> observed_generation;  ///< the target's
  std::string creation_timestamp;                   ///< the target's, "": there is none
  std::vector<DeliveryCondition> conditions;
  krm::Json content_status;  ///< the target's .status, null without
};

/// Longest message of a condition, and largest contentStatus [bytes].
inline constexpr std::size_t kMaxConditionMessage = 1'024;
inline constexpr std::size_t kMaxContentStatus = std::size_t{256} << 10;

/// Cuts messages where a character begins, takes a contentStatus that is too large out, and says
/// so in the message of the first condition.
void bound_status(DeliveryStatus& status);

/// {"sentTimestamp", "resourceGenerationID", "reconcileStatus", "contentStatus"}.
/// @param resource_generation_id  JSON, goes out byte for byte
[[nodiscard]] std::string encode_status(const DeliveryStatus& status,
                                        std::string_view resource_generation_id,
                                        std::int64_t sent_timestamp);
/// SHA-256 in hex of reconcileStatus and contentStatus with their members in order (RFC 8785).
[[nodiscard]] std::string status_hash(const DeliveryStatus& status);

}  // namespace kintsugi::workers
