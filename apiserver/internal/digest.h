#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace kintsugi::apiserver::internal {

/// SHA-256 of base/digest.h as text. For names and tags, not for secrets.
[[nodiscard]] std::string sha256(std::string_view text);      ///< 32 raw bytes
[[nodiscard]] std::string sha256_hex(std::string_view text);  ///< 64 lower-case hex digits

}  // namespace kintsugi::apiserver::internal
