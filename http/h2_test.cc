#include <gtest/gtest.h>

#include "http/testing/support.h"

namespace kintsugi::http {
namespace {

using testing::fields;
using testing::make_head;
using testing::open;
using testing::Pair;
using testing::pattern;
using testing::ServerExchange;
using testing::TestResponse;

TEST(H2Engine, WhenRequestIsSimple_BothSidesSeeEveryPartOnce) {
  auto pair = Pair::h2();
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(200, fields({{"content-type", "text/plain"}, {"Connection", "x"}}),
                               false);
    exchange.stream->send_data(std::string_view("hello"), true);
  };
  TestResponse response;
  RequestHead head = make_head("GET", "/api/v1/pods?limit=1");
  head.headers = fields({{"X-Remote-User", "kim"}, {"connection", "keep-alive"}, {"te", "gzip"}});
  open(*pair, head, response);
  EXPECT_EQ(pair->client->stream_count(), 1U);
  pair->run();

  ASSERT_EQ(pair->handler.exchanges.size(), 1U);
  const ServerExchange& seen = pair->handler.at(0);
  EXPECT_EQ(seen.head.method, "GET");
  EXPECT_EQ(seen.head.target, "/api/v1/pods?limit=1");
  EXPECT_EQ(seen.head.scheme, "https");
  EXPECT_EQ(seen.head.authority, "shard.example:6443");
  EXPECT_EQ(seen.head.version, 2);
  EXPECT_TRUE(seen.head.end_stream);
  EXPECT_EQ(seen.head.headers.get("x-remote-user"), "kim");
  EXPECT_FALSE(seen.head.headers.contains("connection"));
  EXPECT_FALSE(seen.head.headers.contains("te"));
  EXPECT_EQ(seen.in.closes, 1);
  EXPECT_EQ(seen.in.cause, Errc::kOk);
  EXPECT_EQ(response.status, 200);
  EXPECT_FALSE(response.headers.contains("connection"));
  EXPECT_EQ(response.in.body, "hello");
  EXPECT_EQ(response.in.ends, 1);
  EXPECT_EQ(response.in.closes, 1);
  EXPECT_EQ(response.in.cause, Errc::kOk);
  EXPECT_FALSE(response.in.late);
  EXPECT_EQ(pair->client->stream_count(), 0U);
  EXPECT_EQ(pair->server->stream_count(), 0U);
}

TEST(H2Engine, WhenBodiesAreBigAndWindowsTiny_EveryByteArrives) {
  SessionLimits tiny;
  tiny.stream_window = 1'000;
  tiny.connection_window = 70'000;
  for (const std::size_t span : {std::size_t{100}, std::size_t{16} * 1024}) {
    auto pair = Pair::h2(tiny, tiny);
    pair->wire.span = span;
    const std::string body = pattern(300'000);
    pair->handler.on_open = [](ServerExchange& exchange) {
      exchange.stream->send_head(200, {}, false);
    };
    TestResponse response;
    RequestStream* stream = open(*pair, make_head("POST", "/echo", false), response);
    pair->run();
    pair->handler.at(0).on_data = [](ServerExchange& exchange, std::string_view bytes, bool end) {
      exchange.stream->send_data(bytes, end);
    };
    stream->send_data(std::string_view(body), true);
    pair->run();
    EXPECT_TRUE(pair->handler.at(0).in.body == body);
    EXPECT_TRUE(response.in.body == body);
    EXPECT_EQ(response.in.cause, Errc::kOk);
    EXPECT_EQ(response.in.closes, 1);
    EXPECT_EQ(pair->handler.at(0).in.closes, 1);
  }
}

TEST(H2Engine, WhenStreamWindowIsLarge_PeerMaySendThatMuchUnconsumed) {
  SessionLimits large;
  large.stream_window = 200'000;
  auto pair = Pair::h2(large, large);
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.auto_consume = false;
    exchange.stream->send_head(200, {}, false);
    exchange.stream->send_data(SharedBytes(pattern(500'000)), false);
  };
  TestResponse response;
  response.auto_consume = false;
  RequestStream* stream = open(*pair, make_head("PUT", "/x", false), response);
  stream->send_data(SharedBytes(pattern(500'000, 2)), true);
  pair->run();
  EXPECT_EQ(response.in.body.size(), 200'000U);
  EXPECT_EQ(pair->handler.at(0).in.body.size(), 200'000U);
  EXPECT_EQ(stream->unsent_bytes(), 300'000U);
  pair->handler.at(0).auto_consume = true;
  pair->handler.at(0).stream->consume(200'000);
  response.auto_consume = true;
  stream->consume(200'000);
  pair->run();
  EXPECT_TRUE(pair->handler.at(0).in.body == pattern(500'000, 2));
  EXPECT_TRUE(response.in.body == pattern(500'000));
}

TEST(H2Engine, WhenAnAnswerIsCutOffInOrder_T79_ItEndsWithoutAWindowAndWithoutAReset) {
  SessionLimits small;
  small.stream_window = 100'000;
  auto pair = Pair::h2(small, small);
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(200, {}, false);
    exchange.stream->send_data(SharedBytes(pattern(500'000)), false);
  };
  TestResponse stalled;
  stalled.auto_consume = false;
  open(*pair, make_head("GET", "/x"), stalled);
  TestResponse flowing;
  open(*pair, make_head("GET", "/x"), flowing);
  pair->run();
  EXPECT_EQ(stalled.in.body.size(), 100'000U);
  EXPECT_EQ(flowing.in.body.size(), 500'000U);
  EXPECT_EQ(stalled.in.ends + flowing.in.ends, 0);
  pair->handler.at(0).stream->reset(Errc::kOk);
  pair->handler.at(1).stream->reset(Errc::kOk);
  pair->run();
  for (const TestResponse* response : {&stalled, &flowing}) {
    EXPECT_EQ(response->in.ends, 1);
    EXPECT_EQ(response->in.cause, Errc::kOk);
  }
  EXPECT_EQ(stalled.in.body.size(), 100'000U);
  EXPECT_EQ(pair->handler.at(0).in.cause, Errc::kOk);
}

TEST(H2Engine, WhenOneStreamIsNotConsumed_NeighboursGoOn) {
  SessionLimits limits;
  limits.connection_window = 100'000;
  auto pair = Pair::h2({}, limits);
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.auto_consume = exchange.head.target != "/stalled";
    exchange.stream->send_head(200, {}, true);
  };
  std::list<TestResponse> responses;
  for (int i = 0; i < 4; ++i) {
    open(*pair, make_head("CONNECT", "", false), responses.emplace_back())
        ->send_data(std::string_view(pattern(60'000)), false);
  }
  for (auto& response : responses) {
    response.auto_consume = false;
  }
  pair->run();
  for (auto& exchange : pair->handler.exchanges) {
    EXPECT_EQ(exchange.in.body.size(), 60'000U);
  }
}

TEST(H2Engine, WhenStreamsDieWithUnreadBytes_ConnectionWindowDoesNotLeak) {
  SessionLimits limits;
  limits.connection_window = 65'535;
  auto pair = Pair::h2({}, limits);
  pair->handler.on_open = [](ServerExchange& exchange) { exchange.auto_consume = false; };
  for (int round = 0; round < 20; ++round) {
    TestResponse response;
    RequestStream* stream = open(*pair, make_head("POST", "/x", false), response);
    stream->send_data(std::string_view(pattern(40'000)), false);
    pair->run();
    ASSERT_EQ(pair->handler.exchanges.back().in.body.size(), 40'000U) << round;
    stream->reset(Errc::kCancelled);
    pair->run();
    EXPECT_EQ(response.in.cause, Errc::kCancelled);
    EXPECT_EQ(pair->handler.exchanges.back().in.cause, Errc::kReset);
  }
}

TEST(H2Engine, WhenStreamIsDry_PERF221_LaterDataResumesIt) {
  auto pair = Pair::h2();
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(200, {}, false);
  };
  TestResponse response;
  open(*pair, make_head("GET", "/watch"), response);
  pair->run();
  EXPECT_EQ(response.status, 200);
  EXPECT_FALSE(pair->server->wants_write());
  for (int i = 0; i < 5; ++i) {
    const int before = pair->server_host.calls;
    pair->handler.at(0).stream->send_data(SharedBytes("event\n"), false);
    pair->handler.at(0).stream->send_data(std::string_view("more\n"), false);
    EXPECT_GT(pair->server_host.calls, before);
    EXPECT_TRUE(pair->server->wants_write());
    pair->run();
    EXPECT_EQ(response.in.body.size(), static_cast<std::size_t>(i + 1) * 11);
  }
  pair->handler.at(0).stream->send_data(std::string_view(), true);
  pair->run();
  EXPECT_EQ(response.in.ends, 1);
  EXPECT_EQ(response.in.cause, Errc::kOk);
}

TEST(H2Engine, WhenQueueGrowsAndEmpties_GaugeAndDrainedFollow) {
  auto pair = Pair::h2();
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(200, {}, false);
  };
  TestResponse response;
  response.auto_consume = false;
  open(*pair, make_head("GET", "/big"), response);
  pair->run();
  ServerExchange& exchange = pair->handler.at(0);
  exchange.stream->send_data(std::string_view(pattern(120'000)), false);
  EXPECT_EQ(exchange.stream->unsent_bytes(), 120'000U);
  pair->run();
  EXPECT_EQ(exchange.stream->unsent_bytes(), 120'000U - 65'535U);
  EXPECT_EQ(exchange.in.drains, 0);
  response.stream->consume(60'000);
  pair->run();
  EXPECT_EQ(exchange.stream->unsent_bytes(), 0U);
  EXPECT_EQ(exchange.in.drains, 1);
  exchange.stream->send_data(std::string_view("x"), false);
  pair->run();
  EXPECT_EQ(exchange.in.drains, 1);
}

TEST(H2Engine, WhenProducerFollowsDrained_ItNeverQueuesEverything) {
  auto pair = Pair::h2();
  std::size_t left = 4'000'000;
  std::size_t largest = 0;
  const auto more = [&](ServerExchange& exchange) {
    while (left > 0 && exchange.stream->unsent_bytes() <= 64 * 1024) {
      const std::size_t part = std::min<std::size_t>(left, 10'000);
      left -= part;
      exchange.stream->send_data(std::string_view(pattern(part)), left == 0);
      largest = std::max(largest, exchange.stream->unsent_bytes());
    }
  };
  pair->handler.on_open = [&](ServerExchange& exchange) {
    exchange.on_drained = more;
    exchange.stream->send_head(200, {}, false);
    more(exchange);
  };
  TestResponse response;
  open(*pair, make_head("GET", "/list"), response);
  pair->run();
  EXPECT_EQ(response.in.body.size(), 4'000'000U);
  EXPECT_EQ(response.in.cause, Errc::kOk);
  EXPECT_LT(largest, 80'000U);
}

TEST(H2Engine, WhenTrailersAreSent_TheyArriveBeforeTheEnd) {
  auto pair = Pair::h2();
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.on_data = [](ServerExchange& self, std::string_view, bool end) {
      if (end) {
        EXPECT_EQ(self.in.trailers.get("x-sum"), "7");
        self.stream->send_head(200, {}, false);
        self.stream->send_data(std::string_view("body"), false);
        self.stream->send_trailers(fields({{"grpc-status", "0"}}));
      }
    };
  };
  TestResponse response;
  RequestStream* stream = open(*pair, make_head("POST", "/rpc", false), response);
  stream->send_data(std::string_view("abc"), false);
  pair->run();
  stream->send_trailers(fields({{"x-sum", "7"}}));
  pair->run();
  EXPECT_EQ(pair->handler.at(0).in.body, "abc");
  EXPECT_EQ(pair->handler.at(0).in.ends, 1);
  EXPECT_EQ(response.in.body, "body");
  EXPECT_EQ(response.in.trailers.get("grpc-status"), "0");
  EXPECT_EQ(response.in.ends, 1);
  EXPECT_EQ(response.in.cause, Errc::kOk);
}

TEST(H2Engine, WhenAnswerHasNoBody_ItEndsWithTheHead) {
  auto pair = Pair::h2();
  pair->handler.on_open = [](ServerExchange& exchange) {
    const bool gone = exchange.head.target == "/204";
    exchange.stream->send_head(gone ? 204 : 200, fields({{"content-length", gone ? "0" : "5"}}),
                               false);
    exchange.stream->send_data(std::string_view("hello"), true);
  };
  TestResponse head, gone;
  open(*pair, make_head("HEAD", "/x"), head);
  open(*pair, make_head("GET", "/204"), gone);
  pair->run();
  for (TestResponse* response : {&head, &gone}) {
    EXPECT_TRUE(response->head_ended);
    EXPECT_EQ(response->in.body, "");
    EXPECT_EQ(response->in.ends, 0);
    EXPECT_EQ(response->in.closes, 1);
    EXPECT_EQ(response->in.cause, Errc::kOk);
  }
}

TEST(H2Engine, WhenAnswerComesBeforeTheRequestEnds_BothSidesFinishInOrder) {
  auto pair = Pair::h2();
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(413, {}, true);
  };
  TestResponse response;
  RequestStream* stream = open(*pair, make_head("POST", "/x", false), response);
  stream->send_data(std::string_view(pattern(1'000'000)), true);
  pair->run();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.in.closes, 1);
  EXPECT_EQ(response.in.cause, Errc::kOk);
  EXPECT_EQ(pair->handler.at(0).in.cause, Errc::kOk);
  EXPECT_EQ(pair->client->stream_count(), 0U);
}

TEST(H2Engine, WhenExtendedConnectIsUsed_BothDirectionsEndOnTheirOwn) {
  auto pair = Pair::h2();
  pair->run();  // SETTINGS_ENABLE_CONNECT_PROTOCOL must have arrived
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(101, {}, false);
  };
  RequestHead head = make_head("GET", "/exec");
  head.protocol = "websocket";
  TestResponse response;
  RequestStream* stream = open(*pair, head, response);
  pair->run();
  const ServerExchange& seen = pair->handler.at(0);
  EXPECT_EQ(seen.head.method, "CONNECT");
  EXPECT_EQ(seen.head.protocol, "websocket");
  EXPECT_EQ(seen.head.target, "/exec");
  EXPECT_FALSE(seen.head.end_stream);
  EXPECT_EQ(response.status, 200);
  seen.stream->send_data(std::string_view("bye"), true);
  pair->run();
  EXPECT_EQ(response.in.ends, 1);
  EXPECT_EQ(response.in.closes, 0);
  stream->send_data(std::string_view("still here"), true);
  pair->run();
  EXPECT_EQ(seen.in.body, "still here");
  EXPECT_EQ(seen.in.cause, Errc::kOk);
  EXPECT_EQ(response.in.cause, Errc::kOk);
}

TEST(H2Engine, WhenPeerLacksExtendedConnect_OpenFails) {
  auto pair = Pair::h2();
  RequestHead head = make_head("GET", "/exec");
  head.protocol = "websocket";
  TestResponse response;
  const auto stream = pair->client->open(head, response);
  ASSERT_FALSE(stream.has_value());
  EXPECT_EQ(stream.error().code(), Errc::kNotProcessed);
}

TEST(H2Engine, WhenSlotsAreUsedUp_OpenSaysOverloaded) {
  SessionLimits limits;
  limits.max_streams = 3;
  auto pair = Pair::h2({}, limits);
  EXPECT_EQ(pair->client->slot_limit(), 100U);
  pair->run();
  EXPECT_EQ(pair->client->slot_limit(), 3U);
  std::list<TestResponse> responses;
  for (int i = 0; i < 3; ++i) {
    open(*pair, make_head("GET", "/watch"), responses.emplace_back());
  }
  EXPECT_EQ(pair->client->free_slots(), 0U);
  TestResponse late;
  EXPECT_EQ(pair->client->open(make_head("GET", "/"), late).error().code(), Errc::kOverloaded);
  pair->run();
  responses.front().stream->reset(Errc::kCancelled);
  EXPECT_EQ(pair->client->free_slots(), 1U);
  open(*pair, make_head("GET", "/again"), late);
  pair->run();
  EXPECT_EQ(pair->handler.exchanges.size(), 4U);
  EXPECT_EQ(pair->server->stream_count(), 3U);
}

TEST(H2Engine, WhenMoreStreamsComeThanAnnounced_TheRestIsNotProcessed) {
  SessionLimits limits;
  limits.max_streams = 2;
  auto pair = Pair::h2({}, limits);
  std::list<TestResponse> responses;  // opened before the server's SETTINGS are known
  for (int i = 0; i < 5; ++i) {
    open(*pair, make_head("GET", "/watch"), responses.emplace_back());
  }
  pair->run();
  EXPECT_EQ(pair->handler.exchanges.size(), 2U);
  int refused = 0;
  for (const TestResponse& response : responses) {
    refused += response.in.closes == 1 && response.in.cause == Errc::kNotProcessed ? 1 : 0;
  }
  EXPECT_EQ(refused, 3);
}

TEST(H2Engine, WhenHandlerClosesConnectionAfter_AnswerStillArrives) {
  auto pair = Pair::h2();
  pair->handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->close_connection_after();
    exchange.stream->send_head(401, {}, true);
  };
  TestResponse response;
  open(*pair, make_head("GET", "/"), response);
  pair->run();
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(response.in.cause, Errc::kOk);
  EXPECT_TRUE(pair->server->finished());
}

TEST(H2Engine, WhenHandlerResets_ClientLearnsTheKind) {
  struct Case {
    Errc given, seen;
  };
  for (const Case& row :
       {Case{Errc::kNotProcessed, Errc::kNotProcessed}, Case{Errc::kCancelled, Errc::kReset},
        Case{Errc::kInternal, Errc::kReset}}) {
    auto pair = Pair::h2();
    pair->handler.on_open = [&](ServerExchange& exchange) { exchange.stream->reset(row.given); };
    TestResponse response;
    open(*pair, make_head("POST", "/", false), response)->send_data(std::string_view("x"), false);
    pair->run();
    EXPECT_EQ(response.in.cause, row.seen);
    EXPECT_EQ(response.in.closes, 1);
    EXPECT_EQ(pair->handler.at(0).in.cause, row.given);
    EXPECT_EQ(pair->handler.at(0).in.closes, 1);
  }
}

// One exchange with bodies in both directions is stopped after every number of wire bytes, in four
// ways.
TEST(H2Engine, WhenStoppedInAnyState_ClosesOnceAndLast) {
  enum class Stop { kClientReset, kServerReset, kDetach, kTransport };
  for (const Stop stop :
       {Stop::kClientReset, Stop::kServerReset, Stop::kDetach, Stop::kTransport}) {
    for (std::size_t step = 0; step < 60; ++step) {
      auto pair = Pair::h2();
      pair->handler.on_open = [](ServerExchange& exchange) {
        exchange.on_data = [](ServerExchange& self, std::string_view bytes, bool end) {
          if (self.in.body.size() == bytes.size() && !bytes.empty()) {
            self.stream->send_head(200, {}, false);
          }
          self.stream->send_data(bytes, end);
        };
      };
      TestResponse response;
      RequestStream* stream = open(*pair, make_head("POST", "/x", false), response);
      stream->send_data(std::string_view(pattern(90)), true);
      for (std::size_t i = 0; i < step; ++i) {
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
      if (stop == Stop::kClientReset && client_open) {
        stream->reset(Errc::kCancelled);
        stream->send_data(std::string_view("late"), true);
        stream->consume(100);
        EXPECT_EQ(response.in.closes, 0) << "called back from inside";
      } else if (stop == Stop::kDetach && client_open) {
        stream->detach();
        response.stream = nullptr;
      } else if (stop == Stop::kServerReset && !pair->handler.exchanges.empty() &&
                 pair->handler.at(0).stream != nullptr) {
        pair->handler.at(0).stream->reset(Errc::kInternal);
        EXPECT_EQ(pair->handler.at(0).in.closes, 0) << "called back from inside";
      }
      if (stop != Stop::kTransport) {
        pair->run();
      }
      pair->close(Errc::kUnreachable);
      if (stop != Stop::kDetach || !client_open) {
        EXPECT_EQ(response.in.closes, 1) << step;
      } else {
        EXPECT_EQ(response.in.closes, 0) << step;
      }
      EXPECT_FALSE(response.in.late) << step;
      for (const ServerExchange& exchange : pair->handler.exchanges) {
        EXPECT_EQ(exchange.in.closes, 1) << step;
        EXPECT_FALSE(exchange.in.late) << step;
      }
      EXPECT_EQ(pair->client->stream_count(), 0U);
      EXPECT_EQ(pair->server->stream_count(), 0U);
      EXPECT_FALSE(pair->client->feed("x").has_value());
      EXPECT_TRUE(pair->client->finished());
      EXPECT_FALSE(pair->server->wants_write());
    }
  }
}

TEST(H2Engine, WhenTransportClosesBeforeTheHeadLeft_RequestIsNotProcessed) {
  auto pair = Pair::h2();
  TestResponse sent, unsent;
  open(*pair, make_head("GET", "/a"), sent);
  pair->run();
  open(*pair, make_head("GET", "/b"), unsent);
  pair->close(Errc::kReset);
  EXPECT_EQ(sent.in.cause, Errc::kReset);
  EXPECT_EQ(unsent.in.cause, Errc::kNotProcessed);
}

TEST(H2Engine, WhenSessionDies_HandlersAreToldFirst) {
  auto pair = Pair::h2();
  TestResponse response;
  open(*pair, make_head("GET", "/"), response);
  pair->run();
  pair->client.reset();
  pair->server.reset();
  EXPECT_EQ(response.in.closes, 1);
  EXPECT_EQ(pair->handler.at(0).in.closes, 1);
}

TEST(H2Engine, WhenAHandlerEntersTheSessionAgain_PERF222_ItIsRefusedAndNothingBreaks) {
  auto pair = Pair::h2();
  std::size_t tried = 0;
  const auto enter = [&](Session& session) {
    std::string room(16 * 1024, '\0');
    ++tried;
    EXPECT_EQ(session.produce(room), 0U);
    const Expected<void> fed = session.feed("PRI * ");
    EXPECT_EQ(fed ? Errc::kOk : fed.error().code(), Errc::kInternal);
  };
  pair->handler.on_open = [&](ServerExchange& exchange) {
    exchange.on_data = [&](ServerExchange& one, std::string_view bytes, bool end) {
      if (bytes.empty()) {
        return;  // the end is told when nghttp2 has returned
      }
      enter(*pair->server);
      if (!end) {
        one.stream->send_head(200, {}, false);
        one.stream->send_data(std::string_view("hello"), true);
      }
    };
  };
  TestResponse response;
  open(*pair, make_head("POST", "/", false), response)->send_data(std::string_view("body"), true);
  pair->run();
  EXPECT_EQ(tried, 1U);
  EXPECT_EQ(response.in.body, "hello");
  EXPECT_EQ(response.in.cause, Errc::kOk);
  EXPECT_EQ(pair->server->stream_count(), 0U);
}

TEST(H2Engine, WhenPingIsSent_AnswerComesBack) {
  auto pair = Pair::h2();
  pair->run();
  pair->client->ping();
  const std::string ping = testing::take_all(*pair->client);
  EXPECT_EQ(ping.size(), 17U);
  ASSERT_TRUE(pair->server->feed(ping));
  EXPECT_EQ(testing::take_all(*pair->server).size(), 17U);
}

}  // namespace
}  // namespace kintsugi::http
