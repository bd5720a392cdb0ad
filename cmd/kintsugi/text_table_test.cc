#include "cmd/kintsugi/text_table.h"

#include <gtest/gtest.h>

namespace kintsugi::cmd {
namespace {

TEST(TextTable, ColumnsAreAsWideAsTheirWidestText) {
  EXPECT_EQ(text_table({{"NAME", "READY"}, {"root", "yes"}, {"a-long-name", ""}}),
            "NAME          READY\nroot          yes\na-long-name   -\n");
  EXPECT_EQ(text_table({{"…", "x"}, {"ab", "y"}}), "…    x\nab   y\n");
  EXPECT_EQ(text_table({{"A", "B"}, {"one"}}), "A     B\none\n");
  EXPECT_EQ(text_table({}), "");
}

}  // namespace
}  // namespace kintsugi::cmd
