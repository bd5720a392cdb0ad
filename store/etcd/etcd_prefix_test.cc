#include "store/etcd/etcd_prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "store/etcd/testing/etcd_raw.h"
#include "store/testing/etcd_replica.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;
using Rows = std::map<std::string, std::string>;

/// Copies of a store that goes on (GR-402).
class EtcdPrefixTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
    static int count = 0;
    prefix_ = "/snapshot/" + std::to_string(++count);
    store_ = std::make_unique<Replica>(test_etcd().url(), prefix_);
    tool_ = open(prefix_);
  }
  static std::unique_ptr<EtcdPrefix> open(const std::string& prefix) {
    EtcdParams params;
    params.endpoints = {test_etcd().url()};
    params.prefix = prefix;
    auto opened = EtcdPrefix::open(std::move(params));
    EXPECT_TRUE(opened) << opened.error().to_string();
    return std::move(*opened);
  }
  static std::string row(const EntryView& entry) {
    return std::string(entry.value) + '@' + std::to_string(entry.modified) + '/' +
           std::to_string(entry.created);
  }
  [[nodiscard]] Rows read(std::vector<std::string>* damaged = nullptr) const {
    Rows rows;
    EXPECT_TRUE(tool_->each(
        [&rows](const EntryView& entry) {
          rows.emplace(entry.key, row(entry));
          return Expected<void>();
        },
        damaged));
    return rows;
  }
  [[nodiscard]] Rows served() const {
    Rows rows;
    EXPECT_TRUE((**store_).range({}, [&rows](const EntryView& entry) {
      rows.emplace(entry.key, row(entry));
      return true;
    }));
    return rows;
  }

  std::string prefix_;
  std::unique_ptr<Replica> store_;
  std::unique_ptr<EtcdPrefix> tool_;
};

TEST_F(EtcdPrefixTest, GR_402_WhatWasThenIsReadWhileTheStoreGoesOn) {
  Store& store = **store_;
  write(store, put("a", "1"), put("b", "1"), put("gone", "1"));
  write(store, put("b", "2"));
  const Rows before = served();
  const auto at = tool_->newest();
  ASSERT_TRUE(at);
  write(store, put("a", "later"), put("c", "later"), erase("gone"));
  const auto content = tool_->look_at(*at);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->kind, EtcdPrefix::Kind::kStore);
  EXPECT_EQ(read(), before) << "with revisions as the store tells them";
  const auto now = tool_->look();
  ASSERT_TRUE(now);
  EXPECT_GE(content->revision, store.get("b")->modified);
  EXPECT_LT(content->revision, store.get("c")->modified);
  EXPECT_GE(now->revision, store.get("c")->modified);
  EXPECT_EQ(read(), served());
}

TEST_F(EtcdPrefixTest, GR_402_WhetherSomethingWasWrittenIsSeen) {
  Store& store = **store_;
  write(store, put("a", "1"), put("b", "1"));
  const auto same = [this](std::uint64_t since) {
    const auto found = tool_->is_unchanged_since(since);
    EXPECT_TRUE(found);
    return found && *found;
  };
  std::uint64_t at = tool_->newest().value_or(0);
  EXPECT_TRUE(same(at));
  ASSERT_TRUE(put_raw("/elsewhere", "not ours"));
  ASSERT_TRUE(put_raw(prefix_ + "/lease/controllers", "no row"));
  EXPECT_GT(tool_->newest().value_or(0), at);
  EXPECT_TRUE(same(at));
  write(store, put("a", "2"));
  EXPECT_FALSE(same(at));
  at = tool_->newest().value_or(0);
  write(store, erase("b"));
  EXPECT_FALSE(same(at)) << "a deletion";
  EXPECT_TRUE(same(tool_->newest().value_or(0)));
}

TEST_F(EtcdPrefixTest, GR_406_CompactedWhileItIsRead_ItFails) {
  Store& store = **store_;
  std::vector<Op> ops;
  for (int i = 0; i < 700; ++i) {
    ops.push_back(put("row" + std::to_string(i), "1"));
    if (ops.size() == 100) {
      ASSERT_TRUE(store.commit_wait(std::exchange(ops, {})));
    }
  }
  const auto at = tool_->newest();
  ASSERT_TRUE(at && tool_->look_at(*at));
  bool told = false;
  const auto all = tool_->each([&](const EntryView&) {
    if (!std::exchange(told, true)) {
      write(store, put("more", "1"));
      EXPECT_TRUE(compact_raw(test_etcd().url(), open(prefix_)->newest().value_or(0)));
    }
    return Expected<void>();
  });
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code(), Errc::kCompacted);
  EXPECT_EQ(tool_->look_at(*at).error().code(), Errc::kCompacted);
}

TEST_F(EtcdPrefixTest, GR_404_WhatDoesNotHoldIsNamedAndTheRestIsRead) {
  write(**store_, put("a", "1"), put("b", "2"), put("c", "3"));
  ASSERT_TRUE(put_raw(prefix_ + "/x/b", "without a sum"));
  ASSERT_TRUE(tool_->look_at(tool_->newest().value_or(0)));
  std::vector<std::string> damaged;
  const Rows rows = read(&damaged);
  EXPECT_THAT(damaged, ElementsAre("b"));
  EXPECT_EQ(rows.size(), 2U);
  EXPECT_EQ(tool_->each([](const EntryView&) { return Expected<void>(); }).error().code(),
            Errc::kCorrupt);
}

TEST_F(EtcdPrefixTest, GR_405_AStoreWhoseRevisionsWentOnLaterIsAnotherOne) {
  const auto incarnation = [](EtcdPrefix& prefix) {
    EXPECT_TRUE(prefix.look_at(prefix.newest().value_or(0)));
    return prefix.incarnation();
  };
  const std::string first = incarnation(*tool_);
  write(**store_, put("a", "1"));
  EXPECT_EQ(incarnation(*tool_), first);
  const auto other = open(prefix_ + "-other");
  EXPECT_EQ(other->cluster(), tool_->cluster());
  EXPECT_EQ(incarnation(*other), "") << "there is none";
  const Replica another(test_etcd().url(), prefix_ + "-other");
  EXPECT_NE(incarnation(*other), first);
  ASSERT_TRUE(tool_->look() && tool_->renew());
  EXPECT_NE(incarnation(*tool_), first);
}

TEST_F(EtcdPrefixTest, GR_106_OneRowAndWhatHappenedAreTold) {
  Store& store = **store_;
  write(store, put("a", "1"), put("gone", "1"));
  write(store, put("a", "two"));
  write(store, erase("gone"));
  ASSERT_TRUE(put_raw(prefix_ + "/o/stranger", "no trailer"));
  ASSERT_TRUE(tool_->look());
  EXPECT_EQ(*tool_->get("a"), "two");
  EXPECT_EQ(tool_->get("gone").error().code(), Errc::kNotFound);

  const auto told = [this](Revision after) {
    std::vector<std::string> lines;
    const auto first = tool_->each_event(after, [&lines](const EtcdPrefix::Event& event) {
      lines.push_back(std::string(event.is_delete    ? "-"
                                  : event.is_damaged ? "!"
                                                     : "+") +
                      std::string(event.key) + '=' + std::string(event.value));
    });
    EXPECT_TRUE(first) << first.error().to_string();
    EXPECT_TRUE(!first || after == 0 || *first == after + 1);
    return lines;
  };
  EXPECT_THAT(told(0), ElementsAre("+a=1", "+gone=1", "+a=two", "-gone="));
  EXPECT_THAT(told(store.get("a")->modified), ElementsAre("-gone="));
  EXPECT_THAT(told(synchronized(store)), ElementsAre());
}

TEST_F(EtcdPrefixTest, GR_106_HistoryThatIsGoneIsSaid) {
  Store& store = **store_;
  write(store, put("a", "1"));
  write(store, put("a", "2"));
  const auto at = tool_->newest();
  ASSERT_TRUE(at);
  ASSERT_TRUE(compact_raw(test_etcd().url(), *at));
  ASSERT_TRUE(tool_->look());
  const auto nothing = [](const EtcdPrefix::Event&) {};
  EXPECT_EQ(tool_->each_event(1, nothing).error().code(), Errc::kCompacted);
  const auto first = tool_->each_event(0, nothing);
  ASSERT_TRUE(first);
  EXPECT_EQ(*first, *at + 1) << "a store that was never elsewhere counts as etcd does";
}

}  // namespace
}  // namespace kintsugi::store
