#include "base/testing/executed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace kintsugi {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

TEST(Executed, WhenAThingIsDoneAHundredTimes_ItsAtomicsAndCallsAreCounted) {
  const SecondThread second;
  std::atomic<std::uint64_t> number{0};
  std::mutex mutex;
  volatile std::uint64_t plain = 0;
  Executed executed({"pthread_mutex_lock"});
  executed.run([&] {
    for (int i = 0; i < 100; ++i) {
      number.fetch_add(1);
      (void)number.exchange(3);
      plain = plain + 1;
    }
  });
  EXPECT_EQ(executed.counts().locked, 200U);
  EXPECT_EQ(executed.counts().calls, 0U);
  EXPECT_GT(executed.counts().instructions, 500U);
  executed.run([&] {
    for (int i = 0; i < 100; ++i) {
      const std::scoped_lock lock(mutex);
    }
  });
  EXPECT_EQ(executed.counts().calls, 100U);
  EXPECT_GE(executed.counts().locked, 400U);
}

#endif

}  // namespace
}  // namespace kintsugi
