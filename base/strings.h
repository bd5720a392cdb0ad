#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kintsugi {

/// Splits at every `separator`; "" gives one empty part. The parts point into `text`.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);
[[nodiscard]] std::string to_lower(std::string_view text);  ///< ASCII only
[[nodiscard]] bool equals_ignore_case(std::string_view a,
                                      std::string_view b) noexcept;   ///< ASCII only
[[nodiscard]] std::string_view trim(std::string_view text) noexcept;  ///< spaces and tabs

/// Decimal digits only, no sign, no blanks, no overflow; nullopt otherwise.
template <class Integer = std::uint64_t>
[[nodiscard]] std::optional<Integer> parse_decimal(std::string_view text) noexcept {
  Integer value{};
  if (text.empty() || text.front() < '0' || text.front() > '9') {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

/// %XX decoding; nullopt for a broken escape. `+` stays unless `plus_is_space`.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text,
                                                        bool plus_is_space = false);
/// Everything but unreserved characters (RFC 3986) becomes %XX, upper-case hex.
[[nodiscard]] std::string percent_encode(std::string_view text);

[[nodiscard]] std::string base64_encode(std::string_view bytes);
[[nodiscard]] std::optional<std::string> base64_decode(
    std::string_view text);  ///< standard alphabet, padding required
[[nodiscard]] std::string base64url_encode(std::string_view bytes);  ///< no padding
[[nodiscard]] std::optional<std::string> base64url_decode(
    std::string_view text);                                    ///< padding optional
[[nodiscard]] std::string hex_encode(std::string_view bytes);  ///< lower case
[[nodiscard]] bool is_valid_utf8(std::string_view text) noexcept;

/// "2d3h5m" style Go durations ("1h30m", "1.5s", "300ms"); nullopt when malformed or without unit.
[[nodiscard]] std::optional<std::int64_t> parse_go_duration_ns(std::string_view text);

/// Random lower-case UUID (version 4).
[[nodiscard]] std::string random_uuid();
/// `length` random characters of the alphabet that Kubernetes uses for generated names.
[[nodiscard]] std::string random_suffix(std::size_t length);
/// `length` cryptographically random bytes.
[[nodiscard]] std::string random_bytes(std::size_t length);

/// For unordered containers keyed by std::string that are searched by string_view.
struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const noexcept {
    return std::hash<std::string_view>{}(text);
  }
};
template <class Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

}  // namespace kintsugi
