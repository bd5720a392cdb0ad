#pragma once

#include <cstddef>

namespace kintsugi {

/// Asks the processor for the first `lines` cache lines of something that is about to be used: one
/// of many that were not touched for a while. A wrong or null address does no harm.
inline void fetch_ahead(const void* address, std::size_t lines) noexcept {
  constexpr std::size_t kLine = 64;
  const char* at = static_cast<const char*>(address);
  for (std::size_t i = 0; i < lines; ++i) {
    __builtin_prefetch(at + i * kLine);
  }
}

}  // namespace kintsugi
