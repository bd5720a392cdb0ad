#pragma once

#include <cstddef>

/// Counts of a head that no configuration changes (SE-084); sizes are in SessionLimits.
namespace kintsugi::http {

inline constexpr std::size_t kMaxFields = 256;            ///< above: 431
inline constexpr std::size_t kMaxConnectionOptions = 64;  ///< HTTP/1.1 `Connection`, above: 400

}  // namespace kintsugi::http
