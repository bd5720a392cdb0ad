#include "workers/runtime/journal/journal_keeper.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "net/testing/support.h"

namespace kintsugi::workers {
namespace {

using net::testing::run_until;

class JournalKeeperTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/kintsugi-journal-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::unique_ptr<JournalKeeper> open() {
    JournalParams params;
    params.directory = folder_ + "/unit";
    params.boot_id = "boot";
    return net::testing::must(JournalKeeper::open(loop_, std::move(params)));
  }

  std::string folder_;
  net::Loop loop_{"test"};
};

TEST_F(JournalKeeperTest, RT73_WhatATurnWroteIsCommittedAtItsEndAndOnTheDiskSoonAfter) {
  auto keeper = open();
  const std::uint64_t before = keeper->stats().commits;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(keeper->use().note_epoch(static_cast<std::size_t>(i), 7).has_value());
  }
  EXPECT_EQ(keeper->stats().commits, before);
  ASSERT_TRUE(run_until(loop_, [&] { return keeper->stats().commits == before + 1; }))
      << "once for all of the turn";
  ASSERT_TRUE(run_until(loop_, [&] { return keeper->stats().syncs >= 1; }));
  EXPECT_EQ(keeper->not_ready(), "");
  keeper.reset();
  keeper = open();
  EXPECT_EQ(keeper->use().epoch(2), 7U);
}

TEST_F(JournalKeeperTest, RT70_ASecondOneIsRefused) {
  const auto keeper = open();
  JournalParams params;
  params.directory = folder_ + "/unit";
  params.boot_id = "boot";
  const auto second = JournalKeeper::open(loop_, std::move(params));
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), Errc::kConfig);
}

}  // namespace
}  // namespace kintsugi::workers
