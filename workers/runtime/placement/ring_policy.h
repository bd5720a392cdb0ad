#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::workers {

/// Policy `ring`: which member owns which of the 1,024 virtual partitions of a role. Pure
/// functions. Source: RT-60, RT-63, RT-64, RT-68. Threads: any.
inline constexpr std::size_t kPartitions = 1024;
/// In owners: nobody. Never an index.
inline constexpr std::uint16_t kNobody = 0xFFFF;

/// Owner of each partition as an index into the members.
using Owners = std::array<std::uint16_t, kPartitions>;

struct RingMember {
  std::string id;
  std::string uid;       ///< decides the preference order; unique among the members
  bool leaving = false;  ///< gets nothing more; what it has moves while anybody stays
};

/// RT-60: xxh64 of the UTF-8 ring key, seed 0, modulo 1,024.
[[nodiscard]] std::uint16_t partition_of(std::string_view ring_key) noexcept;

/// What one member may hold (RT-63).
struct RingLimits {
  std::uint64_t weight = 0;      ///< max(ceil(1.25 x mean weight), heaviest single partition)
  std::uint64_t partitions = 0;  ///< ceil(1.25 x 1,024 / members that stay)
};
/// @param weights  keys per partition: 1,024 of them, or none (all 0).
[[nodiscard]] RingLimits ring_limits(std::span<const RingMember> members,
                                     std::span<const std::uint32_t> weights) noexcept;

/// Members that stay and hold more than a limit, ascending. One that is in here for 60 s is to be
/// named in `relieve` below (RT-64).
[[nodiscard]] std::vector<std::uint16_t> members_above_limit(
    std::span<const RingMember> members, std::span<const std::uint32_t> weights,
    std::span<const std::uint16_t> current);

/// Owners after a join, a leave, a death, or growth (RT-63, RT-64). In this order:
/// 1. join: a staying member that owns nothing in `current` takes those partitions of staying
///    members whose first preference it is, until it has the mean weight (of keys, and of
///    partitions);
/// 2. partitions of nobody and of leavers go, heaviest first, to the first preferred member that
///    stays below both limits with them; where none does, to the lightest;
/// 3. of each member in `relieve` the fewest partitions move that bring it to its limits, as far as
///    others have room below theirs.
/// All else stays. Without a staying member all stays. Equal input gives equal output; the order of
/// the members changes only the indexes.
/// @param members  at most 65,534. A dead member is not in it.
/// @param weights  as above.
/// @param current  1,024 indexes into `members` (where a partition is on its way: the next owner);
///                 anything not below members.size() is nobody. Of another size: nobody owns any.
/// @param relieve  indexes of members, see members_above_limit.
/// Cost: about 1,024 hashes per member.
[[nodiscard]] Owners assign(std::span<const RingMember> members,
                            std::span<const std::uint32_t> weights,
                            std::span<const std::uint16_t> current,
                            std::span<const std::uint16_t> relieve = {});

}  // namespace kintsugi::workers
