#include <gtest/gtest.h>

#include "http/forwarding_client.h"
#include "http/testing/support.h"

namespace kintsugi::http {
namespace {

using testing::CountingHost;
using testing::fields;
using testing::make_head;
using testing::take_all;
using testing::TestResponse;

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

TEST(H1Client, WhenAProxyForwards_FP166_TheServerIsNamedInFull) {
  TextClient text;
  text.client = make_forwarding_client(
      text.host, {}, {"plain.example:8080", Secret(std::string("Basic bWU6c2VjcmV0"))});
  RequestHead head = make_head("GET", "/x?y");
  head.headers = fields({{"proxy-authorization", "evil"}, {"a", "b"}});
  EXPECT_EQ(text.ask(head),
            "GET http://plain.example:8080/x?y HTTP/1.1\r\nhost: plain.example:8080\r\n"
            "proxy-authorization: Basic bWU6c2VjcmV0\r\na: b\r\n\r\n");
  ASSERT_TRUE(text.hear("HTTP/1.1 204 No Content\r\n\r\n"));
  text.client = make_forwarding_client(text.host, {}, {"[::1]", {}});
  EXPECT_EQ(text.ask(make_head("OPTIONS", "*")),
            "OPTIONS http://[::1] HTTP/1.1\r\nhost: [::1]\r\n\r\n");
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
