#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "store/duty.h"
#include "store/memory/memory_store.h"
#include "store/testing/etcd_replica.h"

namespace kintsugi::store {
namespace {

/// One that competes for a duty, and what it was told.
class Competitor {
 public:
  explicit Competitor(Store& store) {
    token_ = store.compete("test", [this](const std::optional<Fence>& held) {
      const std::lock_guard lock(mutex_);
      fence_ = held;
      changed_.notify_all();
    });
  }
  /// Within a minute.
  [[nodiscard]] bool becomes(bool held) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(60), [&] { return fence_.has_value() == held; });
  }
  [[nodiscard]] std::optional<Fence> fence() {
    const std::lock_guard lock(mutex_);
    return fence_;
  }
  void leave() { token_.reset(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Fence> fence_;
  std::shared_ptr<void> token_;
};

Expected<CommitResult> write_fenced(Store& store, const std::optional<Fence>& fence, Op op) {
  std::promise<Expected<CommitResult>> done;
  std::vector<Op> ops;
  ops.push_back(std::move(op));
  commit_fenced(store, std::move(ops), fence,
                [&done](Expected<CommitResult> result) { done.set_value(std::move(result)); });
  return done.get_future().get();
}

class EtcdDutyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
    static int count = 0;
    prefix_ = "/duty/" + std::to_string(++count);
  }
  std::string prefix_;
};

TEST(Duty, GR_207_InAStoreOfOneProcess_IsHeldAtOnce) {
  MemoryStore store;
  Competitor one(store);
  ASSERT_TRUE(one.fence());
  EXPECT_TRUE(write_fenced(store, one.fence(), put("a", "1")));
  EXPECT_EQ(store.get("a")->value.view(), "1");
}

TEST_F(EtcdDutyTest, GR_207_OneAtATime_AndTheNextWhenItLeaves) {
  Replica a(test_etcd().url(), prefix_);
  Replica b(test_etcd().url(), prefix_);
  Competitor first(*a);
  ASSERT_TRUE(first.becomes(true));
  Competitor second(*b);
  const auto written = write_fenced(*a, first.fence(), put("x", "1"));
  ASSERT_TRUE(written && !written->conflict);
  EXPECT_FALSE(second.fence());
  first.leave();
  ASSERT_TRUE(second.becomes(true));
  EXPECT_EQ(b->get("x")->value.view(), "1") << "what was written before is read by the next";
  EXPECT_GT(second.fence()->revision, written->revision);
}

TEST_F(EtcdDutyTest, GR_208_WhoHasLostTheDutyWritesNothing) {
  Replica a(test_etcd().url(), prefix_);
  Replica b(test_etcd().url(), prefix_);
  Competitor first(*a);
  ASSERT_TRUE(first.becomes(true));
  const auto old = first.fence();
  first.leave();
  Competitor second(*b);
  ASSERT_TRUE(second.becomes(true));
  const auto refused = write_fenced(*a, old, put("x", "old"));
  EXPECT_EQ(error_of(refused), Errc::kUnavailable);
  const auto done = write_fenced(*b, second.fence(), put("x", "new"));
  ASSERT_TRUE(done && !done->conflict);
  ASSERT_NE(synchronized(*a), 0U);
  EXPECT_EQ(a->get("x")->value.view(), "new");
  // A conflict of the operations themselves stays one.
  const auto conflict = write_fenced(*b, second.fence(), put("x", "again", Revision{1}));
  ASSERT_TRUE(conflict);
  EXPECT_TRUE(conflict->conflict);
  EXPECT_EQ(conflict->failed_op, 0U);
}

TEST_F(EtcdDutyTest, GR_207_WithoutEtcd_TheHolderStops) {
  EtcdServer own;
  Replica a(own.url(), prefix_);
  Competitor first(*a);
  ASSERT_TRUE(first.becomes(true));
  const auto before = first.fence();
  own.signal(SIGSTOP);
  EXPECT_TRUE(first.becomes(false));
  own.signal(SIGCONT);
  ASSERT_TRUE(first.becomes(true));
  EXPECT_GT(first.fence()->revision, before->revision) << "it was taken anew";
  EXPECT_EQ(error_of(write_fenced(*a, before, put("x", "1"))), Errc::kUnavailable);
}

TEST_F(EtcdDutyTest, GR_207_OneOfManyHasIt) {
  std::vector<std::unique_ptr<Replica>> replicas;
  std::vector<std::unique_ptr<Competitor>> competitors;
  for (int i = 0; i < 4; ++i) {
    replicas.push_back(std::make_unique<Replica>(test_etcd().url(), prefix_));
    competitors.push_back(std::make_unique<Competitor>(**replicas.back()));
  }
  Revision last = 0;
  while (!competitors.empty()) {
    const TimePoint until = Clock::now() + seconds(60);
    auto holder = competitors.end();
    while (holder == competitors.end() && Clock::now() < until) {
      holder = std::find_if(competitors.begin(), competitors.end(),
                            [](const auto& one) { return one->fence().has_value(); });
      std::this_thread::sleep_for(milliseconds(5));
    }
    ASSERT_NE(holder, competitors.end());
    EXPECT_EQ(std::count_if(competitors.begin(), competitors.end(),
                            [](const auto& one) { return one->fence().has_value(); }),
              1);
    EXPECT_GT((*holder)->fence()->revision, last);
    last = (*holder)->fence()->revision;
    (*holder)->leave();
    competitors.erase(holder);
  }
}

}  // namespace
}  // namespace kintsugi::store
