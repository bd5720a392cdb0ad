#include "store/transfer/online.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "store/lmdb/source.h"
#include "store/testing/etcd_replica.h"

namespace kintsugi::store {
namespace {

using ::testing::HasSubstr;
using Rows = std::map<std::string, std::string>;

constexpr int kRows = 2'000;
constexpr int kFailed = 3, kKilled = 9;

/// Whoever moves a store, in a process of its own: made before the store is opened here.
class Mover {
 public:
  /// @param move  false: it did not
  explicit Mover(const std::function<bool(Mover&)>& move) {
    EXPECT_EQ(::pipe(go_), 0);
    EXPECT_EQ(::pipe(told_), 0);
    child_ = ::fork();
    if (child_ == 0) {
      char byte = 0;
      ::close(go_[1]);
      ::_exit(::read(go_[0], &byte, 1) == 1 && move(*this) ? 0 : kFailed);
    }
  }
  ~Mover() {
    ::close(go_[1]);
    ::close(go_[0]);
    ::close(told_[0]);
    ::close(told_[1]);
    if (child_ > 0) {
      (void)end();
    }
  }
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;
  void go() { EXPECT_EQ(::write(go_[1], "g", 1), 1); }
  /// In the child: tells, and waits for go().
  void wait_there() {
    char byte = 0;
    (void)!::write(told_[1], "t", 1);
    (void)!::read(go_[0], &byte, 1);
  }
  void wait_for_it() {
    char byte = 0;
    EXPECT_EQ(::read(told_[0], &byte, 1), 1);
  }
  /// Its status.
  int end() {
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(child_, -1), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  int go_[2] = {}, told_[2] = {};
  pid_t child_ = -1;
};

/// Writes, changes and deletes until it is told to end, or nothing can be written any more.
class Load {
 public:
  explicit Load(Store& store) : store_(store), thread_([this] { run(); }) {}
  ~Load() { (void)end(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;
  void wait_for_writes(int more) {
    const int until = done_ + more;
    while (done_ < until && !over_) {
      std::this_thread::yield();
    }
    EXPECT_GE(done_, until);
  }
  void end() {
    ended_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  /// After end(). What was acknowledged; but for `doubtful`, of which nobody knows.
  Rows rows;
  std::string doubtful;

 private:
  void run() {
    for (int i = 0; !ended_; ++i) {
      const std::string key = "load/" + std::to_string(i % 50);
      const bool removes = i % 7 == 6;
      const std::string value = std::to_string(i);
      const auto done = store_.commit_wait({removes ? erase(key) : put(key, value)});
      if (!done) {
        doubtful = done.error().code() == Errc::kTimeout ? key : "";
        break;
      }
      ++done_;
      if (removes) {
        rows.erase(key);
      } else {
        rows[key] = value;
      }
    }
    over_ = true;
  }
  Store& store_;
  std::atomic<bool> ended_ = false, over_ = false;
  std::atomic<int> done_ = 0;
  std::thread thread_;
};

class OnlineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
    static int count = 0;
    etcd_.endpoints = {test_etcd().url()};
    etcd_.prefix = "/online/" + std::to_string(++count);
    target_ = to_.data() + "/data";
  }
  void fill(Store& store) {
    std::vector<Op> ops;
    for (int i = 0; i < kRows; ++i) {
      ops.push_back(put("row/" + std::to_string(i), std::string(100, 'r') + std::to_string(i)));
      rows_[ops.back().key] = ops.back().value;
      if (ops.size() == 100) {
        EXPECT_TRUE(store.commit_wait(std::exchange(ops, {})));
      }
    }
  }
  [[nodiscard]] Expected<std::unique_ptr<LmdbStore>> open_lmdb(const std::string& directory,
                                                               std::function<void()> moved = {}) {
    LmdbParams params;
    params.directory = directory;
    params.no_sync = true;
    params.on_moved = std::move(moved);
    params.most_stop = milliseconds(300);
    return LmdbStore::open(std::move(params));
  }
  [[nodiscard]] Expected<std::unique_ptr<EtcdStore>> open_etcd(std::function<void()> ended = {}) {
    EtcdParams params = etcd_;
    params.mirror_directory = mirrors_.data() + std::to_string(++mirror_);
    params.on_ended = std::move(ended);
    return EtcdStore::open(std::move(params));
  }
  [[nodiscard]] static OnlineOptions with(std::function<void(OnlineStep)> reached) {
    OnlineOptions options;
    options.reached = std::move(reached);
    options.note = [](const std::string& uid) { return "note of " + uid; };
    return options;
  }
  [[nodiscard]] static OnlineOptions killed_at(OnlineStep step) {
    return with([step](OnlineStep at) {
      if (at == step) {
        ::_exit(kKilled);
      }
    });
  }
  [[nodiscard]] bool to_etcd(const OnlineOptions& options) const {
    const auto moved = move_to_etcd_online(from_.data(), etcd_, options);
    if (!moved) {
      std::fprintf(stderr, "%s\n", moved.error().to_string().c_str());
    }
    return moved.has_value();
  }
  [[nodiscard]] bool to_folder(const OnlineOptions& options) const {
    const auto moved = move_to_lmdb_online(etcd_, target_, options);
    if (!moved) {
      std::fprintf(stderr, "%s\n", moved.error().to_string().c_str());
    }
    return moved.has_value();
  }
  /// The store has what was there and what was acknowledged, and nothing else.
  void expect_all(const Store& store, const Load& load) const {
    Rows wanted = rows_;
    wanted.insert(load.rows.begin(), load.rows.end());
    Rows found;
    EXPECT_TRUE(store.range({}, [&found](const EntryView& entry) {
      found.emplace(entry.key, entry.value);
      return true;
    }));
    if (!load.doubtful.empty()) {
      wanted.erase(load.doubtful);
      found.erase(load.doubtful);
    }
    EXPECT_EQ(found, wanted);
  }

  TempDir from_, to_, mirrors_;
  std::string target_;
  EtcdParams etcd_;
  Rows rows_;
  int mirror_ = 0;
};

TEST_F(OnlineTest, GR_308_ToEtcdWhileItIsWrittenTo_AllThatWasAcknowledgedIsThere) {
  Mover mover([this](Mover&) { return to_etcd(with([](OnlineStep) {})); });
  std::promise<void> moved;
  auto store = open_lmdb(from_.data(), [&moved] { moved.set_value(); });
  ASSERT_TRUE(store);
  fill(**store);
  Load load(**store);
  load.wait_for_writes(20);
  mover.go();
  moved.get_future().wait();
  load.end();
  EXPECT_EQ(mover.end(), 0);
  const Revision last = (*store)->current();
  const auto refused = (*store)->commit_wait({put("late", "1")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnavailable);
  store->reset();
  const auto again = open_lmdb(from_.data());
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().to_string(), HasSubstr("has moved to " + etcd_.prefix + " in etcd"));
  const auto there = open_etcd();
  ASSERT_TRUE(there) << there.error().to_string();
  expect_all(**there, load);
  EXPECT_GT((*there)->compacted(), last + kTransferJump) << "whoever comes with an old one: 410";
  const Revision newest = (*there)->current();
  const auto twice = move_to_etcd_online(from_.data(), etcd_, with([](OnlineStep) {}));
  ASSERT_TRUE(twice) << twice.error().to_string();
  EXPECT_TRUE(twice->earlier);
  ASSERT_TRUE((*there)->commit_wait({put("more", "1")})) << "who serves it is not disturbed";
  EXPECT_GT((*there)->current(), newest);
}

TEST_F(OnlineTest, GR_308_WhoeverMovesIsKilledBeforeTheDecision_TheSourceGoesOnAndItIsRepeated) {
  std::vector<std::unique_ptr<Mover>> movers;
  for (const OnlineStep step : {OnlineStep::kCopied, OnlineStep::kStopped, OnlineStep::kReady}) {
    movers.push_back(
        std::make_unique<Mover>([this, step](Mover&) { return to_etcd(killed_at(step)); }));
  }
  Mover last([this](Mover&) { return to_etcd(with([](OnlineStep) {})); });
  std::promise<void> moved;
  auto store = open_lmdb(from_.data(), [&moved] { moved.set_value(); });
  ASSERT_TRUE(store);
  fill(**store);
  Load load(**store);
  for (const auto& mover : movers) {
    load.wait_for_writes(5);
    mover->go();
    EXPECT_EQ(mover->end(), kKilled);
    load.wait_for_writes(5);
    EXPECT_FALSE(open_etcd()) << "half a store";
  }
  last.go();
  moved.get_future().wait();
  load.end();
  EXPECT_EQ(last.end(), 0);
  const auto there = open_etcd();
  ASSERT_TRUE(there) << there.error().to_string();
  expect_all(**there, load);
}

TEST_F(OnlineTest, GR_308_WhoeverMovesIsKilledAfterTheDecision_WhoOpensTheTargetFinishesIt) {
  Mover mover([this](Mover&) { return to_etcd(killed_at(OnlineStep::kDecided)); });
  std::promise<void> moved;
  auto store = open_lmdb(from_.data(), [&moved] { moved.set_value(); });
  ASSERT_TRUE(store);
  fill(**store);
  Load load(**store);
  load.wait_for_writes(5);
  mover.go();
  EXPECT_EQ(mover.end(), kKilled);
  moved.get_future().wait();
  load.end();
  store->reset();
  EXPECT_FALSE(open_etcd()) << "not finished";
  const auto where = moved_of(from_.data());
  ASSERT_TRUE(where);
  EXPECT_EQ(finish_in_etcd(etcd_, "another").error().code(), Errc::kConfig);
  {  // Again, by who knows where it went; elsewhere it cannot go any more.
    EtcdParams other = etcd_;
    other.prefix += "/other";
    const auto elsewhere = move_to_etcd_online(from_.data(), other, with([](OnlineStep) {}));
    ASSERT_FALSE(elsewhere);
    EXPECT_THAT(elsewhere.error().to_string(),
                HasSubstr(from_.data() + ": has moved to " + etcd_.prefix + " in etcd"));
  }
  const std::string uid = where->note.substr(std::string("note of ").size());
  ASSERT_TRUE(finish_in_etcd(etcd_, uid));
  ASSERT_TRUE(finish_in_etcd(etcd_, uid)) << "again: nothing";
  const auto there = open_etcd();
  ASSERT_TRUE(there) << there.error().to_string();
  expect_all(**there, load);
}

TEST_F(OnlineTest, GR_308_WhoeverMovesStandsStill_TheSourceTakesItselfBack) {
  Mover mover([this](Mover& self) {
    return to_etcd(with([&self](OnlineStep at) {
      if (at == OnlineStep::kReady) {
        self.wait_there();
      }
    }));
  });
  auto store = open_lmdb(from_.data(), [] { FAIL() << "it has not moved"; });
  ASSERT_TRUE(store);
  fill(**store);
  mover.go();
  mover.wait_for_it();
  Load load(**store);
  load.wait_for_writes(5);  // it goes on
  mover.go();
  EXPECT_EQ(mover.end(), kFailed) << "it was too late";
  load.wait_for_writes(5);
  load.end();
  expect_all(**store, load);
  EXPECT_FALSE(open_etcd());
}

TEST_F(OnlineTest, GR_308_OfAStoreThatNobodyServes_IsForCopiesThatAreNotOnline) {
  {
    auto store = open_lmdb(from_.data());
    ASSERT_TRUE(store);
  }
  const auto moved = move_to_etcd_online(from_.data(), etcd_, with([](OnlineStep) {}));
  ASSERT_FALSE(moved);
  EXPECT_THAT(moved.error().to_string(), HasSubstr("nobody has it open"));
}

TEST_F(OnlineTest, GR_308_ToAFolderWhileItIsWrittenTo_AllThatWasAcknowledgedIsThere) {
  std::promise<void> ended;
  auto store = open_etcd([&ended] { ended.set_value(); });
  ASSERT_TRUE(store) << store.error().to_string();
  fill(**store);
  Load load(**store);
  load.wait_for_writes(20);
  const auto moved = move_to_lmdb_online(etcd_, target_, with([&load](OnlineStep at) {
                                           if (at == OnlineStep::kCopied) {
                                             load.wait_for_writes(20);  // some of them deletes
                                           }
                                         }));
  ASSERT_TRUE(moved) << moved.error().to_string();
  ended.get_future().wait();
  load.end();
  const auto there = open_lmdb(target_);
  ASSERT_TRUE(there) << there.error().to_string();
  expect_all(**there, load);
  EXPECT_EQ((*there)->compacted(), moved->rows.after);
  EXPECT_GE(moved->rows.after, (*store)->current() + kTransferJump);
  const auto again = open_etcd();
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().to_string(), HasSubstr("has moved to " + target_));
  EXPECT_EQ(finish_in_folder(etcd_, target_), true);
  EXPECT_EQ(finish_in_folder(etcd_, target_ + "2"), false);
  const auto twice = move_to_lmdb_online(etcd_, target_, with([](OnlineStep) {}));
  ASSERT_TRUE(twice) << twice.error().to_string();
  EXPECT_TRUE(twice->earlier);
  const auto elsewhere = move_to_lmdb_online(etcd_, target_ + "2", with([](OnlineStep) {}));
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().to_string(), HasSubstr(": has moved to " + target_));
}

TEST_F(OnlineTest, GR_308_KilledOnTheWayToAFolder_OneOfTheTwoIsTheStore) {
  Mover before([this](Mover&) { return to_folder(killed_at(OnlineStep::kReady)); });
  Mover after([this](Mover&) { return to_folder(killed_at(OnlineStep::kDecided)); });
  {
    auto store = open_etcd();
    ASSERT_TRUE(store) << store.error().to_string();
    fill(**store);
  }
  before.go();
  EXPECT_EQ(before.end(), kKilled);
  EXPECT_EQ(finish_in_folder(etcd_, target_), false);
  std::promise<void> ended;
  auto store = open_etcd([&ended] { ended.set_value(); });  // after it has waited for the mover
  ASSERT_TRUE(store) << store.error().to_string();
  Load load(**store);
  load.wait_for_writes(10);
  after.go();
  EXPECT_EQ(after.end(), kKilled);
  ended.get_future().wait();
  load.end();
  EXPECT_FALSE(open_etcd());
  const auto again = move_to_lmdb_online(etcd_, target_, with([](OnlineStep) {}));
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_TRUE(again->earlier) << "what was left to be done is done";
  EXPECT_EQ(finish_in_folder(etcd_, target_), true);
  const auto there = open_lmdb(target_);
  ASSERT_TRUE(there) << there.error().to_string();
  expect_all(**there, load);
}

}  // namespace
}  // namespace kintsugi::store
