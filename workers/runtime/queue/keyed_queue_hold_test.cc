#include <gtest/gtest.h>

#include <string>

#include "workers/runtime/queue/keyed_queue.h"

namespace kintsugi::workers {
namespace {

TEST(KeyedQueue, RT5_WhenHeld_KeysOfTheLowestLevelWait) {
  const TimePoint now{seconds(1'000)};
  KeyedQueue queue({}, 7, now);
  const auto add = [&](std::string_view name, Priority priority) {
    EXPECT_TRUE(queue.add({"root:org", "default", name}, priority, now));
  };
  const auto pop = [&] {
    const auto item = queue.pop(now);
    const std::string name = item ? std::string(item->key.name) : "nothing";
    EXPECT_TRUE(!item || queue.done(*item, Outcome::done(), now));
    return name;
  };
  queue.hold_initial(true);
  add("initial", Priority::kInitial);
  EXPECT_FALSE(queue.ready());
  for (int i = 0; i < 25; ++i) {  // every tenth is of the lowest level that may go
    add(std::to_string(i), i % 2 == 0 ? Priority::kLive : Priority::kRetry);
    EXPECT_EQ(pop(), std::to_string(i));
  }
  EXPECT_EQ(pop(), "nothing");
  add("initial", Priority::kLive);  // a change raises it
  EXPECT_EQ(pop(), "initial");
  add("later", Priority::kInitial);
  EXPECT_EQ(pop(), "nothing");
  queue.hold_initial(false);
  EXPECT_EQ(pop(), "later");
}

}  // namespace
}  // namespace kintsugi::workers
