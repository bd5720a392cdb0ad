#include <string>

#include "proxy/testing/watch_rig.h"

namespace kintsugi::proxy::testing {
namespace {

class MergedWatchQueues : public MergedWatches {
 protected:
  std::uint64_t ended_for_memory() { return rig_->handler->merge_stats().evicted_memory; }
  std::size_t queued() {
    std::size_t sum = 0;
    for (const aggregation::GroupReport& group : rig_->handler->merge_groups()) {
      sum += group.queue_bytes;
    }
    return sum;
  }
  /// Changes with much in them, of alpha.
  void flood(int count) {
    for (int i = 0; i < count; ++i) {
      std::string text = event("MODIFIED", "a", std::to_string(++revision_));
      text.insert(text.find("\"metadata\""),
                  "\"data\":{\"v\":\"" + std::string(20'000, 'x') + "\"},");
      tell(0, text);
    }
  }
  int revision_ = 100;
};

TEST_F(MergedWatchQueues, WhenTooMuchWaits_AGG1203_EndsWhoIsFarthestBehind) {
  start({}, [](aggregation::MergeParams& params) {
    params.queue_total = 500'000;
    params.queue_high = 64U << 20;
    params.slow_grace = milliseconds(50);
  });
  Answer& quick = synced();
  Answer& slow = synced();
  slow.takes = false;
  EXPECT_EQ(queued(), 0U);
  flood(60);  // 1.2 MB: beyond its window and the limit
  ASSERT_TRUE(until([&] { return ended_for_memory() == 1; }));
  EXPECT_TRUE(until([&] { return slow.ended && slow.closed; }));
  EXPECT_EQ(slow.result, Errc::kOk);
  EXPECT_TRUE(until([&] { return told(quick).size() == 62; })) << told(quick).size();
  EXPECT_FALSE(quick.ended);
  EXPECT_EQ(queued(), 0U);
  EXPECT_EQ(rig_->handler->merge_stats().evicted_slow, 0U);
}

TEST_F(MergedWatchQueues, WhenPresentObjectsComeLate_AGG1203_TheyCountToo) {
  start({}, [](aggregation::MergeParams& params) { params.queue_total = 100'000; });
  Exchange* late = nullptr;
  scripts_[0] = [&](Exchange& exchange) {
    if (is_watch(exchange)) {
      late = &exchange;
    } else {
      serve(0, exchange);
    }
  };
  Answer& slow = watch(kNewest);
  slow.takes = false;
  // What waits is weighed every second: once before anything does.
  const TimePoint weighed = Clock::now() + milliseconds(1'200);
  ASSERT_TRUE(until([&] { return late != nullptr && Clock::now() >= weighed; }));
  std::string present;
  for (int i = 0; i < 40; ++i) {
    std::string text = event("ADDED", "a" + std::to_string(i), std::to_string(11 + i));
    text.insert(text.find("\"metadata\""),
                "\"data\":{\"v\":\"" + std::string(20'000, 'x') + "\"},");
    present += text;
  }
  http::HeaderList headers;
  headers.add("content-type", "application/json");
  late->stream->send_head(200, headers, false);
  late->stream->send_data(present + bookmark("60", true), false);
  EXPECT_TRUE(until([&] { return queued() > 100'000; }));
  EXPECT_TRUE(until([&] { return ended_for_memory() == 1; }));
}

TEST_F(MergedWatchQueues, WhenLittleWaits_AGG1203_NobodyEnds) {
  start({}, [](aggregation::MergeParams& params) { params.queue_total = 4'000'000; });
  Answer& quick = synced();
  Answer& slow = synced();
  slow.takes = false;
  flood(20);
  ASSERT_TRUE(until([&] { return told(quick).size() == 22; }));
  EXPECT_TRUE(until([&] { return queued() > 100'000; })) << queued();
  slow.takes = true;
  slow.stream->consume(slow.body.size());
  EXPECT_TRUE(until([&] { return told(slow).size() == 22; })) << told(slow).size();
  EXPECT_TRUE(until([&] { return queued() == 0; }));
  EXPECT_EQ(ended_for_memory(), 0U);
}

TEST_F(MergedWatchQueues, WhenAShardReplaysOrGoesBack_AGG703_IsCounted) {
  start();
  Answer& answer = synced();
  const aggregation::MergeStats& stats = rig_->handler->merge_stats();
  tell(0, event("MODIFIED", "a", "15"));
  tell(0, event("MODIFIED", "a", "14"));  // later events out of order pass
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; }));
  EXPECT_EQ(stats.out_of_order.at("alpha"), 1U);
  EXPECT_EQ(stats.dropped.size(), 0U);
  open_[0].back()->stream->send_data("", true);
  ASSERT_TRUE(until([&] { return streams(0) == 1; }));
  tell(0, event("MODIFIED", "a", "15") + event("MODIFIED", "a", "16"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 5; }));
  EXPECT_EQ(stats.dropped.at({"alpha", "replayed"}), 1U);
  EXPECT_EQ(stats.resyncs.at({"alpha", "ended"}), 1U);
}

}  // namespace
}  // namespace kintsugi::proxy::testing
