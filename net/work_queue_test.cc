#include "net/work_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace kintsugi::net {
namespace {

class WorkQueueTest : public ::testing::Test {
 protected:
  void run_for(Duration time) {
    Timer limit(loop_);
    limit.start(time, [this] { loop_.stop(); });
    loop_.run();
  }
  Loop loop_{"test"};
  std::vector<TimePoint> runs_;
};

TEST_F(WorkQueueTest, SE100_WhenWorkFails_EachRetryWaitsTwiceAsLong) {
  WorkQueue queue(loop_, [this](const std::string&, WorkQueue::Finished finished) {
    runs_.push_back(loop_.now());
    if (runs_.size() == 7) {
      loop_.stop();
    }
    finished(false);
  });
  queue.add("k");
  run_for(seconds(20));
  ASSERT_EQ(runs_.size(), 7U);
  Duration expected = milliseconds(5);
  for (std::size_t i = 1; i < runs_.size(); ++i) {
    EXPECT_GE(runs_[i] - runs_[i - 1], expected * 8 / 10 - milliseconds(1)) << i;
    expected *= 2;
  }
}

TEST_F(WorkQueueTest, SE100_WhenEventsComeWhileItFails_TheyMakeNoSecondChain) {
  std::size_t runs = 0;
  WorkQueue queue(loop_, [&runs](const std::string&, WorkQueue::Finished finished) {
    ++runs;
    finished(false);
  });
  for (int i = 0; i < 50; ++i) {
    loop_.after(milliseconds(i), [&queue] { queue.add("k"); });
  }
  run_for(milliseconds(100));
  const std::size_t before = runs;
  EXPECT_LE(before, 70U);
  run_for(milliseconds(300));
  EXPECT_LE(runs, before + 2) << "one chain, which waits for minutes by now";
}

TEST_F(WorkQueueTest, SE100_WhatIsParkedTakesNobodysPlace) {
  std::vector<std::string> begun;
  std::vector<WorkQueue::Finished> parked;
  WorkQueue queue(
      loop_,
      [&](const std::string& key, WorkQueue::Finished finished) {
        begun.push_back(key);
        if (key == "c") {
          finished(true);
          return;
        }
        parked.push_back(std::move(finished));
        queue.park(key);
        queue.park(key);
      },
      1);
  for (const char* key : {"a", "b", "c"}) {
    queue.add(key);
  }
  queue.park("nobody");
  run_for(milliseconds(20));
  EXPECT_EQ(begun, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(queue.busy(), 2U);
  queue.add("a");
  run_for(milliseconds(20));
  EXPECT_EQ(begun.size(), 3U) << "it still runs";
  parked[0](true);
  parked[1](true);
  run_for(milliseconds(20));
  EXPECT_EQ(begun.size(), 4U);
  EXPECT_EQ(queue.busy(), 1U);
  parked[2](true);
  EXPECT_EQ(queue.busy(), 0U);
}

TEST_F(WorkQueueTest, WhenLooksAreAskedForOften_OneWaits) {
  std::size_t runs = 0;
  WorkQueue queue(loop_, [&](const std::string& key, const WorkQueue::Finished& finished) {
    ++runs;
    queue.add_once_after(key, milliseconds(20));
    finished(true);
  });
  for (int i = 0; i < 100; ++i) {
    queue.add_once_after("k", milliseconds(20 + i));
  }
  run_for(milliseconds(210));
  EXPECT_GE(runs, 2U);
  EXPECT_LE(runs, 11U);
}

TEST_F(WorkQueueTest, WhenAnEarlierLookIsAskedFor_ItIsThatOne) {
  std::size_t runs = 0;
  WorkQueue queue(loop_, [&](const std::string&, const WorkQueue::Finished& finished) {
    ++runs;
    finished(true);
  });
  queue.add_once_after("k", milliseconds(400));
  queue.add_once_after("k", milliseconds(10));
  run_for(milliseconds(100));
  EXPECT_EQ(runs, 1U);
  run_for(milliseconds(400));
  EXPECT_EQ(runs, 1U);
}

}  // namespace
}  // namespace kintsugi::net
