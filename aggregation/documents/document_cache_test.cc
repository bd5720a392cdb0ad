#include "aggregation/documents/document_cache.h"

#include <gtest/gtest.h>

namespace kintsugi::aggregation {
namespace {

TEST(DocumentCache, WhenPut_FindsTheNewest) {
  DocumentCache cache;
  EXPECT_EQ(cache.find("a"), nullptr);
  (void)cache.put("a", "1", "application/json", "{}");
  const KnownDocumentPtr second = cache.put("a", "2", "application/json", "[]");
  EXPECT_EQ(cache.find("a"), second);
  EXPECT_EQ(second->etag, "2");
  EXPECT_EQ(second->bytes.view(), "[]");
  EXPECT_EQ(cache.size(), 1U);
  cache.forget("a");
  cache.forget("a");
  EXPECT_EQ(cache.find("a"), nullptr);
  EXPECT_EQ(cache.bytes(), 0U);
}

TEST(DocumentCache, WhenShardsSayTheSame_HoldsItOnce) {
  DocumentCache cache;
  const std::string body(100'000, 'x');
  (void)cache.put("a", "1", "t", body);
  const std::size_t one = cache.bytes();
  EXPECT_EQ(cache.put("b", "9", "t", body)->bytes.view().data(),
            cache.find("a")->bytes.view().data());
  EXPECT_LT(cache.bytes(), one + 2'000);
  cache.forget("a");
  EXPECT_EQ(cache.find("b")->bytes.view(), body);
  cache.forget("b");
  EXPECT_EQ(cache.bytes(), 0U);
}

TEST(DocumentCache, WhenFull_TheLongestUnusedGoes) {
  DocumentCache cache(10'000);
  for (const char* key : {"a", "b", "c"}) {
    (void)cache.put(key, "", "t", std::string(2'000, *key));
  }
  EXPECT_NE(cache.find("a"), nullptr);
  (void)cache.put("d", "", "t", std::string(2'000, 'd'));
  EXPECT_EQ(cache.find("b"), nullptr);
  EXPECT_NE(cache.find("a"), nullptr);
  EXPECT_NE(cache.find("d"), nullptr);
  EXPECT_LE(cache.bytes(), 10'000U);
}

TEST(DocumentCache, WhenADocumentIsTooLarge_ItIsNotKept) {
  DocumentCache cache(10'000);
  (void)cache.put("a", "", "t", "small");
  EXPECT_EQ(cache.put("b", "", "t", std::string(3'000, 'b'))->bytes.size(), 3'000U);
  EXPECT_EQ(cache.find("b"), nullptr);
  EXPECT_NE(cache.find("a"), nullptr);
}

TEST(DocumentCache, WhenKeysAreManyAndDocumentsEqual_KeysAreBoundedToo) {
  DocumentCache cache(50'000);
  for (int i = 0; i < 10'000; ++i) {
    (void)cache.put("key" + std::to_string(i), "", "t", "same");
  }
  EXPECT_LE(cache.bytes(), 50'000U);
  EXPECT_LT(cache.size(), 100U);
}

}  // namespace
}  // namespace kintsugi::aggregation
