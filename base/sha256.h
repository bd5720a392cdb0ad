#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace kintsugi {

/// FIPS 180-4 digests in portable code (about 200 MB/s): for names and content hashes, not for TLS
/// or signatures, which use OpenSSL. Raw bytes; hex_encode() of base/strings.h gives text.
[[nodiscard]] std::array<unsigned char, 32> sha256(std::string_view bytes) noexcept;
[[nodiscard]] std::array<unsigned char, 28> sha224(std::string_view bytes) noexcept;

}  // namespace kintsugi
