#pragma once

#include <array>
#include <string_view>

namespace kintsugi {

/// FIPS 180-4 SHA-1, raw bytes: for the WebSocket handshake, which names it. Nothing may rely on it
/// against forgery.
[[nodiscard]] std::array<unsigned char, 20> sha1(std::string_view bytes) noexcept;

}  // namespace kintsugi
