#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "workers/runtime/placement/ring_policy.h"

namespace kintsugi::workers {

/// Fixed for the life of an installation. Source: RT-60.
inline constexpr std::size_t kRingPartitions = kPartitions;
/// An owner or next that is nobody.
inline constexpr std::uint16_t kNoMember = kNobody;
/// More members than partitions would only wait.
inline constexpr std::size_t kMaxRingMembers = 1'024;
/// Largest epoch of a partition, and one that can still be raised.
inline constexpr std::uint32_t kMaxRingEpoch = 0xFFFF'FFFE;
/// Largest generation: JSON readers keep integers up to here.
inline constexpr std::uint64_t kMaxRingGeneration = (std::uint64_t{1} << 53U) - 1;

using PartitionId = std::uint16_t;

/// One member of the ring: the identity in its Lease's name and that Lease's uid. Another uid is
/// another member, since its earlier self may have been taken for dead.
struct RingTableMember {
  enum class State : std::uint8_t {
    kActive,
    kLeaving,      ///< gets nothing new
    kUnconfirmed,  ///< of a rebuilt table: may still act as an older table said
  };
  std::string id;
  std::string uid;
  State state = State::kActive;
  bool operator==(const RingTableMember&) const = default;
};

struct RingSlot {
  std::uint16_t owner = kNoMember;  ///< index into members
  std::uint16_t next = kNoMember;   ///< who gets it when the owner has stopped
  std::uint32_t epoch = 0;          ///< of the owner; only rises
  bool operator==(const RingSlot&) const = default;
};

/// Who owns which partition: `data.ring` of the ConfigMap `ring-<role>`. Source: RT-62.
/// Text: JSON {"version": 1, "generation", "members": [{"id", "uid", "state"}], "partitions"}, the
/// last base64 of 1,024 × {owner u16, next u16, epoch u32}, little endian, 8 KiB before base64.
/// A missing version is 1. Threads: as an int.
struct RingTable {
  std::uint64_t generation = 0;  ///< of each writing; 0: there is no table yet
  std::vector<RingTableMember> members;
  std::array<RingSlot, kRingPartitions> slots{};

  bool operator==(const RingTable&) const = default;
  /// Index of a member, kNoMember when it is not in the table.
  [[nodiscard]] std::uint16_t find(std::string_view id, std::string_view uid) const noexcept;
  [[nodiscard]] std::uint32_t highest_epoch() const noexcept;
  /// A partition without owner: the table was rebuilt and is not settled.
  [[nodiscard]] bool has_ownerless() const noexcept;
  /// Partitions that wait for another owner.
  [[nodiscard]] std::size_t moving() const noexcept;

  [[nodiscard]] std::string encode() const;
  /// @error kCorrupt  anything but such a text: no JSON, unknown version, generation 0 or too
  ///                  large, wrong length, an index without member, a member twice, an unknown
  ///                  state, more than 1,024 members. The message names it.
  [[nodiscard]] static Expected<RingTable> parse(std::string_view text);
};

/// Whether `next` may follow `before` (generation 0: anything may). Members may change places.
/// @error kCorrupt  the generation does not rise, an epoch goes back, or a partition got another
///                  owner without a higher epoch.
[[nodiscard]] Expected<void> check_successor(const RingTable& before, const RingTable& next);

/// A ConfigMap around a table. @param rv  precondition of an update; "": body of a create.
[[nodiscard]] krm::Json ring_config_map(std::string_view name, std::string_view rv,
                                        const RingTable& table);
/// `data.ring` of a ConfigMap; "" when there is none. Points into `object`.
[[nodiscard]] std::string_view ring_text(const krm::Json& object) noexcept;

/// "ring-<role>", the ConfigMap's name; "ring-<role>-coordinator" and "ring-<role>-<identity>",
/// those of the Leases. Source: RT-61, RT-62.
[[nodiscard]] std::string ring_name(std::string_view role);
[[nodiscard]] std::string coordinator_lease_name(std::string_view role);
[[nodiscard]] std::string member_lease_name(std::string_view role, std::string_view identity);
/// Identity in a member Lease's name; "" when it is none of this role's.
[[nodiscard]] std::string_view member_identity(std::string_view role,
                                               std::string_view lease_name) noexcept;

}  // namespace kintsugi::workers
