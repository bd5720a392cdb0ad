#include "http/internal/h1_message.h"

#include <gtest/gtest.h>

#include "http/testing/support.h"

namespace kintsugi::http {
namespace {

using testing::CountingHost;
using testing::ServerExchange;
using testing::take_all;
using testing::TestHandler;

/// What the server does with these bytes: status of the engine's own answer, or 0 when a handler
/// got exactly one request.
int verdict(std::string_view bytes, SessionLimits limits = {}) {
  TestHandler handler;
  PeerInfo peer;
  CountingHost host;
  auto server = make_h1_server(handler, peer, host, limits);
  (void)server->feed(bytes);
  server->settle();
  const std::string answer = take_all(*server);
  if (answer.rfind("HTTP/1.1 100", 0) == 0 || answer.empty()) {
    return handler.exchanges.size() == 1 && !server->finished() ? 0 : -1;
  }
  EXPECT_TRUE(handler.exchanges.empty()) << bytes;
  EXPECT_TRUE(server->finished()) << bytes;
  EXPECT_NE(answer.find("connection: close\r\n"), std::string::npos) << bytes;
  EXPECT_NE(answer.find("\"kind\":\"Status\""), std::string::npos) << bytes;
  return std::stoi(answer.substr(9, 3));
}

TEST(H1Request, WhenHeadsAreAmbiguous_TheyAreRefused) {
  struct Case {
    int status;
    std::string_view bytes;
  };
  const Case cases[] = {
      {0, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {0, "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {0, "GET / HTTP/1.1\r\nhOsT:a:80\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"},
      {0, "GET / HTTP/1.0\r\n\r\n"},
      {0, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"},
      {0, "GET / HTTP/1.1\r\nHost: a\r\nx: \t caf\xc3\xa9 \r\n\r\n"},
      {0, "GET / HTTP/1.1\r\nHost: [::1]:6443\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
      {0, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"},
      // framing
      {400,
       "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {400,
       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3 4\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n"},
      {400, "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"},
      {501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
      {501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n"},
      {501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n"},
      {501,
       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n"},
      {501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\n Transfer-Encoding: chunked\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tz\r\n\r\n"},
      {400,
       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0b"
       "chunked\r\n\r\n"},
      // lines and characters
      {400, "GET / HTTP/1.1\nHost: a\n\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\r\nx: a\rb\r\n\r\n"},
      {400, std::string_view("GET / HTTP/1.1\r\nHost: a\r\nx: a\0b\r\n\r\n", 36)},
      {400, "GET / HTTP/1.1\r\nHost: a\r\nx y: z\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\r\n: z\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\r\nx\xc3\xa9: z\r\n\r\n"},
      // request line
      {400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"},
      {400, " GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "G(T / HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET /\r\nHost: a\r\n\r\n"},
      {400, "GET / http/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET / HTTP/1.10\r\nHost: a\r\n\r\n"},
      {505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
      {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      // target and host
      {400, "GET a HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET http://u@a/x HTTP/1.1\r\nHost: a\r\n\r\n"},
      {405, "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"},
      {417, "GET / HTTP/1.1\r\nHost: a\r\nExpect: magic\r\n\r\n"},
  };
  for (const Case& row : cases) {
    EXPECT_EQ(verdict(row.bytes), row.status) << row.bytes;
  }
}

TEST(H1Request, WhenHeadIsTooLarge_TheAnswerIs431) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_EQ(verdict(start + "x: " + std::string(33'000, 'a') + "\r\n\r\n"), 431);
  std::string many = start;
  for (int i = 0; i < 3'000; ++i) {
    many += "a:b\r\n";
  }
  EXPECT_EQ(verdict(many + "\r\n"), 431);  // 34 bytes each as HTTP/2 counts
  EXPECT_EQ(verdict("GET /" + std::string(70'000, 'a')), 431);
  // Exactly what may be held back: nothing more would be read, so it must be judged now.
  EXPECT_EQ(verdict("GET /" + std::string(65'536 - 5, 'a')), 431);
  SessionLimits small;
  small.max_header_list = 200;
  EXPECT_EQ(verdict(start + "x: " + std::string(300, 'a') + "\r\n\r\n", small), 431);
}

TEST(H1Request, WhenTargetIsAbsolute_ItBecomesOriginForm) {
  struct Case {
    std::string_view target, authority, origin;
  };
  for (const Case& row : {Case{"http://b:80/x?y", "b:80", "/x?y"}, Case{"HTTPS://b", "b", "/"},
                          Case{"http://b?q", "b", "/?q"}, Case{"/http://c/", "a", "/http://c/"}}) {
    const std::string head = "GET " + std::string(row.target) + " HTTP/1.1\r\nHost: a\r\n\r\n";
    const auto parsed = parse_h1_request(head, {});
    ASSERT_TRUE(parsed.has_value()) << row.target;
    EXPECT_EQ(parsed->head.authority, row.authority);
    EXPECT_EQ(parsed->head.target, row.origin);
  }
}

TEST(H1Request, WhenConnectionNamesFields_TheyAreRemovedOnArrival) {
  const auto parsed = parse_h1_request(
      "GET / HTTP/1.1\r\nHost: a\r\nX-Hop: 1\r\nConnection: close, X-Hop\r\nX-Stay: 2\r\n"
      "Keep-Alive: 5\r\n\r\n",
      {});
  ASSERT_TRUE(parsed.has_value());
  EXPECT_FALSE(parsed->head.headers.contains("x-hop"));
  EXPECT_TRUE(parsed->head.headers.contains("x-stay"));
  EXPECT_TRUE(parsed->head.headers.contains("connection"));
  EXPECT_FALSE(parsed->keep_alive);
}

TEST(H1Request, WhenUpgradeCannotBeMeant_ProtocolIsEmpty) {
  for (const std::string_view rest :
       {"Upgrade: websocket\r\n", "Connection: upgrade\r\n",
        "Connection: upgrade\r\nUpgrade: h2c\r\n",
        "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n"}) {
    const auto parsed =
        parse_h1_request("GET / HTTP/1.1\r\nHost: a\r\n" + std::string(rest) + "\r\n", {});
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->head.protocol, "") << rest;
  }
}

/// Decodes `body` fed in pieces of `step`; "error" when it is malformed.
std::string decode(std::string_view body, std::size_t step, HeaderList* trailers = nullptr) {
  H1BodyReader reader;
  H1Framing framing;
  framing.kind = H1Framing::Kind::kChunked;
  SessionLimits limits;
  limits.max_header_list = 1'000;
  reader.start(framing, limits);
  std::string kept, out;
  for (std::size_t at = 0; at < body.size() || !kept.empty(); at += step) {
    kept.append(body.substr(std::min(at, body.size()), step));
    for (;;) {
      const auto piece = reader.next(kept, 7);
      if (!piece) {
        return "error";
      }
      out.append(piece->data);
      if (piece->consumed == 0) {
        break;
      }
      kept.erase(0, piece->consumed);
    }
    if (reader.done()) {
      if (trailers != nullptr) {
        *trailers = reader.trailers();
      }
      return out + "|" + kept + std::string(body.substr(std::min(at + step, body.size())));
    }
    if (at > body.size()) {
      break;
    }
  }
  return "more";
}

TEST(H1BodyReader, WhenChunksAreSplitAnywhere_ResultIsTheSame) {
  const std::string_view body =
      "5\r\nhello\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\nX-A: 1\r\nx-b:2\r\n\r\nrest";
  for (std::size_t step = 1; step <= body.size(); ++step) {
    HeaderList trailers;
    EXPECT_EQ(decode(body, step, &trailers), "hello0123456789|rest") << step;
    EXPECT_EQ(trailers.get("x-a"), "1");
    EXPECT_EQ(trailers.get("x-b"), "2");
  }
}

TEST(H1BodyReader, WhenChunksAreMalformed_TheyAreRefused) {
  for (const std::string_view bad :
       {"\r\n", "5 \r\nhello\r\n", " 5\r\nhello\r\n", "5\nhello\r\n", "5\r\nhello\n", "5\r\nhelloX",
        "g\r\n", "-1\r\n", "0x5\r\n", ";x\r\n", "5\rhello", "fffffffffffffffff\r\n",
        "5;a\nb\r\nhello\r\n", "5;\x01\r\nhello\r\n", "0\r\nbad line\r\n\r\n", "0\r\nx: 1\n\r\n",
        "0\r\n folded\r\n\r\n", "0\r\n\n"}) {
    for (const std::size_t step : {std::size_t{1}, bad.size()}) {
      EXPECT_EQ(decode(bad, step), "error") << bad;
    }
  }
  EXPECT_EQ(decode("5;" + std::string(2'000, 'x') + "\r\n", 100), "error");
  EXPECT_EQ(decode("0\r\nx: " + std::string(2'000, 'x') + "\r\n\r\n", 100), "error");
  EXPECT_EQ(decode("5\r\nhel", 2), "more");
}

TEST(H1BodyReader, WhenChunksBreakInsideARequest_HandlerHearsProtocolError) {
  TestHandler handler;
  PeerInfo peer;
  CountingHost host;
  auto server = make_h1_server(handler, peer, host, {});
  ASSERT_TRUE(
      server->feed("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab"));
  EXPECT_FALSE(server->feed("XX"));
  server->settle();
  EXPECT_EQ(handler.at(0).in.body, "ab");
  EXPECT_EQ(handler.at(0).in.cause, Errc::kProtocol);
  EXPECT_EQ(handler.at(0).in.ends, 0);
  EXPECT_TRUE(take_all(*server).starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(server->finished());
}

TEST(H1HeadScanner, WhenHeadGrowsByteByByte_EndIsFoundOnce) {
  const std::string text = "GET / HTTP/1.1\r\nHost: a\r\n\r\nbody\r\n\r\n";
  const std::size_t length = text.find("body");
  H1HeadScanner scanner;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto found = scanner.scan(std::string_view(text).substr(0, i));
    ASSERT_TRUE(found.has_value());
    if (i < length) {
      EXPECT_EQ(*found, 0U) << i;
    } else {
      EXPECT_EQ(*found, length);
      break;
    }
  }
}

}  // namespace
}  // namespace kintsugi::http
