#include "server/backup/internal/installation_snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "server/backup/internal/etcd_restorer.h"
#include "server/files.h"
#include "store/lmdb/lmdb_store.h"
#include "store/testing/etcd_replica.h"

namespace kintsugi::server {
namespace {

using store::EtcdServer;
using EtcdReplica = store::Replica;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Rows = std::map<std::string, std::string>;

/// An installation with a proxy in its folder and shards in two etcds.
class InstallationSnapshots : public ::testing::Test {
 protected:
  void SetUp() override {
    if (store::etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
    layout_.dir = folder_.data();
    one_ = serve(etcd_, "one");
    two_ = serve(etcd_, "two");
    far_ = serve(other_etcd_, "far");
    store::LmdbParams params;
    params.directory = layout_.proxy_data();
    params.no_sync = true;
    auto proxy = store::LmdbStore::open(std::move(params));
    ASSERT_TRUE(proxy) << proxy.error().to_string();
    store::write(**proxy, store::put("p", "1"));
  }
  /// As a shard does it.
  std::unique_ptr<EtcdReplica> serve(const EtcdServer& etcd, const std::string& name) const {
    StoreNote note;
    note.etcd.endpoints = {etcd.url()};
    note.etcd.prefix = "/kintsugi/shards/" + name;
    EXPECT_TRUE(make_directories(layout_.shard(name) + "/mirror"));
    EXPECT_TRUE(write_store_note(layout_.shard(name), note));
    return std::make_unique<EtcdReplica>(etcd.url(), note.etcd.prefix);
  }
  [[nodiscard]] std::unique_ptr<InstallationSnapshot> open() const {
    auto opened = InstallationSnapshot::open(layout_);
    EXPECT_TRUE(opened) << opened.error().to_string();
    return opened ? std::move(*opened) : nullptr;
  }
  static Rows rows_of(InstallationSnapshot& snapshot, std::size_t index) {
    Rows rows;
    EXPECT_TRUE(snapshot.read(index, [&rows](const store::EntryView& row) {
      rows.emplace(row.key, row.value);
      return Expected<void>();
    }));
    return rows;
  }

  store::TempDir folder_;
  Layout layout_;
  EtcdServer etcd_, other_etcd_;
  std::unique_ptr<EtcdReplica> one_, two_, far_;
};

TEST_F(InstallationSnapshots, GR_402_FoldersAndSeveralEtcdsAreOfOneMoment) {
  store::write(**one_, store::put("a", "1"));
  store::write(**two_, store::put("b", "1"));
  store::write(**far_, store::put("c", "1"));
  const auto snapshot = open();
  ASSERT_NE(snapshot, nullptr);
  std::vector<std::string> names;
  for (const StoreFolder& one : snapshot->stores()) {
    names.push_back(one.name);
  }
  ASSERT_THAT(names, ElementsAre("proxy", "shard/far", "shard/one", "shard/two"));
  EXPECT_THAT(snapshot->stores()[2].served_in, ElementsAre(layout_.shard("one") + "/mirror"));
  const auto together = snapshot->pin(seconds(10));
  ASSERT_TRUE(together) << together.error().to_string();
  EXPECT_TRUE(*together);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_NE(snapshot->incarnation(i), "");
    EXPECT_TRUE(snapshot->revision(i) && *snapshot->revision(i) > 0);
  }
  store::write(**one_, store::put("a", "later"));
  store::write(**far_, store::erase("c"));
  EXPECT_EQ(rows_of(*snapshot, 0), (Rows{{"p", "1"}}));
  EXPECT_EQ(rows_of(*snapshot, 1), (Rows{{"c", "1"}}));
  EXPECT_EQ(rows_of(*snapshot, 2), (Rows{{"a", "1"}}));
  EXPECT_EQ(rows_of(*snapshot, 3), (Rows{{"b", "1"}}));
}

TEST_F(InstallationSnapshots, GR_402_WhatHasMovedOrDoesNotSayWhereItIsIsNamed) {
  ASSERT_TRUE(std::filesystem::remove(layout_.shard("two") + "/store.json"));
  const auto unsaid = stores_of(layout_);
  ASSERT_FALSE(unsaid);
  EXPECT_THAT(unsaid.error().to_string(), HasSubstr("shards/two: its data is in etcd, and no"));
  StoreNote nowhere;
  nowhere.etcd.endpoints = {etcd_.url()};
  nowhere.etcd.prefix = "/kintsugi/nothing";
  ASSERT_TRUE(write_store_note(layout_.shard("two"), nowhere));
  const auto snapshot = open();
  ASSERT_NE(snapshot, nullptr);
  const auto pinned = snapshot->pin(seconds(10));
  ASSERT_FALSE(pinned);
  EXPECT_THAT(pinned.error().to_string(),
              HasSubstr("/kintsugi/nothing in etcd: no store is there"));
}

TEST_F(InstallationSnapshots, GR_402_AFolderWithDataOfItsOwnStaysWithThat) {
  std::filesystem::create_directories(layout_.shard("one"));
  std::filesystem::copy(layout_.proxy_data(), layout_.shard_data("one"));
  const auto stores = stores_of(layout_);
  ASSERT_TRUE(stores) << stores.error().to_string();
  EXPECT_EQ((*stores)[2].directory, layout_.shard_data("one"));
  EXPECT_FALSE((*stores)[2].note.has_value());
}

TEST_F(InstallationSnapshots, GR_408_PrefixesOfARestoreAreThoseThatProcessesUse) {
  StoreNote access;
  access.etcd.endpoints = {etcd_.url()};
  access.etcd.prefix = "/kintsugi/";
  EtcdRestorer restorer(access);
  const auto used = restorer.open({"proxy", "shard/one"}, "20260102T030405Z");
  ASSERT_FALSE(used);
  EXPECT_THAT(used.error().to_string(), HasSubstr("/kintsugi/shards/one in etcd: is not empty"));
  EtcdRestorer fresh(access);
  ASSERT_TRUE(fresh.open({"proxy", "shard/new"}, "20260102T030405Z"));
  ASSERT_TRUE(fresh.note(layout_, "shard/new"));
  const auto note = read_store_note(layout_.shard("new"));
  ASSERT_TRUE(note && *note);
  EXPECT_EQ((*note)->etcd.prefix, "/kintsugi/shards/new");
  EXPECT_TRUE(file_exists(layout_.shard("new") + "/mirror"));
}

}  // namespace
}  // namespace kintsugi::server
