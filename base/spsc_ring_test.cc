#include "base/spsc_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>

namespace kintsugi {
namespace {

TEST(SpscRing, WhenFull_RefusesUntilSomethingIsTaken) {
  SpscRing<int> ring(2);
  EXPECT_EQ(ring.pop(), std::nullopt);
  EXPECT_TRUE(ring.push(1));
  EXPECT_TRUE(ring.push(2));
  EXPECT_FALSE(ring.push(3));
  EXPECT_EQ(ring.pop(), 1);
  EXPECT_TRUE(ring.push(4));
  EXPECT_EQ(ring.pop(), 2);
  EXPECT_EQ(ring.pop(), 4);
  EXPECT_EQ(ring.pop(), std::nullopt);
}

TEST(SpscRing, WhenAnItemIsTaken_NothingOfItStays) {
  SpscRing<std::shared_ptr<int>> ring(3);
  const auto item = std::make_shared<int>(7);
  ASSERT_TRUE(ring.push(item));
  EXPECT_EQ(item.use_count(), 2);
  (void)ring.pop();
  EXPECT_EQ(item.use_count(), 1);
}

TEST(SpscRing, WhenTwoThreadsUseIt_EveryItemComesOnceAndInOrder) {
  constexpr std::uint64_t kItems = 200'000;
  SpscRing<std::uint64_t> ring(64);
  std::thread writer([&ring] {
    for (std::uint64_t i = 1; i <= kItems; ++i) {
      while (!ring.push(i)) {
        std::this_thread::yield();
      }
    }
  });
  std::uint64_t expected = 1;
  while (expected <= kItems) {
    const auto item = ring.pop();
    if (!item) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(*item, expected);
    ++expected;
  }
  writer.join();
}

}  // namespace
}  // namespace kintsugi
