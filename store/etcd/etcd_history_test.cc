// How far back history goes, and an etcd that somebody has restored (GR-117, GR-118, GR-125).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>

#include "store/etcd/etcd_prefix.h"
#include "store/etcd/etcd_store.h"
#include "store/etcd/internal/marks.h"
#include "store/etcd/internal/meta.h"
#include "store/etcd/internal/version.h"
#include "store/etcd/testing/etcd_raw.h"
#include "store/testing/etcd_replica.h"
#include "store/undated.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EtcdHistoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
  }
  static void compacts_soon(Replica& replica) {
    replica.close();
    replica.params().compacts = true;
    replica.params().compaction_interval = milliseconds(50);
    replica.params().history_age = milliseconds(500);
    replica.params().history_events = 5;
    replica.reopen();
  }
  const std::string prefix_ = "/history";
};

template <typename Check>
bool eventually(const Check& check) {
  const TimePoint until = Clock::now() + seconds(60);
  while (!check()) {
    if (Clock::now() > until) {
      return false;
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

TEST(EtcdMarks, GR_117_HowOldOneIsTellsItsPlace) {
  etcd::Marks marks;
  EXPECT_EQ(etcd::begin_of(marks, seconds(300)), 0U);
  marks.every = seconds(30);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    marks.revisions.push_back(i * 100);
  }
  EXPECT_EQ(etcd::begin_of(marks, seconds(300)), 1'000U) << "the eleventh from the end";
  EXPECT_EQ(etcd::begin_of(marks, seconds(3'000)), 100U) << "as far back as they go";
  const etcd::Marks read = etcd::parse_marks(etcd::encode(marks));
  EXPECT_EQ(read.every, marks.every);
  EXPECT_EQ(read.revisions, marks.revisions);
  EXPECT_TRUE(etcd::parse_marks("garbage").revisions.empty());
}

TEST(EtcdVersion, GR_124_WhichOnesAreSupported) {
  const auto supported = [](std::string_view text) {
    const auto version = etcd::Version::parse(text);
    return version && version->is_supported();
  };
  for (const char* text : {"3.4.22", "3.4.23", "3.5.3", "3.5.29", "3.6.0", "3.6.8", "3.7.1"}) {
    EXPECT_TRUE(supported(text)) << text;
  }
  for (const char* text : {"3.3.27", "3.4.21", "3.5.0", "3.5.1", "3.5.2", "2.3.8", "4.0.0", "x"}) {
    EXPECT_FALSE(supported(text)) << text;
  }
}

TEST(EtcdMeta, GR_306_WhatIsNotWholeIsNoStore) {
  etcd::Meta meta;
  meta.uid = "u";
  meta.offset = 7;
  meta.epoch = 3;
  const auto whole = etcd::parse_meta(etcd::encode(meta), "/p");
  ASSERT_TRUE(whole);
  EXPECT_TRUE(etcd::check_whole(*whole, "/p", false));
  EXPECT_EQ(whole->offset, 7U);
  EXPECT_EQ(whole->epoch, 3U);
  meta.state = etcd::Meta::State::kCopying;
  meta.place = "/there";
  EXPECT_THAT(etcd::encode(meta), HasSubstr("\"format\":0")) << "older programs refuse it";
  const auto copying = etcd::parse_meta(etcd::encode(meta), "/p");
  ASSERT_TRUE(copying);
  EXPECT_FALSE(etcd::check_whole(*copying, "/p", true));
  meta.state = etcd::Meta::State::kMoved;
  const auto moved = etcd::parse_meta(etcd::encode(meta), "/p");
  ASSERT_TRUE(moved);
  EXPECT_FALSE(etcd::check_whole(*moved, "/p", false));
  EXPECT_TRUE(etcd::check_whole(*moved, "/p", true));
  EXPECT_FALSE(etcd::parse_meta("{\"format\":2}", "/p"));
  EXPECT_FALSE(etcd::parse_meta("{\"format\":0}", "/p"));
  EXPECT_FALSE(etcd::parse_meta("?", "/p"));
}

TEST(EtcdMeta, GR_211_WhatLaterProgramsSayStays) {
  const auto meta = etcd::parse_meta(
      R"({"format":1,"uid":"u","offset":7,"epoch":3,"lowest":"0.1.0","moons":{"of":["mars"]}})",
      "/p");
  ASSERT_TRUE(meta);
  EXPECT_THAT(etcd::encode(*meta), HasSubstr(R"("moons":{"of":["mars"]})"));
  EXPECT_EQ(etcd::encode(*etcd::parse_meta(etcd::encode(*meta), "/p")), etcd::encode(*meta));
}

TEST(EtcdMeta, GR_211_AProgramBelowTheLowestIsTold) {
  etcd::Meta meta;
  const auto allows = [&meta](const char* lowest, const char* program) {
    meta.lowest = lowest;
    return etcd::check_program(meta, "/p", program).has_value();
  };
  EXPECT_TRUE(allows("0.1.0", "0.1.0"));
  EXPECT_TRUE(allows("0.9.9", "0.10.0"));
  EXPECT_TRUE(allows("0.2.0", "1.0.0"));
  EXPECT_FALSE(allows("0.10.0", "0.9.9"));
  EXPECT_FALSE(allows("1.0.0", "0.99.99"));
  EXPECT_FALSE(allows("0.2.1", "0.2.0"));
  EXPECT_FALSE(allows("later", "0.2.0")) << "what cannot be read is for none";
  meta.lowest = "0.9.0";
  EXPECT_TRUE(etcd::is_for_earlier(meta, "0.10.0"));
  EXPECT_FALSE(etcd::is_for_earlier(meta, "0.9.0"));
  EXPECT_FALSE(etcd::is_for_earlier(meta, "0.8.0")) << "it never falls";
  meta.lowest = "later";
  const auto told = etcd::check_program(meta, "/p", "0.2.0");
  EXPECT_THAT(std::string(told.error().message()), HasSubstr("/p in etcd is for kintsugi later"));
  EXPECT_THAT(std::string(told.error().message()), HasSubstr("this is 0.2.0"));
}

TEST_F(EtcdHistoryTest, GR_211_AnUpgradeIsFinishedUnderWritesThatGoOn) {
  EtcdServer own;
  Replica now(own.url(), prefix_);
  write(*now, put("a", "0"));
  now.close();
  now.params().program = "0.2.0";
  now.reopen();
  const auto watches = now->etcd_stats().watches;
  EtcdParams params = now.params();
  auto tool = EtcdPrefix::open(params);
  ASSERT_TRUE(tool);
  ASSERT_TRUE((*tool)->look());
  ASSERT_TRUE((*tool)->raise_lowest("0.2.0"));
  for (int i = 0; i < 20; ++i) {
    write(*now, put("a", std::to_string(i)));
  }
  EXPECT_EQ(now->etcd_stats().watches, watches) << "nothing began anew";
  params.program = "0.1.9";
  params.mirror_directory += "-older";
  const auto older = EtcdStore::open(params);
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().code(), Errc::kConfig);
  EXPECT_THAT(std::string(older.error().message()), HasSubstr("is for kintsugi 0.2.0 and later"));
  EXPECT_FALSE((*EtcdPrefix::open(params))->look()) << "tools, too";
  now.reopen();
  EXPECT_EQ(now->get("a")->value.view(), "19");
}

TEST_F(EtcdHistoryTest, GR_211_WhoServesItFinishesTheUpgradeByHimself) {
  EtcdServer own;
  Replica now(own.url(), prefix_);
  now.close();
  now.params().program = "0.2.0";
  std::atomic<bool> ended = false;
  now.params().on_ended = [&ended] { ended = true; };
  now.reopen();
  write(*now, put("a", "0"));
  const auto lowest = [&now] { return (*(*EtcdPrefix::open(now.params()))->look()).lowest; };
  const std::string before = lowest();
  ASSERT_NE(before, "0.2.0");
  now->finish_upgrade();
  EXPECT_TRUE(eventually([&] { return lowest() == "0.2.0"; }));
  const auto watches = now->etcd_stats().watches;
  for (int i = 0; i < 3; ++i) {
    now->finish_upgrade();  // it is
    write(*now, put("a", std::to_string(i)));
  }
  EXPECT_EQ(now->etcd_stats().watches, watches) << "nothing began anew";
  EXPECT_FALSE(ended);
  EtcdParams older = now.params();
  older.program = "0.1.9";
  older.mirror_directory += "-older";
  EXPECT_FALSE(EtcdStore::open(older));
}

TEST_F(EtcdHistoryTest, GR_211_WhoIsTooOldThenEnds) {
  EtcdServer own;
  Replica old(own.url(), prefix_);
  old.close();
  std::atomic<bool> ended = false;
  old.params().program = "0.1.0";
  old.params().on_ended = [&ended] { ended = true; };
  old.reopen();
  write(*old, put("a", "0"));
  auto tool = EtcdPrefix::open(old.params());
  ASSERT_TRUE(tool);
  const auto before = (*tool)->look();
  ASSERT_TRUE(before);
  ASSERT_TRUE((*tool)->raise_lowest("0.2.0"));
  EXPECT_TRUE(eventually([&] { return ended.load(); }));
  EXPECT_FALSE(old->commit_wait({put("a", "1")}));
  EtcdParams later = old.params();
  later.program = "0.2.0";
  const auto after = (*EtcdPrefix::open(later))->look();
  ASSERT_TRUE(after);
  EXPECT_LT(after->revision, before->revision + 1'000) << "revisions have not been moved on";
}

TEST_F(EtcdHistoryTest, GR_211_ARecordThatWasRewrittenMeanwhileIsNoOtherHistory) {
  EtcdServer own;
  Replica now(own.url(), prefix_);
  write(*now, put("a", "0"));
  std::atomic<bool> ended = false;
  now.close();
  now.params().on_ended = [&ended] { ended = true; };
  now.reopen();
  std::atomic<bool> is_over = false;
  std::atomic<int> rewritten = 0;
  std::thread upgrades([&] {
    while (!is_over) {
      const auto tool = EtcdPrefix::open(now.params());
      while (!is_over && tool && (*tool)->look() && (*tool)->raise_lowest("0.1.0")) {
        ++rewritten;
      }
    }
  });
  for (int i = 0; i < 3; ++i) {  // the watch is resumed before or after it, and seats are taken
    own.kill();
    own.start();
    write(*now, put("a", std::to_string(i)));
    const int before = rewritten;
    EXPECT_TRUE(eventually([&] { return rewritten > before + 1; }));
  }
  is_over = true;
  upgrades.join();
  EXPECT_FALSE(ended);
}

TEST_F(EtcdHistoryTest, GR_118_OneOfThemCompacts_AndTheNextWhenItIsGone) {
  EtcdServer own;
  auto first = std::make_unique<Replica>(own.url(), prefix_);
  Replica second(own.url(), prefix_);
  write(**first, put("a", "0"));
  // Who stopped here finds history gone once somebody compacts.
  Replica late(own.url(), prefix_);
  const auto is_gone = [&](EtcdStore& writer) {
    late.close();
    int i = 0;
    return eventually([&] {
      for (const TimePoint until = Clock::now() + seconds(1); Clock::now() < until;) {
        write(writer, put("a", std::to_string(++i)));
      }
      late.reopen();
      const bool gone = late->etcd_stats().resyncs > 0;
      late.close();
      return gone;
    });
  };
  compacts_soon(*first);
  compacts_soon(second);
  EXPECT_TRUE(is_gone(**first));
  first.reset();
  late.reopen();
  EXPECT_TRUE(is_gone(*second)) << "the other one has taken over";
  late.reopen();
  EXPECT_EQ(rows(*late, {}), rows(*second, {}));
}

TEST_F(EtcdHistoryTest, GR_406_WhatSomebodyReadsForLongIsNotCompacted) {
  EtcdServer own;
  Replica store(own.url(), prefix_);
  EtcdParams params;
  params.endpoints = {own.url()};
  params.prefix = prefix_;
  const auto tool = EtcdPrefix::open(params);
  ASSERT_TRUE(tool) << tool.error().to_string();
  write(*store, put("a", "1"));
  const auto before = (*tool)->newest();
  write(*store, put("a", "2"));
  const auto held = (*tool)->hold();
  ASSERT_TRUE(held) << held.error().to_string();
  const auto at = (*tool)->newest();
  ASSERT_TRUE(before && at && *before < *at);
  compacts_soon(store);
  const auto is_gone = [&](std::uint64_t revision) {
    write(*store, put("a", "more"));
    const auto found = (*tool)->look_at(revision);
    return !found && found.error().code() == Errc::kCompacted;
  };
  ASSERT_TRUE(eventually([&] { return is_gone(*before); })) << "all that is older";
  const std::uint64_t later = (*tool)->newest().value_or(0);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(is_gone(*at));
  }
  (*tool)->release();
  EXPECT_TRUE(eventually([&] { return is_gone(*at); }));
  EXPECT_TRUE(eventually([&] { return is_gone(later); }));
}

TEST_F(EtcdHistoryTest, GR_117_AReplicaThatStartsHasTheHistoryThatIsMarked) {
  EtcdServer own;
  Replica one(own.url(), prefix_);
  compacts_soon(one);
  one.close();
  one.params().history_age = seconds(600);
  one.reopen();
  write(*one, put("a", "1"), put("b", "1"));
  // A client of one goes on at another that has been made since the last mark.
  ASSERT_TRUE(eventually([&] {
    const Revision seen = write(*one, put("a", "2"));
    const Revision deleted = write(*one, erase("b"));
    const Revision last = write(*one, put("b", "2"));
    Replica fresh(own.url(), prefix_);
    const auto changes = fresh->changes("", seen, 10);
    return changes && changes->events.size() == 2 && changes->events[0].revision == deleted &&
           changes->events[1].revision == last;
  }));
}

TEST_F(EtcdHistoryTest, GR_117_ADeleteBeforeTheBeginIsNotForgotten) {
  Replica one(test_etcd().url(), prefix_ + "/delete");
  write(*one, put("a", "1"));
  const Revision seen = write(*one, put("b", "1"));
  const Revision deleted = write(*one, erase("b"));
  Replica fresh(test_etcd().url(), prefix_ + "/delete");
  EXPECT_EQ(fresh->changes("", seen, 10).error().code(), Errc::kCompacted)
      << "else who has seen b would never hear of its end";
  EXPECT_TRUE(fresh->changes("", std::max(deleted, fresh->current()), 10));
}

// Deletions first, as of where it was, and undated: one of them may have been in that very
// revision.
TEST_F(EtcdHistoryTest, GR_115_WhoWasBehindTellsTheDifference_DeletionsFirst) {
  EtcdCluster cluster;
  Replica one({cluster.member(0).url(), cluster.member(1).url()}, prefix_);
  one.params().write_timeout = seconds(60);
  one.reopen();
  Replica late(cluster.member(2).url(), prefix_);
  write(*one, put("a", "1"), put("b", "1"), put("c", "1"));
  ASSERT_TRUE(eventually([&] { return synchronized(*late) >= one->current(); }));
  const Revision seen = late->current();
  std::mutex mutex;
  std::vector<std::string> told;
  std::vector<Revision> revisions;
  std::vector<Errc> resumed;
  const auto subscription = late->subscribe([&](const EventBatch& batch) {
    const std::lock_guard lock(mutex);
    for (const Event& event : *batch) {
      told.push_back((is_undated(event)               ? "~"
                      : event.type == EventType::kPut ? "+"
                                                      : "-") +
                     event.key + "=" + std::string(event.value.view()) + "<" +
                     std::string(event.previous.view()));
      revisions.push_back(event.revision);
      const auto after = late->changes("", event.revision, 10);
      resumed.push_back(after ? Errc::kOk : after.error().code());
    }
  });
  cluster.member(2).kill();
  const Revision missed = write(*one, put("a", "2"));
  write(*one, erase("b"));
  write(*one, erase("c"));
  const Revision made = write(*one, put("c", "2"));
  const Revision last = write(*one, put("a", "3"));
  ASSERT_NE(last, 0U);
  ASSERT_TRUE(compact_raw(cluster.member(0).url(), last));
  cluster.member(2).start();
  ASSERT_TRUE(eventually([&] { return synchronized(*late) >= last; }));
  EXPECT_EQ(rows(*late, {}), rows(*one, {}));
  const std::lock_guard lock(mutex);
  ASSERT_THAT(told, ElementsAre("~b=1<1", "~c=1<1", "+c=2<", "+a=3<1"));
  EXPECT_GT(revisions[0], seen);
  EXPECT_LE(revisions[0], missed) << "before all that has come since";
  EXPECT_EQ(revisions[1], revisions[0]);
  EXPECT_EQ(revisions[2], made);
  EXPECT_EQ(revisions[3], last);
  // Who has seen as much elsewhere, and not the deletions, would never hear of them. Whether the
  // last one is below what was listed depends on what else this process has written to etcd.
  EXPECT_THAT(resumed,
              ElementsAre(Errc::kCompacted, Errc::kCompacted, Errc::kCompacted, ::testing::_));
}

/// An etcd with a store, whose data is what it was before the last writes.
class Restored : public EtcdHistoryTest {
 protected:
  void copy(const std::string& from, const std::string& to) {
    std::filesystem::remove_all(to);
    std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
  }
  /// As `etcdctl snapshot restore` without --bump-revision: the members begin with old data.
  void restore() {
    own_.kill();
    copy(saved_.data(), own_.data());
    own_.start();
  }
  void save() {
    own_.kill();
    copy(own_.data(), saved_.data());
    own_.start();
  }
  EtcdServer own_;
  TempDir saved_;
};

TEST_F(Restored, GR_125_WhoRunsNotices_AndRevisionsGoForwardOnly) {
  Replica store(own_.url(), prefix_);
  write(*store, put("kept", "1"));
  save();
  Revision last = 0;
  ASSERT_TRUE(eventually([&] { return (last = write(*store, put("lost", "1"))) != 0; }));
  for (int i = 0; i < 50; ++i) {
    last = std::max(last, write(*store, put("lost", std::to_string(i))));
  }
  store.close();
  std::atomic<int> ended = 0;
  store.params().on_ended = [&ended] { ++ended; };
  store.reopen();
  ASSERT_EQ(ended, 0) << "the history is the same";
  ASSERT_TRUE(store->get("lost"));

  restore();
  ASSERT_TRUE(eventually([&] { return ended == 1; }));
  EXPECT_EQ(store->get("kept").error().code(), Errc::kUnavailable);
  EXPECT_EQ(store->health().error().code(), Errc::kUnavailable);
  EXPECT_FALSE(store->commit_wait({put("kept", "2")}));

  store.reopen();
  EXPECT_EQ(store->get("lost").error().code(), Errc::kNotFound);
  EXPECT_EQ(store->get("kept")->value.view(), "1");
  EXPECT_GT(store->compacted(), last) << "410 for all that was told before";
  EXPECT_EQ(store->changes("", last, 10).error().code(), Errc::kCompacted);
  EXPECT_GT(write(*store, put("kept", "2")), last + 1'000'000'000);
  EXPECT_EQ(ended, 1);
}

TEST_F(Restored, GR_125_WhoStartsNoticesByItsMirror_AndTheOthersFollow) {
  Replica one(own_.url(), prefix_);
  Replica two(own_.url(), prefix_);
  write(*one, put("a", "1"));
  save();
  Revision last = 0;
  ASSERT_TRUE(eventually([&] { return (last = write(*one, put("a", "2"))) != 0; }));
  for (int i = 0; i < 50; ++i) {
    last = std::max(last, write(*one, put("b" + std::to_string(i), "2")));
  }
  ASSERT_TRUE(eventually([&] { return two->current() >= last; }));
  one.close();
  two.close();
  restore();
  one.reopen();
  EXPECT_GT(one->compacted(), last);
  const Revision next = write(*one, put("a", "3"));
  EXPECT_GT(next, last);
  two.reopen();
  EXPECT_GE(synchronized(*two), next);
  EXPECT_EQ(rows(*two, {}), rows(*one, {}));
}

TEST_F(Restored, GR_125_ByHand_WhoRunsBeginsAnew) {
  Replica store(own_.url(), prefix_);
  const Revision last = write(*store, put("a", "1"));
  store.close();
  std::atomic<int> ended = 0;
  store.params().on_ended = [&ended] { ++ended; };
  store.reopen();
  {
    auto tool = EtcdPrefix::open(store.params());
    ASSERT_TRUE(tool) << tool.error().to_string();
    ASSERT_TRUE((*tool)->look());
    const auto revision = (*tool)->renew();
    ASSERT_TRUE(revision) << revision.error().to_string();
    EXPECT_GT(*revision, last + 1'000'000'000);
  }
  ASSERT_TRUE(eventually([&] { return ended == 1; }));
  store.reopen();
  EXPECT_EQ(store->get("a")->value.view(), "1");
  EXPECT_EQ(store->changes("", last, 10).error().code(), Errc::kCompacted);
}

TEST_F(Restored, GR_125_WhereOthersHaveWrittenSince_TheHistoryIsSeenToBeAnother) {
  Replica store(own_.url(), prefix_);
  write(*store, put("a", "1"));
  save();
  Revision last = 0;
  ASSERT_TRUE(eventually([&] { return (last = write(*store, put("a", "2"))) != 0; }));
  store.close();
  restore();
  {  // another prefix, so that etcd's revisions are beyond what the mirror has seen
    Replica other(own_.url(), "/other");
    for (int i = 0; i < 40; ++i) {
      write(*other, put("x", std::to_string(i)));
    }
  }
  const auto noticed = EtcdStore::open(store.params());
  EXPECT_FALSE(noticed) << "the next start has another history";
  store.reopen();
  EXPECT_EQ(store->get("a")->value.view(), "1");
  EXPECT_GT(store->compacted(), last);
}

}  // namespace
}  // namespace kintsugi::store
