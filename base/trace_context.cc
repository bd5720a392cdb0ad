#include "base/trace_context.h"

#include <cstddef>

#include "base/hex.h"
#include "base/random.h"
#include "base/split_mix.h"

namespace kintsugi {
namespace {

constexpr std::size_t kTraceAt = 3, kSpanAt = 36, kFlagsAt = 53, kLength = 55;
constexpr std::uint8_t kSampled = 1;
constexpr std::uint32_t kAll = 1'000'000;
constexpr unsigned kRandomBits = 56;

/// Lower case alone, as it has to be. -1: none.
int digit_of(char c) noexcept {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/// nullopt: not two digits.
std::optional<std::uint8_t> byte_at(std::string_view text, std::size_t at) noexcept {
  const int high = digit_of(text[at]), low = digit_of(text[at + 1]);
  if (high < 0 || low < 0) {
    return std::nullopt;
  }
  return static_cast<std::uint8_t>(high * 16 + low);
}

/// Splitmix64: ids have to differ, not to be secret.
std::uint64_t next_random() noexcept {
  thread_local std::uint64_t state = random_number();
  return split_mix(state);
}

}  // namespace

std::optional<TraceParent> parse_trace_parent(std::string_view header) noexcept {
  if (header.size() < kLength || header[2] != '-' || header[kSpanAt - 1] != '-' ||
      header[kFlagsAt - 1] != '-') {
    return std::nullopt;
  }
  const auto version = byte_at(header, 0), flags = byte_at(header, kFlagsAt);
  constexpr std::uint8_t kNoVersion = 0xFF;
  const bool is_longer = header.size() > kLength;
  if (!version || !flags || *version == kNoVersion ||
      (is_longer && (*version == 0 || header[kLength] != '-'))) {
    return std::nullopt;
  }
  TraceParent out;
  out.sampled = (*flags & kSampled) != 0;
  for (std::size_t i = 0; i < out.trace.size(); ++i) {
    const auto byte = byte_at(header, kTraceAt + 2 * i);
    if (!byte) {
      return std::nullopt;
    }
    out.trace[i] = *byte;
  }
  for (std::size_t i = 0; i < sizeof out.span; ++i) {
    const auto byte = byte_at(header, kSpanAt + 2 * i);
    if (!byte) {
      return std::nullopt;
    }
    out.span = out.span << 8U | *byte;
  }
  if (out.span == 0 || out.trace == TraceId{}) {
    return std::nullopt;
  }
  return out;
}

std::string trace_parent_text(const TraceParent& parent) {
  std::string out = "00-";
  out.reserve(kLength);
  for (const std::uint8_t byte : parent.trace) {
    append_hex(out, byte);
  }
  out += '-';
  for (int shift = 56; shift >= 0; shift -= 8) {
    append_hex(out, static_cast<std::uint8_t>(parent.span >> static_cast<unsigned>(shift)));
  }
  out += parent.sampled ? "-01" : "-00";
  return out;
}

bool is_in_share(const TraceId& trace, std::uint32_t per_million) noexcept {
  if (per_million == 0 || per_million >= kAll) {
    return per_million != 0;
  }
  std::uint64_t low = 0;
  for (std::size_t i = trace.size() - kRandomBits / 8; i < trace.size(); ++i) {
    low = low << 8U | trace[i];
  }
  return low < (std::uint64_t{1} << kRandomBits) / kAll * per_million;
}

TraceId new_trace_id() noexcept {
  TraceId out{};
  const std::uint64_t halves[2] = {next_random() | 1U, next_random()};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::uint8_t>(halves[i / 8] >> (i % 8 * 8));
  }
  return out;
}

SpanId new_span_id() noexcept {
  const std::uint64_t id = next_random();
  return id == 0 ? 1 : id;
}

}  // namespace kintsugi
