// Frames on streams that are over, that never were, or that are too many (SE-083, SE-119 to SE-122,
// SE-129, SE-T042).
#include <gtest/gtest.h>

#include <random>

#include "http/abuse_watch.h"
#include "http/testing/h2_abuse_rig.h"

namespace kintsugi::http {
namespace {

using namespace testing;

constexpr std::uint32_t kStreamClosed = 5, kRefusedStream = 7;

/// Takes requests and leaves them open, or answers them.
class H2Order : public H2Abuse {
 protected:
  explicit H2Order(const SessionLimits& limits = {}) : H2Abuse(limits) {
    watch_abuse(*server, counters, false);
    handler.on_open = [this](ServerExchange& exchange) {
      if (answers) {
        exchange.stream->send_head(200, {}, true);
      }
    };
  }
  static std::string ask(std::uint32_t id, bool body = false) {
    return frame(kHeaders, kEndHeaders | (body ? 0 : kEndStream), id, request(body));
  }
  static std::string data(std::uint32_t id, bool end = false) {
    return frame(kData, end ? kEndStream : 0, id, "x");
  }
  static std::string reset(std::uint32_t id) { return frame(kRstStream, 0, id, word(8)); }

  /// Feeds it in pieces of that size; everything that the server said, as "reset 3: 5", "goaway 1".
  std::vector<std::string> said(std::string_view bytes, std::size_t piece) {
    std::vector<std::string> words;
    bool fine = true;
    while (!bytes.empty() && fine) {
      fine = server->feed(bytes.substr(0, piece)).has_value();
      bytes.remove_prefix(std::min(piece, bytes.size()));
      for (const Frame& sent : split_frames(take_all(*server))) {
        if (sent.type == kRstStream) {
          words.push_back("reset " + std::to_string(sent.id) + ": " +
                          std::to_string(number(sent.payload, 0)));
        } else if (sent.type == kGoaway) {
          words.push_back("goaway " + std::to_string(number(sent.payload, 4)));
        }
      }
      server->settle();
    }
    const bool told = !words.empty() && words.back().rfind("goaway", 0) == 0;
    EXPECT_EQ(server->finished(), told);
    return words;
  }

  AbuseCounters counters;
  bool answers = false;
};

using Words = std::vector<std::string>;

struct OrderCase {
  const char* name;
  std::string answered;  // is whole, and its answer has gone, before the rest comes
  std::string bytes;
  Words words;
};

std::ostream& operator<<(std::ostream& out, const OrderCase& one) { return out << one.name; }

class H2OrderRows : public H2Order,
                    public ::testing::WithParamInterface<std::tuple<OrderCase, std::size_t>> {
 public:
  static std::vector<OrderCase> rows() {
    const std::string self = word(3) + "x", other = word(1) + "x", none;
    const std::string trailers = frame(kHeaders, kEndHeaders | kEndStream, 1, literal("a", "b"));
    return {
        {"DATA after a reset", none, ask(1, true) + reset(1) + data(1), {"reset 1: 5"}},
        {"HEADERS after a reset", none, ask(1, true) + reset(1) + trailers, {"reset 1: 5"}},
        {"without a body", none, ask(1) + reset(1) + data(1), {"reset 1: 5"}},
        {"beside others",
         none,
         ask(1, true) + ask(3, true) + data(3) + reset(1) + data(3) + data(1),
         {"reset 1: 5"}},
        {"DATA after both ended", ask(1), data(1), {"reset 1: 5"}},
        {"DATA after the end of a body", ask(1, true) + data(1, true), data(1), {"reset 1: 5"}},
        {"HEADERS after both ended", ask(1), ask(1), {"goaway 5"}},
        {"HEADERS after the end of a body", ask(1, true) + data(1, true), trailers, {"goaway 5"}},
        {"an id that was left out", none, ask(5) + ask(3), {"goaway 1"}},
        {"DATA on one that was left out", none, ask(5, true) + data(5) + data(1), {"goaway 1"}},
        {"PRIORITY on 0", none, frame(kPriority, 0, 0, other), {"goaway 1"}},
        {"PRIORITY on itself, idle", none, frame(kPriority, 0, 3, self), {"goaway 1"}},
        {"PRIORITY on itself", none, ask(3, true) + frame(kPriority, 0, 3, self), {"reset 3: 1"}},
        {"PRIORITY on itself, exclusive",
         none,
         ask(3, true) + frame(kPriority, 0, 3, "\x80" + self.substr(1)),
         {"reset 3: 1"}},
        {"PRIORITY on itself, over", none, ask(3) + reset(3) + frame(kPriority, 0, 3, self), {}},
        {"PRIORITY on another", none, ask(3, true) + frame(kPriority, 0, 3, other), {}},
        {"PRIORITY of a stream to come", none, frame(kPriority, 0, 7, other) + ask(3), {}},
        {"PRIORITY that is short", none, frame(kPriority, 0, 3, "ab") + ask(3), {"goaway 6"}},
        {"windows and resets of what is over",
         ask(1),
         frame(kWindowUpdate, 0, 1, word(1)) + reset(1) + reset(1),
         {}},
        {"a body and trailers", none, ask(1, true) + data(1) + data(1) + trailers, {}},
        {"bodies in turns",
         none,
         ask(1, true) + ask(3, true) + data(1) + data(3) + data(1, true) + data(3, true),
         {}},
        {"DATA after its own end", none, ask(1, true) + data(1, true) + data(1), {"goaway 5"}},
    };
  }
};

TEST_P(H2OrderRows, SE119_SE120_SE121_SE122_TheClientIsToldAsTheRowsSay) {
  const auto& [row, piece] = GetParam();
  answers = true;
  EXPECT_EQ(said(row.answered, piece), Words{});
  answers = false;
  EXPECT_EQ(said(row.bytes, piece), row.words);
}

INSTANTIATE_TEST_SUITE_P(Pieces, H2OrderRows,
                         ::testing::Combine(::testing::ValuesIn(H2OrderRows::rows()),
                                            ::testing::Values(1, 2, 3, 5, 8, 9, 13, 4'096)));

TEST_F(H2Order, SE119_WhenWeHaveReset_WhatCrossesItOnTheWireIsDiscarded) {
  handler.on_open = [](ServerExchange& exchange) { exchange.stream->reset(Errc::kNotProcessed); };
  EXPECT_EQ(said(ask(1, true), 4'096), Words{"reset 1: 7"});
  EXPECT_EQ(
      said(data(1) + data(1) + frame(kHeaders, kEndHeaders | kEndStream, 1, literal("a", "b")),
           4'096),
      Words{});
  EXPECT_EQ(said(ask(3) + data(1), 1), Words{"reset 3: 7"});
  EXPECT_EQ(said(data(3), 1), Words{});
  EXPECT_EQ(counters.of(Abuse::kMadeReset), 0U);
}

TEST_F(H2Order, SE119_SET042_TheLast64StreamsAreRemembered) {
  for (const std::uint32_t later : {62U, 63U, 64U, 65U}) {
    const std::uint32_t first = 1 + 2 * 100 * (later - 62);
    std::string bytes = ask(first) + reset(first);
    for (std::uint32_t i = 1; i <= later; ++i) {
      bytes += ask(first + 2 * i) + reset(first + 2 * i);
    }
    now += seconds(2);
    server->set_now(now);  // many resets at once are another matter
    const Words words = said(bytes + data(first), 4'096);
    const Words told{"reset " + std::to_string(first) + ": 5"};
    EXPECT_EQ(words, later < 64 ? told : Words{}) << later;
    // Up to the next round nothing is left out.
    bytes.clear();
    for (std::uint32_t id = first + 2 * (later + 1); id < first + 200; id += 2) {
      bytes += ask(id);
    }
    for (std::uint32_t id = first + 2 * (later + 1); id < first + 200; id += 2) {
      bytes += reset(id);
    }
    now += seconds(2);
    server->set_now(now);
    EXPECT_EQ(said(bytes, 4'096), Words{});
  }
}

TEST_F(H2Order, SE121_SET042_SixteenIntervalsAreRemembered) {
  for (const std::uint32_t later : {15U, 16U}) {
    auto session = make_h2_server(handler, peer, host, {});
    ASSERT_TRUE(session->feed(kPreface));
    std::uint32_t id = 5;  // 1 and 3 are left out
    ASSERT_TRUE(session->feed(ask(id)));
    for (std::uint32_t i = 0; i < later; ++i) {
      ASSERT_TRUE(session->feed(ask(id += 4)));
    }
    EXPECT_EQ(session->feed(ask(3)).has_value(), later == 16) << later;
    EXPECT_FALSE(session->feed(ask(id - 2)).has_value());
    session->on_transport_closed(Errc::kClosed);
  }
}

TEST_F(H2Order, SE125_WhenFramesOnClosedStreamsFlood_TheConnectionEnds) {
  ASSERT_EQ(said(ask(1, true) + reset(1), 4'096), Words{});
  int sent = 0;
  while (sent < 1'000 && server->feed(data(1))) {
    (void)take_all(*server);
    ++sent;
  }
  EXPECT_LE(sent, 100);
  EXPECT_EQ(goaway(), kEnhanceYourCalm);
  EXPECT_EQ(counters.of(Abuse::kMadeReset), 100U);
}

TEST_F(H2Order, SE129_WhenFramesFloodAStreamThatWeReset_TheConnectionEnds) {
  handler.on_open = [](ServerExchange& exchange) { exchange.stream->reset(Errc::kNotProcessed); };
  ASSERT_EQ(said(ask(1, true), 4'096), Words{"reset 1: 7"});
  int sent = 0;
  while (sent < 1'000 && server->feed(frame(kData, 0, 1, ""))) {
    (void)take_all(*server);
    ++sent;
  }
  EXPECT_GE(sent, 199);
  EXPECT_LE(sent, 201);
  EXPECT_GE(counters.of(Abuse::kEmptyData), 99U);
}

TEST_F(H2Order, SE129_WhenUnknownFramesFlood_TheConnectionEnds) {
  int sent = 0;
  while (sent < 1'000 && server->feed(frame(0x77, 0, 3, "anything"))) {
    (void)take_all(*server);
    ++sent;
  }
  EXPECT_GE(sent, 199);
  EXPECT_LE(sent, 201);
  EXPECT_GE(counters.of(Abuse::kUnknown), 99U);
}

class H2Crowd : public H2Order {
 protected:
  static SessionLimits few() {
    SessionLimits limits;
    limits.max_streams = 100;
    return limits;
  }
  H2Crowd() : H2Order(few()) {}
  int refused(std::string_view bytes) {
    int count = 0;
    for (const std::string& one : said(bytes, 4'096)) {
      count += one.ends_with(": " + std::to_string(kRefusedStream)) ? 1 : 0;
      EXPECT_EQ(one.rfind("reset", 0), 0U) << one;
    }
    return count;
  }
};

// nghttp2 alone ends the connection of a client that has acknowledged the limit.
TEST_F(H2Crowd, SE083_T85_WhenAStreamTooManyIsOpened_OnlyThatOneIsRefused) {
  for (const bool acknowledged : {false, true}) {
    const std::uint32_t first = acknowledged ? 1'001 : 1;
    std::string bytes = acknowledged ? frame(kSettings, 1, 0, "") : "";
    for (std::uint32_t i = 0; i < 101; ++i) {
      bytes += ask(first + 2 * i);
    }
    EXPECT_EQ(refused(bytes), 1) << acknowledged;
    EXPECT_EQ(server->stream_count(), 100U);
    // Who has room again may go on, also with a body, and the one that was refused may still send.
    EXPECT_EQ(
        refused(reset(first) + data(first + 200) + ask(first + 202, true) + data(first + 202)), 0);
    EXPECT_EQ(server->stream_count(), 100U);
    now += seconds(2);
    server->set_now(now);
    bytes.clear();
    for (std::uint32_t i = 1; i < 102; ++i) {
      bytes += reset(first + 2 * i);
    }
    EXPECT_EQ(refused(bytes), 0);
    EXPECT_EQ(server->stream_count(), 0U);
    now += seconds(2);
    server->set_now(now);
  }
}

TEST_F(H2Crowd, SE083_WhenStreamsTooManyNeverEnd_TheConnectionDoes) {
  std::uint32_t id = 1;
  ASSERT_TRUE(server->feed(frame(kSettings, 1, 0, "")));
  int sent = 0;
  std::vector<std::int64_t> codes;
  for (bool fine = true; fine && sent < 5'000; ++sent, id += 2) {
    fine = server->feed(ask(id)).has_value();
    if (const std::int64_t code = goaway(); code >= 0) {
      codes.push_back(code);
    }
    server->settle();
  }
  EXPECT_GE(sent, 1'190);
  EXPECT_LE(sent, 1'202);
  EXPECT_EQ(codes, (std::vector<std::int64_t>{kEnhanceYourCalm, kEnhanceYourCalm}));
  EXPECT_GE(counters.of(Abuse::kRefused), 99U);
}

// Bodies in any order and pieces of any size, answers before and after them, our own resets: a
// client that keeps to the rules is never told that it does not.
TEST_F(H2Order, SET042_OrdinaryClientsAreNeverToldAnything) {
  std::mt19937 random(42);
  const auto any = [&random](std::uint32_t below) { return random() % below; };
  handler.on_open = [&any](ServerExchange& exchange) {
    switch (any(3)) {
      case 0:
        exchange.stream->send_head(200, {}, true);
        break;
      case 1:
        exchange.stream->reset(Errc::kNotProcessed);
        break;
      default:  // when the request is whole
        exchange.stream->send_head(200, {}, exchange.head.end_stream);
        exchange.on_data = [](ServerExchange& whole, std::string_view, bool end) {
          if (end && whole.stream != nullptr) {
            whole.stream->send_data(std::string_view(), true);
          }
        };
    }
  };
  int resets = 0;
  std::uint32_t next = 1;
  std::vector<std::uint32_t> sending, open;
  std::string bytes;
  for (int step = 0; step < 50'000; ++step) {
    const auto take = [&any](std::vector<std::uint32_t>& from) {
      std::swap(from[any(static_cast<std::uint32_t>(from.size()))], from.back());
      const std::uint32_t id = from.back();
      from.pop_back();
      return id;
    };
    switch (any(8)) {
      case 0:
      case 1:
        if (sending.size() + open.size() < 200) {
          const bool body = any(2) == 0;
          bytes += ask(next, body);
          (body ? sending : open).push_back(next);
          next += any(50) == 0 ? 6 : 2;
        }
        break;
      case 2:
        if (!sending.empty()) {
          const std::uint32_t id = take(sending);
          bytes += any(2) == 0 ? data(id, true)
                               : frame(kHeaders, kEndHeaders | kEndStream, id, literal("a", "b"));
          open.push_back(id);
        }
        break;
      case 3:
        if (!open.empty()) {
          const std::uint32_t id = take(open);
          bytes += ++resets < 900 ? reset(id) : "";  // nghttp2's own limit has a clock of its own
        }
        break;
      case 4:
        bytes += frame(kPriority, 0, next + 20, word(1) + "x");
        break;
      default:
        if (!sending.empty()) {
          bytes += data(sending[any(static_cast<std::uint32_t>(sending.size()))]);
        }
    }
    if (any(5) == 0) {
      now += milliseconds(500);
      server->set_now(now);
      const std::size_t part = 1 + any(static_cast<std::uint32_t>(bytes.size() + 1));
      ASSERT_TRUE(server->feed(std::string_view(bytes).substr(0, part))) << step;
      bytes.erase(0, std::min(part, bytes.size()));
      for (const Frame& sent : split_frames(take_all(*server))) {
        ASSERT_NE(sent.type, kGoaway) << step;
        if (sent.type == kRstStream) {
          ASSERT_NE(number(sent.payload, 0), kStreamClosed) << step;
          ASSERT_NE(number(sent.payload, 0), kProtocolError) << step;
        }
      }
      server->settle();
    }
  }
  EXPECT_EQ(counters.of(Abuse::kMadeReset), 0U);
}

}  // namespace
}  // namespace kintsugi::http
