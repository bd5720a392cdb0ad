#include "base/open_metrics.h"

#include <gtest/gtest.h>

namespace kintsugi {
namespace {

TEST(OpenMetrics, OP_403_TheSameSeriesUnderTheFamiliesOfOpenMetrics) {
  EXPECT_EQ(open_metrics_text(R"(# HELP some_total things "of" a kind
# TYPE some_total counter
some_total{kind="quoted \"x\"\n"} 12
# HELP cpu_seconds_total time
# TYPE cpu_seconds_total counter
cpu_seconds_total 1.5
# HELP times_seconds how long
# TYPE times_seconds histogram
times_seconds_count 3
times_seconds_bucket{le="+Inf"} 3
# HELP kcp_bytes of kcp, which ends otherwise
# TYPE kcp_bytes counter
kcp_bytes 4
# TYPE odd untyped
odd 5
)"),
            R"(# TYPE some counter
# HELP some things \"of\" a kind
some_total{kind="quoted \"x\"\n"} 12
# TYPE cpu_seconds counter
# UNIT cpu_seconds seconds
# HELP cpu_seconds time
cpu_seconds_total 1.5
# TYPE times_seconds histogram
# UNIT times_seconds seconds
# HELP times_seconds how long
times_seconds_count 3
times_seconds_bucket{le="+Inf"} 3
# TYPE kcp_bytes unknown
# UNIT kcp_bytes bytes
# HELP kcp_bytes of kcp, which ends otherwise
kcp_bytes 4
# TYPE odd unknown
odd 5
# EOF
)");
}

TEST(OpenMetrics, OP_403_NoTwoFamiliesHaveOneName) {
  EXPECT_EQ(open_metrics_text("# TYPE some gauge\nsome 1\n# TYPE some_total counter\n"
                              "some_total 2\n# TYPE _total counter\n_total 3\n"),
            "# TYPE some gauge\nsome 1\n# TYPE some_total unknown\nsome_total 2\n"
            "# TYPE _total unknown\n_total 3\n# EOF\n");
}

TEST(OpenMetrics, OP_403_WhatIsNoPageIsAnEmptyOne) {
  EXPECT_EQ(open_metrics_text(""), "# EOF\n");
  EXPECT_EQ(open_metrics_text("\n# anything else\n"), "# EOF\n");
}

}  // namespace
}  // namespace kintsugi
