#pragma once

#include <cstddef>

/// Counts of a head that no configuration changes (SE-084); sizes are in SessionLimits.
namespace kintsugi::http {

inline constexpr std::size_t kMaxFields = 256;  ///< above: 431
/// Of a peer that speaks for many, and brings up to 1,000 groups of each of them (SE-087).
inline constexpr std::size_t kMaxFieldsOfMany = 1'000 + kMaxFields;
inline constexpr std::size_t kHeadsOfMany = 4;            ///< times as many bytes of such a head
inline constexpr std::size_t kMaxConnectionOptions = 64;  ///< HTTP/1.1 `Connection`, above: 400

}  // namespace kintsugi::http
