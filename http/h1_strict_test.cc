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

// SE-T045.
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

TEST(H1Strict, SE111_ConnectionIsAListOfTokens) {
  const auto status = [](const std::string& field, std::size_t step) {
    const Said said = say("GET / HTTP/1.1\r\nHost: a\r\n" + field + "\r\n\r\n", step);
    return said.text.empty() ? 0 : std::stoi(said.text.substr(9, 3));
  };
  for (const std::size_t step : {std::size_t{1}, std::size_t{1'000}}) {
    for (const char* name : {"Connection: ", "proxy-connection: "}) {
      for (const char* list : {"", "close", "close, x-a", ",,close ,\t, x-a,"}) {
        EXPECT_EQ(status(std::string(name) + list, step), 0) << name << list;
      }
      for (const char* list : {"a b", "a;b", "\"close\"", "close, x=1", "clo\xc3\xa9"}) {
        EXPECT_EQ(status(std::string(name) + list, step), 400) << name << list;
      }
    }
  }
}

TEST(H1Strict, SE111_AFoldedLineIsRefusedAsSoonAsItIsThere) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nx: ";
  for (const char* rest : {"1\r\n 2\r\n", "\r\n\t2\r\n", "1\r\n \r\n", "\r\n \r\n"}) {
    EXPECT_TRUE(say(start + rest, 1).text.starts_with("HTTP/1.1 400 ")) << rest;
  }
  EXPECT_TRUE(say(kPost + "Transfer-Encoding: chunked\r\n\r\n0\r\nx: 1\r\n 2\r\n", 1)
                  .text.starts_with("HTTP/1.1 400 "));
}

TEST(H1Strict, SE112_ChunkExtensionsFollowTheirGrammar) {
  const std::string head = kPost + "Transfer-Encoding: chunked\r\n\r\n";
  for (const std::size_t step : {std::size_t{1}, std::size_t{2}, std::size_t{1'000}}) {
    for (const char* good : {"5;a", "05;a=b;c", "5;a = \"b ; \\\" c\"", "5; a ;b\t=\tc"}) {
      const std::string body = std::string(good) + "\r\nhello\r\n0;a\r\n\r\n";
      EXPECT_EQ(say(head + body, step).text, "") << body;
    }
    for (const char* size : {"5", "0"}) {
      for (const std::string extension :
           {";", "; ", ";a ", ";a b", ";=b", ";a=", ";a=\"b", ";a=\"b\"c", ";a=b c", ";a;", ";a@",
            " ;a", ";a=\"\n\"", ";a=\"\x01\""}) {
        const std::string body = size + extension + "\r\nx: yz\r\n\r\n";
        EXPECT_TRUE(say(head + body, step).text.starts_with("HTTP/1.1 400 ")) << body;
      }
    }
    EXPECT_EQ(say(head + "3fffffffffffffff\r\nhello", step).text, "");
    for (const char* begun : {"4000000000000000", "5 ", "0x", "0\rx", "0;a\rx", "5\n", "\n"}) {
      EXPECT_TRUE(say(head + begun, step).text.starts_with("HTTP/1.1 400 ")) << begun;
    }
  }
}

TEST(H1Strict, SE112_TrailersFrameNothing) {
  const std::string head = kPost + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n";
  for (const std::size_t step : {std::size_t{1}, std::size_t{1'000}}) {
    for (const char* trailer :
         {"Content-Length: 5", "content-length:", "Transfer-Encoding: chunked",
          "Transfer-Encoding: x", "Connection: a b"}) {
      const Said said = say(head + trailer + "\r\n\r\n", step);
      EXPECT_TRUE(said.text.starts_with("HTTP/1.1 400 ")) << trailer;
      EXPECT_TRUE(said.closed);
    }
  }
  TestHandler handler;
  PeerInfo peer;
  CountingHost host;
  auto server = make_h1_server(handler, peer, host, {});
  ASSERT_TRUE(
      server->feed(head + "Authorization: x\r\nTE: x\r\nTrailer: a\r\nHost: b\r\nx: y\r\n\r\n"));
  EXPECT_EQ(handler.at(0).in.ends, 1);
  ASSERT_EQ(handler.at(0).in.trailers.size(), 1U);
  EXPECT_EQ(handler.at(0).in.trailers.get("x"), "y");
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

TEST(H1Strict, SE084_WhateverComesAfterTheLimit_TheAnswerIsTheSame) {
  const std::string text = "GET /" + std::string(66'000, 'a') + "\n\n";
  for (const std::size_t step : {std::size_t{100}, text.size()}) {
    EXPECT_TRUE(say(text, step).text.starts_with("HTTP/1.1 431 ")) << step;
  }
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

TEST(H1Strict, WhenAServerGivesNoReason_ItsAnswerIsTaken) {
  for (const char* line : {"HTTP/1.1 200", "HTTP/1.1 200 ", "HTTP/1.1 200 \xc3\xa9 \t!"}) {
    Asked asked(std::string(line) + "\r\ncontent-length: 2\r\n\r\nok");
    EXPECT_TRUE(asked.fine) << line;
    EXPECT_EQ(asked.response.status, 200);
    EXPECT_EQ(asked.response.in.body, "ok");
  }
  for (const char* line :
       {"HTTP/1.1 20", "HTTP/1.1 099", "HTTP/1.1 2000", "HTTP/1.1  200 OK", "HTTP/2.0 200",
        "HTTP/1.1 200 a\rb", "HTTP/1.1 200\tOK", "HTTP/1.1_200"}) {
    Asked asked(std::string(line) + "\r\ncontent-length: 2\r\n\r\nok");
    EXPECT_FALSE(asked.fine) << line;
    EXPECT_EQ(asked.response.heads, 0);
  }
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
