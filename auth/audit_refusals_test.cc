#include "auth/audit_refusals.h"

#include <gtest/gtest.h>

namespace kintsugi::auth {
namespace {

TEST(AuditRefusals, WhenAMillionCome_SE_T075_TenMegabytesAreWrittenAndAllCounted) {
  AuditRefusals refusals;
  constexpr std::size_t kLine = 900, kAll = 1'000'000;
  std::size_t bytes = 0;
  std::uint64_t told = 0;
  const TimePoint begin = TimePoint(seconds(100));
  for (std::size_t i = 0; i < kAll; ++i) {
    if (refusals.may_write(begin + milliseconds(i / 100))) {  // ten seconds
      refusals.wrote(kLine);
      bytes += kLine;
      told += 1 + refusals.take_left_out();
    }
  }
  EXPECT_LE(bytes, std::size_t{10} << 20);
  EXPECT_GE(bytes, std::size_t{4} << 20);
  EXPECT_EQ(refusals.written() + refusals.counted(), kAll);
  EXPECT_EQ(told + refusals.take_left_out(), kAll) << "each is told of by a line";
}

TEST(AuditRefusals, WhenLinesAreLong_SE_T075_FewerAreWritten) {
  AuditRefusals refusals;
  int lines = 0;
  for (int i = 0; i < 1000; ++i) {
    if (refusals.may_write(TimePoint(seconds(7)))) {
      refusals.wrote(std::size_t{64} << 10);
      ++lines;
    }
  }
  EXPECT_EQ(lines, 8);
  EXPECT_EQ(refusals.counted(), 992U);
}

TEST(AuditRefusals, WhenAnAnswerIsNone_SE_007_NothingIsRefused) {
  for (const int status : {0, 101, 200, 201, 304, 307, 404, 409, 410, 422, 500, 503}) {
    EXPECT_FALSE(is_refusal(status)) << status;
  }
  for (const int status : {400, 401, 403, 405, 408, 413, 414, 417, 429, 431, 507, 508}) {
    EXPECT_TRUE(is_refusal(status)) << status;
  }
}

}  // namespace
}  // namespace kintsugi::auth
