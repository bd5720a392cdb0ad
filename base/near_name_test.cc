#include "base/near_name.h"

#include <gtest/gtest.h>

namespace kintsugi {
namespace {

TEST(NearName, OP104_AtMostTwoStepsOrTheOnlyBeginningCount) {
  const std::vector<std::string> known = {"up", "proxy", "shard", "store", "completion"};
  EXPECT_EQ(nearest_name("pxory", known), "proxy");
  EXPECT_EQ(nearest_name("shrad", known), "shard");
  EXPECT_EQ(nearest_name("comp", known), "completion");
  EXPECT_EQ(nearest_name("s", known), "");  // two begin so
  EXPECT_EQ(nearest_name("u", known), "up");
  EXPECT_EQ(nearest_name("xyz", known), "");
  EXPECT_EQ(nearest_name("", known), "");
}

}  // namespace
}  // namespace kintsugi
