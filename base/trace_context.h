#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// What requests carry of the trace that they are part of. Source: W3C Trace Context, header
/// `traceparent`. No I/O. Threads: any.
namespace kintsugi {

/// A trace, big-endian as it is written. All zero: none.
using TraceId = std::array<std::uint8_t, 16>;
/// A span of it; 0: none.
using SpanId = std::uint64_t;

struct TraceParent {
  TraceId trace{};
  SpanId span = 0;
  bool sampled = false;
  bool operator==(const TraceParent&) const = default;
};

/// nullopt: it is none. Later versions are read as far as this one goes.
[[nodiscard]] std::optional<TraceParent> parse_trace_parent(std::string_view header) noexcept;
/// "00-<32 hex digits>-<16>-01".
[[nodiscard]] std::string trace_parent_text(const TraceParent& parent);

/// Whether a trace is among the share that is recorded: the same answer everywhere. By the 56 bits
/// that are random in every implementation.
/// @param per_million  0: none, 1,000,000: all
[[nodiscard]] bool is_in_share(const TraceId& trace, std::uint32_t per_million) noexcept;

/// A trace, or a span, that nobody else has.
[[nodiscard]] TraceId new_trace_id() noexcept;
[[nodiscard]] SpanId new_span_id() noexcept;

}  // namespace kintsugi
