// Merged watches of two loops that share their streams of shards.

#include <future>
#include <string>

#include "aggregation/watch/stream_share.h"
#include "proxy/testing/second_loop.h"
#include "proxy/testing/watch_rig.h"

namespace kintsugi::proxy::testing {
namespace {

class MergedLoops : public MergedWatches {
 protected:
  void SetUp() override {
    start();
    for (std::unique_ptr<SecondLoop>& one : loops_) {
      one = std::make_unique<SecondLoop>(
          *rig_, [](net::UpstreamParams&) {},
          [this](ProxyHandlerParams& params) {
            params.wildcard = true;
            params.homes = homes_;
          });
    }
  }
  void TearDown() override {
    answers_.clear();
    for (std::unique_ptr<SecondLoop>& one : loops_) {
      one.reset();
    }
    MergedWatches::TearDown();
  }
  Answer& synced_at(std::size_t loop) {
    http::RequestHead head = Rig::get(kMaps + std::string(kNewest));
    head.headers.add("accept", "application/json");
    Answer& answer = answers_.emplace_back();
    loops_[loop]->send(answer, head);
    EXPECT_TRUE(until([&] { return ends(answer) == 1; })) << answer.body;
    return answer;
  }

  std::shared_ptr<aggregation::StreamHomes> homes_ = std::make_shared<aggregation::StreamHomes>();
  std::array<std::unique_ptr<SecondLoop>, 2> loops_;
};

TEST_F(MergedLoops, WhenALoopWasBusy_AGG1203_ItsClientsAreNotTakenForSlow) {
  Answer& first = synced_at(0);
  Answer& second = synced_at(1);
  ASSERT_TRUE(until([&] { return homes_->stats().relays == 2 && streams(0) == 1; }));
  std::promise<void> done;
  loops_[1]->loop.post([busy = done.get_future().share()] { busy.wait(); });
  for (int i = 0; i < 100; ++i) {
    std::string text = event("MODIFIED", "a", std::to_string(100 + i));
    text.insert(text.find("\"metadata\""),
                "\"data\":{\"v\":\"" + std::string(20'000, 'x') + "\"},");
    tell(0, text);
  }
  EXPECT_TRUE(until([&] { return homes_->stats().queue_bytes >= 2'000'000; }));
  done.set_value();
  EXPECT_TRUE(until([&] { return told(second).size() == 102 || second.ended; }));
  EXPECT_EQ(told(second).size(), 102U);
  EXPECT_TRUE(until([&] { return told(first).size() == 102; }));
  EXPECT_FALSE(second.ended);
  const auto slow = [this] { return loops_[1]->handler->merge_stats().evicted_slow; };
  EXPECT_EQ(loops_[1]->in_loop(slow), 0U);
  EXPECT_EQ(homes_->stats().cut, 0U);
}

}  // namespace
}  // namespace kintsugi::proxy::testing
