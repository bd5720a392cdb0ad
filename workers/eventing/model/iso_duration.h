#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kintsugi::workers {

/// A duration by ISO 8601 as Knative's delivery has it: "PT0.2S", "PT1M30S", "P1DT2H"; days of 24
/// hours, weeks; no months and years, which have no length. Fractions in the last part alone.
/// @returns milliseconds, rounded down, at most 2^53; nullopt: it is none
[[nodiscard]] std::optional<std::uint64_t> parse_iso_duration(std::string_view text) noexcept;

}  // namespace kintsugi::workers
