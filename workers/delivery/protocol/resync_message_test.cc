#include "workers/delivery/protocol/resync_message.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

std::vector<ResyncItem> many(std::size_t count, std::size_t uid_bytes = 10) {
  std::vector<ResyncItem> out;
  for (std::size_t i = 0; i < count; ++i) {
    std::string uid = std::to_string(i);
    uid.resize(uid_bytes, '"');
    out.push_back({uid, static_cast<std::int64_t>(i + 1), i % 2 == 0, ""});
  }
  return out;
}

TEST(Resync, CM_50_AListComesBackFromItsBatches) {
  const std::vector<ResyncItem> items = many(2'500);
  const auto batches = encode_resync(ResyncKind::kVersions, "a", items);
  ASSERT_EQ(batches.size(), 3U);
  ResyncList list;
  std::optional<std::vector<ResyncItem>> whole;
  for (const std::string& text : batches) {
    EXPECT_FALSE(whole);
    auto batch = parse_resync(text);
    ASSERT_TRUE(batch) << batch.error().to_string();
    whole = list.take(std::move(*batch));
  }
  ASSERT_TRUE(whole);
  EXPECT_EQ(*whole, items);
}

TEST(Resync, CM_50_TheLastBatchCompletesIt_InAnyOrderAndOnce) {
  const std::vector<ResyncItem> items = many(1'500);
  const auto batches = encode_resync(ResyncKind::kVersions, "a", items);
  ASSERT_EQ(batches.size(), 2U);
  const auto first = parse_resync(batches[0]), second = parse_resync(batches[1]);
  ResyncList list;
  EXPECT_FALSE(list.take(*second));
  EXPECT_FALSE(list.take(*second));
  const auto whole = list.take(*first);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->size(), 1'500U);
  EXPECT_EQ(whole->back(), items[999]);
  // A part of another list begins anew.
  EXPECT_FALSE(list.take(*first));
  ResyncBatch other = *second;
  other.id = "b";
  EXPECT_FALSE(list.take(other));
  EXPECT_FALSE(list.take(*second));
}

TEST(Resync, CM_50_BatchesAreBounded_AndAnEmptyListIsOne) {
  for (const std::string& text : encode_resync(ResyncKind::kVersions, "a", many(4'000, 128))) {
    EXPECT_LE(text.size(), kMaxResyncBytes);
  }
  const auto none = encode_resync(ResyncKind::kStatusHashes, "a", {});
  ASSERT_EQ(none.size(), 1U);
  const auto batch = parse_resync(none[0]);
  ASSERT_TRUE(batch);
  ResyncList list;
  const auto whole = list.take(*batch);
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->empty());
}

TEST(Resync, CM_51_WhatIsNone) {
  for (const char* text :
       {"", "[]", "{}", R"({"kind":"VersionList"})", R"({"kind":"Other","items":[]})",
        R"({"kind":"VersionList","batch":5,"of":3,"items":[]})",
        R"({"kind":"VersionList","batch":0,"of":3,"items":[]})",
        R"({"kind":"VersionList","batch":1,"of":100000,"items":[]})",
        R"({"kind":"VersionList","batch":"1","items":[]})",
        R"({"kind":"VersionList","items":[{"generation":1}]})",
        R"({"kind":"VersionList","items":[{"uid":"a/b","generation":1}]})",
        R"({"kind":"VersionList","items":[{"uid":"a","generation":-1}]})",
        R"({"kind":"VersionList","items":[{"uid":"a"}]})",
        R"({"kind":"StatusHashList","items":[{"statusHash":"x"}]})",
        R"({"kind":"VersionList","items":{}})"}) {
    EXPECT_FALSE(parse_resync(text)) << text;
  }
  EXPECT_TRUE(parse_resync(R"({"kind":"StatusHashList","items":[{"uid":"a"}]})"));
}

}  // namespace
}  // namespace kintsugi::workers
