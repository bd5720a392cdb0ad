// What keeps a server going for weeks: origins that come back, new certificates, clients that are
// too slow, loops that share connections evenly.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <string>
#include <thread>

#include "net/listener.h"
#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::Certificates;
using testing::Client;
using testing::make_request;
using testing::must;
using testing::Pair;
using testing::run_until;

std::uint16_t unused_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

/// An origin that can be stopped and started again.
struct Origin {
  Origin() {
    params.url = Url{"https", "127.0.0.1", unused_port(), ""};
    params.tls = Certificates::client_tls();
    params.restart_window = seconds(20);
    params.on_recovered = [this] { ++recovered; };
  }
  void start() {
    ListenerParams listening;
    listening.port = params.url.port;
    listening.tls = Certificates::server_tls();
    listener = must(Listener::open(loop, listening, server));
  }
  void connect() { upstream = Upstream::make(loop, params); }
  void send(Client& client, UpstreamClass kind) {
    client.stream = &upstream->open(kind, make_request("GET", "/small"), client);
  }
  bool until(const std::function<bool()>& condition) { return run_until(loop, condition); }
  Loop loop{"test"};
  testing::TestServer server;
  UpstreamParams params;
  int recovered = 0;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Upstream> upstream;
};

TEST(UpstreamRestart, WhenTheOriginComesBackInTime_EveryWaitingRequestIsAnswered) {
  Origin origin;
  origin.params.restart_wait = seconds(20);
  origin.connect();
  std::deque<Client> clients(30);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    origin.send(clients[i], static_cast<UpstreamClass>(i % 3));
  }
  ASSERT_TRUE(origin.until([&] { return origin.upstream->failures_in_a_row() >= 3; }));
  for (const Client& client : clients) {
    EXPECT_FALSE(client.closed);
  }
  origin.start();
  for (const Client& client : clients) {
    ASSERT_TRUE(origin.until([&] { return client.closed; }));
    EXPECT_EQ(client.status, 200);
  }
  EXPECT_EQ(origin.upstream->failures_in_a_row(), 0U);
  ASSERT_TRUE(origin.until([&] { return origin.recovered == 1; }));
}

TEST(UpstreamRestart, WhenTheOriginStaysAway_RequestsFailAfterTheirWait) {
  Origin origin;
  origin.params.restart_wait = milliseconds(60);
  origin.connect();
  Client client;
  origin.send(client, UpstreamClass::kWrite);
  ASSERT_TRUE(origin.until([&] { return client.closed; }));
  EXPECT_EQ(client.result, Errc::kUnreachable);
  EXPECT_GE(origin.upstream->failures_in_a_row(), 2U);
}

TEST(UpstreamRestart, WhenTheWindowIsOver_RequestsFailWithTheFirstRefusal) {
  Origin origin;
  origin.params.restart_window = milliseconds(1);
  origin.params.restart_wait = seconds(20);
  origin.connect();
  Client first, second;
  origin.send(first, UpstreamClass::kRead);
  ASSERT_TRUE(origin.until([&] { return first.closed; }));
  origin.send(second, UpstreamClass::kRead);
  ASSERT_TRUE(origin.until([&] { return second.closed; }));
  EXPECT_EQ(second.result, Errc::kRefused);
}

TEST(UpstreamRestart, WhenNobodyWaits_TheReturnIsNoticedAllTheSame) {
  Origin origin;
  origin.params.restart_wait = milliseconds(20);
  origin.connect();
  Client client;
  origin.send(client, UpstreamClass::kRead);
  ASSERT_TRUE(origin.until([&] { return client.closed; }));
  EXPECT_EQ(origin.recovered, 0);
  origin.start();
  ASSERT_TRUE(origin.until([&] { return origin.recovered == 1; }));
  EXPECT_EQ(origin.server.requests, 0U);
}

TEST(UpstreamReload, WhenTlsChanges_NewRequestsUseNewConnectionsAndRunningOnesGoOn) {
  Pair pair(Pair::Mode::kH2Tls);
  Client running, next;
  pair.send(running, make_request("GET", "/hold"));
  ASSERT_TRUE(pair.until([&] { return pair.server.held.size() == 1; }));
  pair.upstream->set_tls(Certificates::client_tls());
  pair.send(next, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return next.closed; }));
  EXPECT_EQ(next.result, Errc::kOk);
  EXPECT_EQ(pair.listener->stats().accepted, 2U);
  EXPECT_FALSE(running.closed);
  pair.server.release();
  ASSERT_TRUE(pair.until([&] { return running.closed; }));
  EXPECT_EQ(running.result, Errc::kOk);
  ASSERT_TRUE(pair.until([&] { return pair.listener->stats().connections == 1; }));
}

TEST(UpstreamReload, WhenTheNewCaIsAnother_NothingOldIsUsed) {
  Pair pair(Pair::Mode::kH2Tls);
  Client first, second;
  pair.send(first, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return first.closed; }));
  pair.upstream->set_tls(Certificates::client_tls(Certificates::get().other_ca.certificate_pem));
  pair.send(second, make_request("GET", "/small"));
  ASSERT_TRUE(pair.until([&] { return second.closed; }));
  EXPECT_EQ(second.result, Errc::kTls);
}

/// A raw connection that reads what is there.
struct Raw {
  explicit Raw(std::uint16_t port) : fd(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  ~Raw() { ::close(fd); }
  void send(std::string_view bytes) const {
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  bool ended() {
    char buffer[4096];
    while (true) {
      const ssize_t count = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (count <= 0) {
        return count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
      }
      received.append(buffer, static_cast<std::size_t>(count));
    }
  }
  bool got(std::string_view text) {
    (void)ended();
    return received.find(text) != std::string::npos;
  }
  int fd;
  std::string received;
};

struct Served {
  explicit Served(const ListenerParams& params)
      : listener(must(Listener::open(loop, params, server))) {}
  bool until(const std::function<bool()>& condition) { return run_until(loop, condition); }
  Loop loop{"test"};
  testing::TestServer server;
  std::unique_ptr<Listener> listener;
};

constexpr std::string_view kHello(
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 33);

TEST(ListenerLimits, WhenNoRequestComes_ClosesAtTheDeadline) {
  ListenerParams params;
  params.first_request_timeout = milliseconds(30);
  Served served(params);
  Raw silent(served.listener->port()), settings_only(served.listener->port());
  settings_only.send(kHello);
  ASSERT_TRUE(served.until([&] { return silent.ended() && settings_only.ended(); }));
  EXPECT_EQ(served.listener->stats().no_request, 2U);
}

TEST(ListenerLimits, WhenOneRequestCame_OnlyTheIdleLimitCounts) {
  ListenerParams params;
  params.first_request_timeout = milliseconds(10);
  params.idle_timeout = milliseconds(60);
  Served served(params);
  Raw client(served.listener->port());
  client.send("GET /small HTTP/1.1\r\nhost: a\r\n\r\n");
  ASSERT_TRUE(served.until([&] { return client.ended(); }));
  EXPECT_TRUE(client.got("hello"));
  EXPECT_TRUE(client.got("\r\ndate: "));
  EXPECT_EQ(served.listener->stats().no_request, 0U);
}

TEST(ListenerLimits, WhenAHeaderBlockStaysOpen_SaysGoawayAndCloses) {
  ListenerParams params;
  params.header_timeout = milliseconds(30);
  Served served(params);
  Raw client(served.listener->port());
  client.send(kHello);
  client.send({"\x00\x00\x01\x01\x01\x00\x00\x00\x01\x82", 10});  // HEADERS without END_HEADERS
  ASSERT_TRUE(served.until([&] { return client.ended(); }));
  EXPECT_TRUE(client.got({"\x07\x00\x00\x00\x00\x00", 6}));
  EXPECT_EQ(served.listener->stats().no_request, 1U);
}

TEST(ListenerLimits, WhenAClientTakesNothing_ItsStreamIsResetAndOthersLive) {
  for (const Pair::Mode mode : {Pair::Mode::kH2Tls, Pair::Mode::kH1Plain}) {
    Pair pair(mode, [](ListenerParams& listening, UpstreamParams&) {
      listening.progress_timeout = milliseconds(100);
    });
    Client slow, quiet;
    slow.lazy = true;
    slow.keep = false;
    pair.send(quiet, make_request("GET", "/hold"), UpstreamClass::kWatch);
    pair.send(slow, make_request("GET", "/big/40000000"));
    ASSERT_TRUE(pair.until([&] { return pair.listener->stats().slow_readers == 1; }));
    ASSERT_TRUE(pair.until([&] { return pair.server.closed.size() == 1; }));
    EXPECT_FALSE(quiet.closed);
    EXPECT_LE(pair.server.largest_unsent, 96U * 1024);
    pair.server.release();
    ASSERT_TRUE(pair.until([&] { return quiet.closed; }));
    EXPECT_EQ(quiet.result, Errc::kOk);
    if (slow.stream != nullptr) {
      slow.stream->detach();
    }
  }
}

TEST(ListenerLimits, WhenAClientIsSlowButReads_ItGetsEverything) {
  Pair pair(Pair::Mode::kH2Tls, [](ListenerParams& listening, UpstreamParams&) {
    listening.progress_timeout = milliseconds(400);
  });
  Client slow;
  slow.lazy = true;
  slow.keep = false;
  pair.send(slow, make_request("GET", "/big/2000000"));
  Timer pace(pair.loop);
  std::function<void()> step = [&] {
    slow.pay();
    pace.start(milliseconds(50), step);
  };
  step();
  ASSERT_TRUE(pair.until([&] { return slow.closed; }));
  EXPECT_EQ(slow.result, Errc::kOk);
  EXPECT_EQ(slow.received, 2'000'000U);
  EXPECT_EQ(pair.listener->stats().slow_readers, 0U);
}

TEST(ListenerGroup, WhenTwoLoopsShareAPort_PERF203_TwentyConnectionsSplitEvenly) {
  const auto group = std::make_shared<ListenerGroup>();
  ListenerParams params;
  params.group = group;
  params.reuse_port = true;
  Served here(params);
  params.port = here.listener->port();
  Loop other("other");
  testing::TestServer other_server;
  auto there = must(Listener::open(other, params, other_server));
  std::thread thread([&] { other.run(); });
  {
    std::deque<Raw> clients;
    for (int i = 0; i < 20; ++i) {
      Raw& client = clients.emplace_back(params.port);
      client.send("GET /small HTTP/1.1\r\nhost: a\r\n\r\n");
      ASSERT_TRUE(here.until([&] { return client.got("hello"); }));
    }
    const std::size_t count = here.listener->stats().connections;
    EXPECT_GE(count, 8U);
    EXPECT_LE(count, 12U);
  }
  other.stop();
  thread.join();
  there.reset();
}

}  // namespace
}  // namespace kintsugi::net
