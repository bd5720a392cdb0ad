#include "aggregation/position/internal/shared_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/strings.h"

namespace kintsugi::aggregation {
namespace {

using ::testing::ElementsAre;

class SharedRecords : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("kintsugi-" + hex_encode(random_bytes(8)));
    std::filesystem::create_directory(folder_);
    path_ = (folder_ / "record").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::string path_;
};

SlotChange shards(std::vector<std::string> uids, const std::string& label = "") {
  SlotChange change;
  change.present = std::move(uids);
  for (const std::string& uid : change.present) {
    change.labels[uid] = label;
  }
  return change;
}

SlotHistory after(const SlotHistory& record, const SlotChange& change) {
  return record.changed(change, 1).value_or(record);
}

TEST_F(SharedRecords, WhenTwoUpdate_AGG509_EachBuildsOnTheOther) {
  SharedRecord one(path_);
  SharedRecord two(path_);
  EXPECT_EQ(one.read().error().code(), Errc::kNotFound);
  const auto first = one.update([](SharedContent& content) {
    content.token_secret = Secret::copy_of({"\x01\x00\xff", 3});
    content.slots = *content.slots.changed(shards({"a"}), 1);
    ++content.epoch;
    return true;
  });
  ASSERT_TRUE(first);
  EXPECT_FALSE(one.has_changed());
  EXPECT_TRUE(two.has_changed());
  const auto second = two.update([](SharedContent& content) {
    content.slots = *content.slots.changed(shards({"a", "b"}), 2);
    ++content.epoch;
    return true;
  });
  ASSERT_TRUE(second);
  EXPECT_EQ(second->token_secret, first->token_secret);
  EXPECT_EQ(second->epoch, 2U);
  EXPECT_TRUE(one.has_changed());
  const auto read = one.read();
  ASSERT_TRUE(read);
  EXPECT_FALSE(one.has_changed());
  EXPECT_THAT(read->slots.current().uids, ElementsAre("a", "b"));
  EXPECT_EQ(read->slots.current().generation, 2U);
}

TEST_F(SharedRecords, WhenNothingChanges_NothingIsWritten) {
  SharedRecord one(path_);
  ASSERT_TRUE(one.update([](SharedContent& content) {
    content.epoch = 7;
    return true;
  }));
  SharedRecord two(path_);
  ASSERT_TRUE(two.update([](SharedContent&) { return false; }));
  EXPECT_FALSE(one.has_changed());
}

TEST_F(SharedRecords, WhenAnotherIsAtIt_IsTriedAgain) {
  SharedRecord one(path_);
  SharedRecord two(path_);
  ASSERT_TRUE(one.update([&](SharedContent&) {
    EXPECT_EQ(two.update([](SharedContent&) { return true; }).error().code(), Errc::kOverloaded);
    return true;
  }));
  EXPECT_TRUE(two.update([](SharedContent&) { return true; }));
}

TEST_F(SharedRecords, WhenItIsNoRecord_IsLeftAlone) {
  for (const std::string text : {"", "{", "[]", "{\"epoch\":1,\"slots\":{}}", "{\"epoch\":-1}"}) {
    std::ofstream(path_, std::ios::trunc) << text;
    SharedRecord one(path_);
    EXPECT_EQ(one.update([](SharedContent&) { return true; }).error().code(), Errc::kCorrupt);
    std::ifstream file(path_);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
  }
}

TEST(SharedChange, WhenAReplicaSeesLess_AGG509_TheRecordStays) {
  const SlotHistory record = after({}, shards({"a", "b", "c"}));
  // It has told of a and b, and not yet heard of c.
  const auto quiet = shared_change(record, shards({"a", "b"}), shards({"a", "b"}), {});
  EXPECT_FALSE(record.changed(quiet, 2));
  // It hears of c.
  EXPECT_FALSE(
      record.changed(shared_change(record, shards({"a", "b", "c"}), shards({"a", "b"}), {}), 2));
  // It saw b go.
  const auto gone = shared_change(record, shards({"a"}), shards({"a", "b"}), {});
  EXPECT_THAT(gone.present, ElementsAre("a", "c"));
}

TEST(SharedChange, WhenAReplicaLags_AGG509_WhatLeftStaysOut) {
  const SlotHistory record = after({}, shards({"a"}));
  const auto lags = shared_change(record, shards({"a", "b"}), shards({"a", "b"}), {});
  EXPECT_THAT(lags.present, ElementsAre("a"));
  const auto insists = shared_change(record, shards({"a", "b"}), shards({"a", "b"}), {"b"});
  EXPECT_THAT(insists.present, ElementsAre("a", "b"));
}

TEST(SharedChange, WhenAReplicaStarts_TheRecordBecomesWhatItSees) {
  const SlotHistory record = after({}, shards({"a", "b"}));
  EXPECT_THAT(shared_change(record, shards({"b", "c"}), std::nullopt, {}).present,
              ElementsAre("b", "c"));
}

TEST(SharedChange, WhenLabelsChange_OnlyWhoSawItTells) {
  const SlotHistory record = after({}, shards({"a", "b"}, "region=eu"));
  EXPECT_FALSE(record.changed(
      shared_change(record, shards({"a", "b"}, "region=us"), shards({"a", "b"}, "region=us"), {}),
      2));
  EXPECT_TRUE(record.changed(
      shared_change(record, shards({"a", "b"}, "region=us"), shards({"a", "b"}, "region=eu"), {}),
      2));
}

}  // namespace
}  // namespace kintsugi::aggregation
