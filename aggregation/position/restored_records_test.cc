#include "aggregation/position/restored_records.h"

#include <gtest/gtest.h>

#include "aggregation/position/cursor.h"
#include "aggregation/position/slot_table.h"

namespace kintsugi::aggregation {
namespace {

std::string record_of(std::string_view key, std::string_view value, std::int64_t age) {
  const auto record = restored_record(key, value, age);
  EXPECT_TRUE(record) << record.error().to_string();
  return record && *record ? **record : "as it was";
}

TEST(RestoredRecords, GR_410_NoCursorOfBeforeIsOneOfTheRestoredInstallation) {
  const auto before = SlotHistory().changed({{"a", "b"}, {{"a", "x"}, {"b", "y"}}, {}}, 1'000);
  ASSERT_TRUE(before);
  const std::string text = before->to_json().dump();
  const Scope scope{"/clusters/*", "", "configmaps"};
  const std::string cursor =
      CursorCodec(scope, std::make_shared<const SlotHistory>(*before)).format({7, 9});
  std::vector<std::string> cursors = {cursor};
  for (const std::int64_t age : {0, 60, 61}) {
    const auto json = krm::Json::parse(record_of("kintsugi.merge/slots", text, age));
    ASSERT_TRUE(json);
    auto restored = SlotHistory::from_json(*json);
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->current(), before->current());
    const CursorCodec codec(scope, std::make_shared<const SlotHistory>(std::move(*restored)));
    for (const std::string& old : cursors) {
      const DecodedVersion decoded = codec.decode(old, {true, true});
      EXPECT_EQ(decoded.kind, VersionClass::kUnknown) << age;
      EXPECT_EQ(decoded.reason, "check");
    }
    cursors.push_back(codec.format({7, 9}));
    EXPECT_EQ(codec.decode(cursors.back(), {true, true}).kind, VersionClass::kCursor);
  }
}

TEST(RestoredRecords, GR_410_StartsAreCountedFromFurtherOn) {
  EXPECT_EQ(record_of("kintsugi.merge/epoch", "7", 0), "1031");
  EXPECT_EQ(record_of("kintsugi.merge/epoch", "7", 6'000), "1041");
  EXPECT_EQ(record_of("kintsugi.merge/epoch", "1048000", 1), "1048575");
  EXPECT_EQ(record_of("kintsugi.merge/token-key", "secret", 1), "as it was");
  EXPECT_EQ(record_of("configmaps", "{}", 1), "as it was");
}

TEST(RestoredRecords, GR_410_WhatCannotBeReadIsSaid) {
  EXPECT_EQ(restored_record("kintsugi.merge/slots", "{", 1).error().code(), Errc::kCorrupt);
  EXPECT_EQ(restored_record("kintsugi.merge/slots", "{}", 1).error().code(), Errc::kCorrupt);
  EXPECT_EQ(restored_record("kintsugi.merge/epoch", "x", 1).error().code(), Errc::kCorrupt);
}

}  // namespace
}  // namespace kintsugi::aggregation
