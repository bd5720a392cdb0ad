#include "aggregation/position/token_keys.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::aggregation {
namespace {

const std::string kOld = "3 000102030405060708090a0b0c0d0e0f101112131415161718191A1b1c1d1e1f";

TEST(TokenKeys, WhenRead_T29_TheFirstSignsAndAllAreAccepted) {
  const auto keys = parse_token_keys("# since monday\n 7 " + std::string(64, 'a') + " \n\n" + kOld);
  ASSERT_TRUE(keys);
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ(keys->front().id, 7);
  EXPECT_EQ(keys->back().id, 3);
  EXPECT_EQ(keys->back().secret.size(), 32U);
  EXPECT_EQ(keys->back().secret.view()[31], '\x1f');
}

TEST(TokenKeys, WhenWrong_NamesTheLine) {
  const std::string secret(32, 'b');
  for (const std::string& text :
       {std::string(), std::string("# none\n"), "256 " + secret, "x " + secret, "1 " + secret + "b",
        "1 " + std::string(30, 'b'), std::string("1 "), std::string("1"), secret,
        "1 " + std::string(32, 'g'), "1 " + std::string(4'096, 'b')}) {
    const auto keys = parse_token_keys(text);
    ASSERT_FALSE(keys) << text;
    EXPECT_EQ(keys.error().code(), Errc::kConfig);
  }
  EXPECT_EQ(parse_token_keys(kOld + "\n" + kOld).error().message(),
            "line 2: the id is that of another key");
  std::string many;
  for (int id = 0; id < 9; ++id) {
    many += std::to_string(id) + ' ' + secret + '\n';
  }
  EXPECT_FALSE(parse_token_keys(many));
}

}  // namespace
}  // namespace kintsugi::aggregation
