#include "workers/runtime/status/redactor.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace kintsugi::workers {
namespace {

TEST(Redactor, RT84_RT_T103_ValuesAreReplacedInEveryForm) {
  Redactor redactor;
  const std::string value = "p\"4/ss w0rd+=";
  ASSERT_TRUE(redactor.know("ns/creds/password", Secret::copy_of(value + "\n")));
  const std::string base64 = base64_encode(value);
  for (const std::string& form :
       {value, base64, base64_encode(value + "\n"), base64url_encode(value), percent_encode(value),
        std::string(R"(p\"4/ss w0rd+=)")}) {
    const std::string out = redactor.redact("a " + form + " b " + form);
    EXPECT_EQ(out.find(form), std::string::npos) << form;
    EXPECT_TRUE(out.starts_with("a ***")) << out;
    EXPECT_EQ(out.find("w0rd"), std::string::npos) << out;
  }
  redactor.forget("ns/creds/password");
  EXPECT_EQ(redactor.redact(value), value);
}

TEST(Redactor, RT84_WhenValuesOverlap_NothingOfEitherStays) {
  Redactor redactor;
  ASSERT_TRUE(redactor.know("a", Secret::copy_of("secret-one")));
  ASSERT_TRUE(redactor.know("b", Secret::copy_of("one-and-two")));
  ASSERT_TRUE(redactor.know("c", Secret::copy_of("secret-one-longer")));
  EXPECT_EQ(redactor.redact("<secret-one-and-two>"), "<***>");
  EXPECT_EQ(redactor.redact("<secret-one-longer>"), "<***>");
  EXPECT_EQ(redactor.redact("secret-on"), "secret-on");
  EXPECT_EQ(redactor.redact(""), "");
}

TEST(Redactor, RT84_ShortValuesAreWholeWords) {
  Redactor redactor;
  ASSERT_TRUE(redactor.know("a", Secret::copy_of("a")));
  ASSERT_TRUE(redactor.know("b", Secret::copy_of("xyz")));
  EXPECT_EQ(redactor.redact("a bad xyz, xyzzy: a"), "*** bad ***, xyzzy: ***");
}

TEST(Redactor, RT84_LinesOfAKeyAreValuesToo) {
  Redactor redactor;
  const std::string line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC";
  ASSERT_TRUE(redactor.know("key", Secret::copy_of("-----BEGIN PRIVATE KEY-----\n" + line +
                                                   "\n-----END PRIVATE KEY-----\n")));
  EXPECT_EQ(redactor.redact("bad line " + line + "!"), "bad line ***!");
  EXPECT_EQ(redactor.redact("-----BEGIN PRIVATE KEY-----"), "-----BEGIN PRIVATE KEY-----");
}

TEST(Redactor, RT84_WhenAnOwnersValueChanges_TheOldOneIsForgotten) {
  Redactor redactor;
  ASSERT_TRUE(redactor.know("a", Secret::copy_of("first-value")));
  ASSERT_TRUE(redactor.know("a", Secret::copy_of("other-value")));
  EXPECT_EQ(redactor.redact("first-value other-value"), "first-value ***");
  ASSERT_TRUE(redactor.know("a", Secret::copy_of(" \n")));
  EXPECT_EQ(redactor.size(), 0U);
}

TEST(Redactor, RT84_WhenALimitIsReached_SaysSo) {
  Redactor redactor;
  EXPECT_FALSE(
      redactor.know("big", Secret::copy_of(std::string(Redactor::kMaxValueBytes + 1, 'x'))));
  EXPECT_EQ(redactor.size(), 0U);
}

TEST(PeerMessage, RT84_IsPrintableWithoutSecretsAndCutTo256Bytes) {
  Redactor redactor;
  ASSERT_TRUE(redactor.know("a", Secret::copy_of("hunter2hunter2")));
  EXPECT_EQ(peer_message("login \x1b[31mfailed\x07\r\nfor hunter2\x01hunter2\x7f \xC2\x85\xff!",
                         redactor),
            "login [31mfailed  for *** ?!");
  const std::string long_text(300, 'x');
  EXPECT_EQ(peer_message(long_text, redactor), long_text.substr(0, 256));
  // A secret across the cut leaves no part of itself.
  const std::string cut = peer_message(std::string(250, 'x') + "hunter2hunter2", redactor);
  EXPECT_EQ(cut, std::string(250, 'x') + "***");
}

TEST(CutUtf8, RT80_CutsBetweenCharacters) {
  EXPECT_EQ(cut_utf8("abc", 3), "abc");
  EXPECT_EQ(cut_utf8("ab\xC3\xA9", 3), "ab");
  EXPECT_EQ(cut_utf8("ab\xC3\xA9", 4), "ab\xC3\xA9");
  EXPECT_EQ(cut_utf8("\xF0\x9F\x98\x80", 3), "");
}

}  // namespace
}  // namespace kintsugi::workers
