#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "workers/delivery/protocol/status_message.h"

namespace kintsugi::workers {

/// A status as a hub reads it.
struct ReceivedStatus {
  std::string resource_generation_id = "null";  ///< JSON, byte for byte
  std::int64_t generation = 0;                  ///< `kintsugi-generation`; 0: does not say it
  std::uint64_t sequence = 0;                   ///< `kintsugi-seq`, likewise
  std::string hash;                             ///< `kintsugi-hash`, likewise
  std::vector<DeliveryCondition> conditions;
  krm::Json content_status;
  std::string json;  ///< unpacked

  /// Null: it has none of that type.
  [[nodiscard]] const DeliveryCondition* find(std::string_view type) const noexcept;
  [[nodiscard]] bool is_deleted() const noexcept;
};
/// @param user  properties of the message @error kBadRequest
[[nodiscard]] Expected<ReceivedStatus> parse_status(
    std::string_view content_type, std::string_view payload,
    const std::vector<std::pair<std::string, std::string>>& user);

}  // namespace kintsugi::workers
