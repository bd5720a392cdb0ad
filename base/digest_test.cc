#include "base/digest.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

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

TEST(Digest, WhenAskedForText_ItIsTheSameDigest) {
  EXPECT_EQ(sha256_hex("abc"), hex(sha256("abc")));
  EXPECT_EQ(sha256_hex(std::string(56, 'a')),
            "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(hex_encode(sha256_text("abc")), sha256_hex("abc"));
}

TEST(Sha224, WhenStandardVectorIsGiven_MatchesIt) {
  EXPECT_EQ(hex(sha224("")), "d14a028c2a3a2bc9476102bb288234c415a2b01f828ea62ac5b3e42f");
  EXPECT_EQ(hex(sha224("abc")), "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7");
  EXPECT_EQ(hex(sha224("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "75388b16512776cc5dba5da1fd890150b0c6455cb4f58b1952522525");
}

TEST(Sha1, WhenStandardVectorIsGiven_MatchesIt) {
  EXPECT_EQ(hex(sha1("")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(hex(sha1("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hex(sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(hex(sha1(std::string(1'000'000, 'a'))), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(Sha512, WhenGivenTheVectorOfTheStandard_Agrees) {
  EXPECT_EQ(hex(sha512("abc")),
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
            "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f");
}

TEST(Sha512, WhenTextEndsAroundABlock_AgreesWithOtherImplementations) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {std::string(0, 'a'),
       "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce"
       "47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"},
      {std::string(111, 'a'),
       "fa9121c7b32b9e01733d034cfc78cbf67f926c7ed83e82200ef8681819692176"
       "0b4beff48404df811b953828274461673c68d04e297b0eb7b2b4d60fc6b566a2"},
      {std::string(112, 'a'),
       "c01d080efd492776a1c43bd23dd99d0a2e626d481e16782e75d54c2503b5dc32"
       "bd05f0f1ba33e568b88fd2d970929b719ecbb152f58f130a407c8830604b70ca"},
      {std::string(127, 'a'),
       "828613968b501dc00a97e08c73b118aa8876c26b8aac93df128502ab360f91ba"
       "b50a51e088769a5c1eff4782ace147dce3642554199876374291f5d921629502"},
      {std::string(128, 'a'),
       "b73d1929aa615934e61a871596b3f3b33359f42b8175602e89f7e06e5f658a24"
       "3667807ed300314b95cacdd579f3e33abdfbe351909519a846d465c59582f321"},
      {std::string(1000, 'a'),
       "67ba5535a46e3f86dbfbed8cbbaf0125c76ed549ff8b0b9e03e0c88cf90fa634"
       "fa7b12b47d77b694de488ace8d9a65967dc96df599727d3292a8d9d447709c97"},
  };
  for (const auto& [text, digest] : cases) {
    EXPECT_EQ(hex(sha512(text)), digest) << text.size();
  }
}

TEST(Digest, WhenThreadsAskInTurnAndTogether_EachGetsItsOwn) {
  const auto wanted = hex(sha256("abc"));
  std::vector<std::string> seen(4);
  std::vector<std::thread> threads;
  for (std::string& one : seen) {
    threads.emplace_back([&one] {
      for (int i = 0; i < 1000; ++i) {
        (void)sha512(std::to_string(i));
        one = hex(sha256("abc"));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& one : seen) {
    EXPECT_EQ(one, wanted);
  }
}

}  // namespace
}  // namespace kintsugi
