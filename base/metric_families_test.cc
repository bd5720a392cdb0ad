#include "base/metric_families.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <limits>

#include "base/process_metrics.h"
#include "base/strings.h"

namespace kintsugi {
namespace {

class Some final : public MetricSource {
 public:
  void fill(MetricFamilies& out) const override {
    out.counter("some_total", "things", {"kind", "reason"});
    out.sample({"a", "quoted \"x\"\n\\"}, std::uint64_t{12'345'678'901});
    out.sample({"b", ""}, 0);
    out.gauge("empty", "nothing now", {"shard"});
    out.gauge("one", "single", 0.25);
    out.histogram("times_seconds", "how long", {"code"});
    out.sample({"200"}, MetricFamilies::Histogram{
                            3, 0.5, {{1, 0.005}, {3, std::numeric_limits<double>::infinity()}}});
  }
};

TEST(MetricFamilies, WhenShown_AreThePrometheusTextFormat) {
  const Some some;
  EXPECT_EQ(metrics_text({&some}), R"(# HELP some_total things
# TYPE some_total counter
some_total{kind="a",reason="quoted \"x\"\n\\"} 12345678901
some_total{kind="b",reason=""} 0
# HELP empty nothing now
# TYPE empty gauge
# HELP one single
# TYPE one gauge
one 0.25
# HELP times_seconds how long
# TYPE times_seconds histogram
times_seconds_count{code="200"} 3
times_seconds_sum{code="200"} 0.5
times_seconds_bucket{code="200",le="0.005"} 1
times_seconds_bucket{code="200",le="+Inf"} 3
)");
}

TEST(MetricFamilies, WhenDescribed_EachHasItsLabels) {
  MetricFamilies out;
  Some().fill(out);
  const std::vector<MetricAbout> about = out.about();
  ASSERT_EQ(about.size(), 4U);
  EXPECT_EQ(about[0].name, "some_total");
  EXPECT_EQ(about[0].labels, (std::vector<std::string>{"kind", "reason"}));
  EXPECT_EQ(about[0].type, prometheus::MetricType::Counter);
  EXPECT_EQ(about[1].help, "nothing now");
  EXPECT_EQ(about[3].type, prometheus::MetricType::Histogram);
}

double value_of(const std::string& text, const std::string& series) {
  const std::size_t at = text.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size() + 2));
}

TEST(ProcessMetrics, WhenAsked_AreOfThisProcess) {
  const auto text = [] {
    const ProcessMetrics process("proxy", {{"serving", "listener.cert_file", 4'102'444'800}});
    return metrics_text({&process});
  };
  const std::string before = text();
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(value_of(before, "process_start_time_seconds"), now, 600);
  EXPECT_GT(value_of(before, "process_resident_memory_bytes"), 1'000'000);
  EXPECT_GT(value_of(before, "process_virtual_memory_bytes"),
            value_of(before, "process_resident_memory_bytes"));
  EXPECT_GE(value_of(before, "process_cpu_seconds_total"), 0);
  EXPECT_GE(value_of(before, "process_threads"), 1);
  EXPECT_GT(value_of(before, "process_max_fds"), value_of(before, "process_open_fds"));
  const int copy = ::dup(STDERR_FILENO);
  EXPECT_EQ(value_of(text(), "process_open_fds"), value_of(before, "process_open_fds") + 1);
  ::close(copy);
  EXPECT_NE(before.find("kintsugi_build_info{version=\""), std::string::npos);
  EXPECT_NE(before.find("\nkintsugi_certificate_expiration_timestamp_seconds{use=\"serving\","
                        "name=\"listener.cert_file\"} 4102444800\n"),
            std::string::npos)
      << before;
}

}  // namespace
}  // namespace kintsugi
