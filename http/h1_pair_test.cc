#include <gtest/gtest.h>

#include "http/testing/support.h"

namespace kintsugi::http {
namespace {

using testing::fields;
using testing::make_head;
using testing::Pair;
using testing::pattern;
using testing::ServerExchange;
using testing::TestResponse;

TEST(H1Pair, WhenBodiesAndTrailersCross_EverythingArrives) {
  for (const std::size_t span : {std::size_t{64}, std::size_t{16} * 1024}) {
    auto pair = Pair::h1();
    pair->wire.span = span;
    const std::string body = pattern(300'000);
    pair->handler.on_open = [](ServerExchange& exchange) {
      exchange.on_data = [](ServerExchange& self, std::string_view bytes, bool end) {
        if (self.in.body.size() == bytes.size()) {
          self.stream->send_head(200, {}, false);
        }
        self.stream->send_data(bytes, false);
        if (end) {
          self.stream->send_trailers(fields({{"x-sum", "1"}}));
        }
      };
    };
    for (int round = 0; round < 2; ++round) {
      TestResponse response;
      auto opened = pair->client->open(make_head("POST", "/", false), response);
      ASSERT_TRUE(opened.has_value());
      response.stream = *opened;
      EXPECT_EQ(pair->client->free_slots(), 0U);
      response.stream->send_data(std::string_view(body), false);
      response.stream->send_trailers(fields({{"x-end", "2"}, {"content-length", "9"}}));
      pair->run();
      EXPECT_TRUE(response.in.body == body);
      EXPECT_EQ(response.in.trailers.get("x-sum"), "1");
      EXPECT_EQ(response.in.cause, Errc::kOk);
      EXPECT_EQ(response.in.closes, 1);
      const ServerExchange& seen = pair->handler.exchanges.back();
      EXPECT_EQ(seen.in.trailers.get("x-end"), "2");
      EXPECT_FALSE(seen.in.trailers.contains("content-length"));
      EXPECT_EQ(seen.in.cause, Errc::kOk);
      EXPECT_EQ(pair->client->free_slots(), 1U);
    }
  }
}

TEST(H1Pair, WhenTrailersAreWanted_FP153_ThatAloneOfTeIsSent) {
  for (const auto& [te, kept] : {std::pair("trailers", true), std::pair("gzip", false)}) {
    auto pair = Pair::h1();
    pair->handler.on_open = [](ServerExchange& exchange) {
      exchange.stream->send_head(200, {}, true);
    };
    TestResponse response;
    http::RequestHead head = make_head("GET", "/");
    head.headers.add("te", te);
    auto opened = pair->client->open(head, response);
    ASSERT_TRUE(opened.has_value());
    response.stream = *opened;
    pair->run();
    EXPECT_EQ(pair->handler.at(0).head.headers.contains("te"), kept) << te;
  }
}

TEST(H1Pair, WhenQueueGrowsAndEmpties_DrainedComesOnce) {
  auto pair = Pair::h1();
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(200, {}, false);
    exchange.stream->send_data(std::string_view(pattern(100'000)), false);
    EXPECT_EQ(exchange.stream->unsent_bytes(), 100'000U);
  };
  TestResponse response;
  auto opened = pair->client->open(make_head("GET", "/"), response);
  response.stream = *opened;
  pair->run();
  EXPECT_EQ(pair->handler.at(0).in.drains, 1);
  EXPECT_EQ(pair->handler.at(0).stream->unsent_bytes(), 0U);
  EXPECT_EQ(response.in.body.size(), 100'000U);
}

TEST(H1Pair, WhenTunnelIsOpened_BothSidesTalk) {
  auto pair = Pair::h1();
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(101, {}, false);
    exchange.on_data = [](ServerExchange& self, std::string_view bytes, bool) {
      self.stream->send_data(bytes, false);
    };
  };
  RequestHead head = make_head("GET", "/exec", false);
  head.protocol = "websocket";
  TestResponse response;
  auto opened = pair->client->open(head, response);
  response.stream = *opened;
  response.stream->send_data(std::string_view("queued before 101"), false);
  pair->run();
  EXPECT_EQ(response.status, 101);
  EXPECT_EQ(response.in.body, "queued before 101");
  EXPECT_TRUE(pair->client->draining());
  pair->client->on_transport_closed(Errc::kClosed);
  EXPECT_EQ(response.in.ends, 1);
  EXPECT_EQ(response.in.cause, Errc::kClosed);
}

TEST(H1Pair, WhenStoppedInAnyState_ClosesOnceAndLast) {
  for (int stop = 0; stop < 4; ++stop) {
    for (int step = 0; step < 60; ++step) {
      auto pair = Pair::h1();
      pair->handler.on_open = [](ServerExchange& exchange) {
        exchange.on_data = [](ServerExchange& self, std::string_view bytes, bool end) {
          if (self.in.body.size() == bytes.size() && !bytes.empty()) {
            self.stream->send_head(200, {}, false);
          }
          self.stream->send_data(bytes, end);
        };
      };
      TestResponse response;
      auto opened = pair->client->open(make_head("POST", "/x", false), response);
      ASSERT_TRUE(opened.has_value());
      response.stream = *opened;
      RequestStream* stream = *opened;
      stream->send_data(std::string_view(pattern(90)), true);
      for (int i = 0; i < step; ++i) {
        char buffer[64];
        for (Session* from : {static_cast<Session*>(pair->client.get()), pair->server.get()}) {
          Session& to = from == pair->client.get() ? *pair->server : *pair->client;
          const std::size_t size = from->produce(std::span<char>(buffer, 16));
          ASSERT_TRUE(to.feed({buffer, size}));
        }
        pair->client->settle();
        pair->server->settle();
      }
      const bool client_open = response.in.closes == 0;
      if (stop == 0 && client_open) {
        stream->reset(Errc::kCancelled);
        EXPECT_EQ(response.in.closes, 0) << "called back from inside";
        EXPECT_TRUE(pair->client->finished());
      } else if (stop == 1 && client_open) {
        stream->detach();
        response.stream = nullptr;
      } else if (stop == 2 && !pair->handler.exchanges.empty() &&
                 pair->handler.at(0).stream != nullptr) {
        pair->handler.at(0).stream->reset(Errc::kInternal);
        EXPECT_TRUE(pair->server->finished());
      }
      if (stop != 3) {
        pair->client->settle();
        pair->server->settle();
      }
      pair->close(Errc::kReset);
      EXPECT_EQ(response.in.closes, stop == 1 && client_open ? 0 : 1) << step;
      EXPECT_FALSE(response.in.late) << step;
      for (const ServerExchange& exchange : pair->handler.exchanges) {
        EXPECT_EQ(exchange.in.closes, 1) << step;
        EXPECT_FALSE(exchange.in.late) << step;
      }
    }
  }
}

}  // namespace
}  // namespace kintsugi::http
