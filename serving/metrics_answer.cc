#include "serving/metrics_answer.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/open_metrics.h"
#include "base/strings.h"
#include "http/gzip.h"
#include "serving/answer.h"

namespace kintsugi::serving {
namespace {

constexpr std::string_view kText = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kOpen = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// "0.75" in thousandths, at most 1,000; what is none is 0.
int thousandths(std::string_view text) {
  if (text.empty() || (text[0] != '0' && text[0] != '1')) {
    return 0;
  }
  int value = (text[0] - '0') * 1'000;
  int digit = 100;
  for (std::size_t i = 2; i < text.size() && text[1] == '.' && digit > 0; ++i, digit /= 10) {
    if (text[i] < '0' || text[i] > '9') {
      return 0;
    }
    value += (text[i] - '0') * digit;
  }
  return std::min(value, 1'000);
}

struct Clause {
  std::string type, version;
  int quality = 1'000;
};

Clause clause_of(std::string_view text) {
  Clause out;
  bool first = true;
  for (const std::string_view part : split(text, ';')) {
    if (std::exchange(first, false)) {
      out.type = to_lower(trim(part));
      continue;
    }
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = to_lower(trim(part.substr(0, equals)));
    std::string_view value = trim(part.substr(std::min(equals + 1, part.size())));
    if (value.size() > 1 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    if (name == "q") {
      out.quality = thousandths(value);
    } else if (name == "version") {
      out.version = value;
    }
  }
  return out;
}

}  // namespace

MetricsForm metrics_form(std::string_view accept) {
  int open = 0, text = 0;
  for (const std::string_view part : split(accept, ',')) {
    const Clause clause = clause_of(part);
    if (clause.type == "application/openmetrics-text" &&
        (clause.version.empty() || clause.version == "1.0.0")) {
      open = std::max(open, clause.quality);
    } else if (clause.type == "text/plain") {
      text = std::max(text, clause.quality);
    }
  }
  return open > 0 && open >= text ? MetricsForm::kOpenMetrics : MetricsForm::kText;
}

MetricsPage metrics_page(std::string_view accept, std::string text) {
  return metrics_form(accept) == MetricsForm::kOpenMetrics
             ? MetricsPage{kOpen, open_metrics_text(text)}
             : MetricsPage{kText, std::move(text)};
}

std::unique_ptr<http::RequestHandler> answer_metrics(const http::RequestHead& head,
                                                     http::ResponseStream& stream,
                                                     std::string text) {
  MetricsPage page = metrics_page(head.headers.get("accept"), std::move(text));
  http::HeaderList headers;
  headers.add("content-type", page.content_type);
  headers.add("vary", "Accept, Accept-Encoding");
  if (page.body.size() > http::kGzipThreshold &&
      http::accepts_gzip(head.headers.get("accept-encoding"))) {
    std::string packed;
    http::Gzip().write(page.body, true, packed);
    page.body = std::move(packed);
    headers.add("content-encoding", "gzip");
  }
  headers.add("content-length", std::to_string(page.body.size()));
  const bool bare = head.method == "HEAD";
  stream.send_head(200, headers, bare);
  if (!bare) {
    stream.send_data(page.body, true);
  }
  return swallow(stream);
}

}  // namespace kintsugi::serving
