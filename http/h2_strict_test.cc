// HTTP/2 requests that name no server, heads that grow, and frames that cost us (SE-084, SE-114 to
// SE-116, SE-124 to SE-131).
#include "http/abuse_watch.h"
#include "http/testing/h2_abuse_rig.h"

namespace kintsugi::http {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the rig's own names

std::string head_with(std::string_view authority, std::string_view more = {}) {
  std::string text = "\x82\x87\x84";
  if (authority.data() != nullptr) {
    text += literal(":authority", authority);
  }
  return text + std::string(more);
}

class H2Strict : public H2Abuse {
 protected:
  H2Strict() { watch_abuse(*server, counters, false); }
  /// The answer to one more request: its status, 0 for none, -1 for RST_STREAM.
  int ask(std::string_view block, int flags = kEndHeaders | kEndStream) {
    (void)server->feed(frame(kHeaders, flags, next_, block));
    server->settle();
    int status = 0;
    for (const Frame& sent : split_frames(take_all(*server))) {
      if (sent.id == next_ && sent.type == kRstStream) {
        status = -1;
      } else if (sent.id == next_ && sent.type == kHeaders) {
        status = status_of(sent.payload);
      }
    }
    server->settle();
    next_ += 2;
    return status;
  }
  /// Of a block that begins with :status, as nghttp2 writes it.
  static int status_of(std::string_view block) {
    if ((block.at(0) & 0xe0) == 0x20) {
      block.remove_prefix(1);  // the size of the table
    }
    switch (static_cast<unsigned char>(block.at(0))) {
      case 0x8c:
        return 400;
      case 0x8d:
        return 404;
      default:
        if (block.size() < 4 || (block[0] & 0x0f) != 0x08) {
          return 1;
        }
        return (block[1] & 0x80) != 0 ? huffman_digits(block.substr(2))
                                      : std::stoi(std::string(block.substr(2, 3)));
    }
  }
  static int huffman_digits(std::string_view bits) {
    int value = 0;
    std::size_t at = 0;
    const auto take = [&](std::size_t count) {
      unsigned code = 0;
      for (; count > 0; --count, ++at) {
        code = code << 1 | (static_cast<unsigned char>(bits[at / 8]) >> (7 - at % 8) & 1U);
      }
      return code;
    };
    for (int digit = 0; digit < 3; ++digit) {
      const unsigned five = take(5);
      value = value * 10 + static_cast<int>(five < 3 ? five : (five << 1 | take(1)) - 0x19 + 3);
    }
    return value;
  }

  AbuseCounters counters;
  std::uint32_t next_ = 1;
};

TEST_F(H2Strict, SE115_WhenTheAuthorityNamesNoServer_Says400AndNobodyHearsOfIt) {
  counters = {};
  for (const std::string& authority :
       {std::string("a@b"), std::string("user@a:6443"), std::string("a:0"), std::string("a:65536"),
        std::string("a:"), std::string("a,b"), std::string("%61"), std::string("[::1"),
        std::string("[::1]x"), std::string(300, 'a')}) {
    EXPECT_EQ(ask(head_with(authority)), 400) << authority;
  }
  EXPECT_EQ(counters.of(Abuse::kAuthority), 10U);
  EXPECT_EQ(ask(head_with({}, literal("host", "a@b"))), 400);
  EXPECT_TRUE(handler.exchanges.empty());
  for (const std::string authority : {"a b", "a/b", "a\tb"}) {
    EXPECT_EQ(ask(head_with(authority)), -1) << "nghttp2 takes it for malformed";
  }
  EXPECT_EQ(ask(head_with({})), -1);
  EXPECT_TRUE(handler.exchanges.empty());
  for (const std::string authority : {"a", "a.example:6443", "[::1]:6443", "127.0.0.1"}) {
    EXPECT_EQ(ask(head_with(authority)), 0) << authority;
  }
  EXPECT_EQ(handler.exchanges.size(), 4U);
}

TEST_F(H2Strict, SE114_WhenHostSaysOtherwise_TheStreamIsReset) {
  EXPECT_EQ(ask(head_with("a", literal("host", "b"))), -1);
  EXPECT_EQ(ask(head_with("a:1", literal("host", "a"))), -1);
  EXPECT_TRUE(handler.exchanges.empty());
  EXPECT_EQ(ask(head_with("a", literal("host", "A"))), 0);
  EXPECT_EQ(ask(head_with({}, literal("host", "c"))), 0);
  ASSERT_EQ(handler.exchanges.size(), 2U);
  EXPECT_EQ(handler.at(0).head.authority, "a");
  EXPECT_EQ(handler.at(1).head.authority, "c");
  EXPECT_FALSE(handler.at(1).head.headers.contains("host"));
}

TEST_F(H2Strict, SE116_WhenConnectHasNoProtocol_Says405) {
  EXPECT_EQ(ask(literal(":method", "CONNECT") + literal(":authority", "a:443"), kEndHeaders), 405);
  EXPECT_TRUE(handler.exchanges.empty());
}

TEST_F(H2Strict, SE084_WhenAHeadHasTooManyFields_Says431) {
  const auto block = [](int count) {
    std::string more;
    for (int i = 0; i < count; ++i) {
      more += literal("x", "y");
    }
    return head_with("a", more);
  };
  EXPECT_EQ(ask(block(256)), 0);
  EXPECT_EQ(ask(block(257)), 431);
  EXPECT_EQ(handler.exchanges.size(), 1U);
}

TEST_F(H2Strict, SE127_WhenABlockUnpacksToFarTooMuch_TheConnectionEnds) {
  std::string block = head_with("a");
  block += '\x40' + literal("x", std::string(4'000, 'y')).substr(1);  // into the table
  block.append(100, '\xbe');                                          // and out of it, 100 times
  EXPECT_FALSE(server->feed(frame(kHeaders, kEndHeaders | kEndStream, 1, block)));
  EXPECT_NE(goaway(), -1);
  EXPECT_TRUE(handler.exchanges.empty());
}

TEST_F(H2Strict, SE128_WhenLargeHeadsComeOutOfFewBytes_EachIsAGlitch) {
  counters = {};
  std::string first = head_with("a");
  first += '\x40' + literal("x", std::string(4'000, 'y')).substr(1);
  EXPECT_EQ(ask(first), 0);
  int sent = 0;
  while (goaway() == -1 && sent < 400) {
    (void)server->feed(
        frame(kHeaders, kEndHeaders | kEndStream, next_, head_with("a", std::string(15, '\xbe'))));
    for (ServerExchange& exchange : handler.exchanges) {
      if (exchange.stream != nullptr) {
        exchange.stream->send_head(200, {}, true);
      }
    }
    next_ += 2;
    ++sent;
  }
  EXPECT_GT(sent, 75);
  EXPECT_LT(sent, 400);
  EXPECT_GE(counters.of(Abuse::kHpack), 75U);
}

TEST_F(H2Strict, SE128_WhenUsualHeadsComeFromTheTable_NothingIsCounted) {
  counters = {};
  std::string first = head_with("a");
  first += '\x40' + literal("authorization", std::string(1'500, 'y')).substr(1);
  EXPECT_EQ(ask(first), 0);
  for (int i = 0; i < 3'000; ++i) {
    (void)server->feed(
        frame(kHeaders, kEndHeaders | kEndStream, next_, head_with("a", std::string(1, '\xbe'))));
    handler.exchanges.back().stream->send_head(200, {}, true);
    (void)take_all(*server);
    server->settle();
    next_ += 2;
  }
  EXPECT_EQ(counters.of(Abuse::kHpack), 0U);
}

TEST_F(H2Strict, SE124_WhenMostOfManyRequestsAreResetAtOnce_TheConnectionEnds) {
  counters = {};
  bool fine = true;
  int sent = 0;
  for (; fine && sent < 400; ++sent, next_ += 2) {
    fine = server
               ->feed(frame(kHeaders, kEndHeaders | kEndStream, next_, request()) +
                      frame(kRstStream, 0, next_, word(8)))
               .has_value();
    server->settle();
  }
  EXPECT_FALSE(fine);
  EXPECT_GE(sent, 200);
  EXPECT_EQ(goaway(), kEnhanceYourCalm);
  EXPECT_EQ(counters.of(Abuse::kReset), 1U);
}

TEST(H2StrictPeers, SE126_WhenAPeerSpeaksForMany_ItsResetsAreSpared) {
  TestHandler handler;
  PeerInfo peer;
  CountingHost host;
  AbuseCounters counters;
  auto server = make_h2_server(handler, peer, host, {});
  watch_abuse(*server, counters, true);
  server->set_now({});
  EXPECT_TRUE(server->feed(kPreface));
  std::uint32_t id = 1;
  for (int i = 0; i < 600; ++i, id += 2) {
    EXPECT_TRUE(server->feed(frame(kHeaders, kEndHeaders | kEndStream, id, request()) +
                             frame(kRstStream, 0, id, word(8))));
    server->settle();
  }
  server->on_transport_closed(Errc::kClosed);
}

TEST_F(H2Strict, SE125_WhenFramesMakeUsResetStreams_TheyAreCounted) {
  counters = {};
  std::int64_t told = -1;
  int sent = 0;
  for (; told == -1 && sent < 300; ++sent, next_ += 2) {
    (void)server->feed(frame(kHeaders, kEndHeaders, next_, request(true)) +
                       frame(kWindowUpdate, 0, next_, word(0x7fffffff)));
    told = goaway();
    server->settle();
  }
  EXPECT_EQ(told, kEnhanceYourCalm);
  EXPECT_LE(sent, 76);
  EXPECT_GE(counters.of(Abuse::kMadeReset), 75U);
}

TEST_F(H2Strict, SE129_WhenFramesMeanNothing_TheyAreCountedByKind) {
  struct Case {
    Abuse kind;
    std::string bytes;
  };
  const Case cases[] = {{Abuse::kPing, frame(kPing, 0, 0, "12345678")},
                        {Abuse::kSettings, frame(kSettings, 0, 0, "")},
                        {Abuse::kPriority, frame(kPriority, 0, 1, word(0) + "x")},
                        {Abuse::kEmptyData, frame(kData, 0, 1, "")}};
  for (const Case& row : cases) {
    counters = {};
    TestHandler receiver;
    PeerInfo from;
    CountingHost owner;
    auto one = make_h2_server(receiver, from, owner, {});
    watch_abuse(*one, counters, false);
    one->set_now({});
    EXPECT_TRUE(one->feed(kPreface + frame(kHeaders, kEndHeaders, 1, request(true))));
    bool fine = true;
    int sent = 0;
    for (; fine && sent < 1'000; ++sent) {
      fine = one->feed(row.bytes).has_value();
      (void)take_all(*one);
    }
    EXPECT_FALSE(fine) << abuse_name(row.kind);
    EXPECT_LE(sent, 202) << abuse_name(row.kind);
    EXPECT_GE(counters.of(row.kind), 99U) << abuse_name(row.kind);
    one->on_transport_closed(Errc::kClosed);
  }
}

TEST_F(H2Strict, SE131_WhenDataIsCrumbsOrPadding_TheyAreCounted) {
  counters = {};
  EXPECT_EQ(ask(request(true), kEndHeaders), 0);
  const std::string crumb = frame(kData, 0, 1, "x");
  for (int i = 0; i < 6'000; ++i) {
    (void)server->feed(crumb);
    (void)take_all(*server);
  }
  EXPECT_GE(counters.of(Abuse::kSmallData), 4U);
  counters = {};
  const std::string padded =
      frame(kData, 8, 1, "\xff" + std::string(200, 'x') + std::string(255, '\0'));
  for (int i = 0; i < 3'000; ++i) {
    (void)server->feed(padded);
    (void)take_all(*server);
  }
  EXPECT_GE(counters.of(Abuse::kPadding), 1U);
}

TEST(H2StrictClient, SE135_WhenAServerFloodsWithHints_ItsConnectionEnds) {
  for (const int hints : {16, 17}) {
    CountingHost host;
    auto client = make_h2_client(host, {});
    TestResponse response;
    const auto opened = client->open(make_head("GET", "/"), response);
    ASSERT_TRUE(opened);
    response.stream = *opened;
    (void)take_all(*client);
    std::string bytes = frame(kSettings, 0, 0, "");
    for (int i = 0; i < hints; ++i) {
      bytes += frame(kHeaders, kEndHeaders, 1, literal(":status", "103"));
    }
    (void)client->feed(bytes + frame(kHeaders, kEndHeaders | kEndStream, 1, "\x88"));
    client->settle();
    (void)take_all(*client);
    EXPECT_EQ(response.status, hints == 16 ? 200 : 0);
    EXPECT_EQ(client->draining(), hints == 17);
    client->on_transport_closed(Errc::kClosed);
  }
}

TEST(H2StrictClient, SE118_WhatTheClientDoesNotSendIsSaidAtOnce) {
  CountingHost host;
  auto client = make_h2_client(host, {});
  TestResponse response;
  for (const auto& [target, authority] :
       {std::pair{"/a b", "a"}, {"", "a"}, {"/", "a@b"}, {"/", "a b"}, {"/\r\n", "a"}}) {
    RequestHead head = make_head("GET", target);
    head.authority = authority;
    const auto opened = client->open(head, response);
    ASSERT_FALSE(opened) << target << " " << authority;
    EXPECT_EQ(opened.error().code(), Errc::kBadRequest);
  }
  EXPECT_EQ(client->stream_count(), 0U);
}

}  // namespace
}  // namespace kintsugi::http
