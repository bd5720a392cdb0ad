#pragma once

#include <cstddef>

#include "store/store.h"

namespace kintsugi::controlplane {

/// What a logical cluster that moves may have: its rows arrive in one transaction, so that no crash
/// leaves half of them (GR-601).
inline constexpr std::size_t kMostMovedRows = 100'000;
inline constexpr std::size_t kMostMovedBytes = std::size_t{256} << 20;

/// Of the transactions of a store that moves go to.
[[nodiscard]] inline store::Limits move_limits() noexcept {
  constexpr std::size_t kNotes = 100, kBytesOfNotes = std::size_t{2} << 20;
  return {kMostMovedRows + kNotes, kMostMovedBytes + kBytesOfNotes};
}

}  // namespace kintsugi::controlplane
