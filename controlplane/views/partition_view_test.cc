#include "controlplane/views/partition_view.h"

#include <gtest/gtest.h>

namespace kintsugi::controlplane {
namespace {

using krm::Json;

Json parse(std::string_view text) {
  auto json = Json::parse(text);
  EXPECT_TRUE(json) << text;
  return json ? std::move(*json) : Json();
}

TEST(PartitionNote, KK_201_WhatIsStored) {
  const Json eu = parse(R"({"partition":"p","source":"a","selector":{"matchLabels":{"r":"eu"}}})");
  const Json all = parse(R"({"partition":"p","source":"a"})");
  const Json gone = parse(R"({"partition":"p","source":"a","gone":true})");
  const NoteOutcome first = judge_note(eu, std::nullopt);
  EXPECT_TRUE(first.writes);
  ASSERT_TRUE(first.fact);
  EXPECT_EQ(first.fact->dump(), R"({"selector":{"matchLabels":{"r":"eu"}},"source":"a"})");
  EXPECT_FALSE(judge_note(eu, first.fact).writes) << "nothing is new";
  const NoteOutcome wider = judge_note(all, first.fact);
  EXPECT_TRUE(wider.writes);
  EXPECT_EQ(wider.fact->dump(), R"({"source":"a"})");
  EXPECT_FALSE(judge_note(all, wider.fact).writes);
  EXPECT_TRUE(judge_note(eu, wider.fact).writes);
  EXPECT_TRUE(judge_note(gone, first.fact).writes);
  EXPECT_FALSE(judge_note(gone, first.fact).fact);
  EXPECT_FALSE(judge_note(gone, std::nullopt).writes);
}

TEST(PartitionNote, KK_201_AnotherProxyWithoutThePartitionTakesNothingBack) {
  const Json mine = parse(R"({"partition":"p","source":"a"})");
  const std::optional<Json> fact = judge_note(mine, std::nullopt).fact;
  EXPECT_FALSE(judge_note(parse(R"({"partition":"p","source":"b","gone":true})"), fact).writes);
  EXPECT_TRUE(judge_note(parse(R"({"partition":"p","source":"b"})"), fact).writes)
      << "who has one says what it is";
}

}  // namespace
}  // namespace kintsugi::controlplane
