#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "workers/runtime/queue/keyed_queue.h"
#include "workers/runtime/unit/unit.h"

namespace kintsugi::workers {

/// The kinds that the role reads; all but the last are those of configs/messaging.
enum class MessagingKind : std::uint8_t {
  kInfra,
  kAddressSpacePlan,
  kMessagingPlan,
  kAddressPlan,
  kMessagingAddressPlan,
  kAddressSpace,
  kTenant,
  kProject,
  kAddress,
  kMessagingAddress,
  kEndpoint,
  kConnector,
  kNamespace,
};
inline constexpr std::size_t kMessagingKinds = 13;

[[nodiscard]] const Resource& resource_of(MessagingKind kind) noexcept;
/// Of controllers, for logs and metrics: "addressspace".
[[nodiscard]] std::string controller_name(MessagingKind kind);
/// Path of an object. @param subresource  "", "/status"
[[nodiscard]] std::string object_path(MessagingKind kind, const QueueKey& key,
                                      std::string_view subresource = {});

/// Kept on every object that has something at components.
inline constexpr std::string_view kMessagingFinalizer = "enmasse.io/kintsugi";
}  // namespace kintsugi::workers
