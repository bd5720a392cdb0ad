#pragma once

#include <string>
#include <string_view>

namespace kintsugi::auth {

/// ECDSA signatures have two forms: JWS puts the two integers one after the other (RFC 7518 section
/// 3.4), OpenSSL speaks DER. @param width bytes of an integer: 32 of P-256. @returns "" when the
/// signature has not that form.
[[nodiscard]] std::string ecdsa_der(std::string_view jws, int width);
[[nodiscard]] std::string ecdsa_jws(std::string_view der, int width);

}  // namespace kintsugi::auth
