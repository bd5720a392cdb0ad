#pragma once

#include <cstdint>
#include <string_view>

namespace kintsugi {

/// A secret of this process for siphash().
struct SipKey {
  std::uint64_t low = 0, high = 0;
  /// A new one.
  [[nodiscard]] static SipKey random();
};

/// SipHash-2-4: who does not know the key can neither predict it nor find two texts that it maps to
/// the same. For tables whose keys clients choose. Threads: any.
[[nodiscard]] std::uint64_t siphash(const SipKey& key, std::string_view text) noexcept;

}  // namespace kintsugi
