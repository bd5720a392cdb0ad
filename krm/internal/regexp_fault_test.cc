#include "krm/internal/regexp_fault.h"

#include <gtest/gtest.h>
#include <re2/re2.h>

namespace kintsugi::krm {
namespace {

std::string fault(const char* pattern) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  return regexp_fault(re2::RE2(pattern, options));
}

TEST(RegexpFault, WhenMalformed_AM370_SaysItInGosWords) {
  EXPECT_EQ(fault("a("), "missing closing ): `a(`");
  EXPECT_EQ(fault("a)"), "unexpected ): `a)`");
  EXPECT_EQ(fault("(?=a)"), "invalid or unsupported Perl syntax: `(?=`");
  EXPECT_EQ(fault("[a"), "missing closing ]: `[a`");
  EXPECT_EQ(fault("*"), "missing argument to repetition operator: `*`");
  EXPECT_EQ(fault("a\\"), "trailing backslash at end of expression: ``");
  EXPECT_EQ(fault("\\8"), "invalid escape sequence: `\\8`");
}

}  // namespace
}  // namespace kintsugi::krm
