#include "auth/sealed_token.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace kintsugi::auth {
namespace {

const TokenKey kFirst(1, Secret::copy_of("a secret of sixteen bytes or more"));
const TokenKey kSecond(2, Secret::copy_of("another one of as many"));

TEST(SealedToken, SE166_WhatIsSealed_OpensWhereItWasGivenOut) {
  for (const std::string& plain :
       {std::string(), std::string("a\0b", 3), std::string(5'000, 'x')}) {
    const std::string token = seal_token(plain, "here", kFirst);
    EXPECT_EQ(open_token(token, "here", {kFirst}).value_or("?"), plain);
    EXPECT_NE(token, seal_token(plain, "here", kFirst)) << "no two are alike";
  }
}

TEST(SealedToken, SE166_WhatIsSealed_SaysNothing) {
  const std::string token = seal_token("configmaps/default/secret-name", "cluster user", kFirst);
  const std::string bytes = base64url_decode(token).value_or("");
  for (const char* word : {"configmaps", "default", "secret", "cluster", "user"}) {
    EXPECT_EQ(bytes.find(word), std::string::npos) << word;
    EXPECT_EQ(token.find(word), std::string::npos) << word;
  }
}

TEST(SealedToken, SE166_WhateverIsChanged_DoesNotOpen) {
  const std::string token = seal_token("rows", "here", kFirst);
  const std::string bytes = *base64url_decode(token);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string broken = bytes;
    broken[i] = static_cast<char>(broken[i] ^ 1);
    EXPECT_FALSE(open_token(base64url_encode(broken), "here", {kFirst, kSecond})) << i;
    EXPECT_FALSE(open_token(base64url_encode(bytes.substr(0, i)), "here", {kFirst})) << i;
  }
  EXPECT_FALSE(open_token(token + "A", "here", {kFirst}));
  EXPECT_FALSE(open_token("", "here", {kFirst}));
  EXPECT_FALSE(open_token("!", "here", {kFirst}));
  EXPECT_EQ(open_token(token, "there", {kFirst}).error(), TokenFault::kForeign);
  EXPECT_EQ(
      open_token(token, "here", {{1, Secret::copy_of("of the same number, not the same")}}).error(),
      TokenFault::kForeign);
}

TEST(SealedToken, SE166_WhenKeysRotate_OldTokensOpenUntilTheirKeyIsTakenOut) {
  const std::string old = seal_token("rows", "here", kFirst);
  EXPECT_TRUE(open_token(old, "here", {kSecond, kFirst}));
  EXPECT_EQ(open_token(old, "here", {kSecond}).error(), TokenFault::kOldKey);
  EXPECT_EQ(open_token(old, "here", {}).error(), TokenFault::kOldKey);
}

TEST(SealedToken, SE166_NoPartsAreBoundAsOthersAre) {
  EXPECT_NE(bound_to({"a", "bc"}), bound_to({"ab", "c"}));
  EXPECT_NE(bound_to({"a", ""}), bound_to({"a"}));
  EXPECT_NE(bound_to({"a\n", "b"}), bound_to({"a", "\nb"}));
  EXPECT_NE(bound_to({"1:a", ""}), bound_to({"", "1:a"}));
}

}  // namespace
}  // namespace kintsugi::auth
