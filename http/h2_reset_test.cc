#include <gtest/gtest.h>

#include "http/testing/h2_abuse_rig.h"

// Clients that open streams and reset them. Limits: SE-124 to SE-132.
namespace kintsugi::http {
namespace {

using namespace testing;

TEST_F(H2Abuse, WhenStreamsAreResetRapidly_ConnectionGoesAway) {
  bool ended = false;
  for (std::uint32_t i = 0; i < 5'000 && !ended; ++i) {
    const std::uint32_t id = 1 + 2 * i;
    ended = !server->feed(frame(kHeaders, kEndStream | kEndHeaders, id, request())) ||
            !server->feed(frame(kRstStream, 0, id, word(8))) || goaway() >= 0;
    server->settle();
  }
  EXPECT_TRUE(ended);
  EXPECT_GE(handler.exchanges.size(), 199U);  // SE-124
  EXPECT_LT(handler.exchanges.size(), 250U);
}

TEST_F(H2Abuse, WhenManyWatchesAreCancelledAtOnceAndBegunAnew_SE124_ThatIsNoAbuse) {
  std::uint32_t id = 1;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 240; ++i, id += 2) {
      ASSERT_TRUE(server->feed(frame(kHeaders, kEndStream | kEndHeaders, id, request())));
    }
    now += seconds(2);
    server->set_now(now);
    for (std::uint32_t old = id - 480; old < id; old += 2) {
      ASSERT_TRUE(server->feed(frame(kRstStream, 0, old, word(8))));
      server->settle();
    }
  }
  EXPECT_EQ(goaway(), -1);
  EXPECT_EQ(handler.exchanges.size(), 720U);
}

TEST_F(H2Abuse, WhenStreamsAreResetInTheSameRead_HandlerNeverHearsOfThem) {
  std::string bytes;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::uint32_t id = 1 + 2 * i;
    bytes += frame(kHeaders, kEndStream | kEndHeaders, id, request());
    bytes += i % 50 == 49 ? "" : frame(kRstStream, 0, id, word(8));
  }
  ASSERT_TRUE(server->feed(bytes));
  // Only where a slice of the bytes ends between the two frames.
  EXPECT_GE(handler.exchanges.size(), 2U);
  EXPECT_LE(handler.exchanges.size(), 2 + bytes.size() / 4'096);
  EXPECT_EQ(server->stream_count(), 2U);
  EXPECT_EQ(server->requests(), 100U);
}

TEST_F(H2Abuse, WhenSmallBlocksMakeLargeHeads_FewOfThemWait) {
  const std::string base = "\x82\x87\x84" + literal(":authority", "h");
  const std::string large = '\x40' + literal("x-large", std::string(3'000, 'b')).substr(1);
  ASSERT_TRUE(server->feed(frame(kHeaders, kEndStream | kEndHeaders, 1, base + large)));
  // A byte of each block stands for these 3,000: hundreds of such heads fit into a slice.
  std::string heads, resets;
  for (std::uint32_t id = 3; id < 123; id += 2) {
    heads += frame(kHeaders, kEndStream | kEndHeaders, id, base + '\xbe');
    resets += frame(kRstStream, 0, id, word(8));
  }
  ASSERT_LT(heads.size() + resets.size(), 4'096U);
  ASSERT_TRUE(server->feed(heads + resets));
  EXPECT_GT(handler.exchanges.size(), 1U + 60 - 25);
  EXPECT_LT(handler.exchanges.size(), 1U + 60);
}

}  // namespace
}  // namespace kintsugi::http
