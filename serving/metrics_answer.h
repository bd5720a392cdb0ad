#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/handler.h"

/// Pages of metrics, in the form that who scrapes asks for (OP-403).
namespace kintsugi::serving {

enum class MetricsForm : std::uint8_t { kText, kOpenMetrics };

/// By an Accept header: OpenMetrics where it is named, of version 1.0.0 or of none, and the text
/// format is not liked better; in all other cases the text format, also where nothing that there is
/// is accepted. @param accept  any bytes, "" for none
[[nodiscard]] MetricsForm metrics_form(std::string_view accept);

struct MetricsPage {
  std::string_view content_type;
  std::string body;
};
/// @param text  of metrics_text()
[[nodiscard]] MetricsPage metrics_page(std::string_view accept, std::string text);

/// 200 with the page, compressed where it is large and gzip accepted, without a body for HEAD.
[[nodiscard]] std::unique_ptr<http::RequestHandler> answer_metrics(const http::RequestHead& head,
                                                                   http::ResponseStream& stream,
                                                                   std::string text);

}  // namespace kintsugi::serving
