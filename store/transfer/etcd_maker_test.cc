#include "store/transfer/etcd_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/testing/etcd_replica.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Revision kAfter = 3'000'000'000;

class EtcdMakerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
    static int count = 0;
    root_ = "/maker/" + std::to_string(++count);
  }
  [[nodiscard]] EtcdParams params(const std::string& name) const {
    EtcdParams out;
    out.endpoints = {test_etcd().url()};
    out.prefix = root_ + name;
    return out;
  }
  [[nodiscard]] Expected<std::unique_ptr<EtcdMaker>> make(const std::string& name) const {
    return EtcdMaker::make(params(name), "20260102T030405Z");
  }
  [[nodiscard]] Expected<std::unique_ptr<EtcdStore>> open(const std::string& name) const {
    const TempDir mirror;
    EtcdParams etcd = params(name);
    etcd.mirror_directory = mirror.data();
    return EtcdStore::open(std::move(etcd));
  }
  std::string root_;
};

std::vector<std::string> keys_of(const Store& store) {
  std::vector<std::string> out;
  EXPECT_TRUE(store.range({}, [&out](const EntryView& entry) {
    out.push_back(std::string(entry.key) + '=' + std::string(entry.value));
    return true;
  }));
  return out;
}

TEST_F(EtcdMakerTest, GR_409_AllBecomeStoresAtOnceAndBeginLater) {
  std::vector<std::unique_ptr<EtcdMaker>> makers;
  for (const char* name : {"/proxy", "/shards/root"}) {
    auto maker = make(name);
    ASSERT_TRUE(maker) << maker.error().to_string();
    ASSERT_TRUE((*maker)->begin(kAfter));
    ASSERT_TRUE((*maker)->put({"a", name, 2, 3}));
    ASSERT_TRUE((*maker)->put({"b", "1", 1, 1}));
    const auto made = (*maker)->check();
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_EQ(made->rows, 2U);
    EXPECT_GT(made->revision, kAfter);
    makers.push_back(std::move(*maker));
  }
  for (const char* name : {"/proxy", "/shards/root"}) {
    const auto half = open(name);
    ASSERT_FALSE(half);
    EXPECT_EQ(half.error().code(), Errc::kConfig);
    EXPECT_THAT(half.error().to_string(), HasSubstr("`kintsugi restore` again"));
  }
  ASSERT_TRUE(EtcdMaker::publish(makers));
  const auto store = open("/shards/root");
  ASSERT_TRUE(store && open("/proxy"));
  EXPECT_THAT(keys_of(**store), ElementsAre("a=/shards/root", "b=1"));
  EXPECT_GT((*store)->get("b")->modified, kAfter);
  EXPECT_EQ((*store)->changes("", kAfter, 10).error().code(), Errc::kCompacted) << "410 once";
  EXPECT_THAT(make("/proxy").error().to_string(), HasSubstr("is not empty"));
}

TEST_F(EtcdMakerTest, GR_408_WhatDidNotEndIsReplacedAndNobodyElseIs) {
  {
    auto killed = make("/one");
    ASSERT_TRUE(killed && (*killed)->begin(5));
    ASSERT_TRUE((*killed)->put({"left over", "1", 1, 1}) && (*killed)->check());
  }
  auto first = make("/one");
  auto second = make("/one");
  ASSERT_TRUE(first && second);
  ASSERT_TRUE((*first)->begin(kAfter) && (*first)->put({"a", "1", 1, 1}) && (*first)->check());
  EXPECT_EQ((*second)->begin(kAfter).error().code(), Errc::kConflict) << "of two one fails";
  std::vector<std::unique_ptr<EtcdMaker>> makers;
  makers.push_back(std::move(*first));
  ASSERT_TRUE(EtcdMaker::publish(makers));
  EXPECT_THAT(keys_of(**open("/one")), ElementsAre("a=1"));
}

TEST_F(EtcdMakerTest, GR_408_WhenOneIsNotAsItWas_NoneBecomesAStore) {
  std::vector<std::unique_ptr<EtcdMaker>> makers;
  for (const char* name : {"/a", "/b"}) {
    auto maker = make(name);
    ASSERT_TRUE(maker && (*maker)->begin(5) && (*maker)->check());
    makers.push_back(std::move(*maker));
  }
  auto other = make("/b");
  ASSERT_TRUE(other && (*other)->begin(7));
  EXPECT_EQ(EtcdMaker::publish(makers).error().code(), Errc::kConflict);
  EXPECT_FALSE(open("/a"));
  EXPECT_FALSE(open("/b"));
}

}  // namespace
}  // namespace kintsugi::store
