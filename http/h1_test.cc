#include <gtest/gtest.h>

#include "http/internal/test_support.h"

namespace kintsugi::http {
namespace {

using testing::CountingHost;
using testing::fields;
using testing::make_head;
using testing::Pair;
using testing::pattern;
using testing::ServerExchange;
using testing::take_all;
using testing::TestHandler;
using testing::TestResponse;

/// A server that is fed text and whose answer is text.
struct TextServer {
  TestHandler handler;
  PeerInfo peer;
  CountingHost host;
  std::unique_ptr<Session> server = make_h1_server(handler, peer, host, {});

  std::string say(std::string_view text) {
    (void)server->feed(text);
    std::string all;
    for (int i = 0; i < 3; ++i) {
      all += take_all(*server);
      server->settle();
    }
    return all;
  }
};

void answer_hello(ServerExchange& exchange) {
  exchange.stream->send_head(200, {}, false);
  exchange.stream->send_data(std::string_view("hello"), true);
}

TEST(H1Server, WhenRequestIsSimple_AnswerIsChunkedAndConnectionStays) {
  TextServer text;
  text.handler.on_open = answer_hello;
  EXPECT_EQ(text.say("GET /api?x=1 HTTP/1.1\r\nHost: a:6443\r\nX-One: 1\r\nX-One:  2 \r\n\r\n"),
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
  const ServerExchange& seen = text.handler.at(0);
  EXPECT_EQ(seen.head.method, "GET");
  EXPECT_EQ(seen.head.target, "/api?x=1");
  EXPECT_EQ(seen.head.authority, "a:6443");
  EXPECT_EQ(seen.head.scheme, "http");
  EXPECT_EQ(seen.head.version, 1);
  EXPECT_TRUE(seen.head.end_stream);
  ASSERT_EQ(seen.head.headers.size(), 2U);
  EXPECT_EQ(seen.head.headers[1].value, "2");
  EXPECT_EQ(seen.in.closes, 1);
  EXPECT_EQ(seen.in.cause, Errc::kOk);
  EXPECT_FALSE(text.server->finished());
  EXPECT_EQ(text.server->stream_count(), 0U);
}

TEST(H1Server, WhenLengthIsKnown_ItFramesTheAnswer) {
  TextServer text;
  text.handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(200, fields({{"content-length", "5"}, {"connection", "x"}}), false);
    exchange.stream->send_data(SharedBytes("hello"), true);
  };
  EXPECT_EQ(text.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
}

TEST(H1Server, WhenHandlerSendsMoreOrLessThanItSaid_ConnectionBreaks) {
  for (const std::string_view body : {"hell", "hello!"}) {
    TextServer text;
    text.handler.on_open = [&](ServerExchange& exchange) {
      exchange.stream->send_head(200, fields({{"content-length", "5"}}), false);
      exchange.stream->send_data(body, true);
    };
    text.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_TRUE(text.server->finished());
    EXPECT_EQ(text.handler.at(0).in.cause, Errc::kInternal);
  }
}

TEST(H1Server, WhenAnswerHasNoBody_NoneIsSent) {
  struct Case {
    const char* method;
    int status;
    const char* answer;
  };
  for (const Case& row :
       {Case{"HEAD", 200, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"},
        Case{"GET", 204, "HTTP/1.1 204 No Content\r\n\r\n"},
        Case{"GET", 304, "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n"}}) {
    TextServer text;
    text.handler.on_open = [&](ServerExchange& exchange) {
      exchange.stream->send_head(row.status, fields({{"content-length", "5"}}), false);
      exchange.stream->send_data(std::string_view("hello"), true);
    };
    EXPECT_EQ(text.say(std::string(row.method) + " / HTTP/1.1\r\nHost: a\r\n\r\n"), row.answer);
    EXPECT_EQ(text.handler.at(0).in.cause, Errc::kOk);
    EXPECT_FALSE(text.server->finished());
  }
}

TEST(H1Server, WhenClientIsOldOrClosing_ConnectionEndsAfterTheAnswer) {
  TextServer old;
  old.handler.on_open = answer_hello;
  EXPECT_EQ(old.say("GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello");
  EXPECT_TRUE(old.server->finished());
  TextServer closing;
  closing.handler.on_open = answer_hello;
  EXPECT_EQ(closing.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, Close\r\n\r\n"),
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
            "5\r\nhello\r\n0\r\n\r\n");
  EXPECT_TRUE(closing.server->finished());
}

TEST(H1Server, WhenRequestsArePipelined_TheyRunOneAfterTheOther) {
  TextServer text;
  ServerExchange* running = nullptr;
  text.handler.on_open = [&](ServerExchange& exchange) { running = &exchange; };
  const std::string three =
      "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"
      "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
      "\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n";
  EXPECT_EQ(text.say(three), "");
  for (std::size_t i = 1; i <= 3; ++i) {
    ASSERT_EQ(text.handler.exchanges.size(), i);
    EXPECT_EQ(running->head.target, "/" + std::to_string(i));
    running->stream->send_head(200, {}, true);
    EXPECT_EQ(text.say(""), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  }
  EXPECT_EQ(text.handler.at(1).in.body, "abc");
  EXPECT_EQ(text.handler.exchanges.size(), 3U);
}

TEST(H1Server, WhenPipelinedInputPilesUp_ReadingStopsUntilItShrinks) {
  TextServer text;
  EXPECT_EQ(text.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "");
  EXPECT_TRUE(text.server->wants_read());
  std::string more;
  for (int i = 0; i < 2'000; ++i) {
    more += "GET /more HTTP/1.1\r\nHost: a\r\n\r\n";
  }
  ASSERT_GT(more.size(), 60'000U);
  text.say(more);
  text.say(more.substr(0, 10'000));
  EXPECT_FALSE(text.server->wants_read());
  text.handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(200, {}, true);
  };
  const int calls = text.host.calls;
  text.handler.at(0).stream->send_head(200, {}, true);
  for (int i = 0; i < 2'000; ++i) {
    take_all(*text.server);
    text.server->settle();
  }
  EXPECT_TRUE(text.server->wants_read());
  EXPECT_GT(text.host.calls, calls);
  EXPECT_GT(text.handler.exchanges.size(), 2'000U);
}

TEST(H1Server, WhenOwnerIgnoresWantsRead_FeedFailsAtALimit) {
  TextServer text;
  text.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  bool failed = false;
  for (int i = 0; i < 30 && !failed; ++i) {
    failed = !text.server->feed(std::string(64 * 1024, 'x'));
  }
  EXPECT_TRUE(failed);
  text.server->on_transport_closed(Errc::kClosed);
}

TEST(H1Server, WhenBodyIsNotConsumed_ReadingStopsAndResumes) {
  TextServer text;
  text.handler.on_open = [](ServerExchange& exchange) { exchange.auto_consume = false; };
  const std::string body = pattern(200'000);
  text.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
  std::size_t fed = 0;
  while (text.server->wants_read() && fed < body.size()) {
    text.say(std::string_view(body).substr(fed, 10'000));
    fed += 10'000;
  }
  ServerExchange& exchange = text.handler.at(0);
  EXPECT_EQ(exchange.in.body.size(), 64U * 1024);
  EXPECT_LT(fed, 80'000U);
  while (fed < body.size() || exchange.in.ends == 0) {
    const int calls = text.host.calls;
    const bool blocked = !text.server->wants_read();
    exchange.stream->consume(30'000);
    EXPECT_TRUE(!blocked || text.host.calls > calls);
    text.server->settle();
    if (text.server->wants_read() && fed < body.size()) {
      text.say(std::string_view(body).substr(fed, 10'000));
      fed += 10'000;
    }
  }
  EXPECT_TRUE(exchange.in.body == body);
  EXPECT_EQ(exchange.in.ends, 1);
}

TEST(H1Server, WhenClientExpectsContinue_ItIsToldToGoOn) {
  TextServer text;
  EXPECT_EQ(
      text.say("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n"),
      "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(text.say("abc"), "");
  EXPECT_EQ(text.handler.at(0).in.body, "abc");
  TextServer refusing;
  refusing.handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(403, {}, true);
  };
  EXPECT_EQ(refusing.say(
                "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"),
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
  EXPECT_TRUE(refusing.server->finished());
  EXPECT_EQ(refusing.handler.at(0).in.cause, Errc::kOk);
}

TEST(H1Server, WhenAnswerComesBeforeTheBody_RestIsDroppedWithinReason) {
  for (const bool large : {false, true}) {
    TextServer text;
    text.handler.on_open = [](ServerExchange& exchange) {
      exchange.stream->send_head(413, {}, true);
    };
    const std::string length = large ? "300000" : "3000";
    const std::string body(large ? 300'000 : 3'000, 'x');
    EXPECT_NE(text.say("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: " + length + "\r\n\r\n"), "");
    EXPECT_EQ(text.handler.at(0).in.cause, Errc::kOk);
    EXPECT_EQ(text.say(body + "GET / HTTP/1.1\r\nHost: a\r\n\r\n") == "", large);
    EXPECT_EQ(text.server->finished(), large);
  }
}

TEST(H1Server, WhenUpgradeIsAccepted_BytesFlowBothWaysUntilBothEnd) {
  TextServer text;
  text.say(
      "GET /exec HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\nearly");
  ServerExchange& exchange = text.handler.at(0);
  EXPECT_EQ(exchange.head.protocol, "SPDY/3.1");
  EXPECT_EQ(exchange.head.headers.get("upgrade"), "SPDY/3.1");
  EXPECT_FALSE(exchange.head.end_stream);
  EXPECT_EQ(exchange.in.body, "");
  exchange.stream->send_head(101, fields({{"upgrade", "SPDY/3.1"}, {"x-a", "b"}}), false);
  exchange.stream->send_data(std::string_view("raw"), false);
  EXPECT_EQ(text.say(""),
            "HTTP/1.1 101 Switching Protocols\r\nx-a: b\r\nconnection: Upgrade\r\n"
            "upgrade: SPDY/3.1\r\n\r\nraw");
  EXPECT_EQ(exchange.in.body, "early");
  text.say(" more");
  EXPECT_EQ(exchange.in.body, "early more");
  EXPECT_FALSE(text.server->wants_shutdown());
  exchange.stream->send_data(std::string_view("bye"), true);
  EXPECT_EQ(text.say(""), "bye");
  EXPECT_TRUE(text.server->wants_shutdown());
  EXPECT_EQ(exchange.in.closes, 0);
  EXPECT_FALSE(text.server->on_read_closed());
  text.server->settle();
  EXPECT_EQ(exchange.in.ends, 1);
  EXPECT_EQ(exchange.in.cause, Errc::kOk);
  EXPECT_TRUE(text.server->finished());
}

TEST(H1Server, WhenTunnelPeerEndsFirst_WeMayStillSend) {
  TextServer text;
  text.handler.on_open = [](ServerExchange& exchange) {
    exchange.auto_consume = false;
    exchange.stream->send_head(101, {}, false);
  };
  text.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
  text.say(std::string(100'000, 'x'));
  ServerExchange& exchange = text.handler.at(0);
  EXPECT_EQ(exchange.in.body.size(), 64U * 1024);
  EXPECT_FALSE(text.server->wants_read());
  EXPECT_TRUE(text.server->on_read_closed());
  text.server->settle();
  EXPECT_EQ(exchange.in.ends, 0) << "the end must not overtake what is buffered";
  exchange.stream->consume(64 * 1024);
  text.server->settle();
  EXPECT_EQ(exchange.in.body.size(), 100'000U);
  EXPECT_EQ(exchange.in.ends, 1);
  exchange.stream->send_data(std::string_view("last"), true);
  EXPECT_EQ(text.say(""), "last");
  EXPECT_EQ(exchange.in.cause, Errc::kOk);
}

TEST(H1Server, WhenUpgradeIsRefused_ConnectionIsReused) {
  TextServer text;
  text.handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(403, {}, true);
  };
  const std::string request =
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
  EXPECT_EQ(text.say(request), "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
  EXPECT_EQ(text.say(request), "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
  EXPECT_EQ(text.handler.at(0).in.cause, Errc::kOk);
}

TEST(H1Server, WhenHeadTimesOut_EngineAnswers408) {
  TextServer text;
  EXPECT_FALSE(text.server->head_started());
  text.say("GET / HT");
  EXPECT_TRUE(text.server->head_started());
  text.server->on_head_timeout();
  const std::string answer = text.say("");
  EXPECT_EQ(answer.substr(0, 24), "HTTP/1.1 408 Request Tim");
  EXPECT_NE(answer.find("\"code\":408"), std::string::npos);
  EXPECT_NE(answer.find("connection: close"), std::string::npos);
  EXPECT_TRUE(text.server->finished());
  TextServer idle;
  idle.server->on_head_timeout();
  EXPECT_EQ(idle.say(""), "");
  EXPECT_TRUE(idle.server->finished());
}

TEST(H1Server, WhenDraining_RunningExchangeEndsWithClose) {
  TextServer text;
  text.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  text.server->start_drain();
  EXPECT_FALSE(text.server->finished());
  text.handler.at(0).stream->send_head(200, {}, true);
  EXPECT_EQ(text.say(""), "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
  EXPECT_TRUE(text.server->finished());
  TextServer idle;
  idle.server->start_drain();
  EXPECT_TRUE(idle.server->finished());
}

TEST(H1Server, WhenHandlerHeadersHoldLineBreaks_TheyAreDropped) {
  TextServer text;
  text.handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(200, fields({{"x-a", "b\r\nset-cookie: c"}, {"x b", "c"}}), true);
  };
  EXPECT_EQ(text.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
}

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

/// A client whose server is text.
struct TextClient {
  CountingHost host;
  TestResponse response;
  std::unique_ptr<ClientSession> client = make_h1_client(host, {});

  std::string ask(const RequestHead& head) {
    auto opened = client->open(head, response);
    EXPECT_TRUE(opened.has_value());
    response.stream = opened ? *opened : nullptr;
    return take_all(*client);
  }
  bool hear(std::string_view text) {
    const bool fine = client->feed(text).has_value();
    client->settle();
    return fine;
  }
};

TEST(H1Client, WhenRequestIsSent_HopByHopFieldsStayBehind) {
  TextClient text;
  RequestHead head = make_head("GET", "/x?y");
  head.headers = fields({{"X-Remote-User", "kim"},
                         {"connection", "x-remote-user"},
                         {"keep-alive", "1"},
                         {"upgrade", "h2c"},
                         {"host", "evil"}});
  EXPECT_EQ(text.ask(head),
            "GET /x?y HTTP/1.1\r\nhost: shard.example:6443\r\nx-remote-user: kim\r\n\r\n");
}

TEST(H1Client, WhenRequestLineHoldsBlanks_OpenFails) {
  TextClient text;
  for (const char* target : {"/a b", "/a\r\nx: y", ""}) {
    const auto opened = text.client->open(make_head("GET", target), text.response);
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code(), Errc::kBadRequest);
  }
}

TEST(H1Client, WhenBodyEndsWithTheConnection_CloseIsTheEnd) {
  TextClient text;
  text.ask(make_head("GET", "/"));
  ASSERT_TRUE(text.hear("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhel"));
  ASSERT_TRUE(text.hear("lo"));
  text.client->on_transport_closed(Errc::kClosed);
  EXPECT_EQ(text.response.in.body, "hello");
  EXPECT_EQ(text.response.in.ends, 1);
  EXPECT_EQ(text.response.in.cause, Errc::kOk);
  EXPECT_EQ(text.response.heads, 1);
}

TEST(H1Client, WhenConnectionBreaksInsideABody_CauseIsKept) {
  TextClient text;
  text.ask(make_head("GET", "/"));
  ASSERT_TRUE(text.hear("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel"));
  text.client->on_transport_closed(Errc::kClosed);
  EXPECT_EQ(text.response.in.ends, 0);
  EXPECT_EQ(text.response.in.cause, Errc::kClosed);
  TextClient unsent;
  auto opened = unsent.client->open(make_head("GET", "/"), unsent.response);
  ASSERT_TRUE(opened.has_value());
  unsent.client->on_transport_closed(Errc::kReset);
  EXPECT_EQ(unsent.response.in.cause, Errc::kNotProcessed);
}

TEST(H1Client, WhenAnswersAreMalformed_ExchangeEndsWithProtocolError) {
  for (const std::string_view bad :
       {"HTTP/1.1 20 OK\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n"}) {
    TextClient text;
    text.ask(make_head("GET", "/"));
    EXPECT_FALSE(text.hear(bad)) << bad;
    EXPECT_EQ(text.response.in.cause, Errc::kProtocol) << bad;
    EXPECT_EQ(text.response.in.closes, 1) << bad;
    EXPECT_TRUE(text.client->finished()) << bad;
  }
}

TEST(H1Client, WhenBytesComeUnasked_ConnectionBreaks) {
  TextClient idle;
  EXPECT_FALSE(idle.hear("H"));
  EXPECT_TRUE(idle.client->draining());
  TextClient trailing;
  trailing.ask(make_head("GET", "/"));
  (void)trailing.hear("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK\r\n");
  EXPECT_EQ(trailing.response.in.cause, Errc::kOk);
  EXPECT_EQ(trailing.client->free_slots(), 0U);
  EXPECT_TRUE(trailing.client->finished());
}

TEST(H1Client, WhenAnswerToHeadHasALength_NoBodyIsAwaited) {
  TextClient text;
  text.ask(make_head("HEAD", "/"));
  ASSERT_TRUE(text.hear("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"));
  EXPECT_TRUE(text.response.head_ended);
  EXPECT_EQ(text.response.in.cause, Errc::kOk);
  EXPECT_EQ(text.client->free_slots(), 1U);
}

TEST(H1Client, WhenAnswerOvertakesTheRequest_ConnectionIsNotReused) {
  TextClient text;
  text.ask(make_head("POST", "/", false));
  ASSERT_TRUE(text.hear("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"));
  EXPECT_EQ(text.response.status, 413);
  EXPECT_EQ(text.response.in.cause, Errc::kOk);
  EXPECT_TRUE(text.client->finished());
}

TEST(H1Client, WhenUpgradeIsRefused_AnswerIsAnOrdinaryOne) {
  TextClient text;
  RequestHead head = make_head("GET", "/exec", false);
  head.protocol = "SPDY/3.1";
  EXPECT_EQ(text.ask(head),
            "GET /exec HTTP/1.1\r\nhost: shard.example:6443\r\nconnection: Upgrade\r\n"
            "upgrade: SPDY/3.1\r\n\r\n");
  text.response.stream->send_data(std::string_view("never sent"), false);
  ASSERT_TRUE(text.hear("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"));
  EXPECT_EQ(text.response.in.body, "no");
  EXPECT_EQ(text.response.in.cause, Errc::kOk);
  EXPECT_EQ(take_all(*text.client), "");
  EXPECT_EQ(text.client->free_slots(), 1U);
}

}  // namespace
}  // namespace kintsugi::http
