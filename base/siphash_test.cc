#include "base/siphash.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi {
namespace {

// The vectors of the reference implementation: key 00..0f, text 00..(n-1).
TEST(SipHash, SE072_GivesTheVectorsOfItsAuthors) {
  const SipKey key{0x0706050403020100U, 0x0f0e0d0c0b0a0908U};
  std::string text;
  for (char i = 0; i < 16; ++i) {
    text.push_back(i);
  }
  const std::string_view all = text;
  EXPECT_EQ(siphash(key, ""), 0x726fdb47dd0e0e31U);
  EXPECT_EQ(siphash(key, all.substr(0, 1)), 0x74f839c593dc67fdU);
  EXPECT_EQ(siphash(key, all.substr(0, 8)), 0x93f5f5799a932462U);
  EXPECT_EQ(siphash(key, all.substr(0, 15)), 0xa129ca6149be45e5U);
}

TEST(SipHash, SE072_AnotherKeyGivesOthers) {
  const SipKey one = SipKey::random(), two = SipKey::random();
  EXPECT_NE(siphash(one, "alice"), siphash(two, "alice"));
  EXPECT_EQ(siphash(one, "alice"), siphash(one, "alice"));
}

}  // namespace
}  // namespace kintsugi
