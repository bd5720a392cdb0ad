#include "store/transfer/internal/row_sum.h"

#include <gtest/gtest.h>

namespace kintsugi::store {
namespace {

RowSum of(std::initializer_list<std::pair<std::string_view, std::string_view>> rows) {
  RowSum sum;
  for (const auto& [key, value] : rows) {
    sum.add(key, value);
  }
  return sum;
}

TEST(RowSum, GR_306_TheSameRowsInAnyOrder) {
  EXPECT_EQ(of({{"a", "1"}, {"b", "2"}}), of({{"b", "2"}, {"a", "1"}}));
  EXPECT_EQ(of({{"a", "1"}, {"b", "2"}}).digest().size(), 64U);
}

TEST(RowSum, GR_306_WhatIsRemovedIsNotThere) {
  RowSum sum = of({{"a", "1"}, {"b", "2"}, {"c", "3"}});
  sum.remove("b", "2");
  EXPECT_EQ(sum, of({{"c", "3"}, {"a", "1"}}));
  sum.remove("a", "2");
  EXPECT_NE(sum, of({{"c", "3"}}));
}

TEST(RowSum, GR_306_OthersDiffer) {
  const RowSum sum = of({{"a", "1"}, {"b", "2"}});
  EXPECT_NE(sum, of({{"a", "2"}, {"b", "1"}}));
  EXPECT_NE(sum, of({{"a", "1"}}));
  EXPECT_NE(sum, of({{"a", "1"}, {"b", "2"}, {"b", "2"}}));
  EXPECT_NE(of({{"a", "1b"}}), of({{"a1", "b"}})) << "where the key ends counts";
  EXPECT_NE(of({{"a", "1"}, {"a", "1"}}), of({{"b", "1"}, {"b", "1"}}));
}

}  // namespace
}  // namespace kintsugi::store
