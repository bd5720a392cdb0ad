#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kintsugi::workers {

/// The Content Type property of a message. Lifetime: views into the text.
struct DeliveryContentType {
  std::uint32_t version = 0;
  std::string_view format, compression;  ///< "json"; "" or "gzip"
};

/// "v" 1*4DIGIT "/" format [ "+" compression ], at most 64 bytes, lower case, no blanks. nullopt:
/// it is none.
[[nodiscard]] std::optional<DeliveryContentType> parse_delivery_content_type(std::string_view text);

enum class DeliveryCodec : std::uint8_t { kJson, kJsonGzip };
inline constexpr std::string_view kJsonContentType = "v1/json";
inline constexpr std::string_view kGzipContentType = "v1/json+gzip";
/// nullopt: no type, no such type, or one that is not spoken here.
[[nodiscard]] std::optional<DeliveryCodec> delivery_codec(std::string_view content_type);

/// What unpacking may come to.
struct UnpackBounds {
  std::size_t bytes = std::size_t{4} << 20;
  std::size_t ratio = 100;  ///< of what comes out to what went in
};
/// The JSON text of a payload. @error kBadRequest: no gzip, cut, something behind it, or beyond the
/// bounds; never more is kept than they allow.
[[nodiscard]] Expected<std::string> unpack(DeliveryCodec codec, std::string_view payload,
                                           const UnpackBounds& bounds);
/// The same of a payload as it came, JSON where no type says otherwise.
[[nodiscard]] Expected<std::string> unpack(std::string_view content_type, std::string_view payload);
[[nodiscard]] std::string pack(DeliveryCodec codec, std::string_view json);

}  // namespace kintsugi::workers
