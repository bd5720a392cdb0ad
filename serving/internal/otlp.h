#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/trace.h"

/// Spans as OpenTelemetry's collectors take them: ExportTraceServiceRequest of OTLP 1, in protobuf.
/// Source: opentelemetry-proto, trace/v1 and collector/trace/v1, whose numbers are stable. No I/O.
namespace kintsugi::serving {

/// Of the process: "service.name" and its like.
using TraceResource = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] std::string encode_spans(const TraceResource& resource,
                                       const std::vector<Span>& spans);

/// How many spans an answer 200 says were not taken (`partial_success`); nullopt: it is no answer
/// of that kind.
[[nodiscard]] std::optional<std::uint64_t> rejected_spans(std::string_view answer);

}  // namespace kintsugi::serving
