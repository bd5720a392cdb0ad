// Listener and Upstream against each other over real sockets, in every protocol.
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>

#include "net/testing/support.h"
#include "net/transport.h"

namespace kintsugi::net {
namespace {

using testing::Certificates;
using testing::Client;
using testing::make_request;
using testing::Pair;

constexpr std::size_t kBig = 10'000'000;

class Exchange : public ::testing::TestWithParam<Pair::Mode> {};

std::string mode_name(const ::testing::TestParamInfo<Pair::Mode>& info) {
  switch (info.param) {
    case Pair::Mode::kH2Tls:
      return "H2Tls";
    case Pair::Mode::kH1Tls:
      return "H1Tls";
    case Pair::Mode::kH1Plain:
      return "H1Plain";
    case Pair::Mode::kH2Plain:
      return "H2Plain";
  }
  return "?";
}

INSTANTIATE_TEST_SUITE_P(All, Exchange, ::testing::ValuesIn(Pair::kModes), mode_name);

TEST_P(Exchange, WhenRequestsFollowEachOther_UseOneConnection) {
  Pair pair(GetParam());
  for (int i = 0; i < 5; ++i) {
    Client client;
    pair.send(client, make_request("GET", "/small"));
    ASSERT_TRUE(pair.until([&] { return client.closed; }));
    EXPECT_EQ(client.result, Errc::kOk);
    EXPECT_EQ(client.status, 200);
    EXPECT_EQ(client.body, "hello");
    EXPECT_TRUE(client.ended);
  }
  const bool http2 = GetParam() == Pair::Mode::kH2Tls || GetParam() == Pair::Mode::kH2Plain;
  EXPECT_EQ(pair.server.last_version, http2 ? 2 : 1);
  EXPECT_EQ(pair.upstream->stats(UpstreamClass::kRead).opened, 1U);
  EXPECT_EQ(pair.listener->stats().accepted, 1U);
  EXPECT_EQ(pair.server.open, 0U);
}

TEST_P(Exchange, WhenTheClientReadsSlowly_PERF241_TheServerKeepsLittleAndNothingIsLost) {
  Pair pair(GetParam());
  Client client;
  client.keep = false;
  client.lazy = true;
  pair.send(client, make_request("GET", "/big/" + std::to_string(kBig)));
  std::size_t paid = 0;
  ASSERT_TRUE(pair.until([&] {
    if (client.owed > 0) {
      paid += client.owed;
      client.pay();
    }
    return client.closed || client.ended;
  }));
  EXPECT_EQ(client.received, kBig);
  EXPECT_LE(pair.server.largest_unsent, 64U * 1024 + 16U * 1024);
}

TEST_P(Exchange, WhenTheClientStopsReading_TheServerStopsProducing) {
  Pair pair(GetParam());
  Client client, other;
  client.keep = false;
  client.lazy = true;
  pair.send(client, make_request("GET", "/big/500000000"));
  ASSERT_TRUE(pair.until([&] { return client.received > 0; }));
  // Another exchange goes through meanwhile, and then everything is at rest.
  pair.send(other, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return other.closed; }));
  std::size_t before = 0, quiet = 0;
  ASSERT_TRUE(pair.until([&] {
    quiet = pair.server.left == before ? quiet + 1 : 0;
    before = pair.server.left;
    return quiet > 50;
  }));
  EXPECT_GT(pair.server.left, 400'000'000U);
  EXPECT_LE(client.received, 2U << 20);
  client.stream->detach();
  ASSERT_TRUE(pair.until([&] { return pair.server.open == 0; }));
}

TEST_P(Exchange, WhenMuchGoesBothWays_PERF101_SocketsAreWrittenInTheFlushOnly) {
  Pair pair(GetParam());
  Client big, echo, small, given_up;
  big.keep = echo.keep = given_up.keep = false;
  pair.send(big, make_request("GET", "/big/2000000"));
  pair.send(given_up, make_request("GET", "/big/500000000"));
  pair.send(echo, make_request("POST", "/echo", false), UpstreamClass::kWrite);
  const std::string chunk(60'000, 'y');
  std::size_t left = 20;
  echo.on_room = [&] {
    while (left > 0 && echo.stream != nullptr && echo.stream->unsent_bytes() <= 64 * 1024) {
      echo.stream->send_data(chunk, --left == 0);
    }
  };
  echo.on_room();
  ASSERT_TRUE(pair.until([&] { return big.closed && echo.closed && given_up.received > 0; }));
  EXPECT_EQ(echo.received, 20 * chunk.size());
  pair.send(small, make_request("GET", "/small"));
  given_up.stream->detach();
  ASSERT_TRUE(pair.until([&] { return small.closed && pair.server.open == 0; }));
  const Loop::Stats stats = pair.loop.stats();
  EXPECT_GT(stats.writes, 20U);
  EXPECT_EQ(stats.writes_outside_flush, 0U);
}

TEST(ExchangeWrites, WhenOneWritesByItself_PERF101_ItIsCounted) {
  Loop loop("test");
  std::array<int, 2> fds{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0);
  Transport ours(loop.scratch(), fds[0]), peers(loop.scratch(), fds[1]);
  ours.put("x");
  EXPECT_EQ(ours.send(), Transport::Result::kOk);
  EXPECT_EQ(loop.stats().writes, 1U);
  EXPECT_EQ(loop.stats().writes_outside_flush, 1U);
}

TEST_P(Exchange, WhenABigBodyIsEchoed_ArrivesWholeWithBoundedQueues) {
  Pair pair(GetParam());
  Client client;
  client.keep = false;
  const std::string chunk(10'000, 'y');
  std::size_t sent = 0, largest = 0;
  client.on_room = [&] {
    while (sent < kBig && client.stream != nullptr && client.stream->unsent_bytes() <= 64 * 1024) {
      sent += chunk.size();
      client.stream->send_data(chunk, sent == kBig);
    }
    if (client.stream != nullptr) {
      largest = std::max(largest, client.stream->unsent_bytes());
    }
  };
  pair.send(client, make_request("POST", "/echo", false), UpstreamClass::kWrite);
  client.on_room();
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kOk);
  EXPECT_EQ(client.received, kBig);
  EXPECT_LE(largest, 80U * 1024);
  EXPECT_LE(pair.server.largest_unsent, 512U * 1024);
}

TEST_P(Exchange, WhenOtherCodeLeavesErrorsOfOpenSsl_NoneIsTakenForAFaultOfTheConnection) {
  Pair pair(GetParam());
  Client client;
  client.keep = false;
  const std::string chunk(10'000, 'y');
  std::size_t sent = 0;
  client.on_room = [&] {
    while (sent < kBig && client.stream != nullptr && client.stream->unsent_bytes() <= 64 * 1024) {
      sent += chunk.size();
      client.stream->send_data(chunk, sent == kBig);
    }
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
  };
  pair.send(client, make_request("POST", "/echo", false), UpstreamClass::kWrite);
  client.on_room();
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  ERR_clear_error();
  EXPECT_EQ(client.result, Errc::kOk);
  EXPECT_EQ(client.received, kBig);
}

TEST_P(Exchange, WhenBodyBytesComeBeforeTheConnection_TheyAreSentInOrder) {
  Pair pair(GetParam());
  Client client;
  http::RequestStream& stream = pair.send(client, make_request("POST", "/echo", false));
  stream.send_data("one ", false);
  stream.send_data(SharedBytes("two "), false);
  EXPECT_EQ(stream.unsent_bytes(), 8U);
  stream.send_data("three", true);
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  EXPECT_EQ(client.body, "one two three");
}

TEST_P(Exchange, WhenTheServerGoesAway_RunningRequestsEndWithAnError) {
  Pair pair(GetParam());
  Client clients[3];
  for (Client& client : clients) {
    pair.send(client, make_request("GET", "/hold"));
  }
  ASSERT_TRUE(pair.until([&] { return pair.server.held.size() == 3; }));
  pair.listener->close();
  ASSERT_TRUE(
      pair.until([&] { return clients[0].closed && clients[1].closed && clients[2].closed; }));
  for (const Client& client : clients) {
    EXPECT_TRUE(client.result == Errc::kClosed || client.result == Errc::kReset);
  }
  EXPECT_EQ(pair.server.open, 0U);
  Client late;
  pair.send(late, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return late.closed; }));
  EXPECT_EQ(late.result, Errc::kRefused);
}

TEST_P(Exchange, WhenDrained_RunningRequestsFinishFirst) {
  Pair pair(GetParam(), [](ListenerParams&, UpstreamParams& params) {
    params.queue_timeout = milliseconds(200);
  });
  Client client;
  pair.send(client, make_request("GET", "/hold"));
  ASSERT_TRUE(pair.until([&] { return pair.server.held.size() == 1; }));
  bool drained = false;
  pair.listener->drain([&] { drained = true; });
  // What crosses the first GOAWAY on its way is still served; afterwards the port is closed.
  Client crossing, late;
  pair.send(crossing, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return crossing.closed; }));
  pair.send(late, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return late.closed; }));
  EXPECT_NE(late.result, Errc::kOk);
  EXPECT_FALSE(drained);
  EXPECT_FALSE(client.closed);
  pair.server.release();
  ASSERT_TRUE(pair.until([&] { return drained && client.closed; }));
  EXPECT_EQ(client.result, Errc::kOk);
  EXPECT_EQ(client.status, 200);
  EXPECT_EQ(pair.listener->stats().connections, 0U);
}

TEST_P(Exchange, WhenTheUpstreamDies_RunningAndWaitingRequestsAreCancelled) {
  Pair pair(GetParam());
  Client running, waiting;
  pair.send(running, make_request("GET", "/hold"));
  ASSERT_TRUE(pair.until([&] { return pair.server.held.size() == 1; }));
  pair.send(waiting, make_request("GET", "/hold"), UpstreamClass::kWatch);
  pair.upstream.reset();
  EXPECT_TRUE(running.closed && waiting.closed);
  EXPECT_EQ(running.result, Errc::kCancelled);
  EXPECT_EQ(waiting.result, Errc::kCancelled);
  EXPECT_TRUE(pair.until([&] { return pair.server.open == 0; }));
}

TEST_P(Exchange, WhenAnUpgradeIsAsked_BytesFlowBothWaysOnAConnectionOfItsOwn) {
  Pair pair(GetParam());
  Client small, client;
  pair.send(small, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return small.closed; }));
  http::RequestHead head = make_request("GET", "/exec", false);
  head.protocol = "echo/1";
  http::RequestStream& stream = pair.send(client, std::move(head));
  ASSERT_TRUE(pair.until([&] { return client.status != 0; }));
  EXPECT_EQ(client.status, 101);
  EXPECT_EQ(pair.server.last_version, 1);
  stream.send_data("ping", false);
  ASSERT_TRUE(pair.until([&] { return client.body == "ping"; }));
  stream.send_data("pong", true);
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  EXPECT_EQ(client.body, "pingpong");
  EXPECT_EQ(pair.upstream->stats(UpstreamClass::kRead).opened, 2U);
}

TEST_P(Exchange, WhenFetched_GivesTheWholeAnswer) {
  Pair pair(GetParam());
  FetchRequest request;
  request.method = "POST";
  request.target = "/echo";
  request.body = "some text";
  Expected<FetchResponse> result = fail(Errc::kInternal);
  bool done = false;
  const auto call = fetch(pair.loop, *pair.upstream, std::move(request), [&](auto answer) {
    result = std::move(answer);
    done = true;
    pair.upstream.reset();  // allowed here
  });
  ASSERT_TRUE(pair.until([&] { return done; }));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200);
  EXPECT_EQ(result->body, "some text");
}

TEST_P(Exchange, WhenTheAnswerTakesTooLong_FetchGivesUpAndTheServerLearnsIt) {
  Pair pair(GetParam());
  FetchRequest request;
  request.target = "/hold";
  request.timeout = milliseconds(50);
  Errc cause = Errc::kOk;
  const auto call = fetch(pair.loop, *pair.upstream, std::move(request),
                          [&](auto answer) { cause = answer.error().code(); });
  ASSERT_TRUE(pair.until([&] { return cause != Errc::kOk && pair.server.open == 0; }));
  EXPECT_EQ(cause, Errc::kDeadline);
}

TEST_P(Exchange, WhenACallDies_NothingIsReported) {
  Pair pair(GetParam());
  FetchRequest request;
  request.target = "/hold";
  bool called = false;
  auto call = fetch(pair.loop, *pair.upstream, std::move(request), [&](auto) { called = true; });
  ASSERT_TRUE(pair.until([&] { return pair.server.held.size() == 1; }));
  call.reset();
  ASSERT_TRUE(pair.until([&] { return pair.server.open == 0; }));
  EXPECT_FALSE(called);
}

TEST_P(Exchange, WhenStreamed_DeliversHeadChunksAndEnd) {
  Pair pair(GetParam());
  FetchRequest request;
  request.target = "/big/300000";
  int status = 0;
  std::size_t received = 0;
  bool ended = false;
  StreamCallbacks callbacks;
  callbacks.on_head = [&](const http::ResponseHead& head) { status = head.status; };
  callbacks.on_data = [&](std::string_view bytes) { received += bytes.size(); };
  callbacks.on_end = [&](Errc cause) {
    EXPECT_EQ(cause, Errc::kOk);
    ended = true;
  };
  const auto call = stream(pair.loop, *pair.upstream, std::move(request), std::move(callbacks));
  ASSERT_TRUE(pair.until([&] { return ended; }));
  EXPECT_EQ(status, 200);
  EXPECT_EQ(received, 300'000U);
}

TEST_P(Exchange, WhenACallDiesInsideItsOwnCallback_NothingBreaks) {
  Pair pair(GetParam());
  FetchRequest request;
  request.target = "/big/3000000";
  std::unique_ptr<Call> call;
  StreamCallbacks callbacks;
  callbacks.on_data = [&](std::string_view) { call.reset(); };
  callbacks.on_end = [&](Errc) { ADD_FAILURE() << "reported after its end"; };
  call = stream(pair.loop, *pair.upstream, std::move(request), std::move(callbacks));
  ASSERT_TRUE(pair.until([&] { return call == nullptr && pair.server.open == 0; }));
}

TEST(Listener, WhenAClientSendsACertificate_TheHookSeesItOnce) {
  int calls = 0;
  std::size_t certificates = 0;
  Pair pair(Pair::Mode::kH2Tls, [&](ListenerParams& listening, UpstreamParams&) {
    listening.identify = [&](const http::PeerInfo& peer) {
      ++calls;
      certificates = peer.certificates_der.size();
      EXPECT_EQ(peer.address, "127.0.0.1");
      EXPECT_TRUE(peer.tls);
      return std::make_shared<const std::string>("alice");
    };
  });
  for (int i = 0; i < 2; ++i) {
    Client client;
    pair.send(client, make_request("GET", "/small"));
    ASSERT_TRUE(pair.until([&] { return client.closed; }));
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(certificates, 1U);  // issued by a CA that the server does not know
  ASSERT_NE(pair.server.last_identity, nullptr);
  EXPECT_EQ(*static_cast<const std::string*>(pair.server.last_identity.get()), "alice");
}

TEST(Listener, WhenAnIdentityChanges_SE042_RequestsHaveTheNewOneAndAnEndedOneIsToldToGo) {
  auto now = std::make_shared<const std::string>("alice");
  bool ended = false;
  Pair pair(Pair::Mode::kH2Tls, [&](ListenerParams& listening, UpstreamParams&) {
    listening.identify = [&](const http::PeerInfo&) { return now; };
    listening.review = [&](const std::shared_ptr<const void>&) { return PeerVerdict{now, ended}; };
    listening.ended_grace = milliseconds(200);
  });
  const auto who = [&] {
    Client client;
    pair.send(client, make_request("GET", "/small"));
    EXPECT_TRUE(pair.until([&] { return client.closed; }));
    return *static_cast<const std::string*>(pair.server.last_identity.get());
  };
  EXPECT_EQ(who(), "alice");
  pair.listener->review();
  EXPECT_EQ(who(), "alice");
  now = std::make_shared<const std::string>("alice without groups");
  pair.listener->review();
  EXPECT_EQ(who(), "alice without groups");
  EXPECT_EQ(pair.listener->stats().accepted, 1U) << "the same connection";
  Client held;
  pair.send(held, make_request("GET", "/hold"));
  ASSERT_TRUE(pair.until([&] { return pair.server.open == 1; }));
  now = std::make_shared<const std::string>("nobody");
  ended = true;
  pair.listener->review();
  ASSERT_TRUE(pair.until([&] { return held.closed; })) << "cut after the grace";
  EXPECT_NE(held.result, Errc::kOk);
  EXPECT_EQ(who(), "nobody");
  EXPECT_EQ(pair.listener->stats().accepted, 2U);
}

/// How many certificates the server sees of a client that connects and then resumes.
std::vector<std::size_t> seen_twice(const std::shared_ptr<TlsContext>& client_tls) {
  std::vector<std::size_t> seen;
  Pair pair(Pair::Mode::kH2Tls, [&](ListenerParams& listening, UpstreamParams& upstream) {
    upstream.tls = client_tls;
    listening.identify = [&](const http::PeerInfo& peer) -> std::shared_ptr<const void> {
      seen.push_back(peer.certificates_der.size());
      return nullptr;
    };
  });
  for (const UpstreamClass kind : {UpstreamClass::kRead, UpstreamClass::kWrite}) {
    Client client;
    pair.send(client, make_request("GET", "/small"), kind);
    EXPECT_TRUE(pair.until([&] { return client.closed; }));
  }
  return seen;
}

TEST(Listener, WhenTheConnectionIsResumed_TheCertificateIsStillSeen) {
  EXPECT_EQ(seen_twice(Certificates::client_tls()), (std::vector<std::size_t>{1, 1}));
}

TEST(Listener, WhenAClientWithIntermediatesReturns_AllOfThemAreSeenAgain) {
  TlsParams chain;
  chain.ca_pem = Certificates::get().ca.certificate_pem;
  chain.certificate_pem =
      Certificates::get().client.certificate_pem + Certificates::get().other_ca.certificate_pem;
  chain.key_pem = Certificates::get().client.key_pem;
  EXPECT_EQ(seen_twice(testing::must(TlsContext::client(chain))), (std::vector<std::size_t>{2, 2}));
}

TEST(Listener, WhenThePathIsAUnixSocket_ServesAndRemovesIt) {
  char directory[] = "/tmp/kintsugi-net-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string path = std::string(directory) + "/admin.sock";
  Loop loop("test");
  testing::TestServer server;
  ListenerParams params;
  params.address = path;
  {
    auto listener = Listener::open(loop, params, server);
    ASSERT_TRUE(listener);
    EXPECT_TRUE(std::filesystem::exists(path));
    const auto second = Listener::open(loop, params, server);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().message(), path + ": address already in use");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove_all(directory);
}

TEST(Listener, WhenTheAddressIsTaken_SaysSo) {
  Loop loop("test");
  testing::TestServer server;
  auto first = Listener::open(loop, {}, server);
  ASSERT_TRUE(first);
  ListenerParams params;
  params.port = (*first)->port();
  const auto second = Listener::open(loop, params, server);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Errc::kIo);
  EXPECT_EQ(second.error().message(),
            "127.0.0.1:" + std::to_string(params.port) + ": address already in use");
  params.address = "example.org";
  EXPECT_EQ(Listener::open(loop, params, server).error().code(), Errc::kConfig);
}

}  // namespace
}  // namespace kintsugi::net
