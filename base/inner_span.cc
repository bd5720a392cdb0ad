#include "base/inner_span.h"

#include <optional>
#include <utility>

#include "base/time.h"

namespace kintsugi {

std::shared_ptr<InnerSpan> InnerSpan::begin(std::string_view trace_parent, const char* name) {
  if (!is_tracing()) {
    return nullptr;
  }
  const std::optional<TraceParent> parent = parse_trace_parent(trace_parent);
  if (!parent || !parent->sampled) {
    return nullptr;
  }
  Span span;
  span.trace = parent->trace;
  span.parent = parent->span;
  span.id = new_span_id();
  span.kind = SpanKind::kInternal;
  span.name = name;
  span.begin = unix_microseconds();
  return std::make_shared<InnerSpan>(std::move(span));
}

void InnerSpan::end(std::string_view fault) noexcept {
  if (!std::exchange(ended_, true)) {
    span_.end = unix_microseconds();
    span_.fault = fault;
    record_span(std::move(span_));
  }
}

}  // namespace kintsugi
