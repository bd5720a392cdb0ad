#include "cmd/kintsugi/span.h"

#include <gtest/gtest.h>

namespace kintsugi::cmd {
namespace {

TEST(Span, WhenItIsATime_ItIsSeconds) {
  std::int64_t value = -1;
  const auto set = into_span(value);
  ASSERT_TRUE(set("90s"));
  EXPECT_EQ(value, 90);
  ASSERT_TRUE(set("10m"));
  EXPECT_EQ(value, 600);
  ASSERT_TRUE(set("1h"));
  EXPECT_EQ(value, 3600);
  ASSERT_TRUE(set("366d"));
  EXPECT_EQ(value, 366 * 86'400);
  ASSERT_TRUE(set("0s"));
  EXPECT_EQ(value, 0);
}

TEST(Span, WhenItIsNone_ItIsRefusedAndNothingChanges) {
  std::int64_t value = 7;
  const auto set = into_span(value);
  for (const char* text : {"", "h", "1", "1w", "-1h", "+1h", "1.5h", "1h30m", " 1h", "1h ", "3651d",
                           "99999999999999999999s", "9223372036854775807d"}) {
    EXPECT_FALSE(set(text)) << text;
    EXPECT_EQ(value, 7);
  }
}

}  // namespace
}  // namespace kintsugi::cmd
