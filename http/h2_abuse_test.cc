#include <gtest/gtest.h>

#include <map>

#include "http/abuse.h"
#include "http/abuse_watch.h"
#include "http/testing/h2_abuse_rig.h"

// A hostile or broken peer, byte by byte. Limits: SE-124 to SE-132.
namespace kintsugi::http {
namespace {

using namespace testing;

TEST_F(H2Abuse, WhenConnectionStarts_SettingsAreTheAgreedOnes) {
  std::map<int, std::uint32_t> seen;
  std::uint32_t window = 0;
  for (const Frame& sent : split_frames(hello)) {
    if (sent.type == kSettings && sent.flags == 0) {
      for (std::size_t i = 0; i < sent.payload.size(); i += 6) {
        seen[sent.payload[i + 1]] = number(sent.payload, i + 2);
      }
    } else if (sent.type == kWindowUpdate) {
      window = number(sent.payload, 0);
    }
  }
  EXPECT_EQ(seen, (std::map<int, std::uint32_t>{{1, 4096}, {3, 250}, {6, 65536}, {8, 1}, {9, 1}}));
  EXPECT_EQ(window, (1U << 20) - 65'535U);
}

// E13.
TEST_F(H2Abuse, WhenHeaderListIsTooLarge_EngineAnswers431) {
  std::string block = request();
  for (int i = 0; i < 5; ++i) {
    block += literal("x-" + std::to_string(i), std::string(15'000, 'a'));
  }
  std::string bytes = frame(kHeaders, kEndStream, 1, block.substr(0, 16'384));
  for (std::size_t at = 16'384; at < block.size(); at += 16'384) {
    bytes += frame(kContinuation, at + 16'384 >= block.size() ? kEndHeaders : 0, 1,
                   block.substr(at, 16'384));
  }
  ASSERT_TRUE(server->feed(bytes));
  EXPECT_TRUE(handler.exchanges.empty());
  const std::string answer = take_all(*server);
  EXPECT_NE(answer.find("\"code\":431"), std::string::npos);
  EXPECT_NE(answer.find("\"kind\":\"Status\""), std::string::npos);
  server->settle();
  EXPECT_EQ(server->stream_count(), 0U);
  ASSERT_TRUE(server->feed(frame(kHeaders, kEndStream | kEndHeaders, 3, request())));
  EXPECT_EQ(handler.exchanges.size(), 1U);
}

TEST_F(H2Abuse, WhenOneFieldIsTooLarge_EngineAnswers431) {
  const std::string block = request() + literal("x", std::string(33'000, 'a'));
  std::string bytes = frame(kHeaders, kEndStream, 1, block.substr(0, 16'000));
  bytes += frame(kContinuation, 0, 1, block.substr(16'000, 16'000));
  bytes += frame(kContinuation, kEndHeaders, 1, block.substr(32'000));
  ASSERT_TRUE(server->feed(bytes));
  EXPECT_TRUE(handler.exchanges.empty());
  EXPECT_NE(take_all(*server).find("431"), std::string::npos);
}

TEST_F(H2Abuse, WhenBodyFollowsA431_ItIsCreditedAndDropped) {
  const std::string block = request(true) + literal("x", std::string(33'000, 'a'));
  std::string bytes = frame(kHeaders, 0, 1, block.substr(0, 16'000));
  bytes += frame(kContinuation, 0, 1, block.substr(16'000, 16'000));
  bytes += frame(kContinuation, kEndHeaders, 1, block.substr(32'000));
  ASSERT_TRUE(server->feed(bytes));
  ASSERT_TRUE(server->feed(frame(kData, 0, 1, std::string(16'000, 'b'))));
  take_all(*server);
  ASSERT_TRUE(server->feed(frame(kData, kEndStream, 1, std::string(16'000, 'c'))));
  EXPECT_EQ(reset_code(1), -1);
  server->settle();
  EXPECT_EQ(server->stream_count(), 0U);
}

/// An answer that is complete before its request: the rest is awaited, but not for ever.
class H2Late : public H2Abuse {
 protected:
  H2Late() {
    handler.on_open = [](ServerExchange& exchange) {
      exchange.stream->send_head(415, {}, false);
      exchange.stream->send_data(std::string_view("no"), true);
    };
    EXPECT_TRUE(server->feed(frame(kHeaders, kEndHeaders, 1, request(true))));
    answer = split_frames(take_all(*server));
    server->settle();
  }
  std::vector<Frame> answer;
};

TEST_F(H2Late, WhenTheRequestIsNotComplete_TheAnswerIsNotFollowedByAReset) {
  ASSERT_EQ(answer.size(), 2U);
  EXPECT_EQ(answer[0].type, kHeaders);
  EXPECT_EQ(answer[1].type, kData);
  EXPECT_EQ(answer[1].payload, "no");
  EXPECT_EQ(answer[1].flags, kEndStream);
  EXPECT_EQ(handler.at(0).in.closes, 0);
  EXPECT_EQ(server->stream_count(), 1U);
}

TEST_F(H2Late, WhenTheRestIsSmall_TheStreamEndsWithoutAReset) {
  ASSERT_TRUE(server->feed(frame(kData, 0, 1, "a=") + frame(kData, kEndStream, 1, "b")));
  EXPECT_EQ(reset_code(1), -1);
  EXPECT_EQ(handler.at(0).in.closes, 1);
  EXPECT_EQ(handler.at(0).in.cause, Errc::kOk);
  EXPECT_EQ(server->stream_count(), 0U);
}

TEST_F(H2Late, WhenTheRestIsLarge_TheRequestIsStoppedOnce) {
  const std::string part = frame(kData, 0, 1, std::string(16'384, 'x'));
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(server->feed(part));
    EXPECT_EQ(reset_code(1), -1) << i;
  }
  ASSERT_TRUE(server->feed(frame(kData, 0, 1, "x") + frame(kData, 0, 1, "y")));
  std::vector<std::string> codes;
  for (const Frame& sent : split_frames(take_all(*server))) {
    if (sent.type == kRstStream) {
      codes.push_back(sent.payload);
    }
  }
  EXPECT_EQ(codes, std::vector<std::string>{word(0)});
  server->settle();
  EXPECT_EQ(handler.at(0).in.cause, Errc::kOk);
  EXPECT_EQ(server->stream_count(), 0U);
  EXPECT_TRUE(server->feed(part)) << "what was on its way does no harm";
}

TEST_F(H2Late, WhenTheRestNeverComes_TheRequestIsStoppedAfterAWhile) {
  const TimePoint start = now + seconds(100);
  EXPECT_EQ(server->reset_stalled(start, seconds(60)), 0U);
  EXPECT_EQ(server->reset_stalled(start + milliseconds(4'999), seconds(60)), 0U);
  EXPECT_EQ(reset_code(1), -1);
  EXPECT_EQ(server->reset_stalled(start + seconds(5), seconds(60)), 0U) << "no slow reader";
  EXPECT_EQ(server->reset_stalled(start + seconds(6), seconds(60)), 0U);
  EXPECT_EQ(reset_code(1), 0);
  server->settle();
  EXPECT_EQ(handler.at(0).in.cause, Errc::kOk);
  EXPECT_EQ(server->stream_count(), 0U);
}

TEST_F(H2Late, WhenTheClientGivesUpTheRest_TheAnswerStillCountsAsComplete) {
  ASSERT_TRUE(server->feed(frame(kRstStream, 0, 1, word(8))));
  server->settle();
  EXPECT_EQ(handler.at(0).in.cause, Errc::kOk);
}

TEST_F(H2Abuse, WhenMessageIsMalformed_StreamIsResetAndNeighboursLive) {
  const std::string bad_blocks[] = {
      request() + literal("connection", "close"),
      request() + literal("transfer-encoding", "chunked"),
      request() + literal("upgrade", "h2c"),
      request() + literal("te", "gzip"),
      request() + literal("X-Upper", "a"),
      request() + literal("x", std::string("a\r\nb", 4)),
      request() + literal("x", std::string("a\0b", 3)),
      request() + literal("bad name", "a"),
      request() + literal(":path", "/twice"),
      request() + literal("content-length", "5"),
      request() + literal("content-length", "x"),
      request().substr(0, 2),
      literal("x", "before") + request(),
  };
  std::uint32_t id = 1;
  for (const std::string& block : bad_blocks) {
    ASSERT_TRUE(server->feed(frame(kHeaders, kEndStream | kEndHeaders, id, block))) << id;
    EXPECT_EQ(reset_code(id) > 0, true) << id;
    server->settle();
    id += 2;
  }
  for (const ServerExchange& exchange : handler.exchanges) {
    EXPECT_NE(exchange.in.cause, Errc::kOk);
  }
  const std::size_t before = handler.exchanges.size();
  ASSERT_TRUE(server->feed(frame(kHeaders, kEndStream | kEndHeaders, id, request())));
  EXPECT_EQ(handler.exchanges.size(), before + 1);
}

TEST_F(H2Abuse, WhenContentLengthLies_HandlerHearsProtocolError) {
  ASSERT_TRUE(server->feed(
      frame(kHeaders, kEndHeaders, 1, request(true) + literal("content-length", "3"))));
  ASSERT_TRUE(server->feed(frame(kData, kEndStream, 1, "four")));
  EXPECT_EQ(reset_code(1), kProtocolError);
  server->settle();
  EXPECT_EQ(handler.at(0).in.cause, Errc::kProtocol);
  EXPECT_EQ(handler.at(0).in.ends, 0);
}

TEST_F(H2Abuse, WhenHostComesWithoutAuthority_ItIsTheAuthority) {
  ASSERT_TRUE(server->feed(
      frame(kHeaders, kEndStream | kEndHeaders, 1, "\x82\x87\x84" + literal("host", "a.example"))));
  ASSERT_EQ(handler.exchanges.size(), 1U);
  EXPECT_EQ(handler.at(0).head.authority, "a.example");
  EXPECT_FALSE(handler.at(0).head.headers.contains("host"));
}

TEST_F(H2Abuse, WhenFramesAreMalformed_ConnectionEndsWithGoaway) {
  const std::string cases[] = {
      frame(kData, 0, 0, "x"),                                  // DATA on stream 0
      frame(kHeaders, kEndHeaders, 2, request()),               // even id
      frame(kHeaders, kEndHeaders, 1, "\xff\xff\xff\xff\xff"),  // broken HPACK
      frame(kPing, 0, 0, "short"),                              // wrong length
      frame(kWindowUpdate, 0, 0, word(0)),                      // no increment
      frame(kWindowUpdate, 0, 0, word(0x7fff'ffff)),            // overflow
      frame(kSettings, 0, 0, "abc"),                            // wrong length
      frame(kContinuation, kEndHeaders, 1, ""),                 // without HEADERS
      frame(kHeaders, 0, 1, request()) + frame(kPing, 0, 0, "12345678"),
      frame(kData, 0, 7, "x"),  // idle stream
      frame(kPing, 0, 1, "12345678"),
      std::string("\xff\xff\xff\x00\x00\x00\x00\x00\x01", 9),  // frame too large
  };
  for (const std::string& bytes : cases) {
    TestHandler local;
    auto session = make_h2_server(local, peer, host, {});
    ASSERT_TRUE(session->feed(kPreface));
    take_all(*session);
    (void)session->feed(bytes);
    bool told = false;
    for (const Frame& sent : split_frames(take_all(*session))) {
      told = told || (sent.type == kGoaway && number(sent.payload, 4) != 0);
    }
    EXPECT_TRUE(told);
    EXPECT_TRUE(session->finished());
    (void)session->feed("more");
    session->on_transport_closed(Errc::kProtocol);
  }
}

TEST_F(H2Abuse, WhenPrefaceIsWrong_FeedFailsAndGoawayFollows) {
  auto session = make_h2_server(handler, peer, host, {});
  const auto result = session->feed("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), Errc::kProtocol);
  EXPECT_NE(take_all(*session), "");
  EXPECT_TRUE(session->finished());
}

TEST_F(H2Abuse, WhenContinuationsNeverEnd_ConnectionCloses) {
  std::string bytes = frame(kHeaders, 0, 1, request());
  for (int i = 0; i < 10; ++i) {
    bytes += frame(kContinuation, 0, 1, literal("x", "y"));
  }
  EXPECT_FALSE(server->feed(bytes));
  EXPECT_EQ(goaway(), kEnhanceYourCalm);
  EXPECT_TRUE(server->finished());
}

TEST_F(H2Abuse, WhenHpackExpandsWithoutBound_SE127_TheConnectionEnds) {
  std::string block = request();
  block += '\x40' + literal("x-bomb", std::string(3'000, 'b')).substr(1);  // indexed: entry 62
  block += std::string(10'000, '\xbe');
  EXPECT_FALSE(server->feed(frame(kHeaders, kEndStream | kEndHeaders, 1, block)));
  EXPECT_TRUE(handler.exchanges.empty());
  EXPECT_GT(goaway(), 0);
}

struct Flood {
  const char* name;
  std::string bytes;
};

std::vector<Flood> cheap_floods() {
  return {
      {"ping", frame(kPing, 0, 0, "12345678")},
      {"settings", frame(kSettings, 0, 0, "")},
      {"priority", frame(kPriority, 0, 1, std::string("\0\0\0\0\0", 5))},
      {"empty data", frame(kData, 0, 1, "")},
      {"window update", frame(kWindowUpdate, 0, 0, word(1))},
  };
}

TEST_F(H2Abuse, WhenCheapFramesFlood_GoawayComesFirstThenTheEnd) {
  for (const Flood& flood : cheap_floods()) {
    TestHandler local;
    auto session = make_h2_server(local, peer, host, {});
    session->set_now(now);
    ASSERT_TRUE(session->feed(kPreface));
    ASSERT_TRUE(session->feed(frame(kHeaders, kEndHeaders, 1, request(true))));
    take_all(*session);
    int warned = 0, closed = 0;
    for (int i = 1; i <= 400 && closed == 0; ++i) {
      closed = session->feed(flood.bytes) ? 0 : i;
      for (const Frame& sent : split_frames(take_all(*session))) {
        if (sent.type == kGoaway && warned == 0) {
          warned = i;
          EXPECT_EQ(number(sent.payload, 4), kEnhanceYourCalm);
        }
      }
    }
    EXPECT_GE(warned, 170) << flood.name;
    EXPECT_EQ(closed, warned + 25) << flood.name;
    EXPECT_TRUE(session->finished()) << flood.name;
    session->on_transport_closed(Errc::kProtocol);
    EXPECT_EQ(local.at(0).in.closes, 1) << flood.name;
  }
}

TEST_F(H2Abuse, WhenTheSameFramesComeSlowly_NothingHappens) {
  for (int i = 0; i < 2'000; ++i) {
    now += milliseconds(100);
    server->set_now(now);
    ASSERT_TRUE(server->feed(frame(kPing, 0, 0, "12345678") + frame(kSettings, 0, 0, "")));
    EXPECT_EQ(goaway(), -1);
  }
}

class H2Reader : public H2Abuse, public ::testing::WithParamInterface<std::size_t> {};

// A reader gives back what it took: whole frames, or 4 KiB at a time as clients written in Go do.
TEST_P(H2Reader, WhenWindowUpdatesFollowOurData_TheyAreNoAbuse) {
  handler.on_open = [](ServerExchange& exchange) {
    exchange.stream->send_head(200, {}, false);
    exchange.stream->send_data(SharedBytes(std::string(10'000'000, 'x')), true);
  };
  ASSERT_TRUE(server->feed(frame(kHeaders, kEndStream | kEndHeaders, 1, request())));
  std::size_t got = 0;
  while (got < 10'000'000) {
    std::string credit;
    const std::size_t before = got;
    for (const Frame& sent : split_frames(take_all(*server))) {
      if (sent.type == kData) {
        got += sent.payload.size();
        for (std::size_t left = sent.payload.size(); left > 0;) {
          const std::size_t part = std::min(left, GetParam());
          const std::string size = word(static_cast<std::uint32_t>(part));
          credit += frame(kWindowUpdate, 0, 0, size) + frame(kWindowUpdate, 0, 1, size);
          left -= part;
        }
      }
    }
    ASSERT_GT(got, before);
    ASSERT_TRUE(server->feed(credit));
  }
  server->settle();
  EXPECT_EQ(handler.at(0).in.cause, Errc::kOk);
}

INSTANTIATE_TEST_SUITE_P(Parts, H2Reader,
                         ::testing::Values(std::size_t{1} << 20, std::size_t{4096}));

TEST_F(H2Abuse, SE130_WhenAPeerNeverReads_QueuedControlFramesAreBounded) {
  AbuseCounters counters;
  watch_abuse(*server, counters, false);
  bool ended = false;
  int sent = 0;
  while (!ended && sent < 10'000) {
    ++sent;
    now += seconds(1);
    server->set_now(now);
    ended = !server->feed(frame(kPing, 0, 0, "12345678"));
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(sent, 1'001) << "1,000 answers of its own wait, and no more";
  EXPECT_EQ(counters.of(Abuse::kUnread), 1U);
  EXPECT_EQ(counters.of(Abuse::kPing), 0U) << "not one a second";
}

TEST_F(H2Abuse, WhenRandomBytesFollowThePreface_NothingBreaks) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    TestHandler local;
    local.on_open = [](ServerExchange& exchange) { exchange.stream->send_head(200, {}, true); };
    auto session = make_h2_server(local, peer, host, {});
    (void)session->feed(kPreface);
    for (int i = 0; i < 20; ++i) {
      std::string payload(random() % 40, '\0');
      for (char& c : payload) {
        c = static_cast<char>(random());
      }
      const std::string block = random() % 2 == 0 ? request() : payload;
      (void)session->feed(frame(static_cast<int>(random() % 12), static_cast<int>(random() % 64),
                                random() % 8, block));
      take_all(*session);
      session->settle();
    }
    session->on_transport_closed(Errc::kReset);
    for (const ServerExchange& exchange : local.exchanges) {
      EXPECT_EQ(exchange.in.closes, 1) << "seed " << seed;
      EXPECT_FALSE(exchange.in.late) << "seed " << seed;
    }
  }
}

struct RunningClient {
  RunningClient() : client(make_h2_client(host, {})) {
    auto stream = client->open(testing::make_head("GET", "/"), response);
    response.stream = stream ? *stream : nullptr;
    take_all(*client);
    EXPECT_TRUE(client->feed(frame(kSettings, 0, 0, "")));
  }
  CountingHost host;
  TestResponse response;
  std::unique_ptr<ClientSession> client;
};

class H2ClientAbuse : public ::testing::Test, protected RunningClient {};

TEST_F(H2ClientAbuse, WhenInterimAnswersCome_OnlyTheFinalOneIsSeen) {
  const std::string interim =
      "\x08\x03"
      "103";
  ASSERT_TRUE(client->feed(frame(kHeaders, kEndHeaders, 1, interim)));
  ASSERT_TRUE(client->feed(frame(kHeaders, kEndHeaders, 1, interim)));
  EXPECT_EQ(response.heads, 0);
  ASSERT_TRUE(client->feed(frame(kHeaders, kEndHeaders | kEndStream, 1, "\x88")));
  EXPECT_EQ(response.heads, 1);
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.head_ended);
  EXPECT_EQ(response.in.cause, Errc::kOk);
  EXPECT_EQ(response.in.closes, 1);
}

TEST(H2ClientAbuses, WhenAStatusIsNone_TheAnswerIsBroken) {
  for (const std::string status : {"051", "000", "099"}) {
    RunningClient running;
    EXPECT_TRUE(running.client->feed(frame(kHeaders, kEndHeaders, 1, "\x08\x03" + status)));
    (void)running.client->feed(frame(kData, kEndStream, 1, "x"));
    running.client->on_transport_closed(Errc::kClosed);
    EXPECT_EQ(running.response.heads, 0) << status;
    EXPECT_EQ(running.response.in.cause, Errc::kProtocol) << status;
    EXPECT_EQ(running.response.in.closes, 1) << status;
    EXPECT_FALSE(running.response.in.late) << status;
  }
}

TEST_F(H2ClientAbuse, SE135_WhenABodyIsNotAsLongAsItSays_TheConnectionEndsWithItsOtherStreams) {
  TestResponse other;
  const auto second = client->open(testing::make_head("GET", "/other"), other);
  ASSERT_TRUE(second);
  other.stream = *second;
  take_all(*client);
  ASSERT_TRUE(
      client->feed(frame(kHeaders, kEndHeaders, 1, "\x88" + literal("content-length", "5"))));
  EXPECT_FALSE(client->draining());
  ASSERT_TRUE(client->feed(frame(kData, kEndStream, 1, "abc")));
  take_all(*client);
  EXPECT_TRUE(client->draining());
  EXPECT_FALSE(client->finished());
  ASSERT_TRUE(client->feed(frame(kHeaders, kEndHeaders | kEndStream, 3, "\x88")));
  EXPECT_EQ(response.in.cause, Errc::kProtocol);
  EXPECT_TRUE(other.head_ended);
  EXPECT_EQ(other.in.cause, Errc::kOk);
  take_all(*client);
  EXPECT_TRUE(client->finished());
}

TEST_F(H2ClientAbuse, WhenGoawayExcludesTheStream_ItWasNotProcessed) {
  ASSERT_TRUE(client->feed(frame(kGoaway, 0, 0, word(0) + word(0))));
  EXPECT_EQ(response.in.cause, Errc::kNotProcessed);
  EXPECT_TRUE(client->draining());
  take_all(*client);
  EXPECT_TRUE(client->finished());
}

TEST_F(H2ClientAbuse, WhenGoawayIncludesTheStream_ItGoesOn) {
  ASSERT_TRUE(client->feed(frame(kGoaway, 0, 0, word(1) + word(0))));
  EXPECT_EQ(response.in.closes, 0);
  EXPECT_FALSE(client->finished());
  client->on_transport_closed(Errc::kReset);
  EXPECT_EQ(response.in.cause, Errc::kReset);
}

TEST_F(H2ClientAbuse, WhenResetCodesArrive_CausesAreMapped) {
  struct Case {
    std::uint32_t code;
    Errc cause;
  };
  for (const Case& row :
       {Case{0, Errc::kReset}, Case{2, Errc::kReset}, Case{7, Errc::kNotProcessed},
        Case{8, Errc::kReset}, Case{11, Errc::kReset}}) {
    RunningClient fresh;
    ASSERT_TRUE(fresh.client->feed(frame(kRstStream, 0, 1, word(row.code))));
    EXPECT_EQ(fresh.response.in.cause, row.cause) << row.code;
    EXPECT_EQ(fresh.response.in.closes, 1);
  }
}

TEST_F(H2ClientAbuse, WhenAnswerHeadersAreTooLarge_StreamEndsWithProtocolError) {
  std::string block = "\x88" + literal("x", std::string(16'000, 'a'));
  std::string bytes = frame(kHeaders, 0, 1, block);
  for (int i = 0; i < 4; ++i) {
    bytes +=
        frame(kContinuation, i == 3 ? kEndHeaders : 0, 1, literal("x", std::string(16'000, 'a')));
  }
  ASSERT_TRUE(client->feed(bytes));
  EXPECT_EQ(response.in.cause, Errc::kProtocol);
  EXPECT_EQ(response.heads, 0);
}

TEST_F(H2ClientAbuse, SE135_WhenAServerFloods_TheConnectionEnds) {
  for (const Flood& flood : cheap_floods()) {
    RunningClient fresh;
    TimePoint now{};
    fresh.client->set_now(now);
    ASSERT_TRUE(fresh.client->feed(frame(kHeaders, kEndHeaders, 1, "\x88")));
    int fed = 0;
    while (fed < 1'000 && fresh.client->feed(flood.bytes)) {
      ++fed;
      take_all(*fresh.client);
    }
    EXPECT_GE(fed, 190) << flood.name;
    EXPECT_LT(fed, 300) << flood.name;
    take_all(*fresh.client);
    EXPECT_TRUE(fresh.client->finished()) << flood.name;
    fresh.client->on_transport_closed(Errc::kProtocol);
    EXPECT_EQ(fresh.response.in.closes, 1) << flood.name;
    EXPECT_NE(fresh.response.in.cause, Errc::kOk) << flood.name;

    RunningClient slow;
    for (int i = 0; i < 1'000; ++i) {
      slow.client->set_now(now += milliseconds(100));
      ASSERT_TRUE(slow.client->feed(flood.bytes)) << flood.name;
      take_all(*slow.client);
    }
  }
}

TEST_F(H2ClientAbuse, SE135_WhenFramesOfUnknownTypesNeverEnd_TheConnectionEnds) {
  client->set_now(TimePoint{});
  const std::string unknown = frame(0x77, 0, 1, std::string(1'000, 'x'));
  std::size_t fed = 0;
  while (fed < (16U << 20) && client->feed(unknown)) {
    fed += unknown.size();
  }
  EXPECT_GT(fed, 1U << 20);
  EXPECT_LT(fed, 4U << 20);
  take_all(*client);
  EXPECT_TRUE(client->finished());
}

TEST_F(H2ClientAbuse, SE135_WhenAnswersAreGivenUp_TheirBytesAreNoFlood) {
  client->set_now(TimePoint{});
  for (std::uint32_t id = 3; id < 2'003; id += 2) {
    TestResponse given_up;
    auto stream = client->open(testing::make_head("GET", "/"), given_up);
    ASSERT_TRUE(stream) << id;
    take_all(*client);
    (*stream)->detach();
    take_all(*client);
    ASSERT_TRUE(client->feed(frame(kHeaders, kEndHeaders, id, "\x88"))) << id;
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(client->feed(frame(kData, 0, id, std::string(16'000, 'x')))) << id;
      take_all(*client);
    }
  }
  EXPECT_FALSE(client->finished());
}

TEST_F(H2ClientAbuse, WhenServerPushes_ConnectionEnds) {
  take_all(*client);
  (void)client->feed(frame(kSettings, 1, 0, ""));  // acknowledges ENABLE_PUSH 0
  (void)client->feed(frame(5, kEndHeaders, 1, word(2) + request()));
  take_all(*client);
  EXPECT_TRUE(client->finished());
}

}  // namespace
}  // namespace kintsugi::http
