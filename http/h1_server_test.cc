#include <gtest/gtest.h>

#include "http/testing/support.h"

namespace kintsugi::http {
namespace {

using testing::CountingHost;
using testing::fields;
using testing::pattern;
using testing::ServerExchange;
using testing::take_all;
using testing::TestHandler;

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

// E13.
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

}  // namespace
}  // namespace kintsugi::http
