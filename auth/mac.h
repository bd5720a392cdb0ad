#pragma once

#include <array>
#include <string_view>

namespace kintsugi::auth {

/// HMAC-SHA-256 (RFC 2104): keys of texts that clients bring back to us unchanged.
[[nodiscard]] std::array<unsigned char, 32> hmac_sha256(std::string_view key,
                                                        std::string_view bytes) noexcept;

/// Compares in a time that does not depend on where the texts differ.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b) noexcept;

}  // namespace kintsugi::auth
