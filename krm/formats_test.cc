#include "krm/formats.h"

#include <gtest/gtest.h>

namespace kintsugi::krm {
namespace {

TEST(IsRequestUri, AM393_TakesWhatGoTakes) {
  for (const char* good : {"https://a", "https://shard.example.test:1", "http://[::1]:80/x?y",
                           "/a/b", "urn:x", "https://a/b c"}) {
    EXPECT_TRUE(is_request_uri(good)) << good;
  }
  for (const char* bad : {"", "x y", "a", "://a", "1http://a", "https://a b", "https://a\"b/",
                          "a\x01:b", "ht tp://a"}) {
    EXPECT_FALSE(is_request_uri(bad)) << bad;
  }
}

}  // namespace
}  // namespace kintsugi::krm
