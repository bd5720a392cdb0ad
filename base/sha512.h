#pragma once

#include <array>
#include <string_view>

namespace kintsugi {

/// FIPS 180-4 SHA-512 in portable code: for content hashes (OpenAPI documents), not for TLS or
/// signatures, which use OpenSSL. Raw bytes; hex_encode() of base/strings.h gives text.
[[nodiscard]] std::array<unsigned char, 64> sha512(std::string_view bytes) noexcept;

}  // namespace kintsugi
