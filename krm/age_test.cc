#include "krm/age.h"

#include <gtest/gtest.h>

namespace kintsugi::krm {
namespace {

TEST(AgeText, WhenAgesGrow_UnitsFollowTheTableAM316) {
  constexpr std::int64_t kMinute = 60;
  constexpr std::int64_t kHour = 3600;
  constexpr std::int64_t kDay = 24 * kHour;
  const std::pair<std::int64_t, const char*> cases[] = {
      {-2, "<invalid>"},
      {-1, "0s"},
      {0, "0s"},
      {5, "5s"},
      {119, "119s"},
      {120, "2m"},
      {3 * kMinute + 11, "3m11s"},
      {9 * kMinute + 59, "9m59s"},
      {10 * kMinute, "10m"},
      {27 * kMinute + 30, "27m"},
      {179 * kMinute, "179m"},
      {3 * kHour, "3h"},
      {3 * kHour + 10 * kMinute, "3h10m"},
      {8 * kHour, "8h"},
      {10 * kHour + 59 * kMinute, "10h"},
      {47 * kHour, "47h"},
      {2 * kDay, "2d"},
      {3 * kDay + 4 * kHour, "3d4h"},
      {8 * kDay + 5 * kHour, "8d"},
      {45 * kDay, "45d"},
      {729 * kDay, "729d"},
      {730 * kDay, "2y"},
      {(2 * 365 + 45) * kDay, "2y45d"},
      {8 * 365 * kDay, "8y"},
      {9 * 365 * kDay + kDay, "9y"},
  };
  for (const auto& [seconds, text] : cases) {
    EXPECT_EQ(age_text(seconds), text) << seconds;
  }
}

}  // namespace
}  // namespace kintsugi::krm
