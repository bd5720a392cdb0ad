#pragma once

#include <array>
#include <string>
#include <string_view>

namespace kintsugi {

/// FIPS 180-4 digests by OpenSSL: for names and content hashes. Raw bytes. MACs and signatures are
/// in auth/.
/// Threads: any; each keeps one context per algorithm, and nothing is locked after the first call.
/// An OpenSSL without the algorithm, or no memory for a context, ends the process.
[[nodiscard]] std::array<unsigned char, 32> sha256(std::string_view bytes) noexcept;
[[nodiscard]] std::array<unsigned char, 28> sha224(std::string_view bytes) noexcept;
[[nodiscard]] std::array<unsigned char, 64> sha512(std::string_view bytes) noexcept;
/// @{ SHA-256 as text, for keys, names and tags: 32 raw bytes, or 64 lower-case hex digits.
[[nodiscard]] std::string sha256_text(std::string_view bytes);
[[nodiscard]] std::string sha256_hex(std::string_view bytes);
/// @}
/// For the WebSocket handshake, which names it. Nothing may rely on it against forgery.
[[nodiscard]] std::array<unsigned char, 20> sha1(std::string_view bytes) noexcept;

}  // namespace kintsugi
