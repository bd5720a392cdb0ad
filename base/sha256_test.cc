#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>

#include "base/strings.h"

namespace kintsugi {
namespace {

template <std::size_t Size>
std::string hex(const std::array<unsigned char, Size>& bytes) {
  return hex_encode({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

TEST(Sha256, WhenStandardVectorIsGiven_MatchesIt) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha224, WhenStandardVectorIsGiven_MatchesIt) {
  EXPECT_EQ(hex(sha224("")), "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f");
  EXPECT_EQ(hex(sha224("abc")), "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7");
  EXPECT_EQ(hex(sha224("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "75388b16512776cc5dba5da1fd890150b0c6455cb4f58b1952522525");
}

}  // namespace
}  // namespace kintsugi
