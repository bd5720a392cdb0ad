#include "base/sha1.h"

#include <gtest/gtest.h>

#include <string>

#include "base/strings.h"

namespace kintsugi {
namespace {

std::string hex(std::string_view bytes) {
  const auto digest = sha1(bytes);
  return hex_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

TEST(Sha1, WhenStandardVectorIsGiven_MatchesIt) {
  EXPECT_EQ(hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(hex(std::string(1'000'000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

}  // namespace
}  // namespace kintsugi
