#include "store/batches.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

TEST(TakeBatch, GR_102_TakesWhatFitsAndLeavesRoomForGuards) {
  std::vector<Op> rest;
  for (int i = 0; i < 200; ++i) {
    rest.push_back(put("k" + std::to_string(i), "v"));
  }
  const Limits limits;
  std::vector<Op> taken;
  std::size_t batches = 0;
  while (!rest.empty()) {
    for (Op& op : take_batch(rest, limits)) {
      taken.push_back(std::move(op));
    }
    ++batches;
  }
  EXPECT_EQ(batches, 3U);
  ASSERT_EQ(taken.size(), 200U);
  EXPECT_EQ(taken[199].key, "k199") << "in the order that they came in";
}

TEST(TakeBatch, GR_102_CountsBytesAndTakesOneAtLeast) {
  std::vector<Op> rest = {put("a", std::string(90, 'x')), put("b", std::string(20, 'x')),
                          put("c", "x")};
  const Limits limits{100, 50};
  EXPECT_EQ(take_batch(rest, limits).size(), 1U);
  EXPECT_EQ(take_batch(rest, limits).size(), 2U);
  EXPECT_TRUE(take_batch(rest, limits).empty());
}

}  // namespace
}  // namespace kintsugi::store
