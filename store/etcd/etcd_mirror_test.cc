// The mirror of the etcd store on a disk that fails, and while it is told a difference (GR-115 to
// GR-119).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <set>
#include <thread>

#include "store/etcd/etcd_store.h"
#include "store/etcd/testing/etcd_raw.h"
#include "store/testing/etcd_replica.h"

namespace kintsugi::store {
namespace {

template <typename Check>
bool eventually(const Check& check) {
  const TimePoint until = Clock::now() + seconds(60);
  while (!check()) {
    if (Clock::now() > until) {
      return false;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

std::string numbered(int i) { return "k" + std::to_string(1'000 + i); }

/// Two processes on a prefix: one writes, and the mirror of the other one is on a disk that fails.
class EtcdMirrorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
    begin();
  }
  void begin() {
    static int count = 0;
    prefix_ = "/mirror/" + std::to_string(++count);
    one_ = std::make_unique<Replica>(test_etcd().url(), prefix_);
    other_ = std::make_unique<Replica>(test_etcd().url(), prefix_);
    other_->close();
    other_->params().synchronize_timeout = seconds(60);
    other_->params().mirror_fault_for_test = [this](bool committed) {
      return committed || !breaks_ ? 0 : on_commit(++commits_);
    };
    other_->reopen();
    write(one(), put("a", "1"), put("gone", "1"));
    ASSERT_TRUE(eventually([&] { return synchronized(other()) >= one().current(); }));
  }
  void TearDown() override { restore(); }
  [[nodiscard]] EtcdStore& one() const { return **one_; }
  [[nodiscard]] EtcdStore& other() const { return **other_; }

  /// From now on; `on_commit` decides. The first that fails waits until the mirror was given all
  /// that was written before let_fail().
  void breaks() {
    commits_ = 0;
    breaks_ = true;
  }
  void restore() { breaks_ = false; }
  void let_fail() { ASSERT_TRUE(put_raw(prefix_ + "/o/foreign", "?")); }
  int fail_once_all_wait() const {
    EXPECT_TRUE(eventually([&] { return other().etcd_stats().foreign_keys > 0; }));
    return EIO;
  }
  bool is_equal() const {
    return eventually([&] {
      return synchronized(other()) >= one().current() && rows(other(), {}) == rows(one(), {});
    });
  }

  std::atomic<bool> breaks_ = false;
  std::function<int(int number)> on_commit;
  std::atomic<int> commits_ = 0;
  std::unique_ptr<Replica> one_, other_;

 private:
  std::string prefix_;
};

/// Who catches up hears about progress too early (etcd before 3.4.31), and a prefix of others moves
/// etcd's newest revision all the time.
TEST_F(EtcdMirrorTest, GR_113_BesideABusyPrefix_NothingThatIsReadIsOld) {
  Replica others(test_etcd().url(), "/mirror/of-others");
  std::atomic<bool> ends = false;
  std::thread busy([&] {
    for (int i = 0; !ends; ++i) {
      write(*others, put("busy-" + std::to_string(i % 50), std::string(1'000, 'x')));
    }
  });
  for (int turn = 0; turn < 10; ++turn) {
    other_->close();
    Revision last = 0;
    for (int i = 0; i < 40; ++i) {
      last = write(one(), put("a", std::to_string(turn) + "-" + std::to_string(i)), put("b", "1"));
    }
    other_->reopen();
    for (int i = 40; i < 60; ++i) {
      const std::string value = std::to_string(turn) + "-" + std::to_string(i);
      last = write(one(), put("a", value));
      EXPECT_GE(synchronized(other()), last);
      EXPECT_EQ(other().get("a")->value.view(), value);
    }
  }
  ends = true;
  busy.join();
}

TEST_F(EtcdMirrorTest, GR_116_WhatItCouldNotWriteComesLaterAsEtcdHasIt) {
  // The second one is a probe, the third one the first part of the comparison.
  for (const std::set<int>& failing : {std::set<int>{1}, std::set<int>{1, 3}}) {
    on_commit = [&](int number) {
      return number == 1 ? fail_once_all_wait() : failing.contains(number) ? EIO : 0;
    };
    breaks();
    const Revision lost = write(one(), put("a", "2"));
    for (int i = 0; i < 20; ++i) {
      write(one(), put(numbered(i), "1"));
    }
    write(one(), erase("gone"));
    let_fail();
    ASSERT_NE(write(one(), put("b", "1")), 0U);
    EXPECT_TRUE(is_equal()) << failing.size();
    EXPECT_EQ(other().get("a")->modified, lost);
    EXPECT_NE(write(other(), put("a", "3", lost)), 0U) << "who has read it may write it";
    restore();
    begin();
  }
}

TEST_F(EtcdMirrorTest, GR_119_WhileItIsToldADifferenceNobodyReadsForNewest) {
  std::promise<std::string> read;
  std::atomic<bool> has_read = false;
  std::atomic<bool> read_within = false;
  on_commit = [&](int number) {
    if (number == 1) {
      return fail_once_all_wait();
    }
    if (number == 4) {  // a part of the difference is there, and what drives the store knows it
      std::promise<void> turn;
      other().commit({erase("")}, [&turn](const Expected<CommitResult>&) { turn.set_value(); });
      turn.get_future().wait();
      read_within = has_read.load();
    }
    return 0;
  };
  breaks();
  write(one(), put("a", "2"));
  const auto asked = other().etcd_stats().head_reads;
  other().synchronize([&](const Expected<Revision>& done) {
    has_read = true;
    read.set_value(done ? std::string(other().get("a")->value.view()) : "nothing");
  });
  ASSERT_TRUE(eventually([&] { return other().etcd_stats().head_reads > asked; }));
  for (int i = 0; i < 250; ++i) {
    write(one(), put(numbered(i), "1"));
  }
  write(one(), put("a", "3"));
  let_fail();
  const std::string value = read.get_future().get();
  EXPECT_TRUE(value == "2" || value == "3") << value;
  EXPECT_FALSE(read_within);
  EXPECT_TRUE(is_equal());
}

TEST_F(EtcdMirrorTest, GR_117_OneThatWasLeftWithinADifferenceIsMadeAnew) {
  on_commit = [&](int number) { return number == 1 ? fail_once_all_wait() : number > 3 ? EIO : 0; };
  breaks();
  write(one(), put("a", "2"));
  Revision seen = 0;
  for (int i = 0; i < 250; ++i) {
    const Revision revision = write(one(), put(numbered(i), "1"));
    seen = i == 10 ? revision : seen;
    if (i == 20) {
      write(one(), erase("gone"));
    }
  }
  let_fail();
  ASSERT_TRUE(eventually([&] { return commits_ > 3; }));
  other_->close();
  restore();
  other_->reopen();
  EXPECT_TRUE(is_equal());
  // Its log had what is gone before all else, and this client has seen more.
  EXPECT_EQ(other().changes("", seen, 1'000).error().code(), Errc::kCompacted);
}

}  // namespace
}  // namespace kintsugi::store
