#include "base/masked_text.h"

#include <gtest/gtest.h>

namespace kintsugi {
namespace {

TEST(MaskedText, OP_305_WhatMayBeSecretIsNotShown) {
  struct Row {
    std::string_view text, shown;
  };
  constexpr Row kRows[] = {
      {"a\n-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nb", "a\n***\nb"},
      {"-----BEGIN PRIVATE KEY-----\nMHc", "***"},
      {"token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln is refused", "token *** is refused"},
      {"Authorization: Bearer abcdefgh.ijkl", "Authorization: *** ***"},
      {"said basic dXNlcjpwYXNz, and", "said basic ***, and"},
      {"at https://user:pass@host:6443/x", "at https://***@host:6443/x"},
      {R"({"password":"a b","name":"c"})", R"({"password":"***","name":"c"})"},
      {R"({"line":"{\"token\":\"abc\"}"})", R"({"line":"{\"token\":\"***\"}"})"},
      {R"({"password":"a\"b","name":"c"})", R"({"password":"***","name":"c"})"},
      {"password=hunter2 next=1", "password=*** next=1"},
      {"Cookie: session=abc", "Cookie: ***"},
      {"client-key-data: TUlJ", "client-key-data: ***"},
      {"/api?watch=1&labelSelector=a%3Db,c&token=x&fieldManager=me y",
       "/api?watch=1&labelSelector=a%3Db,c&token=***&fieldManager=*** y"},
      {"/explain?path=/clusters/root:org/api", "/explain?path=***"},
  };
  for (const auto& [text, shown] : kRows) {
    EXPECT_EQ(masked_text(text), shown);
  }
}

TEST(MaskedText, OP_305_WhatIsNoneStaysAsItIs) {
  constexpr std::string_view kTexts[] = {
      "",
      "token_file: /etc/kintsugi/tokens.csv",
      "the token is refused, as basic as it is; a bearer of news",
      "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n",
      "kintsugi_requests_total{shard=\"root\",code=\"200\"} 12",
      "https://127.0.0.1:6443/clusters/root/api/v1/configmaps?watch=true&limit=500",
      R"({"ts":"2026-01-01T00:00:00Z","level":"info","msg":"listening","port":6443})",
      "what? yes & no",
  };
  for (const std::string_view text : kTexts) {
    EXPECT_EQ(masked_text(text), text);
  }
}

}  // namespace
}  // namespace kintsugi
