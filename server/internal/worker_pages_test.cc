#include "server/internal/worker_pages.h"

#include <gtest/gtest.h>

namespace kintsugi::server {
namespace {

const std::vector<RoleHealth> kTwo{{"delivery", true, "u: waits"}, {"network", true, ""}};

TEST(WorkerPages, RT_T105_OneRoleThatIsNotReadyIsNamedAndAnotherStaysReady) {
  const HealthPage all = health_page("/readyz", kTwo);
  EXPECT_EQ(all.status, 503);
  EXPECT_EQ(all.body, "[-]delivery failed: u: waits\n[+]network ok\nreadyz check failed\n");
  const HealthPage bad = health_page("/readyz/delivery", kTwo);
  EXPECT_EQ(bad.status, 503);
  EXPECT_EQ(bad.body, "[-]delivery failed: u: waits\nreadyz check failed\n");
  const HealthPage good = health_page("/readyz/network", kTwo);
  EXPECT_EQ(good.status, 200);
  EXPECT_EQ(good.body, "ok");
  EXPECT_EQ(health_page("/livez", kTwo).status, 200) << "what is not ready lives";
}

TEST(WorkerPages, VerboseShowsEveryCheck) {
  const std::vector<RoleHealth> good{{"a", true, ""}, {"b", true, ""}};
  EXPECT_EQ(health_page("/readyz?verbose", good).body, "[+]a ok\n[+]b ok\nreadyz check passed\n");
  EXPECT_EQ(health_page("/readyz?x=1&verbose=true", good).body,
            "[+]a ok\n[+]b ok\nreadyz check passed\n");
  EXPECT_EQ(health_page("/readyz?unverbose", good).body, "ok");
  EXPECT_EQ(health_page("/healthz?verbose", good).body, "[+]a ok\n[+]b ok\nhealthz check passed\n");
}

TEST(WorkerPages, ALoopWithoutTurnsIsNotAlive) {
  const std::vector<RoleHealth> roles{{"a", false, ""}};
  for (const std::string path : {"/livez", "/healthz"}) {
    const HealthPage page = health_page(path, roles);
    EXPECT_EQ(page.status, 503);
    EXPECT_EQ(page.body,
              "[-]a failed: its loop takes no turns\n" + path.substr(1) + " check failed\n");
  }
}

TEST(WorkerPages, OtherPathsAreNotThere) {
  for (const char* path : {"/", "", "/readyz/", "/readyz/other", "/ready", "/readyz/network/x",
                           "/metrics", "readyz"}) {
    EXPECT_EQ(health_page(path, kTwo).status, 404) << path;
  }
}

TEST(WorkerPages, WhatAChildSaysIsItsReason) {
  EXPECT_EQ(reason_of(200, "ok"), "");
  EXPECT_EQ(reason_of(0, ""), "does not answer");
  EXPECT_EQ(reason_of(500, "oops\n"), "HTTP 500");
  for (const RoleHealth& role : kTwo) {
    const HealthPage page = health_page("/readyz?verbose", {role});
    EXPECT_EQ(reason_of(page.status, page.body), role.not_ready);
  }
}

TEST(WorkerPages, RT2_PagesBecomeOneWithTheRoleInEachSeries) {
  const std::string a =
      "# HELP x_total Things.\n# TYPE x_total counter\nx_total 1\n"
      "# HELP h Times.\n# TYPE h histogram\n"
      "h_bucket{controller=\"c\",le=\"1\"} 2\nh_sum{controller=\"c\"} 0.5\n"
      "h_count{controller=\"c\"} 2\n"
      "# HELP g Own.\n# TYPE g gauge\ng{role=\"special\"} 3\ng{x=\"1\",role=\"special\"} 4\n";
  const std::string b =
      "# HELP h Other words.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 7\nh_count 1\n"
      "# HELP x_total Things.\n# TYPE x_total counter\nx_total 5 1700000000000\n"
      "# HELP only Of b.\n# TYPE only gauge\nonly{t=\"a}\\\"b\"} NaN\n";
  EXPECT_EQ(merge_metric_pages({{"a", a}, {"b", b}}),
            "# HELP x_total Things.\n# TYPE x_total counter\n"
            "x_total{role=\"a\"} 1\nx_total{role=\"b\"} 5 1700000000000\n"
            "# HELP h Times.\n# TYPE h histogram\n"
            "h_bucket{role=\"a\",controller=\"c\",le=\"1\"} 2\n"
            "h_sum{role=\"a\",controller=\"c\"} 0.5\nh_count{role=\"a\",controller=\"c\"} 2\n"
            "h_bucket{role=\"b\",le=\"+Inf\"} 1\nh_sum{role=\"b\"} 7\nh_count{role=\"b\"} 1\n"
            "# HELP g Own.\n# TYPE g gauge\ng{role=\"special\"} 3\n"
            "g{x=\"1\",role=\"special\"} 4\n"
            "# HELP only Of b.\n# TYPE only gauge\nonly{role=\"b\",t=\"a}\\\"b\"} NaN\n");
}

TEST(WorkerPages, WhatIsNoSeriesIsLeftOut) {
  EXPECT_EQ(merge_metric_pages({{"a", "oops\n# a comment\n\n x 1\nx{y=\"1 2\nz 1"}}),
            "z{role=\"a\"} 1\n");
  EXPECT_EQ(merge_metric_pages({{"a", ""}}), "");
  EXPECT_EQ(merge_metric_pages({}), "");
}

}  // namespace
}  // namespace kintsugi::server
