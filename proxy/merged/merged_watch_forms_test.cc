// Merged watches: what shards send in other forms than they should.
#include <gtest/gtest.h>

#include "http/gzip.h"
#include "proxy/testing/watch_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using testing::Answer;
using testing::bookmark;
using testing::event;
using testing::Exchange;
using testing::FakeShard;
using testing::is_watch;
using testing::kNewest;
using testing::MergedWatches;

std::string packed(std::string_view text) {
  std::string out;
  http::Gzip().write(text, true, out);
  return out;
}

void begin_packed(Exchange& exchange) {
  http::HeaderList headers;
  headers.add("content-type", "application/json");
  headers.add("content-encoding", "gzip");
  exchange.stream->send_head(200, headers, false);
}

TEST_F(MergedWatches, WhenAShardCompressesUnasked_T111_EventsAreIntact) {
  start();
  const std::string large(300'000, 'x');
  std::string event_c = event("ADDED", "c", "25");
  event_c.insert(event_c.size() - 3, R"(,"data":{"v":")" + large + "\"}");
  scripts_[1] = [&](Exchange& exchange) {
    if (!is_watch(exchange)) {
      serve(1, exchange);
      return;
    }
    begin_packed(exchange);
    exchange.stream->send_data(packed(event("ADDED", "b", "21")), false);
    exchange.stream->send_data(packed(bookmark("21", true)) + packed(event_c), false);
    open_[1].push_back(&exchange);
  };
  Answer& answer = synced();
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; }));
  const std::string half = packed(event("DELETED", "c", "26"));
  tell(1, half.substr(0, half.size() / 2));
  tell(1, half.substr(half.size() / 2));
  EXPECT_TRUE(until([&] { return told(answer).size() == 4; }));
  EXPECT_EQ(told(answer), (Told{"ADDED a", "ADDED b", "ADDED c", "DELETED c"}));
  EXPECT_NE(answer.body.find(large), std::string::npos);
  tell(1, "no gzip at all");
  EXPECT_TRUE(until([&] { return open_[1].size() == 2; }));
}

TEST_F(MergedWatches, WhenAListIsCompressedUnasked_T111_ItIsReadWhole) {
  start();
  std::string items;
  for (int i = 0; i < 40'000; ++i) {
    items += (i == 0 ? "" : ",") + testing::object("b" + std::to_string(i), "21");
  }
  const std::string body =
      R"({"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"21"},"items":[)" +
      items + "]}";
  const auto serve_as = [this](std::string bytes) {
    scripts_[1] = [bytes = std::move(bytes)](Exchange& exchange) {
      begin_packed(exchange);
      exchange.stream->send_data(bytes, true);
    };
  };
  serve_as(packed(body.substr(0, 1'000)) + packed(body.substr(1'000)));
  Answer& good = send("");
  EXPECT_TRUE(until([&] { return good.closed; }));
  EXPECT_TRUE(good.ended);
  EXPECT_NE(good.body.find(items), std::string::npos);
  const std::string whole = packed(body);
  serve_as(whole.substr(0, whole.size() / 2));
  Answer& cut_off = send("");
  EXPECT_TRUE(until([&] { return cut_off.closed; }));
  EXPECT_FALSE(Json::parse(cut_off.body).has_value() && cut_off.status == 200);
}

TEST_F(MergedWatches, WhenAnEventIsTooLarge_T83_TheErrorNamesItsObject) {
  start({}, [](aggregation::MergeParams& params) { params.max_event = 10'000; });
  Answer& answer = synced();
  std::string large = event("ADDED", "huge", "25");
  large.insert(large.size() - 3, R"(,"data":{"v":")" + std::string(20'000, 'x') + "\"}");
  tell(0, event("ADDED", "x", "12"));
  tell(1, large);
  EXPECT_TRUE(until([&] { return answer.ended; }));
  const Json last = events(answer).back();
  EXPECT_EQ(last.find("object")->find("code")->as_integer(), 500);
  EXPECT_NE(last.text({"object", "message"}).find(" t/huge of shard beta "), std::string::npos)
      << last.dump();
}

TEST_F(MergedWatches, WhenAShardKeepsTalkingNonsense_T68_TheThirdTimeItWaitsLongest) {
  start({}, [](aggregation::MergeParams& params) {
    params.first_backoff = milliseconds(1);
    params.last_backoff = seconds(600);
  });
  Answer& answer = synced();
  for (std::size_t times = 1; times <= 3; ++times) {
    EXPECT_TRUE(until([&] { return open_[1].size() == times && streams(1) == 1; })) << times;
    tell(1, "no event at all}\n");
    EXPECT_TRUE(until([&] { return streams(1) == 0 || open_[1].size() > times; })) << times;
  }
  tell(0, event("ADDED", "x", "12"));
  EXPECT_TRUE(until([&] { return told(answer).size() == 3; })) << answer.body;
  EXPECT_EQ(failures("beta", "malformed"), 3U);
  EXPECT_EQ(open_[1].size(), 3U);
  EXPECT_FALSE(answer.ended);
}

}  // namespace
}  // namespace kintsugi::proxy
