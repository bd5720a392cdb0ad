#include "serving/metrics_answer.h"

#include <gtest/gtest.h>

namespace kintsugi::serving {
namespace {

TEST(MetricsAnswer, OP_403_WhoAsksForOpenMetricsGetsIt) {
  struct Row {
    std::string_view accept;
    bool open;
  };
  constexpr Row kRows[] = {
      {"", false},
      {"*/*", false},
      {"text/plain", false},
      {"text/html, application/xhtml+xml, */*;q=0.8", false},
      {"application/openmetrics-text", true},
      {"Application/OpenMetrics-Text; Version=1.0.0; charset=utf-8", true},
      {"application/openmetrics-text;version=\"1.0.0\"", true},
      {"application/openmetrics-text;version=2.0.0", false},
      {"application/openmetrics-text;version=0.0.1", false},
      {"application/openmetrics-text;q=0", false},
      {"application/openmetrics-text;q=0.5,text/plain;q=0.6", false},
      {"application/openmetrics-text;q=0.6,text/plain;q=0.5", true},
      {"application/openmetrics-text;q=x", false},
      {"application/openmetrics-text;q=1.7", true},
      {"application/openmetrics-texts", false},
      {";;,,=;q", false},
      // As Prometheus 2.42 has it.
      {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0."
       "75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
       true},
  };
  for (const auto& [accept, open] : kRows) {
    EXPECT_EQ(metrics_form(accept) == MetricsForm::kOpenMetrics, open) << accept;
  }
}

TEST(MetricsAnswer, OP_403_APageIsOfTheFormThatItsTypeSays) {
  const std::string text = "# TYPE some_total counter\nsome_total 1\n";
  const MetricsPage plain = metrics_page("*/*", text);
  EXPECT_EQ(plain.body, text);
  EXPECT_EQ(plain.content_type, "text/plain; version=0.0.4; charset=utf-8");
  const MetricsPage open = metrics_page("application/openmetrics-text", text);
  EXPECT_EQ(open.body, "# TYPE some counter\nsome_total 1\n# EOF\n");
  EXPECT_EQ(open.content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

}  // namespace
}  // namespace kintsugi::serving
