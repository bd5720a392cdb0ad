#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kintsugi::proxy {

/// What a request target is before anything is looked up (specs/front-proxy.md section 4 step 2,
///
enum class PathVerdict : std::uint8_t {
  kClean,
  kUnclean,    ///< empty or dot segments, also as %2e: 307 to the cleaned path
  kMalformed,  ///< broken escapes anywhere; control bytes, or separators hidden in escapes, below a
               ///< cluster
};

/// @param target path and query as sent. O(length), allocates nothing for clean paths.
[[nodiscard]] PathVerdict judge_path(std::string_view target) noexcept;

/// The cleaned path with the query of an unclean target, for the Location header.
[[nodiscard]] std::string clean_location(std::string_view target);

/// Which byte of a malformed target is at fault, in words.
[[nodiscard]] std::string malformed_reason(std::string_view target);

/// Decoded path without query, as messages show it; what cannot be decoded stays.
[[nodiscard]] std::string shown_path(std::string_view target);

/// True when the target asks for a watch: `watch` in the query with any value but false and 0, or
/// the deprecated /watch/ path form.
[[nodiscard]] bool is_watch(std::string_view target) noexcept;

}  // namespace kintsugi::proxy
