#include "base/hex.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/split_mix.h"
#include "base/strings.h"

namespace kintsugi {
namespace {

TEST(Hex, EveryByteIsAsInWholeTexts) {
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::string out = "x";
    append_hex(out, byte);
    EXPECT_EQ(out, "x" + hex_encode(std::string(1, static_cast<char>(byte))));
  }
}

TEST(Hex, SoManyDigitsAsAreAskedFor) {
  std::string out;
  append_hex(out, 0x1f4a9, 4);
  append_hex(out, 0x1f4a9, 8);
  EXPECT_EQ(out, "f4a90001f4a9");
}

TEST(SplitMix, TheRowIsThatOfTheReference) {
  std::uint64_t state = 1234567;  // as Vigna's splitmix64.c has it
  EXPECT_EQ(split_mix(state), 6457827717110365317U);
  EXPECT_EQ(split_mix(state), 3203168211198807973U);
  EXPECT_EQ(split_mix(state), 9817491932198370423U);
}

}  // namespace
}  // namespace kintsugi
