#pragma once

#include <cstddef>

#include "base/time.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// What a logical cluster that moves may have: its rows arrive in one transaction, so that no crash
/// leaves half of them (GR-601).
inline constexpr std::size_t kMostMovedRows = 100'000;
inline constexpr std::size_t kMostMovedBytes = std::size_t{256} << 20;

/// The same where the destination's transactions are small, on etcd: they arrive in parts, the
/// LogicalCluster with the last of them, and writes wait meanwhile.
inline constexpr std::size_t kMostRowsInParts = 20'000;
inline constexpr std::size_t kMostBytesInParts = std::size_t{64} << 20;

/// So long no write of a logical cluster is taken at most, unless it is given away (GR-604).
inline constexpr Duration kLongestStop = seconds(5);

/// Of the transactions of a store that moves go to: beside the rows there are those that were left
/// from an earlier stay, pages, and the LogicalCluster in its new form.
inline constexpr std::size_t kBytesOfNotes = std::size_t{2} << 20;
[[nodiscard]] inline store::Limits move_limits() noexcept {
  constexpr std::size_t kNotes = 1'000;
  return {2 * kMostMovedRows + kNotes, 2 * kMostMovedBytes + kBytesOfNotes};
}

}  // namespace kintsugi::controlplane
