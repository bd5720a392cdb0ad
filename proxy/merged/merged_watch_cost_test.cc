// What one event of a merged watch costs besides its bytes: atomics and locks, counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/testing/executed.h"
#include "proxy/testing/watch_rig.h"

namespace kintsugi::proxy {
namespace {

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

class MergedWatchCost : public testing::MergedWatches {
 protected:
  /// `count` events that come at once, until all readers have them.
  void deliver(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += testing::event("MODIFIED", "a", std::to_string(++revision_));
    }
    const std::string last = "\"resourceVersion\":\"" + std::to_string(revision_) + '"';
    tell(0, text);
    EXPECT_TRUE(until([&] {
      return std::all_of(answers_.begin(), answers_.end(), [&](const testing::Answer& one) {
        const std::string_view body = one.body;  // a bookmark may follow
        return body.substr(body.size() - std::min<std::size_t>(body.size(), 600)).find(last) !=
               std::string_view::npos;
      });
    }));
  }
  /// What that takes, with both ends, as they are in this process.
  Executed::Counts counted(int count) {
    for (testing::Answer& answer : answers_) {
      answer.body.clear();
    }
    Executed executed({"pthread_mutex_lock"});
    executed.run([&] { deliver(count); });
    return executed.counts();
  }

  struct PerEvent {
    double atomics, locks;
  };
  /// What comes on top with each event more.
  PerEvent per_event() {
    constexpr int kFew = 3, kMany = 19;
    deliver(kMany);  // memory is there from now on
    const Executed::Counts few = counted(kFew), many = counted(kMany);
    const auto each = [](std::uint64_t more, std::uint64_t less) {
      return (static_cast<double>(more) - static_cast<double>(less)) / (kMany - kFew);
    };
    return {each(many.locked, few.locked), each(many.calls, few.calls)};
  }

  std::uint64_t revision_ = 1'000;
  const SecondThread second_;
};

TEST_F(MergedWatchCost, WhenEventsComeAtOnce_PERF201_NoneTakesALockAndADeliveryCountsItsBytes) {
  start();
  (void)synced();
  const PerEvent one = per_event();
  constexpr int kMore = 4;
  for (int i = 0; i < kMore; ++i) {
    (void)synced();
  }
  const PerEvent five = per_event();
  // Turns differ a little between runs, and each asks Asio.
  EXPECT_LT(five.locks, 0.5);
  EXPECT_LT(one.atomics, 6) << "one delivery, and malloc's own for the bytes";
  const double per_delivery = (five.atomics - one.atomics) / kMore;
  EXPECT_LT(per_delivery, 3) << "up and down";
  EXPECT_GT(per_delivery, 1) << "nothing was counted";
}

#endif

}  // namespace
}  // namespace kintsugi::proxy
