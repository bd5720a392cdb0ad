#include "base/shown_text.h"

#include <gtest/gtest.h>

namespace kintsugi {
namespace {

TEST(ShownText, WhenItIsLong_NoPartOfACharacterIsLeft) {
  EXPECT_EQ(shown_text("abc"), "abc");
  EXPECT_EQ(shown_text("abc", 2), "ab");
  EXPECT_EQ(shown_text("a\xc3\xa4"
                       "b",
                       2),
            "a");
  EXPECT_EQ(shown_text("a\xc3\xa4"
                       "b",
                       3),
            "a\xc3\xa4");
  EXPECT_EQ(shown_text("\xc3\xa4", 1), "");
}

TEST(ShownText, WhenItIsNoUtf8_ForeignBytesAreQuestionMarks) {
  EXPECT_EQ(shown_text("a\xff\xc3\xa4"), "a???");
  EXPECT_EQ(shown_text("a\xff", 1), "a");
}

}  // namespace
}  // namespace kintsugi
