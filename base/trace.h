#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/trace_context.h"

/// Spans of this process, from those who record them to the one who sends them away
/// (serving/trace_exporter.h). Each thread has a ring of its own: nothing waits, and what finds its
/// ring full is dropped and counted.
namespace kintsugi {

enum class SpanKind : std::uint8_t { kInternal = 1, kServer = 2, kClient = 3, kConsumer = 5 };

struct SpanAttribute {
  std::string_view key;  ///< of static life
  std::string text;
  std::int64_t number = 0;
  bool is_number = false;
  SpanAttribute(std::string_view k, std::string value) : key(k), text(std::move(value)) {}
  SpanAttribute(std::string_view k, std::int64_t value) : key(k), number(value), is_number(true) {}
};

struct Span {
  TraceId trace{};
  SpanId id = 0;
  SpanId parent = 0;  ///< 0: the trace begins with it
  SpanKind kind = SpanKind::kInternal;
  std::string name;             ///< nothing that a client has made up
  std::int64_t begin = 0;       ///< [µs since 1970]
  std::int64_t first_byte = 0;  ///< of an answer, the same; 0: there was none
  std::int64_t end = 0;
  std::vector<SpanAttribute> attributes;
  std::string fault;  ///< "": it went well
};

struct TraceStats {
  std::uint64_t recorded = 0;  ///< are in a ring, or were
  std::uint64_t dropped = 0;   ///< found no room
  std::uint64_t sent = 0;      ///< were taken by the collector
  std::uint64_t failed = 0;    ///< were not
};

namespace trace_detail {
extern std::atomic<bool> on;
}

/// Whether spans are collected. Cost: a load and a comparison.
[[nodiscard]] inline bool is_tracing() noexcept {
  return trace_detail::on.load(std::memory_order_relaxed);
}
/// Of a request, for an attribute: one that is known, else "_OTHER".
[[nodiscard]] std::string known_method(std::string_view method);

/// From now on, or not any more. Threads: any.
void set_tracing(bool on) noexcept;

/// The share of traces that begin here, TraceRules::per_million. Threads: any.
void set_trace_share(std::uint32_t per_million) noexcept;
[[nodiscard]] std::uint32_t trace_share() noexcept;

/// What the work of this thread at the moment is done for, while a TraceScope says so; null: for
/// nothing that is recorded.
[[nodiscard]] const TraceParent* current_trace() noexcept;
class TraceScope {
 public:
  /// @param parent  outlives this; may be null
  explicit TraceScope(const TraceParent* parent) noexcept;
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  const TraceParent* before_;
};

/// Threads: any. The first of a thread makes its ring, under a lock.
void record_span(Span span) noexcept;
/// Of all rings, the oldest of each first. Threads: one.
[[nodiscard]] std::vector<Span> take_spans(std::size_t most);
/// What became of those that were taken. Threads: any.
void count_spans_sent(std::size_t count) noexcept;
void count_spans_failed(std::size_t count) noexcept;
[[nodiscard]] TraceStats trace_stats() noexcept;

}  // namespace kintsugi
