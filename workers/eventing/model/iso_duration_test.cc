#include "workers/eventing/model/iso_duration.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

TEST(IsoDuration, WhatKnativeWrites) {
  EXPECT_EQ(parse_iso_duration("PT0.2S"), 200U);
  EXPECT_EQ(parse_iso_duration("PT0.3S"), 300U);
  EXPECT_EQ(parse_iso_duration("PT1S"), 1'000U);
  EXPECT_EQ(parse_iso_duration("PT1M30S"), 90'000U);
  EXPECT_EQ(parse_iso_duration("PT1,5M"), 90'000U);
  EXPECT_EQ(parse_iso_duration("P1DT2H"), 93'600'000U);
  EXPECT_EQ(parse_iso_duration("P2W"), 1'209'600'000U);
  EXPECT_EQ(parse_iso_duration("PT0S"), 0U);
}

TEST(IsoDuration, WhatIsNone) {
  for (const char* text :
       {"", "P", "PT", "1S", "PT1", "P1S", "PTS", "PT-1S", "PT1S1M", "PT1.5M2S", "P1M", "P1Y",
        "PT1.S", "PT.5S", "P1DT", "PT1X", "pt1s", "PT1S ", "PT99999999999999999999H"}) {
    EXPECT_EQ(parse_iso_duration(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace kintsugi::workers
