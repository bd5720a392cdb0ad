// Peers that refuse, break off, or are no AMQP peers at all: each ends the session with its reason.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "workers/messaging/amqp/internal/amqp_codec.h"
#include "workers/messaging/amqp/management_session.h"
#include "workers/messaging/amqp/testing/joined.h"

namespace kintsugi::workers {
namespace {

using namespace std::string_view_literals;
using amqp_testing::Joined;
using amqp_testing::ManagementPeer;
using amqp_testing::read_request;
using amqp_testing::session_params;
using State = ManagementSession::State;

constexpr std::string_view kSaslHeader = "AMQP\x03\x01\x00\x00"sv;
constexpr std::string_view kHeader = "AMQP\x00\x01\x00\x00"sv;

/// A frame of 8 bytes of head, and the body.
std::string frame(char type, std::string_view body) {
  const std::size_t size = body.size() + 8;
  std::string out{static_cast<char>(size >> 24),
                  static_cast<char>(size >> 16),
                  static_cast<char>(size >> 8),
                  static_cast<char>(size),
                  '\x02',
                  type,
                  '\0',
                  '\0'};
  return out += body;
}
/// SASL up to where AMQP begins.
std::string sasl() {
  return std::string(kSaslHeader) +
         frame('\x01',
               "\x00\x53\x40\xc0\x0c\x01\xa3\x09"
               "ANONYMOUS"sv) +
         frame('\x01', "\x00\x53\x44\xc0\x03\x01\x50\x00"sv);
}
/// Lists inside of each other, the innermost with null.
std::string nested(unsigned depth) {
  std::string value;
  for (unsigned i = depth; i > 0; --i) {
    const std::size_t size = 4 + 1 + 9 * std::size_t{i - 1};
    value += {'\xd0',
              static_cast<char>(size >> 24),
              static_cast<char>(size >> 16),
              static_cast<char>(size >> 8),
              static_cast<char>(size),
              '\0',
              '\0',
              '\0',
              '\x01'};
  }
  return value += '\x40';
}
std::string answer_to_first(std::string_view body) {
  return std::string(
             "\x00\x53\x73\xc0\x0b\x06\x40\x40\x40\x40\x40\xa1\x03"
             "0.1\x00\x53\x77"sv) += body;
}

TEST(ManagementSessionFault, WhenThePeerCloses_TheReasonIsTheirsAndRequestsEnd) {
  Joined j;
  j.run();
  (void)j.session.submit(read_request(), j.now);
  (void)j.session.submit(read_request(), j.now);
  j.peer.close("amqp:connection:forced");
  j.run();
  EXPECT_EQ(j.session.state(), State::kClosed);
  EXPECT_EQ(j.session.fault(), "amqp:connection:forced: as told");
  EXPECT_FALSE(j.session.is_unauthorized());
  const auto answers = j.answers();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_FALSE(answers[0].reply || answers[1].reply);
  EXPECT_TRUE(j.peer.closed);
  EXPECT_EQ(j.session.room(), 0U);
  EXPECT_EQ(j.session.submit(read_request(), j.now), 0U);
  EXPECT_FALSE(j.session.next_timer());
}

TEST(ManagementSessionFault, EveryEndThatThePeerMakesHasAReason) {
  struct Case {
    std::function<void(Joined&)> act;
    std::string_view fault;
    bool unauthorized = false;
  };
  const Case cases[] = {
      {[](Joined& j) { j.peer.close(); }, "the peer closed"},
      {[](Joined& j) { j.peer.close("amqp:connection:redirect"); },
       "amqp:connection:redirect: as told"},
      {[](Joined& j) { j.peer.close("amqp:unauthorized-access"); },
       "amqp:unauthorized-access: as told", true},
      {[](Joined& j) { j.peer.close("x", "a\nb\x01\xc3\xa4"); }, "x: a?b???"},
      {[](Joined& j) { j.peer.end_session("amqp:internal-error"); },
       "amqp:internal-error: as told"},
      {[](Joined& j) { j.peer.detach(true, nullptr); }, "the peer detached a link"},
      {[](Joined& j) { j.peer.detach(false, "amqp:link:redirect"); },
       "amqp:link:redirect: as told"},
      {[](Joined& j) { j.peer.open_link(); }, "the peer attaches links"},
      {[](Joined& j) { j.session.peer_closed(); }, "the peer ended the connection"},
      {[](Joined& j) { j.session.peer_closed("Connection reset by peer"); },
       "Connection reset by peer"},
      {[](Joined& j) { j.session.receive(std::string_view("\xff\xff\xff\xff\x02", 5), j.now); },
       "a frame of the peer has no length, or is above 1 MiB"},
      {[](Joined& j) { j.session.receive(std::string_view("\x00\x00\x00\x07\x02", 5), j.now); },
       "a frame of the peer has no length, or is above 1 MiB"},
      {[](Joined& j) { j.session.receive(frame('\x01', ""), j.now); }, "malformed frame"},
      {[](Joined& j) { j.session.receive(frame('\x00', "\x00\x53"sv), j.now); }, "malformed frame"},
      {[](Joined& j) {
         j.session.receive(frame('\x00', std::string("\x00\x53\x18"sv) + nested(33)), j.now);
       },
       "malformed frame"},
  };
  for (const Case& each : cases) {
    Joined j;
    j.run();
    ASSERT_EQ(j.session.state(), State::kReady);
    (void)j.session.submit(read_request(), j.now);
    each.act(j);
    j.run();
    EXPECT_EQ(j.session.state(), State::kClosed) << each.fault;
    EXPECT_EQ(j.session.fault(), each.fault);
    EXPECT_EQ(j.session.is_unauthorized(), each.unauthorized);
    EXPECT_EQ(j.answers().size(), 1U);
  }
}

TEST(ManagementSessionFault, WhenALinkIsRefused_TheReasonIsTheirs) {
  for (const bool requests : {false, true}) {
    ManagementPeer::Options options;
    options.address = requests ? options.address : "";
    options.refuses_requests = requests;
    options.refusal = "amqp:unauthorized-access";
    Joined j(session_params(), options);
    j.run();
    EXPECT_EQ(j.session.state(), State::kClosed);
    EXPECT_EQ(j.session.fault(), "amqp:unauthorized-access: refused");
    EXPECT_TRUE(j.session.is_unauthorized());
  }
}

TEST(ManagementSessionFault, SaslGivesWhoWeAreAndHearsTheOutcome) {
  ManagementSession::Params with = session_params();
  with.sasl = ManagementSession::Sasl::kPlain;
  with.user = "worker";
  with.password = Secret::copy_of("s3cret");
  {
    Joined j(with);
    j.run();
    EXPECT_EQ(j.session.state(), State::kReady);
    EXPECT_EQ(j.peer.init, "PLAIN|" + std::string("\0worker\0s3cret"sv) + "|router.example");
  }
  {
    ManagementPeer::Options refusing;
    refusing.outcome = 1;
    Joined j(with, refusing);
    j.run();
    EXPECT_EQ(j.session.fault(), "SASL PLAIN failed with code 1");
    EXPECT_TRUE(j.session.is_unauthorized());
  }
  with.sasl = ManagementSession::Sasl::kExternal;
  {
    ManagementPeer::Options busy;
    busy.outcome = 4;
    Joined j(with, busy);
    j.run();
    EXPECT_EQ(j.peer.init, "EXTERNAL||router.example");
    EXPECT_EQ(j.session.fault(), "SASL EXTERNAL failed with code 4");
    EXPECT_FALSE(j.session.is_unauthorized());
  }
  ManagementPeer::Options others;
  others.mechanisms = {"PLAIN", "GSSAPI"};
  Joined j(with, others);
  j.run();
  EXPECT_EQ(j.session.fault(), "the peer does not offer SASL EXTERNAL");
  EXPECT_TRUE(j.session.is_unauthorized());
}

TEST(ManagementSessionFault, WhatIsNoAmqpPeerEndsIt) {
  struct Case {
    std::string bytes;
    std::string_view fault;
  };
  const Case cases[] = {
      {"HTTP/1.1 400 Bad Request\r\n", "the peer does not speak AMQP"},
      {std::string(kHeader), "the peer has no SASL"},
      {std::string(kSaslHeader) + frame('\x01', "\x00\x53\x44\xc0\x03\x01\x50\x00"sv),
       "unexpected frame of SASL"},
      {std::string(kSaslHeader) + frame('\x01', "\x00\x53\x40\x40"sv), "malformed frame of SASL"},
      {std::string(kSaslHeader) + frame('\x01', "\x40"sv), "malformed frame of SASL"},
      {std::string(kSaslHeader) + frame('\x00', "\x00\x53\x40\x45"sv), "malformed frame"},
      {std::string(kSaslHeader) + frame('\x01', nested(33)), "malformed frame"},
      {sasl() + std::string(kHeader) +
           frame('\x00', std::string("\x00\x53\x10"sv) + nested(60'000)),
       "malformed frame"},
  };
  for (const Case& each : cases) {
    for (const std::size_t piece : {std::size_t{1} << 20U, std::size_t{1}}) {
      const TimePoint now{};
      ManagementSession session(session_params(), now);
      for (std::size_t at = 0; at < each.bytes.size(); at += piece) {
        session.receive(std::string_view(each.bytes).substr(at, piece), now);
        while (!session.output().empty()) {
          session.consume(session.output().size());
        }
      }
      EXPECT_EQ(session.state(), State::kClosed);
      EXPECT_EQ(session.fault(), each.fault);
    }
  }
  const TimePoint now{};
  ManagementSession session(session_params(), now);
  session.receive(sasl() + std::string("AMQP\x00\x02\x00\x00"sv), now);
  EXPECT_EQ(session.state(), State::kClosed);
  EXPECT_NE(session.fault(), "");
}

TEST(ManagementSessionFault, WhenTheOpenIsNotAnsweredInTime_ItEnds) {
  const TimePoint start{};
  for (const std::string& heard : {std::string(), std::string(kSaslHeader), sasl()}) {
    ManagementSession session(session_params(), start);
    session.receive(heard, start);
    EXPECT_EQ(session.next_timer(), start + seconds(10));
    session.on_timer(start + seconds(10) - milliseconds(1));
    EXPECT_EQ(session.state(), State::kOpening);
    session.on_timer(start + seconds(10));
    EXPECT_EQ(session.state(), State::kClosed);
    EXPECT_EQ(session.fault(), "no answer to the open in time");
  }
}

TEST(ManagementSessionFault, WhenThePeerIsSilentFor16Seconds_ItEnds) {
  Joined j;
  j.run();
  j.pass(seconds(16) - milliseconds(10));
  EXPECT_EQ(j.session.state(), State::kReady);
  j.pass(milliseconds(20));
  j.pass(seconds(1));
  EXPECT_EQ(j.session.state(), State::kClosed);
  EXPECT_NE(j.session.fault().find("local-idle-timeout"), std::string::npos) << j.session.fault();
}

TEST(ManagementSessionFault, WhileNothingIsSaid_BothSidesKeepItAlive) {
  Joined j;
  j.run();
  std::int64_t peer_ms = 1;
  j.peer.tick(peer_ms);
  for (int i = 0; i < 240; ++i) {
    j.pass(milliseconds(500));
    j.peer.tick(peer_ms += 500);
    j.run();
  }
  EXPECT_EQ(j.session.state(), State::kReady) << j.session.fault();
  EXPECT_FALSE(j.peer.closed);
}

TEST(ManagementSessionFault, AnAnswerNestedTooDeeplyIsAnAnswerWithoutABody) {
  for (const unsigned depth : {32U, 33U, 100U, 100'000U}) {
    Joined j;
    j.run();
    (void)j.session.submit(read_request(), j.now);
    j.run();
    j.peer.send_raw(answer_to_first(nested(depth)));
    j.run();
    const auto answers = j.answers();
    ASSERT_EQ(answers.size(), 1U);
    ASSERT_TRUE(answers[0].reply);
    EXPECT_EQ(answers[0].reply->body.is_null(), depth > 32) << depth;
    EXPECT_EQ(j.session.state(), State::kReady);
  }
}

TEST(ManagementSessionFault, AnAnswerOfMoreThanItsBoundEndsIt) {
  ManagementSession::Params with = session_params();
  with.max_message = 100'000;
  Joined j(with);
  j.run();
  (void)j.session.submit(read_request(), j.now);
  j.run();
  std::string body;
  append_amqp(body, std::string(99'000, 'x'));
  j.peer.send_raw(answer_to_first(body));
  j.run();
  EXPECT_EQ(j.answers().size(), 1U);
  j.peer.send_raw(std::string(60'000, 'x'), false);
  j.run();
  EXPECT_EQ(j.session.state(), State::kReady);
  j.peer.send_raw(std::string(60'000, 'x'), false);
  j.run();
  EXPECT_EQ(j.session.state(), State::kClosed);
  EXPECT_EQ(j.session.fault().substr(0, 9), "an answer") << j.session.fault();
}

TEST(ManagementSessionFault, AfterCloseTheRestIsSaidAndNothingIsHeard) {
  Joined j;
  j.run();
  (void)j.session.submit(read_request(), j.now);
  j.session.close();
  EXPECT_EQ(j.session.state(), State::kClosed);
  EXPECT_EQ(j.session.fault(), "");
  EXPECT_EQ(j.answers().size(), 1U);
  j.run();
  EXPECT_EQ(j.peer.requests.size(), 1U);
  EXPECT_TRUE(j.peer.closed);
  EXPECT_EQ(j.peer.close_condition, "");
}

/// What a peer says in a good run, then the same with a byte changed, a byte left out, or cut.
TEST(ManagementSessionFault, WhateverByteOfThePeerIsWrong_ItEndsOrGoesOn) {
  const auto record = [] {
    Joined j;
    std::string said;
    for (int round = 0; round < 20; ++round) {
      for (std::string_view out = j.session.output(); !out.empty(); out = j.session.output()) {
        j.peer.receive(out);
        j.session.consume(out.size());
      }
      if (j.session.room() > 0 && round < 10) {
        (void)j.session.submit(read_request(), j.now);
      }
      for (const auto& each : std::exchange(j.peer.requests, {})) {
        j.peer.answer(each.correlation, ManagementPeer::status(200), ManagementPeer::text("x"));
      }
      const std::string back = j.peer.output();
      j.session.receive(back, j.now);
      said += back;
    }
    EXPECT_GT(j.answers().size(), 3U);
    return said;
  };
  const std::string good = record();
  const auto hear = [](const std::string& bytes) {
    TimePoint now{};
    ManagementSession session(session_params(), now);
    for (std::size_t at = 0; at < bytes.size(); at += 13) {
      session.receive(std::string_view(bytes).substr(at, 13), now);
      (void)session.submit(read_request(), now);
      while (!session.output().empty()) {
        session.consume(session.output().size());
      }
      while (session.take()) {
      }
    }
    session.peer_closed();
    EXPECT_EQ(session.state(), State::kClosed);
    EXPECT_NE(session.fault(), "");
    EXPECT_EQ(session.in_flight(), 0U);
  };
  hear(good);
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string wrong = good;
    wrong[at] = static_cast<char>(random());
    hear(wrong);
    hear(std::string(good).erase(at, 1));
    hear(good.substr(0, at));
  }
}

}  // namespace
}  // namespace kintsugi::workers
