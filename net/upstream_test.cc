// The pool's decisions: when to dial, who waits, how failures look.
#include "net/upstream.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <string>
#include <vector>

#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::Certificates;
using testing::Client;
using testing::make_request;
using testing::Pair;
using testing::run_until;

/// A socket that accepts in the kernel and never says a word.
struct SilentServer {
  SilentServer() {
    fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    EXPECT_EQ(::listen(fd, 16), 0);
  }
  ~SilentServer() { stop(); }
  void stop() {
    if (fd >= 0) {
      ::close(fd);
      fd = -1;
    }
  }
  int fd = -1;
  std::uint16_t port = 0;
};

/// HTTP/1.1 by hand, in the thread of the test: what it does happens between two turns of the loop.
struct HandServer : SilentServer {
  HandServer() { EXPECT_EQ(::fcntl(fd, F_SETFL, O_NONBLOCK), 0); }
  ~HandServer() { hang_up(); }
  /// A whole request has come, on the connection that is open or the next one.
  bool asked() {
    if (const int next = ::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); next >= 0) {
      hang_up();
      peer = next;
      ++connections;
    }
    char bytes[4'096];
    for (ssize_t count = 0; peer >= 0 && (count = ::recv(peer, bytes, sizeof bytes, 0)) > 0;) {
      text.append(bytes, static_cast<std::size_t>(count));
    }
    const std::size_t end = text.find("\r\n\r\n");
    return end != std::string::npos &&
           (text.find("content-length: 4") == std::string::npos || text.size() == end + 8);
  }
  void answer() {
    text.clear();
    constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    EXPECT_EQ(::send(peer, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(kAnswer.size()));
  }
  void hang_up() {
    if (peer >= 0) {
      ::close(std::exchange(peer, -1));
    }
    text.clear();
  }
  int peer = -1, connections = 0;
  std::string text;
};

bool all_closed(const std::deque<Client>& clients) {
  return std::all_of(clients.begin(), clients.end(), [](const Client& c) { return c.closed; });
}

TEST(Upstream, WhenManyStreamsStartCold_DialsWhatTheLimitNeeds) {
  Pair pair(Pair::Mode::kH2Tls,
            [](ListenerParams& listening, UpstreamParams&) { listening.limits.max_streams = 100; });
  std::deque<Client> clients(300);
  for (Client& client : clients) {
    pair.send(client, make_request("GET", "/hold"), UpstreamClass::kWatch);
  }
  ASSERT_TRUE(pair.until([&] { return pair.server.held.size() == 300; }));
  const UpstreamStats stats = pair.upstream->stats(UpstreamClass::kWatch);
  EXPECT_EQ(stats.opened, 3U);
  EXPECT_EQ(stats.streams, 300U);
  EXPECT_EQ(stats.queued, 0U);
  EXPECT_EQ(stats.requests, 300U);
  EXPECT_EQ(pair.listener->stats().streams, 300U);
  pair.server.release();
  ASSERT_TRUE(pair.until([&] { return all_closed(clients); }));
  for (const Client& client : clients) {
    EXPECT_EQ(client.result, Errc::kOk);
  }
}

TEST(Upstream, WhenTheLimitIsBelowWhatWasAssumed_EveryStreamStillEndsInOrder) {
  Pair pair(Pair::Mode::kH2Plain, [](ListenerParams& listening, UpstreamParams& params) {
    listening.limits.max_streams = 10;
    params.max_connections = 2;
  });
  Client first;
  pair.send(first, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return first.closed; }));
  std::deque<Client> clients(60);
  for (Client& client : clients) {
    pair.send(client, make_request("GET", "/small"));
  }
  EXPECT_EQ(pair.upstream->stats(UpstreamClass::kRead).queued, 50U);
  ASSERT_TRUE(pair.until([&] { return all_closed(clients); }));
  for (const Client& client : clients) {
    EXPECT_EQ(client.result, Errc::kOk);
  }
  EXPECT_LE(pair.upstream->stats(UpstreamClass::kRead).opened, 2U);
}

TEST(Upstream, WhenHttp1IsSpoken_OneExchangePerConnectionUpToTheMaximum) {
  Pair pair(Pair::Mode::kH1Plain,
            [](ListenerParams&, UpstreamParams& params) { params.max_connections = 4; });
  std::deque<Client> clients(10);
  for (Client& client : clients) {
    pair.send(client, make_request("GET", "/hold"));
  }
  ASSERT_TRUE(pair.until([&] { return pair.server.held.size() == 4; }));
  EXPECT_EQ(pair.upstream->stats(UpstreamClass::kRead).queued, 6U);
  ASSERT_TRUE(pair.until([&] {
    pair.server.release();
    return all_closed(clients);
  }));
  EXPECT_EQ(pair.upstream->stats(UpstreamClass::kRead).opened, 4U);
}

TEST(Upstream, SE118_WhatNoConnectionTakes_FailsAtOnceAndDelaysNobody) {
  struct Case {
    const char *method, *target, *authority;
  };
  constexpr Case kCases[] = {{"GET", "/small", "a@b"}, {"GET", "/small", "a b"},
                             {"GET", "/sm all", "a"},  {"GE T", "/small", "a"},
                             {"GET", "", "a"},         {"GET", "/\r\nx: y", "a"}};
  for (const Pair::Mode mode : Pair::kModes) {
    Pair pair(mode, [](ListenerParams&, UpstreamParams& params) {
      params.max_connections = 1;
      params.queue_timeout = seconds(600);
    });
    std::deque<Client> bad(std::size(kCases)), good(std::size(kCases) + 1);
    Client busy;
    pair.send(busy, make_request("GET", "/hold"));
    for (std::size_t i = 0; i < bad.size(); ++i) {  // before there is a connection, then with one
      http::RequestHead head = make_request(kCases[i].method, kCases[i].target);
      head.authority = kCases[i].authority;
      pair.send(bad[i], head);
      pair.send(good[i], make_request("GET", "/small"));
    }
    ASSERT_TRUE(pair.until([&] { return all_closed(bad) && pair.server.held.size() == 1; }));
    http::RequestHead late = make_request("GET", "/small");
    late.authority = "c@d";
    Client late_one;
    pair.send(late_one, late);
    pair.send(good.back(), make_request("GET", "/small"));
    ASSERT_TRUE(pair.until([&] { return late_one.closed; }));
    pair.server.release();
    ASSERT_TRUE(pair.until([&] { return all_closed(good) && busy.closed; }));
    for (const Client& client : bad) {
      EXPECT_EQ(client.result, Errc::kBadRequest);
    }
    EXPECT_EQ(late_one.result, Errc::kBadRequest);
    for (const Client& client : good) {
      EXPECT_EQ(client.status, 200);
    }
  }
}

TEST(Upstream, SE118_AnUpgradeThatNoConnectionTakes_FailsAtOnce) {
  Pair pair(Pair::Mode::kH1Plain);
  http::RequestHead head = make_request("GET", "/small", false);
  head.protocol = "x\r\ny";
  Client client;
  pair.send(client, head);
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kBadRequest);
}

TEST(Upstream, WhenClassesDiffer_TheyShareNoConnection) {
  Pair pair(Pair::Mode::kH2Tls);
  std::array<Client, 3> clients;
  pair.send(clients[0], make_request("GET", "/small"), UpstreamClass::kWatch);
  pair.send(clients[1], make_request("GET", "/small"), UpstreamClass::kRead);
  pair.send(clients[2], make_request("GET", "/small"), UpstreamClass::kWrite);
  ASSERT_TRUE(
      pair.until([&] { return clients[0].closed && clients[1].closed && clients[2].closed; }));
  EXPECT_EQ(pair.listener->stats().accepted, 3U);
}

TEST(Upstream, WhenQueuedStreamsTimeOutBecauseConnectionsAreFull_SaysOverloaded) {
  Pair pair(Pair::Mode::kH1Plain, [](ListenerParams&, UpstreamParams& params) {
    params.max_connections = 1;
    params.max_queued = 2;
    params.queue_timeout = milliseconds(100);
  });
  Client running, waiting[3];
  pair.send(running, make_request("GET", "/hold"));
  ASSERT_TRUE(pair.until([&] { return pair.server.held.size() == 1; }));
  for (Client& client : waiting) {
    pair.send(client, make_request("GET", "/small"));
  }
  EXPECT_FALSE(waiting[2].closed);  // never inside open()
  ASSERT_TRUE(pair.until([&] { return waiting[2].closed; }));
  EXPECT_EQ(waiting[2].result, Errc::kOverloaded);
  ASSERT_TRUE(pair.until([&] { return waiting[0].closed && waiting[1].closed; }));
  EXPECT_EQ(waiting[0].result, Errc::kOverloaded);
  EXPECT_FALSE(running.closed);
  running.stream->detach();
}

TEST(Upstream, WhenNobodyListens_FailsWithRefusedAndRecoversLater) {
  SilentServer reserved;
  Loop loop("test");
  UpstreamParams params;
  params.url = Url{"http", "127.0.0.1", reserved.port, ""};
  reserved.stop();
  const auto upstream = Upstream::make(loop, params);
  Client client;
  client.stream = &upstream->open(UpstreamClass::kRead, make_request("GET", "/small"), client);
  EXPECT_FALSE(client.closed);
  ASSERT_TRUE(run_until(loop, [&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kRefused);
  EXPECT_EQ(upstream->failures_in_a_row(), 1U);
  EXPECT_EQ(upstream->last_failure(), "Connection refused");

  testing::TestServer server;
  ListenerParams listening;
  listening.port = params.url.port;
  const auto listener = Listener::open(loop, listening, server);
  ASSERT_TRUE(listener);
  Client second;
  second.stream = &upstream->open(UpstreamClass::kRead, make_request("GET", "/small"), second);
  ASSERT_TRUE(run_until(loop, [&] { return second.closed; }));
  EXPECT_EQ(second.result, Errc::kOk);
  EXPECT_EQ(upstream->failures_in_a_row(), 0U);
}

TEST(Upstream, WhenFailuresRepeat_PERF263_DialsAreRationedAndEveryRequestIsAnswered) {
  SilentServer reserved;
  Loop loop("test");
  UpstreamParams params;
  params.url = Url{"http", "127.0.0.1", reserved.port, ""};
  reserved.stop();
  const auto upstream = Upstream::make(loop, params);
  const TimePoint start = Clock::now();
  for (int i = 0; i < 14; ++i) {
    Client client;
    client.stream = &upstream->open(UpstreamClass::kRead, make_request("GET", "/small"), client);
    ASSERT_TRUE(run_until(loop, [&] { return client.closed; }));
    EXPECT_EQ(client.result, Errc::kRefused);
  }
  // One free dial and a burst of 8; the other 5 wait for tokens, of which 4 come in a second.
  EXPECT_GE(Clock::now() - start, milliseconds(900));
}

TEST(Upstream, WhenTheCaIsWrong_FailsWithTlsAndCountsTheCause) {
  Pair pair(Pair::Mode::kH2Tls, [](ListenerParams&, UpstreamParams& params) {
    params.tls = Certificates::client_tls(Certificates::get().other_ca.certificate_pem);
  });
  Client client;
  pair.send(client, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kTls);
  EXPECT_EQ(pair.upstream->stats(UpstreamClass::kRead).tls_unknown_ca, 1U);
  EXPECT_EQ(pair.upstream->last_failure(), "unable to get local issuer certificate");
  ASSERT_TRUE(pair.until([&] { return pair.listener->stats().handshake_errors == 1; }));
  // The right CA heals it.
  pair.upstream->set_tls(Certificates::client_tls());
  Client second;
  pair.send(second, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return second.closed; }));
  EXPECT_EQ(second.result, Errc::kOk);
}

TEST(Upstream, WhenTheCertificateHasExpiredOrNamesAnotherHost_FailsWithTls) {
  Pair expired(Pair::Mode::kH2Tls, [](ListenerParams& listening, UpstreamParams&) {
    listening.tls = Certificates::server_tls(Certificates::get().expired);
  });
  Client first;
  expired.send(first, make_request("GET", "/small"));
  ASSERT_TRUE(expired.until([&] { return first.closed; }));
  EXPECT_EQ(first.result, Errc::kTls);
  EXPECT_EQ(expired.upstream->stats(UpstreamClass::kRead).tls_expired, 1U);
  EXPECT_TRUE(expired.upstream->last_failure().starts_with("certificate has expired (20"))
      << expired.upstream->last_failure();

  Pair renamed(Pair::Mode::kH2Tls, [](ListenerParams&, UpstreamParams& params) {
    TlsParams tls;
    tls.ca_pem = Certificates::get().ca.certificate_pem;
    tls.server_name = "elsewhere.example";
    params.tls = testing::must(TlsContext::client(tls));
  });
  Client second;
  renamed.send(second, make_request("GET", "/small"));
  ASSERT_TRUE(renamed.until([&] { return second.closed; }));
  EXPECT_EQ(second.result, Errc::kTls);
  EXPECT_EQ(renamed.upstream->stats(UpstreamClass::kRead).tls_hostname, 1U);
  EXPECT_EQ(renamed.upstream->last_failure(),
            "hostname mismatch (it is for localhost, hooks.example, 127.0.0.1)");
}

TEST(Upstream, WhenTheServerDoesNotSpeakTls_FailsWithTls) {
  Pair pair(Pair::Mode::kH2Tls,
            [](ListenerParams& listening, UpstreamParams&) { listening.tls = nullptr; });
  Client client;
  pair.send(client, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kTls);
}

TEST(Upstream, WhenTheHandshakeHangs_FailsAsUnreachable) {
  SilentServer silent;
  Loop loop("test");
  UpstreamParams params;
  params.url = Url{"https", "127.0.0.1", silent.port, ""};
  params.tls = Certificates::client_tls();
  params.tls_timeout = milliseconds(50);
  const auto upstream = Upstream::make(loop, params);
  Client client;
  client.stream = &upstream->open(UpstreamClass::kRead, make_request("GET", "/small"), client);
  ASSERT_TRUE(run_until(loop, [&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kUnreachable);
  EXPECT_EQ(upstream->last_failure(), "TLS handshake timed out");
}

TEST(Upstream, WhenThePeerIsHalfDead_FP133_PingFindsOut) {
  SilentServer silent;
  Loop loop("test");
  UpstreamParams params;
  params.url = Url{"http", "127.0.0.1", silent.port, ""};
  params.prior_knowledge = true;
  params.ping_after = milliseconds(30);
  params.ping_timeout = milliseconds(30);
  const auto upstream = Upstream::make(loop, params);
  Client client;
  client.stream = &upstream->open(UpstreamClass::kWatch, make_request("GET", "/small"), client);
  ASSERT_TRUE(run_until(loop, [&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kReset);  // it may have been executed
  EXPECT_EQ(upstream->last_failure(), "no answer to PING");
  EXPECT_EQ(upstream->failures_in_a_row(), 1U);
}

TEST(Upstream, WhenThePeerAnswersPings_ASilentStreamLives) {
  Pair pair(Pair::Mode::kH2Tls, [](ListenerParams&, UpstreamParams& params) {
    params.ping_after = milliseconds(5);
    params.ping_timeout = milliseconds(2'000);
  });
  Client client;
  pair.send(client, make_request("GET", "/hold"), UpstreamClass::kWatch);
  ASSERT_TRUE(pair.until([&] { return pair.server.held.size() == 1; }));
  const std::uint64_t before = pair.listener->stats().bytes_in;
  // Each PING is 17 bytes in a record: ten of them are well above 300 bytes.
  ASSERT_TRUE(pair.until([&] { return pair.listener->stats().bytes_in > before + 300; }));
  EXPECT_FALSE(client.closed);
  pair.server.release();
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kOk);
}

TEST(Upstream, WhenAConnectionIsIdle_ItIsClosed) {
  Pair pair(Pair::Mode::kH2Tls,
            [](ListenerParams&, UpstreamParams& params) { params.idle_close = milliseconds(20); });
  Client client;
  pair.send(client, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  ASSERT_TRUE(pair.until([&] {
    return pair.upstream->stats(UpstreamClass::kRead).connections == 0 &&
           pair.listener->stats().connections == 0;
  }));
}

TEST(Upstream, WhenAnIdleClientStays_TheListenerClosesIt) {
  Pair pair(Pair::Mode::kH1Plain, [](ListenerParams& listening, UpstreamParams&) {
    listening.idle_timeout = milliseconds(20);
  });
  Client client;
  pair.send(client, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  ASSERT_TRUE(pair.until([&] { return pair.listener->stats().connections == 0; }));
  Client again;
  pair.send(again, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return again.closed; }));
  EXPECT_EQ(again.result, Errc::kOk);
}

/// A connection on which there was an exchange, and that the server closes in the very turn in
/// which the next request begins: the loop has looked for events already.
struct ClosedBehind {
  ClosedBehind() {
    params.url = Url{"http", "127.0.0.1", server.port, ""};
    upstream = Upstream::make(loop, params);
    Client first;
    first.stream = &upstream->open(UpstreamClass::kWrite, make_request("GET", "/"), first);
    EXPECT_TRUE(run_until(loop, [&] { return server.asked(); }));
    server.answer();
    EXPECT_TRUE(run_until(loop, [&] { return first.closed; }));
    EXPECT_EQ(first.result, Errc::kOk);
    EXPECT_EQ(upstream->stats(UpstreamClass::kWrite).connections, 1U);
  }
  /// @param close  before the request
  void send(Client& client, const char* method, bool close) {
    loop.post([this, &client, method, close] {
      if (close) {
        server.hang_up();
      }
      http::RequestHead head = make_request(method, "/", false);
      head.headers.add("content-length", "4");
      client.stream = &upstream->open(UpstreamClass::kWrite, head, client);
      client.stream->send_data(std::string_view("body"), true);
    });
  }
  /// The request arrives, and is answered.
  void expect_served(Client& client) {
    ASSERT_TRUE(run_until(loop, [&] { return client.closed || server.asked(); }));
    ASSERT_FALSE(client.closed);
    EXPECT_TRUE(server.text.ends_with("body"));
    server.answer();
    ASSERT_TRUE(run_until(loop, [&] { return client.closed; }));
    EXPECT_EQ(client.result, Errc::kOk);
  }
  HandServer server;
  Loop loop{"test"};
  UpstreamParams params;
  std::unique_ptr<Upstream> upstream;
};

TEST(Upstream, WhenTheServerClosesAsAWriteBegins_FP135_NothingOfItIsSentAndTheNextTryWorks) {
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE"}) {
    ClosedBehind rig;
    Client lost, again;
    rig.send(lost, method, true);
    ASSERT_TRUE(run_until(rig.loop, [&] { return lost.closed; }));
    EXPECT_EQ(lost.result, Errc::kNotProcessed) << method;  // so it may be repeated
    rig.send(again, method, false);
    rig.expect_served(again);
    EXPECT_EQ(rig.server.connections, 2) << method;
  }
}

// Reads are sent without a look: whoever asked repeats them, and the next try has a fresh
// connection.
TEST(Upstream, WhenTheServerClosesAsAReadBegins_FP135_TheNextTryWorks) {
  ClosedBehind rig;
  Client lost, again;
  rig.send(lost, "GET", true);
  ASSERT_TRUE(run_until(rig.loop, [&] { return lost.closed; }));
  EXPECT_TRUE(lost.result == Errc::kReset || lost.result == Errc::kClosed)
      << errc_name(lost.result);
  rig.send(again, "GET", false);
  rig.expect_served(again);
  EXPECT_EQ(rig.server.connections, 2);
}

TEST(Upstream, WhenAnIdleConnectionStays_FP135_WritesUseIt) {
  ClosedBehind rig;
  for (const char* method : {"POST", "GET", "PATCH"}) {
    Client client;
    rig.send(client, method, false);
    rig.expect_served(client);
  }
  EXPECT_EQ(rig.server.connections, 1);
}

// It may have been done: nobody but the user may say it again.
TEST(Upstream, WhenTheServerClosesAfterAWriteWasSent_FP135_ItFails) {
  ClosedBehind rig;
  Client client;
  rig.send(client, "POST", false);
  ASSERT_TRUE(run_until(rig.loop, [&] { return rig.server.asked(); }));
  rig.server.hang_up();
  ASSERT_TRUE(run_until(rig.loop, [&] { return client.closed; }));
  EXPECT_TRUE(client.result == Errc::kReset || client.result == Errc::kClosed)
      << errc_name(client.result);
  EXPECT_EQ(rig.server.connections, 1);
}

TEST(Upstream, WhenTheHostIsAName_ItIsResolvedOffTheLoop) {
  Pair pair(Pair::Mode::kH1Plain);
  UpstreamParams params = pair.upstream->params();
  params.url.host = "localhost";
  const auto upstream = Upstream::make(pair.loop, params);
  Client client;
  client.stream = &upstream->open(UpstreamClass::kRead, make_request("GET", "/small"), client);
  ASSERT_TRUE(pair.until([&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kOk);
}

TEST(Upstream, WhenTheNameDoesNotExist_FailsAsUnreachable) {
  Loop loop("test");
  UpstreamParams params;
  params.url = Url{"http", "does-not-exist.invalid", 80, ""};
  const auto upstream = Upstream::make(loop, params);
  Client client;
  client.stream = &upstream->open(UpstreamClass::kRead, make_request("GET", "/"), client);
  ASSERT_TRUE(run_until(loop, [&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kUnreachable);
}

TEST(Upstream, WhenAWaitingStreamIsDetachedOrReset_TheServerNeverSeesIt) {
  Pair pair(Pair::Mode::kH2Tls);
  Client detached, reset, sent, upgrade;
  pair.send(detached, make_request("GET", "/hold")).detach();
  pair.send(reset, make_request("GET", "/hold")).reset(Errc::kCancelled);
  http::RequestHead head = make_request("GET", "/exec", false);
  head.protocol = "echo/1";
  pair.send(upgrade, std::move(head)).detach();
  pair.send(sent, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return sent.closed && reset.closed; }));
  EXPECT_EQ(reset.result, Errc::kCancelled);
  EXPECT_FALSE(detached.closed);
  EXPECT_EQ(pair.server.requests, 1U);
}

}  // namespace
}  // namespace kintsugi::net
