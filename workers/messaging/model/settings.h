#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

/// Address settings of a broker as they are written; absent ones are not written. Sizes in
/// bytes, delays in ms.
struct BrokerSettings {
  std::optional<std::int64_t> max_size_bytes, page_size_bytes, max_size_messages;
  std::optional<std::int64_t> expiry_delay, min_expiry_delay, max_expiry_delay;
  std::optional<std::string> full_policy, expiry_address, dead_letter_address;
  [[nodiscard]] bool empty() const noexcept { return *this == BrokerSettings(); }
  bool operator==(const BrokerSettings&) const = default;
};

/// What of the world an address's settings depend on.
struct SettingsInput {
  AddressType type = AddressType::kQueue;
  const AddressPlan* plan = nullptr;  ///< null: the built-in empty one
  const EffectiveSettings* effective = nullptr;
  std::optional<std::int64_t> space_memory;  ///< limits.queueMemory of the space's plan (MD-12)
  FullPolicy policy = FullPolicy::kFail;     ///< of the infra
  std::string_view space_id;
  bool transactional = false;
  /// N of the two targets, "" for none.
  std::string_view expiry_name, dead_letter_name;
  /// N that was recorded, "" for a new address: it never changes.
  std::string_view recorded;
};

struct SettingsChoice {
  std::string broker_name;     ///< N
  std::string settings_class;  ///< to be written before the queue, "" for none
  BrokerSettings of_class;
  std::optional<BrokerSettings> exact;  ///< written for this address alone
};
/// Which settings an address gets, and by what match (MD-10, MD-11, MD-12, MD-15).
/// @param qualified  Q.
[[nodiscard]] SettingsChoice choose_settings(const SettingsInput& input,
                                             std::string_view qualified);

}  // namespace kintsugi::workers
