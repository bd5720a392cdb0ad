#include "server/internal/console_workers.h"

#include <gtest/gtest.h>

namespace kintsugi::server {
namespace {

TEST(ConsoleWorkers, OP_711_PagesBecomeRowsByRole) {
  const auto rows =
      worker_rows("worker-a", 503, "[+]example ok\n[-]delivery failed: waits for it\n",
                  "# HELP worker_units x\n"
                  "worker_units{role=\"example\"} 3\n"
                  "workqueue_depth{role=\"example\",name=\"a\"} 2\n"
                  "workqueue_depth{role=\"example\",name=\"b\"} 5\n"
                  "ring_partitions_owned{role=\"example\"} 64\n"
                  "ring_generation{role=\"example\"} 7\n"
                  "leader_election_master_status{name=\"ring-example-coordinator\"} 1\n"
                  "garbage\nworker_units{role=\"\n");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].text({"reason"}), "waits for it");
  EXPECT_FALSE(rows[0].find("ready")->as_bool());
  EXPECT_TRUE(rows[0].find("units")->is_null());
  EXPECT_TRUE(rows[1].find("ready")->as_bool());
  EXPECT_TRUE(rows[1].find("coordinates")->as_bool());
  EXPECT_EQ(rows[1].find("units")->as_integer(), 3);
  EXPECT_EQ(rows[1].find("queue")->as_integer(), 7);
  EXPECT_EQ(rows[1].find("partitions")->as_integer(), 64);
  EXPECT_EQ(rows[1].find("generation")->as_integer(), 7);
}

TEST(ConsoleWorkers, OP_711_WhatHasNoRoleIsOfTheOnlyOne) {
  const char* const page = "workqueue_depth{name=\"a\",controller=\"a\",priority=\"live\"} 4\n";
  EXPECT_EQ(worker_rows("w", 200, "[+]example ok\n", page)[0].find("queue")->as_integer(), 4);
  EXPECT_TRUE(worker_rows("w", 200, "[+]a ok\n[+]b ok\n", page)[0].find("queue")->is_null());
}

TEST(ConsoleWorkers, OP_711_OneThatDoesNotAnswerIsSaidSo) {
  const auto rows = worker_rows("worker-a", 0, "", "");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_FALSE(rows[0].find("ready")->as_bool());
  EXPECT_EQ(rows[0].text({"reason"}), "it does not answer");
}

}  // namespace
}  // namespace kintsugi::server
