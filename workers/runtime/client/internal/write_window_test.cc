#include "workers/runtime/client/internal/write_window.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

constexpr TimePoint kBegin{seconds(100)};

/// Fills it, and answers all.
std::size_t round(WriteWindow& window, TimePoint now, std::size_t refused = 0) {
  std::size_t taken = 0;
  for (; window.has_room(); ++taken) {
    window.take();
  }
  for (std::size_t i = 0; i < taken; ++i) {
    window.answered(i < refused, now);
  }
  return taken;
}

TEST(WriteWindow, RT16_GrowsWhileItIsFullAndNoFurtherThanItsMost) {
  WriteWindow window;
  EXPECT_EQ(round(window, kBegin), WriteWindow::kBegin);
  for (int i = 0; i < 20'000; ++i) {
    (void)round(window, kBegin);
  }
  EXPECT_EQ(window.limit(), WriteWindow::kMost);
  EXPECT_EQ(window.taken(), 0U);
}

TEST(WriteWindow, RT16_OneAtATimeDoesNotMakeItGrow) {
  WriteWindow window;
  for (int i = 0; i < 10'000; ++i) {
    window.take();
    window.answered(false, kBegin);
  }
  EXPECT_EQ(window.limit(), WriteWindow::kBegin);
}

TEST(WriteWindow, RT16_ManyRefusalsOfOneSecondAreOne) {
  WriteWindow window;
  (void)round(window, kBegin, WriteWindow::kBegin);
  EXPECT_EQ(window.limit(), WriteWindow::kBegin * 3 / 4);
  (void)round(window, kBegin + seconds(2), WriteWindow::kBegin / 2);
  EXPECT_EQ(window.limit(), static_cast<std::size_t>(double{WriteWindow::kBegin} * 0.75 * 0.75));
  for (int i = 0; i < 100; ++i) {
    (void)round(window, kBegin + seconds(10 + 2 * i), 1);
  }
  EXPECT_EQ(window.limit(), WriteWindow::kLeast);
}

TEST(WriteWindow, RT16_AfterARefusalItStaysForAWhile) {
  WriteWindow window;
  (void)round(window, kBegin, 1);
  const std::size_t known = window.limit();
  for (int i = 0; i < 1'000; ++i) {
    (void)round(window, kBegin + seconds(5));
  }
  EXPECT_EQ(window.limit(), known);
  for (int i = 0; i < 1'000; ++i) {
    (void)round(window, kBegin + WriteWindow::kKnown + seconds(1));
  }
  EXPECT_GT(window.limit(), known);
}

}  // namespace
}  // namespace kintsugi::workers
