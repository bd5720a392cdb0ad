// HTTP/1.1 that two parties could read differently, byte by byte (SE-084, SE-110 to SE-116,
// SE-135).
#include <gtest/gtest.h>
#include <malloc.h>

#include <string>
#include <string_view>
#include <vector>

#include "http/abuse_watch.h"
#include "http/internal/h1_message.h"
#include "http/testing/support.h"

namespace kintsugi::http {
namespace {

using testing::CountingHost;
using testing::ServerExchange;
using testing::take_all;
using testing::TestHandler;
using testing::TestResponse;

/// What a server says to `bytes` in pieces of `step`, and whether the connection ends.
struct Said {
  std::string text;
  bool closed = false;
  std::size_t requests = 0;
  AbuseCounters abuse;
};
Said say(std::string_view bytes, std::size_t step) {
  TestHandler handler;
  PeerInfo peer;
  CountingHost host;
  Said said;
  auto server = make_h1_server(handler, peer, host, {});
  watch_abuse(*server, said.abuse, false);
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    (void)server->feed(bytes.substr(at, step));
    server->settle();
    said.text += take_all(*server);
  }
  server->settle();
  said.closed = server->finished();
  said.requests = handler.exchanges.size();
  return said;
}

const std::string kPost = "POST / HTTP/1.1\r\nHost: a\r\n";

TEST(H1Strict, SE110_SE111_SE115_WhereverTheBytesAreSplit_TheAnswerIsTheSame) {
  struct Case {
    int status;
    std::string bytes;
  };
  const Case cases[] = {
      // SE-110
      {400, kPost + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {400, kPost + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"},
      {400, kPost + "Content-Length: 3\r\ncontent-LENGTH: 4\r\n\r\n"},
      {400, kPost + "Content-Length: 3,3\r\n\r\n"},
      {400, kPost + "Content-Length: +3\r\n\r\n"},
      {501, kPost + "Transfer-Encoding: gzip\r\n\r\n"},
      {501, kPost + "Transfer-Encoding: chunked, chunked\r\n\r\n"},
      {501, kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
      // SE-111
      {400, "GET / HTTP/1.1\r\nHost: a\r\nx: a\rb\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\nx: b\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\r\nx: 1\r\n 2\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nAccept: a\r\n\r\n"},
      {400, "GET a:443 HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, std::string("GET / HTTP/1.1\r\nHost: a\r\nx: \0\r\n\r\n", 34)},
      {405, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"},
      // SE-115
      {400, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a:0\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: " + std::string(300, 'a') + "\r\n\r\n"},
      {400, "GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n"},
  };
  for (const Case& row : cases) {
    const Said whole = say(row.bytes, row.bytes.size());
    EXPECT_EQ(whole.requests, 0U) << row.bytes;
    EXPECT_TRUE(whole.closed) << row.bytes;
    EXPECT_TRUE(whole.text.starts_with("HTTP/1.1 " + std::to_string(row.status) + " "))
        << row.bytes << whole.text;
    EXPECT_GE(whole.abuse.of(Abuse::kFraming), 1U);
    for (std::size_t step = 1; step < std::min<std::size_t>(row.bytes.size(), 80); ++step) {
      EXPECT_EQ(say(row.bytes, step).text, whole.text) << row.bytes << " in steps of " << step;
    }
  }
  EXPECT_NE(say("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 99).text.find("malformed authority"),
            std::string::npos);
}

TEST(H1Strict, SE112_WhenChunksAreBroken_TheClientIsToldUnlessAnAnswerHasBegun) {
  const std::string head = kPost + "Transfer-Encoding: chunked\r\n\r\n";
  std::string extensions;
  for (int i = 0; i < 100; ++i) {
    extensions += "1;" + std::string(200, 'x') + "\r\na\r\n";
  }
  std::string trailers = "0\r\n";
  for (int i = 0; i < 300; ++i) {
    trailers += "a: b\r\n";
  }
  for (const std::string& body :
       {std::string("00000000000000005\r\nhello\r\n"), std::string("fffffffffffffffff\r\n"),
        "5;" + std::string(257, 'x') + "\r\n", extensions, std::string("5\nhello\r\n"),
        std::string("5\r\nhello\n"), std::string("0\r\nx: 1\n\r\n"),
        std::string("0\r\nx y: 1\r\n\r\n"), "0\r\nx: " + std::string(70'000, 'y') + "\r\n\r\n",
        trailers + "\r\n"}) {
    const Said whole = say(head + body, head.size() + body.size());
    EXPECT_TRUE(whole.text.starts_with("HTTP/1.1 400 ")) << body.substr(0, 40) << whole.text;
    EXPECT_TRUE(whole.closed);
    for (const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{7}}) {
      EXPECT_EQ(say(head + body, step).text, whole.text) << body.substr(0, 40);
    }
  }
  EXPECT_EQ(
      say(head + "0000000000000005;" + std::string(256, 'x') + "\r\nhello\r\n0\r\n\r\n", 3).text,
      "")
      << "as long as may be";

  TestHandler handler;
  handler.on_open = [](ServerExchange& exchange) { exchange.stream->send_head(200, {}, false); };
  PeerInfo peer;
  CountingHost host;
  auto server = make_h1_server(handler, peer, host, {});
  (void)server->feed(head);
  server->settle();
  (void)take_all(*server);
  EXPECT_FALSE(server->feed("xx\r\n"));
  server->settle();
  EXPECT_EQ(take_all(*server), "");
  EXPECT_TRUE(server->finished());
}

TEST(H1Strict, SE084_WhenAHeadIsOverALimit_SaysSo) {
  const auto fields = [](std::size_t count) {
    std::string text = "GET / HTTP/1.1\r\nHost: a\r\n";
    for (std::size_t i = 0; i < count; ++i) {
      text += "x" + std::to_string(i) + ": y\r\n";
    }
    return text + "\r\n";
  };
  const auto options = [](std::size_t count) {
    std::string text = "GET / HTTP/1.1\r\nHost: a\r\nConnection: a0";
    for (std::size_t i = 1; i < count; ++i) {
      text += i % 30 == 0 ? "\r\nConnection: a" + std::to_string(i) : ", a" + std::to_string(i);
    }
    return text + "\r\n\r\n";
  };
  const auto status = [](const std::string& text) {
    const Said said = say(text, 1'000);
    return said.text.empty() ? 0 : std::stoi(said.text.substr(9, 3));
  };
  EXPECT_EQ(status(fields(256)), 0);
  EXPECT_EQ(status(fields(257)), 431);
  EXPECT_EQ(status(options(64)), 0);
  EXPECT_EQ(status(options(65)), 400);
  EXPECT_EQ(status(options(6'000)), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: a\r\nx: " + std::string(32'768, 'y') + "\r\n\r\n"),
            431);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: a\r\nx: " + std::string(32'767, 'y') + "\r\n\r\n"), 0);
  EXPECT_EQ(status("GET /" + std::string(66'000, 'a')), 431);
  EXPECT_EQ(say("GET /" + std::string(66'000, 'a'), 1'000).abuse.of(Abuse::kHead), 1U);
}

TEST(H1Strict, SE084_AHeadTakesLittleMoreMemoryThanItsBytes) {
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 250; ++i) {
    many += "n:\r\n";
  }
  std::string nominating = "GET / HTTP/1.1\r\nHost: a\r\nConnection: a";
  for (int i = 0; i < 60; ++i) {
    nominating += ",b" + std::to_string(i);
  }
  nominating += "\r\nb3: gone\r\nb77: stays";
  for (const std::string& text : {many + "\r\n", nominating + "\r\n\r\n",
                                  kPost + "x: " + std::string(30'000, 'y') + "\r\n\r\n",
                                  std::string("GET / HTTP/1.1\r\nHost: a\r\n\r\n")}) {
    const std::size_t before = ::mallinfo2().uordblks;
    const auto parsed = parse_h1_request(text, {});
    ASSERT_TRUE(parsed);
    EXPECT_LE(::mallinfo2().uordblks - before, 2 * text.size() + 4'096) << text.substr(0, 60);
    EXPECT_FALSE(parsed->head.headers.contains("b3"));
    EXPECT_EQ(parsed->head.headers.contains("b77"), text.find("b77") != std::string::npos);
  }
}

TEST(H1Strict, SE113_AnAbsoluteTargetReplacesHostAndH2cIsIgnored) {
  const auto absolute = parse_h1_request("GET http://b:1/x HTTP/1.1\r\nHost: a\r\n\r\n", {});
  ASSERT_TRUE(absolute);
  EXPECT_EQ(absolute->head.authority, "b:1");
  const auto h2c = parse_h1_request(
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
      "HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
      {});
  ASSERT_TRUE(h2c);
  EXPECT_EQ(h2c->head.protocol, "");
  EXPECT_FALSE(h2c->head.headers.contains("http2-settings"));
}

/// A client that asked for "/" and is answered with `bytes`.
struct Asked {
  explicit Asked(std::string_view bytes) {
    RequestHead head = testing::make_head("GET", "/");
    auto opened = client->open(head, response);
    response.stream = opened ? *opened : nullptr;
    (void)take_all(*client);
    fine = client->feed(bytes).has_value();
    client->settle();
  }
  CountingHost host;
  TestResponse response;
  std::unique_ptr<ClientSession> client = make_h1_client(host, {});
  bool fine = false;
};

TEST(H1Strict, SE135_WhenAServerFloods_ItsConnectionEnds) {
  std::string hints;
  for (int i = 0; i < 16; ++i) {
    hints += "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
  }
  const std::string answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
  Asked patient(hints + answer);
  EXPECT_TRUE(patient.fine);
  EXPECT_EQ(patient.response.in.body, "ok");
  std::string fields;
  for (int i = 0; i < 300; ++i) {
    fields += "x: y\r\n";
  }
  for (const std::string& bytes :
       {hints + "HTTP/1.1 103 Early Hints\r\n\r\n" + answer,
        "HTTP/1.1 200 OK\r\nx: " + std::string(300'000, 'y') + "\r\n\r\n",
        "HTTP/1.1 200 OK\r\n" + fields + "\r\n",
        std::string("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok"),
        std::string("HTTP/1.1 101 Switching Protocols\r\n\r\n")}) {
    Asked asked(bytes);
    EXPECT_FALSE(asked.fine) << bytes.substr(0, 60);
    EXPECT_EQ(asked.response.in.cause, Errc::kProtocol);
    EXPECT_TRUE(asked.client->finished());
  }
  Asked more(answer + "more");
  EXPECT_EQ(more.response.in.body, "ok");
  EXPECT_TRUE(more.client->finished());
}

TEST(H1Strict, SE118_WhatTheClientDoesNotSendIsSaidAtOnce) {
  CountingHost host;
  auto client = make_h1_client(host, {});
  TestResponse response;
  for (const auto& [target, authority] :
       {std::pair{"/a b", "a"}, {"", "a"}, {"/", "a@b"}, {"/", "a b"}, {"/\r\n", "a"}}) {
    RequestHead head = testing::make_head("GET", target);
    head.authority = authority;
    const auto opened = client->open(head, response);
    ASSERT_FALSE(opened) << target << " " << authority;
    EXPECT_EQ(opened.error().code(), Errc::kBadRequest);
  }
  EXPECT_EQ(client->free_slots(), 1U);
}

}  // namespace
}  // namespace kintsugi::http
