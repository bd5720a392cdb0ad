#include "store/etcd/internal/sync_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::store::etcd {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Without head reads that are saved.
class Bench {
 public:
  explicit Bench(int saved_heads = 0) : book_(params_of(saved_heads)) {}
  std::vector<std::string> add(std::uint64_t number, std::optional<Revision> revision = {}) {
    return told(
        [&](SyncActions& out) { book_.add(number, revision, now_, now_ + seconds(3), out); });
  }
  std::vector<std::string> head(Revision revision) {
    return told([&](SyncActions& out) { book_.on_head(revision, now_, out); });
  }
  std::vector<std::string> position(Revision revision) {
    return told([&](SyncActions& out) { book_.on_position(revision, out); });
  }
  std::vector<std::string> pass(Duration time) {
    now_ += time;
    return told([&](SyncActions& out) { book_.on_time(now_, out); });
  }
  void head_failed() { book_.on_head_failed(now_); }
  SyncBook& book() { return book_; }

 private:
  template <typename Call>
  static std::vector<std::string> told(const Call& call) {
    SyncActions actions;
    call(actions);
    std::vector<std::string> out;
    for (const SyncAction& action : actions) {
      const std::string number = " " + std::to_string(action.number);
      switch (action.kind) {
        case SyncAction::Kind::kReadHead:
          out.emplace_back("head");
          break;
        case SyncAction::Kind::kNudge:
          out.emplace_back("nudge");
          break;
        case SyncAction::Kind::kDone:
          out.push_back("done" + number + " at " + std::to_string(action.revision));
          break;
        case SyncAction::Kind::kExpired:
          out.push_back("expired" + number);
          break;
      }
    }
    return out;
  }
  static SyncParams params_of(int saved_heads) {
    SyncParams params;
    params.saved_heads = saved_heads;
    return params;
  }
  SyncBook book_;
  TimePoint now_{seconds(1'000)};
};

TEST(SyncBook, GR_119_ReadsTheHeadAndWaitsForIt) {
  Bench bench;
  EXPECT_THAT(bench.add(1), ElementsAre("head"));
  EXPECT_THAT(bench.head(9), IsEmpty());
  EXPECT_THAT(bench.position(8), IsEmpty());
  EXPECT_THAT(bench.position(9), ElementsAre("done 1 at 9"));
  EXPECT_EQ(bench.book().size(), 0U);
}

TEST(SyncBook, GR_119_OneHeadReadIsSharedByWhoCameBeforeItBegan) {
  Bench bench;
  bench.position(9);
  EXPECT_THAT(bench.add(1), ElementsAre("head"));
  EXPECT_THAT(bench.add(2), IsEmpty());
  EXPECT_THAT(bench.add(3), IsEmpty());
  EXPECT_THAT(bench.head(9), ElementsAre("done 1 at 9"))
      << "what it told may be older than the two";
  EXPECT_THAT(bench.pass(milliseconds(4)), IsEmpty()) << "one per 5 ms";
  EXPECT_THAT(bench.pass(milliseconds(1)), ElementsAre("head"));
  EXPECT_THAT(bench.head(9), ElementsAre("done 2 at 9", "done 3 at 9"));
}

TEST(SyncBook, GR_119_FewReadsDoNotWait_ManyDo) {
  Bench bench(2);
  bench.position(9);
  for (std::uint64_t number = 1; number <= 3; ++number) {
    EXPECT_THAT(bench.add(number), ElementsAre("head"));
    EXPECT_THAT(bench.head(9), ElementsAre("done " + std::to_string(number) + " at 9"));
  }
  EXPECT_THAT(bench.add(4), IsEmpty());
  EXPECT_THAT(bench.pass(milliseconds(4)), IsEmpty());
  EXPECT_THAT(bench.pass(milliseconds(1)), ElementsAre("head"));
  EXPECT_THAT(bench.head(9), ElementsAre("done 4 at 9"));
  bench.pass(seconds(1));
  for (std::uint64_t number = 5; number <= 7; ++number) {
    EXPECT_THAT(bench.add(number), ElementsAre("head")) << "no more are saved than that";
    bench.head(9);
  }
  EXPECT_THAT(bench.add(8), IsEmpty());
}

TEST(SyncBook, GR_113_TheWatchIsMadeToSpeakAfterFiveMilliseconds) {
  Bench bench;
  bench.add(1);
  bench.head(9);
  EXPECT_THAT(bench.pass(milliseconds(4)), IsEmpty());
  EXPECT_THAT(bench.pass(milliseconds(1)), ElementsAre("nudge"));
  EXPECT_THAT(bench.pass(milliseconds(99)), IsEmpty());
  EXPECT_THAT(bench.pass(milliseconds(1)), ElementsAre("nudge"));
  EXPECT_THAT(bench.position(10), ElementsAre("done 1 at 10"));
  EXPECT_THAT(bench.pass(seconds(1)), IsEmpty());
}

TEST(SyncBook, GR_119_WhenEtcdIsAway_TheWaitEnds) {
  Bench bench;
  bench.add(1);
  bench.head_failed();
  EXPECT_THAT(bench.pass(milliseconds(49)), IsEmpty());
  EXPECT_THAT(bench.pass(milliseconds(1)), ElementsAre("head"));
  EXPECT_THAT(bench.pass(seconds(3)), ElementsAre("expired 1"));
  EXPECT_THAT(bench.head(9), IsEmpty());
  EXPECT_EQ(bench.book().size(), 0U);
  EXPECT_THAT(bench.add(2, 20), IsEmpty());
  EXPECT_THAT(bench.pass(seconds(3)), ElementsAre("expired 2"));
}

TEST(SyncBook, ARevisionCanBeWaitedFor) {
  Bench bench;
  bench.position(5);
  EXPECT_THAT(bench.add(1, 5), ElementsAre("done 1 at 5"));
  EXPECT_THAT(bench.add(2, 7), IsEmpty());
  EXPECT_THAT(bench.position(7), ElementsAre("done 2 at 7"));
  bench.add(3, 9);
  EXPECT_THAT(bench.book().take_all(), ElementsAre(3U));
  EXPECT_THAT(bench.position(9), IsEmpty());
}

}  // namespace
}  // namespace kintsugi::store::etcd
