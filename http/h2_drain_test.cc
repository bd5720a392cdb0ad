#include <gtest/gtest.h>

#include "http/testing/support.h"

// Connections that are given up while streams are open.
namespace kintsugi::http {
namespace {

using testing::make_head;
using testing::open;
using testing::Pair;
using testing::ServerExchange;
using testing::take_all;
using testing::TestResponse;

TEST(H2Drain, WhenServerDrains_RunningStreamsEndAndNewOnesAreRefused) {
  auto pair = Pair::h2();
  TestResponse running;
  open(*pair, make_head("GET", "/watch"), running);
  pair->run();
  pair->server->start_drain();
  pair->server->start_drain();
  pair->run();
  EXPECT_TRUE(pair->client->draining());
  EXPECT_EQ(pair->client->free_slots(), 0U);
  TestResponse late;
  EXPECT_EQ(pair->client->open(make_head("GET", "/"), late).error().code(), Errc::kNotProcessed);
  EXPECT_FALSE(pair->server->finished());
  pair->handler.at(0).stream->send_head(200, {}, false);
  pair->handler.at(0).stream->send_data(std::string_view("last"), true);
  pair->run();
  EXPECT_EQ(running.in.body, "last");
  EXPECT_EQ(running.in.cause, Errc::kOk);
  EXPECT_TRUE(pair->server->finished());
  EXPECT_TRUE(pair->client->finished());
}

TEST(H2Drain, WhenStreamCrossesTheDrainNotice_ItIsStillServed) {
  auto pair = Pair::h2();
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(200, {}, true);
  };
  pair->run();
  pair->server->start_drain();
  const std::string notice = take_all(*pair->server);
  TestResponse crossing;
  open(*pair, make_head("GET", "/"), crossing);
  ASSERT_TRUE(pair->server->feed(take_all(*pair->client)));
  ASSERT_TRUE(pair->client->feed(notice));
  pair->run();
  EXPECT_EQ(crossing.status, 200);
  EXPECT_EQ(crossing.in.cause, Errc::kOk);
  EXPECT_TRUE(pair->server->finished());
}

TEST(H2Drain, WhenClientDrains_ItFinishesWithItsLastStream) {
  auto pair = Pair::h2();
  TestResponse response;
  open(*pair, make_head("GET", "/"), response);
  pair->run();
  pair->client->start_drain();
  pair->run();
  EXPECT_FALSE(pair->client->finished());
  pair->handler.at(0).stream->send_head(200, {}, true);
  pair->run();
  EXPECT_EQ(response.in.cause, Errc::kOk);
  EXPECT_TRUE(pair->client->finished());
}

/// The types of whole frames.
std::string types_of(std::string_view frames) {
  std::string types;
  while (frames.size() >= 9) {
    const auto byte = [&](std::size_t n) -> std::size_t {
      return static_cast<unsigned char>(frames[n]);
    };
    const std::size_t size = byte(0) << 16U | byte(1) << 8U | byte(2);
    types += static_cast<char>('0' + byte(3));
    frames.remove_prefix(std::min(frames.size(), 9 + size));
  }
  return types;
}

TEST(H2Drain, WhenClientDrainsBeforeItsRequestLeft_GoawayComesLast) {
  auto pair = Pair::h2();
  pair->run();
  TestResponse response;
  open(*pair, make_head("GET", "/"), response);
  pair->client->start_drain();
  const std::string request = take_all(*pair->client);
  EXPECT_EQ(types_of(request), "1");
  ASSERT_TRUE(pair->server->feed(request));
  pair->server->settle();
  pair->handler.at(0).stream->send_head(200, {}, true);
  ASSERT_TRUE(pair->client->feed(take_all(*pair->server)));
  EXPECT_EQ(types_of(take_all(*pair->client)), "7");
  pair->client->settle();
  EXPECT_EQ(response.in.cause, Errc::kOk);
  EXPECT_TRUE(pair->client->finished());
}

}  // namespace
}  // namespace kintsugi::http
