#include "proxy/forwarding/request_tally.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

TEST(RequestTally, WhenRequestsEnd_FP140_FP083_TimesAndBytesAreCounted) {
  RequestTimes times;
  ServerTally server;
  const TimePoint begin = TimePoint() + seconds(5);
  const auto ask = [&](const char* method, int code, Duration took,
                       RequestTally::Kind kind = RequestTally::Kind::kPlain) {
    RequestTally tally(times, server, method, kind, begin, nullptr);
    tally.up(5);
    tally.down(11);
    if (code != 0) {
      tally.answered(code);
    }
    tally.end(begin + took);
  };
  ask("GET", 200, milliseconds(50));
  ask("GET", 200, milliseconds(51));
  ask("GET", 200, seconds(61));
  ask("POST", 409, milliseconds(1));
  ask("BREW", 200, milliseconds(1));
  ask("MAKE", 200, milliseconds(1));
  ask("GET", 200, seconds(600), RequestTally::Kind::kWatch);
  ask("GET", 101, seconds(600), RequestTally::Kind::kUpgrade);
  ask("GET", 0, seconds(1));  // never answered
  ASSERT_EQ(times.rows().size(), 3U);
  const RequestTimes::Times& gets = times.rows().at({"get", 200});
  EXPECT_EQ(gets.counts[0], 1U);
  EXPECT_EQ(gets.counts[1], 1U);
  EXPECT_EQ(gets.counts.back(), 1U);
  EXPECT_DOUBLE_EQ(gets.sum, 0.05 + 0.051 + 61);
  EXPECT_EQ(times.rows().at({"post", 409}).counts[0], 1U);
  EXPECT_EQ(times.rows().at({"other", 200}).counts[0], 2U);
  EXPECT_EQ(server.up, 45U);
  EXPECT_EQ(server.down, 99U);
  EXPECT_EQ(server.streams, 0U);
  EXPECT_EQ(server.watches, 0U);
  const std::map<std::pair<std::string_view, int>, std::uint64_t> requests = {
      {{"get", 200}, 3},   {{"get", 0}, 1},     {{"create", 409}, 1},
      {{"other", 200}, 2}, {{"watch", 200}, 1}, {{"connect", 101}, 1}};
  EXPECT_EQ(server.requests, requests);
  RequestTimes sum;
  sum.add(times);
  sum.add(times);
  EXPECT_EQ(sum.rows().at({"get", 200}).counts[0], 2U);
}

TEST(RequestTally, WhileRequestsRun_TheyAreOpenAndTheFirstCodeCounts) {
  RequestTimes times;
  ServerTally server;
  const TimePoint now = TimePoint() + seconds(5);
  RequestTally watch(times, server, "GET", RequestTally::Kind::kWatch, now, nullptr);
  RequestTally write(times, server, "PUT", RequestTally::Kind::kPlain, now, nullptr);
  EXPECT_EQ(server.streams, 2U);
  EXPECT_EQ(server.watches, 1U);
  write.sent_again(forward_fault_of(Errc::kNotProcessed));
  write.failed(forward_fault_of(Errc::kClosed));
  write.answered(502);
  write.answered(200);
  write.end(now);
  EXPECT_EQ(server.streams, 1U);
  EXPECT_EQ(server.requests.at({"update", 502}), 1U);
  EXPECT_EQ(server.requests.size(), 1U);
  EXPECT_EQ(server.retries[static_cast<std::size_t>(ForwardFault::kNotProcessed)], 1U);
  EXPECT_EQ(server.failures[static_cast<std::size_t>(ForwardFault::kLost)], 1U);
  ServerTally sum;
  sum.add(server);
  sum.add(server);
  EXPECT_EQ(sum.requests.at({"update", 502}), 2U);
  EXPECT_EQ(sum.watches, 2U);
  EXPECT_EQ(sum.failures, (std::array<std::uint64_t, kForwardFaults>{0, 0, 0, 0, 2, 0, 0}));
  watch.end(now);
  EXPECT_EQ(server.watches, 0U);
  EXPECT_EQ(forward_fault_name(ForwardFault::kNotProcessed), "not-processed");
}

TEST(RequestTally, WhileRequestsRun_OP_306_TheAccessLogIsTold) {
  RequestTimes times;
  ServerTally server;
  const TimePoint begin = TimePoint() + seconds(5);
  const auto note = std::make_shared<AccessNote>();
  RequestTally tally(times, server, "GET", RequestTally::Kind::kPlain, begin, note);
  tally.sent(begin + seconds(1));
  tally.sent_again(ForwardFault::kConnect);
  EXPECT_TRUE(note->was_retried);
  EXPECT_LT(note->upstream, Duration());
  tally.came(begin + seconds(3));
  EXPECT_EQ(note->upstream, seconds(2));
  for (const auto& [fault, flags] : std::map<ForwardFault, std::array<bool, 3>>{
           {ForwardFault::kConnect, {true, false, false}},
           {ForwardFault::kTls, {true, false, false}},
           {ForwardFault::kTimeout, {false, true, false}},
           {ForwardFault::kLost, {false, false, true}},
           {ForwardFault::kNotProcessed, {false, false, true}},
           {ForwardFault::kFull, {false, false, false}}}) {
    tally.failed(fault);
    EXPECT_EQ((std::array<bool, 3>{note->connect_failed, note->timed_out, note->was_lost}), flags)
        << forward_fault_name(fault);
  }
  EXPECT_FALSE(note->none_up || note->is_drained);
  tally.found_none();
  tally.drained();
  EXPECT_TRUE(note->none_up && note->is_drained);
  tally.end(begin);
}

TEST(RequestTally, WhenRequestsAreSent_R31_TheirTimeAtTheProxyIsCounted) {
  OverheadTimes times, sum;
  times.add(std::chrono::microseconds(100));
  times.add(milliseconds(2));
  times.add(seconds(11));
  sum.add(times);
  sum.add(times);
  EXPECT_EQ(sum.counts.front(), 2U);
  EXPECT_EQ(sum.counts[4], 2U);
  EXPECT_EQ(sum.counts.back(), 2U);
  EXPECT_NEAR(sum.sum, 2 * 11.0021, 1e-6);
}

}  // namespace
}  // namespace kintsugi::proxy
