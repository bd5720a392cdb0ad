#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

// Names that components see. All are functions of their inputs alone: a restart, or another
// process, gives the same ones. Source: MD-14, MD-15, MH-4, MH-9. Threads: any.

/// The first `letters` (at most 51) base32 characters of the SHA-256 of a text, a-z and 2-7.
[[nodiscard]] std::string hash_letters(std::string_view text, std::size_t letters);

/// MD-14. A DNS label of 15 to 54 bytes.
[[nodiscard]] std::string space_id(std::string_view cluster, std::string_view ns,
                                   std::string_view name);

/// Q, the address as routers know it: `<spaceId>/<address>`.
[[nodiscard]] std::string qualified_address(std::string_view space_id, std::string_view address);

/// Two addresses with one key are the same to a router (MH-9). `.` may stand in a space's id never,
/// so keys of different spaces differ.
[[nodiscard]] std::string conflict_key(std::string_view qualified);

/// N, the address as brokers know it: Q, behind the class if it has one.
[[nodiscard]] std::string broker_name(std::string_view settings_class, std::string_view qualified);
/// The name of a queue on another address: `<address>::<queue>`.
[[nodiscard]] std::string full_queue_name(std::string_view address, std::string_view queue);

/// The class of a plan's settings: `c` and 9 characters.
/// @param space_id  "" unless the settings name addresses of that space, or are bounded by it.
[[nodiscard]] std::string settings_class_name(std::string_view plan_uid, std::string_view space_id);
/// Whether a broker address begins with a class; then that, without the dot.
[[nodiscard]] std::string_view class_of(std::string_view broker_name) noexcept;

/// The owner in entity names: the shard's name if it is at most 40 of [a-z0-9-], else its hash.
[[nodiscard]] std::string owner_name(std::string_view shard);

/// The shard of an endpoint: the segment behind "/shards/" of its URL's path, wherever the proxy
/// is. A URL without one names a shard by its whole.
[[nodiscard]] std::string_view shard_of_endpoint(std::string_view url) noexcept;

enum class EntityKind : std::uint8_t {
  kAddress,
  kAutoLink,
  kLinkRoute,
  kConnector,
  kListener,
  kSslProfile,
  kVhost,
  kBrokerAddress,
  kQueue,
  kAddressSettings,
  kDivert
};
inline constexpr std::size_t kEntityKinds = 11;
/// "addr", "al", "lr", "con", "lis", "ssl", "vh"; "" for those of brokers, which have no such
/// names.
[[nodiscard]] std::string_view entity_kind_text(EntityKind kind) noexcept;

inline constexpr std::size_t kMaxEntityName = 100;  ///< of ours
inline constexpr std::size_t kMaxRouterName = 200;  ///< of any (MH-4): nothing longer may be sent

/// What an entity's name says of its object: uid, or `cluster|ns|name` without one.
[[nodiscard]] std::string entity_identity(const ObjectIdentity& id);
/// `ktg.<owner>.<kind>.<26 characters>`. Shape: at most 76 bytes.
/// @param host       the broker, group or pattern that this one is for; "" for none.
/// @param direction  "in", "out" or "".
[[nodiscard]] std::string entity_name(std::string_view owner, EntityKind kind,
                                      std::string_view identity, std::string_view host = {},
                                      std::string_view direction = {});
/// Whether the entity is one of ours, so that it may be deleted when nothing wants it.
[[nodiscard]] bool is_own_entity(std::string_view owner, std::string_view name) noexcept;

}  // namespace kintsugi::workers
