#pragma once

#include <string>
#include <string_view>

namespace kintsugi {

/// A page of metrics_text() in the text format of OpenMetrics 1.0.0, with the same series and
/// values: families of counters are named without "_total", those that do not end so are of type
/// unknown, as is one whose shorter name another family has; UNIT of families that end in
/// "_seconds" or "_bytes"; "# EOF" at the end. Source: OpenMetrics 1.0.0, "Text format" (OP-403).
/// Cost: one pass, and a set of names. Threads: any.
/// @param page  of text format 0.0.4 without timestamps; other comments than HELP and TYPE are left
///              out
[[nodiscard]] std::string open_metrics_text(std::string_view page);

}  // namespace kintsugi
