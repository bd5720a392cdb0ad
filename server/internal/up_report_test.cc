#include "server/internal/up_report.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "krm/json.h"

namespace kintsugi::server {
namespace {

std::vector<UpProcess> three() {
  return {{{"root", "", 7, seconds(61), 0, ""}, ""},
          {{"shard-1", "", 0, seconds(2), 3, "signal 9", {1, 2, 0}}, "its process ended"},
          {{"proxy", "", 9, seconds(60), 1, "exit 1"}, "informer-sync failed"}};
}

TEST(UpReport, OP_406_ARowForEachProcess) {
  const auto parsed = krm::Json::parse(processes_json(three(), {"shard-2"}));
  ASSERT_TRUE(parsed);
  const auto& rows = parsed->find("processes")->items();
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].dump(), R"({"name":"root","pid":7,"ready":true,"restarts":0,"seconds":61})");
  EXPECT_EQ(rows[1].dump(), R"({"lastEnd":"signal 9","name":"shard-1","ready":false,"restarts":3,)"
                            R"("seconds":2,"why":"its process ended"})");
  EXPECT_EQ(rows[2].find("lastEnd")->as_string(), "exit 1");
  EXPECT_EQ(parsed->find("leftOut")->dump(), R"(["shard-2"])");
}

TEST(UpReport, OP_406_WhatIsScrapedTellsWhoRunsAndWhoIsReady) {
  const std::string page = up_metrics_text(three());
  for (const char* line :
       {"kintsugi_child_up{process=\"root\"} 1\n", "kintsugi_child_up{process=\"shard-1\"} 0\n",
        "kintsugi_child_ready{process=\"root\"} 1\n", "kintsugi_child_ready{process=\"proxy\"} 0\n",
        "kintsugi_child_restarts_total{process=\"shard-1\",cause=\"signal\"} 2\n",
        "kintsugi_child_restarts_total{process=\"root\",cause=\"hang\"} 0\n"}) {
    EXPECT_NE(page.find(line), std::string::npos) << line << page;
  }
}

TEST(UpReport, OP_202_WhoEndedAndWhoDoesNotAnswerIsNotReadyAndWhoIsNotAskedIs) {
  net::Loop loop("test");
  UpReport::Params params;
  params.processes = [] {
    return std::vector<Supervisor::State>{{"root", "/nowhere/admin.sock", 7, seconds(1), 0, ""},
                                          {"shard-1", "/nowhere", 0, seconds(2), 3, "signal 9"},
                                          {"etcd", "", 8, seconds(1), 0, ""}};
  };
  params.left_out = [] { return std::vector<std::string>(); };
  UpReport report(loop, std::move(params));
  std::vector<UpProcess> got;
  report.ask([&](std::vector<UpProcess> all) {
    got = std::move(all);
    loop.stop();
  });
  loop.run();
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].not_ready, "does not answer");
  EXPECT_EQ(got[1].not_ready,
            "its process ended (signal 9) 2 s ago, 3 restarts so far, and is started again");
  EXPECT_EQ(got[2].not_ready, "");
}

}  // namespace
}  // namespace kintsugi::server
