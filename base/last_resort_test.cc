#include "base/last_resort.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/guard.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace kintsugi {
namespace {

/// Takes memory in pieces until the reserve has been used, then `more` pieces.
void take_all(std::size_t more) {
  prepare_for_no_memory();
  const rlimit little{std::size_t{512} << 20, std::size_t{512} << 20};
  ::setrlimit(RLIMIT_AS, &little);
  std::vector<std::unique_ptr<std::string>> kept;
  kept.reserve(1 << 20);
  while (memory_shortages() == 0 || more-- > 0) {
    kept.push_back(std::make_unique<std::string>(std::size_t{64} << 10, 'x'));
  }
}

TEST(NoMemoryDeathTest, WhenItRunsOutOnce_SE183_TheReserveIsUsedAndWorkGoesOn) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        take_all(4);
        std::_Exit(memory_shortages() == 1 ? 7 : 8);
      },
      ::testing::ExitedWithCode(7), "memory ran out, the reserve is used");
}

TEST(NoMemoryDeathTest, WhenItRunsOutTwice_SE183_ALineAndTheEnd) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(take_all(1 << 20), ::testing::ExitedWithCode(1),
              "there is no memory left: the process ends");
}

TEST(NoMemoryDeathTest, WhenBadAllocReachesTheSeam_SE183_ALineAndTheEnd) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        prepare_for_no_memory();
        guarded("test", [] { throw std::bad_alloc(); });
      },
      ::testing::ExitedWithCode(1), "there is no memory left: the process ends");
}

}  // namespace
}  // namespace kintsugi

#endif
