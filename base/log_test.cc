#include "base/log.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi {
namespace {

std::string logged(std::string_view value) {
  ::testing::internal::CaptureStderr();
  log_error("test", {{"value", value}});
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, WhenAValueHoldsAnyBytes_SE_T073_ItIsOneLineOfPlainText) {
  const std::string line = logged("a\nb\r\x1b[31mred\x7f\"\\\xff");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  for (const char c : line.substr(0, line.size() - 1)) {
    EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
  }
  EXPECT_NE(line.find(R"(a\u000ab\u000d\u001b[31mred\u007f\"\\?)"), std::string::npos) << line;
}

TEST(Log, WhenAValueIsLong_SE168_TheFirst1024BytesAreShown) {
  EXPECT_NE(logged(std::string(1024, 'x')).find(std::string(1024, 'x') + "\""), std::string::npos);
  const std::string cut = logged(std::string(1U << 20, 'x'));
  EXPECT_LT(cut.size(), 1200U);
  EXPECT_NE(cut.find("x… (1048576 bytes)"), std::string::npos);
  // Not in the middle of a character.
  EXPECT_NE(logged(std::string(1023, 'x') + "äää").find("x… (1029 bytes)"), std::string::npos);
}

}  // namespace
}  // namespace kintsugi
