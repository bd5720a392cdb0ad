#include "workers/delivery/agent/manifest_record.h"

#include <gtest/gtest.h>

namespace kintsugi::workers {
namespace {

ResourceMessage message(std::int64_t generation, bool deleting = false) {
  ResourceMessage out;
  out.generation = generation;
  out.deleting = deleting;
  out.uid = "u";
  out.api_version = "v1";
  out.kind = "ConfigMap";
  out.ns = "d";
  out.name = "n";
  out.resource_generation_id = "1.50";
  return out;
}

TEST(ManifestRecord, CM_14_CM_T012_TheGreaterGenerationCounts) {
  const ManifestRecord known = ordered(nullptr, message(13), "v1/", "h13");
  EXPECT_EQ(judge_manifest(nullptr, message(1), "h"), ManifestVerdict::kTaken);
  EXPECT_EQ(judge_manifest(&known, message(12), "h"), ManifestVerdict::kOlder);
  EXPECT_EQ(judge_manifest(&known, message(14), "h"), ManifestVerdict::kTaken);
  EXPECT_EQ(judge_manifest(&known, message(13), "other"), ManifestVerdict::kTaken);
  EXPECT_EQ(judge_manifest(&known, message(13), "h13"), ManifestVerdict::kSame);
}

TEST(ManifestRecord, CM_22_ADeletionWinsOfEqualGenerations) {
  ManifestRecord known = ordered(nullptr, message(13, true), "v1/", "h");
  EXPECT_EQ(judge_manifest(&known, message(13), "x"), ManifestVerdict::kOlder);
  EXPECT_EQ(judge_manifest(&known, message(13, true), "x"), ManifestVerdict::kTaken);
  const ManifestRecord alive = ordered(nullptr, message(13), "v1/", "h");
  EXPECT_EQ(judge_manifest(&alive, message(13, true), "x"), ManifestVerdict::kTaken);
}

TEST(ManifestRecord, CM_T029_WhatWasDeletedComesAgainWithAGreaterOne) {
  ManifestRecord known = ordered(nullptr, message(13, true), "v1/", "h");
  known.state = ManifestState::kDeleted;
  EXPECT_EQ(judge_manifest(&known, message(13), "x"), ManifestVerdict::kOlder);
  EXPECT_EQ(judge_manifest(&known, message(14), "x"), ManifestVerdict::kTaken);
  // The same deletion once more is answered once more (CM-T026).
  EXPECT_EQ(judge_manifest(&known, message(13, true), "h"), ManifestVerdict::kTaken);
}

TEST(ManifestRecord, CM_30_ItIsReadAsItWasWritten) {
  ManifestRecord record = ordered(nullptr, message(7, true), "/v1/", "h");
  record.answered = true;
  record.target_uid = "t";
  record.content_hash = "c";
  record.status_hash = "s";
  const auto read = ManifestRecord::decode(record.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->encode(), record.encode());
  EXPECT_EQ(read->id, "1.50");
  EXPECT_EQ(read->state, ManifestState::kDeleting);
  for (const char* const bad : {"", "null", "{}", R"({"generation":1,"state":9})"}) {
    EXPECT_FALSE(ManifestRecord::decode(bad)) << bad;
  }
}

TEST(ManifestRecord, CM_T056_AnotherDeletionGoesOnWithTheObjectOfTheFirst) {
  ManifestRecord first = ordered(nullptr, message(1, true), "v1/", "h");
  first.target_uid = "t";
  EXPECT_EQ(ordered(&first, message(2, true), "v1/", "i").target_uid, "t");
  EXPECT_EQ(ordered(&first, message(2), "v1/", "i").target_uid, "");
}

TEST(RefusalRecord, CM_54_ItIsReadAsItWasWritten) {
  RefusalRecord refusal;
  refusal.generation = 4;
  refusal.told = true;
  refusal.id = "1.50";
  refusal.prefix = "v1/";
  refusal.hash = "h";
  refusal.reason = "TooLarge";
  refusal.message = "m";
  const auto read = RefusalRecord::decode(refusal.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->encode(), refusal.encode());
  for (const char* const bad : {"", "null", "{}"}) {
    EXPECT_FALSE(RefusalRecord::decode(bad)) << bad;
  }
}

}  // namespace
}  // namespace kintsugi::workers
