#include "server/support_file.h"

#include <gtest/gtest.h>

namespace kintsugi::server {
namespace {

TEST(SupportFile, OP_904_WhatMakesItTooLargeIsLeftOutAndTold) {
  SupportFile file("bundle", 512U << 10U, 0);
  std::string noise;
  std::uint64_t state = 1;
  for (int i = 0; i < 400'000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    noise += static_cast<char>(state >> 56U);
  }
  file.add("small.txt", "text\n", "small");
  file.add("noise", noise, "what cannot be packed");
  file.add("after.txt", "text\n", "small again");
  file.miss("gone.txt", "nobody answered");
  const std::string made = file.finish();
  EXPECT_LT(made.size(), 512U << 10U);
  const std::string small = [] {
    SupportFile one("bundle", 512U << 10U, 0);
    return one.finish();
  }();
  EXPECT_LT(made.size(), small.size() + 2'000) << "the noise is not in it";
  EXPECT_GT(made.size(), small.size());
}

TEST(SupportFile, OP_904_LastLinesAreWholeAndBounded) {
  EXPECT_EQ(last_lines("a\nb\nc\n", 2, 100), "b\nc\n");
  EXPECT_EQ(last_lines("a\nb\nc", 2, 100), "b\nc");
  EXPECT_EQ(last_lines("a\nb\nc\n", 9, 100), "a\nb\nc\n");
  EXPECT_EQ(last_lines("aaaa\nbb\nc\n", 9, 5), "c\n");
  EXPECT_EQ(last_lines("aaaaaaaa", 9, 4), "");
  EXPECT_EQ(last_lines("", 9, 4), "");
}

}  // namespace
}  // namespace kintsugi::server
