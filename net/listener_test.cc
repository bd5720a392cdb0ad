// What a listener does with clients that are slow, odd or hostile: raw sockets against it.
#include "net/listener.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/internal/tls_internal.h"
#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::Certificates;
using testing::run_until;

/// A blocking connect, then non-blocking reads.
struct RawClient {
  explicit RawClient(std::uint16_t port) {
    fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  explicit RawClient(const std::string& path) {
    fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { ::close(fd); }

  void send(std::string_view bytes) {
    EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Collects what is there; true once the server has ended the connection.
  bool ended() {
    char buffer[4096];
    while (true) {
      const ssize_t count = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (count > 0) {
        received.append(buffer, static_cast<std::size_t>(count));
        continue;
      }
      return count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    }
  }
  bool got(std::string_view text) {
    (void)ended();
    return received.find(text) != std::string::npos;
  }
  int fd = -1;
  std::string received;
};

struct Fixture {
  explicit Fixture(ListenerParams params = {})
      : listener(testing::must(Listener::open(loop, std::move(params), server))) {}
  bool until(const std::function<bool()>& condition) { return run_until(loop, condition); }
  Loop loop{"test"};
  testing::TestServer server;
  std::unique_ptr<Listener> listener;
};

TEST(PlainListener, WhenTheSocketIsInherited_OP_211_NobodyIsRefusedBetweenTwo) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd, 8), 0);
  ListenerParams params;
  params.inherited = fd;
  params.reuse_port = true;
  std::uint16_t port = 0;
  std::unique_ptr<RawClient> early;
  {
    Fixture first(params);
    port = first.listener->port();
    ASSERT_NE(port, 0);
    Fixture beside(params);  // another loop's
    EXPECT_EQ(beside.listener->port(), port);
    first.listener->close();
    beside.listener->close();
    early = std::make_unique<RawClient>(port);  // nobody is there to take it
  }
  Fixture second(params);
  early->send("GET /small HTTP/1.1\r\nhost: x\r\n\r\n");
  ASSERT_TRUE(second.until([&] { return early->got("200"); }));
  EXPECT_EQ(second.listener->port(), port);
  ::close(fd);
}

TEST(PlainListener, WhenThePrefaceComesInPieces_ChoosesHttp2) {
  Fixture fixture;
  RawClient client(fixture.listener->port());
  const std::string_view preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  for (const char c : preface) {
    client.send({&c, 1});
    ASSERT_TRUE(fixture.until([&] { return fixture.listener->stats().bytes_in > 0; }));
  }
  client.send({"\x00\x00\x00\x04\x00\x00\x00\x00\x00", 9});  // SETTINGS
  ASSERT_TRUE(fixture.until([&] {
    return client.got({"\x04\x01\x00\x00\x00\x00", 6});
  }));  // its ACK
}

TEST(PlainListener, WhenBytesOnlyBeginLikeThePreface_ChoosesHttp1) {
  Fixture fixture;
  RawClient client(fixture.listener->port());
  client.send("P");
  ASSERT_TRUE(fixture.until([&] { return fixture.listener->stats().bytes_in == 1; }));
  client.send("OST /small HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
  ASSERT_TRUE(fixture.until([&] { return client.got("hello"); }));
  EXPECT_EQ(client.received.substr(0, 12), "HTTP/1.1 200");
}

TEST(PlainListener, WhenARequestHeadStaysIncomplete_Answers408AndCloses) {
  ListenerParams params;
  params.header_timeout = milliseconds(30);
  Fixture fixture(params);
  RawClient client(fixture.listener->port());
  client.send("GET /small HTTP/1.1\r\nhost:");
  ASSERT_TRUE(fixture.until([&] { return client.ended(); }));
  EXPECT_EQ(client.received.substr(0, 12), "HTTP/1.1 408");
}

TEST(PlainListener, WhenTheProtocolStaysUnknown_Closes) {
  ListenerParams params;
  params.header_timeout = milliseconds(30);
  Fixture fixture(params);
  RawClient client(fixture.listener->port());
  client.send("PRI");
  ASSERT_TRUE(fixture.until([&] { return client.ended(); }));
  EXPECT_EQ(fixture.listener->stats().connections, 0U);
}

TEST(PlainListener, WhenTheRequestIsGarbage_Answers400AndCountsIt) {
  Fixture fixture;
  RawClient client(fixture.listener->port());
  client.send("\x16\x03\x01 this is not HTTP\r\n\r\n");
  ASSERT_TRUE(fixture.until([&] { return client.ended(); }));
  EXPECT_EQ(client.received.substr(0, 12), "HTTP/1.1 400");
  ASSERT_TRUE(fixture.until([&] { return fixture.listener->stats().protocol_errors == 1; }));
}

TEST(PlainListener, WhenAFrameIsTooLong_SaysGoawayAndCloses) {
  Fixture fixture;
  RawClient client(fixture.listener->port());
  client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  client.send({"\x00\x00\x00\x04\x00\x00\x00\x00\x00", 9});
  client.send({"\xff\xff\xff\x00\x00\x00\x00\x00\x01", 9});
  ASSERT_TRUE(fixture.until([&] { return client.ended(); }));
  EXPECT_TRUE(client.got({"\x07\x00\x00\x00\x00\x00", 6}));  // GOAWAY
}

TEST(PlainListener, WhenTheClientEndsWithItsLastBytes_TheEndIsSeen) {
  Fixture fixture;
  {
    RawClient client(fixture.listener->port());
    client.send("GET /hold HTTP/1.1\r\nhost: a\r\n\r\n");
  }
  ASSERT_TRUE(fixture.until([&] {
    return fixture.server.closed.size() == 1 && fixture.listener->stats().connections == 0;
  }));
}

/// Counts the requests that begin in each turn.
struct TurnCounter final : http::Handler {
  explicit TurnCounter(Loop& l) : loop(l) {}
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    ++turns[loop.now()];
    return inner.on_request(std::move(head), stream);
  }
  Loop& loop;
  testing::TestServer inner;
  std::map<TimePoint, std::size_t> turns;
};

TEST(PlainListener, SE083_WhenOneHasManyConnections_ATurnBeginsSomeOfTheirRequests) {
  constexpr std::size_t kClients = 200;
  Loop loop("test");
  TurnCounter counter(loop);
  ListenerParams params;
  params.book = std::make_shared<ConnectionBook>(ConnectionLimits());
  const auto listener = testing::must(Listener::open(loop, std::move(params), counter));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(listener->port()));
  }
  ASSERT_TRUE(run_until(loop, [&] { return listener->stats().connections == kClients; }));
  for (int round = 1; round <= 3; ++round) {
    for (const auto& client : clients) {  // all has come before the loop looks
      client->received.clear();
      client->send("GET /small HTTP/1.1\r\nhost: a\r\n\r\n");
    }
    ASSERT_TRUE(run_until(loop, [&] {
      return std::all_of(clients.begin(), clients.end(),
                         [](const auto& one) { return one->got("hello"); });
    })) << "nobody is forgotten";
  }
  EXPECT_GE(counter.turns.size(), 3 * kClients / 64);
  for (const auto& [turn, begun] : counter.turns) {
    EXPECT_LE(begun, 64U);
  }
}

/// The begin of an HTTP/2 connection and so many requests, each of some 20 bytes.
std::string h2_requests(std::size_t count) {
  using namespace std::string_view_literals;
  std::string out("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  out += "\x00\x00\x00\x04\x00\x00\x00\x00\x00"sv;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t id = 2 * i + 1;
    out += "\x00\x00\x0d\x01\x05\x00\x00"sv;
    out += {static_cast<char>(id >> 8U), static_cast<char>(id & 0xFFU)};
    out +=
        "\x82\x86\x04\x06/small\x01\x01"
        "a"sv;
  }
  return out;
}

TEST(PlainListener, SE083_WhenOneReadHasManyRequests_ATurnBeginsSomeOfThem) {
  constexpr std::size_t kRequests = 240;
  for (const bool ends : {false, true}) {
    Loop loop("test");
    TurnCounter counter(loop);
    ListenerParams params;
    params.book = std::make_shared<ConnectionBook>(ConnectionLimits());
    const auto listener = testing::must(Listener::open(loop, std::move(params), counter));
    RawClient one(listener->port()), other(listener->port());
    ASSERT_TRUE(run_until(loop, [&] { return listener->stats().connections == 2; }));
    one.send(h2_requests(kRequests));  // one segment
    if (ends) {
      ::shutdown(one.fd, SHUT_WR);
    }
    other.send("GET /small HTTP/1.1\r\nhost: a\r\n\r\n");
    const auto begun = [&] {
      std::size_t all = 0;
      for (const auto& [turn, requests] : counter.turns) {
        all += requests;
      }
      return all;
    };
    ASSERT_TRUE(run_until(loop, [&] { return begun() == kRequests + 1; })) << begun();
    ASSERT_TRUE(run_until(loop, [&] { return other.got("hello"); }));
    for (const auto& [turn, requests] : counter.turns) {
      // Whoever sends no more is heard to his end at once.
      EXPECT_LE(requests, ends ? kRequests + 1 : 64U + 1'024 / 22 + 1);
    }
  }
}

TEST(PlainListener, GR_212_WhenItDrains_WhoHasConnectedAlreadyIsAnswered) {
  Fixture fixture;
  const std::string request = "GET /small HTTP/1.1\r\nhost: a\r\n\r\n";
  RawClient idle(fixture.listener->port());
  idle.send(request);
  ASSERT_TRUE(fixture.until([&] { return idle.got("hello"); }));
  RawClient accepted(fixture.listener->port());
  ASSERT_TRUE(fixture.until([&] { return fixture.listener->stats().connections == 2; }));
  RawClient waits(fixture.listener->port());  // in the backlog: the loop does not run
  bool drained = false;
  fixture.listener->drain([&] { drained = true; });
  ASSERT_TRUE(fixture.until([&] { return idle.ended(); }));
  EXPECT_FALSE(accepted.ended() || waits.ended());
  accepted.send(request);
  waits.send(request);
  ASSERT_TRUE(fixture.until([&] { return accepted.got("hello") && waits.got("hello"); }));
  ASSERT_TRUE(fixture.until([&] { return drained; }));
  EXPECT_TRUE(accepted.ended() && waits.ended());
}

TEST(PlainListener, WhenOnAUnixSocket_Answers) {
  char directory[] = "/tmp/kintsugi-net-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  ListenerParams params;
  params.address = std::string(directory) + "/admin.sock";
  {
    Fixture fixture(params);
    RawClient client(params.address);
    client.send("GET /small HTTP/1.1\r\nhost: a\r\n\r\n");
    ASSERT_TRUE(fixture.until([&] { return client.got("hello"); }));
    EXPECT_EQ(fixture.server.last_peer->address, "unix");
  }
  std::filesystem::remove_all(directory);
}

TEST(TlsListener, WhenTheHandshakeHangs_ClosesAtTheDeadline) {
  ListenerParams params;
  params.tls = Certificates::server_tls();
  params.handshake_timeout = milliseconds(30);
  Fixture fixture(params);
  RawClient client(fixture.listener->port());
  ASSERT_TRUE(fixture.until([&] { return client.ended(); }));
  EXPECT_EQ(fixture.listener->stats().handshake_errors, 1U);
  EXPECT_EQ(fixture.listener->stats().handshakes, 0U);
}

TEST(TlsListener, WhenTooManyHandshakesRun_TheRestWaitsInTheBacklog) {
  ListenerParams params;
  params.tls = Certificates::server_tls();
  params.max_handshakes = 2;
  params.crowded_handshake_timeout = seconds(3'600);
  Fixture fixture(params);
  auto first = std::make_unique<RawClient>(fixture.listener->port());
  RawClient second(fixture.listener->port()), third(fixture.listener->port());
  ASSERT_TRUE(fixture.until([&] { return fixture.listener->stats().accepted >= 2; }));
  EXPECT_EQ(fixture.listener->stats().handshakes, 2U);
  first.reset();
  ASSERT_TRUE(fixture.until([&] { return fixture.listener->stats().accepted == 3; }));
  EXPECT_EQ(fixture.listener->stats().handshakes, 2U);
}

TEST(TlsListener, WhenSilentClientsHoldAllHandshakes_TheOldestGivesWayToWhoWaits) {
  ListenerParams params;
  params.tls = Certificates::server_tls();
  params.max_handshakes = 2;
  params.handshake_timeout = seconds(3'600);
  params.crowded_handshake_timeout = milliseconds(20);
  Fixture fixture(params);
  RawClient first(fixture.listener->port());
  ASSERT_TRUE(fixture.until([&] { return fixture.listener->stats().accepted == 1; }));
  RawClient second(fixture.listener->port());
  ASSERT_TRUE(fixture.until([&] { return fixture.listener->stats().accepted == 2; }));
  bool later = false;
  Timer timer(fixture.loop);
  timer.start(milliseconds(200), [&] { later = true; });
  ASSERT_TRUE(fixture.until([&] { return later; }));
  EXPECT_EQ(fixture.listener->stats().handshakes, 2U) << "nobody waits for their places";

  UpstreamParams calling;
  calling.url = *Url::parse("https://127.0.0.1:" + std::to_string(fixture.listener->port()));
  calling.tls = Certificates::client_tls();
  const auto upstream = Upstream::make(fixture.loop, calling);
  testing::Client client;
  client.stream =
      &upstream->open(UpstreamClass::kRead, testing::make_request("GET", "/small"), client);
  ASSERT_TRUE(fixture.until([&] { return client.ended && first.ended(); }));
  EXPECT_EQ(client.body, "hello");
  EXPECT_EQ(fixture.listener->stats().handshakes, 1U);
  EXPECT_FALSE(second.ended());
}

TEST(TlsListener, WhenTheClientSpeaksPlainText_CountsAHandshakeError) {
  ListenerParams params;
  params.tls = Certificates::server_tls();
  Fixture fixture(params);
  RawClient client(fixture.listener->port());
  client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  ASSERT_TRUE(fixture.until([&] { return client.ended(); }));
  EXPECT_EQ(fixture.listener->stats().handshake_errors, 1U);
}

/// What a client of TLS says first.
std::string client_hello() {
  const SslPtr ssl(SSL_new(Certificates::client_tls()->native()));
  SSL_set_connect_state(ssl.get());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  EXPECT_LE(SSL_do_handshake(ssl.get()), 0);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(SSL_get_wbio(ssl.get()), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

TEST(TlsListener, WhenManyShakeHandsAtOnce_PERF214_ATurnTakesAFewAndAllHaveTheirs) {
  ListenerParams params;
  params.tls = Certificates::server_tls();
  Fixture fixture(std::move(params));
  const std::string hello = client_hello();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<RawClient>(fixture.listener->port()));
    clients.back()->send(hello);
  }
  std::size_t answered = 0, most = 0;
  std::function<void()> every_turn = [&] {
    std::size_t now = 0;
    for (const auto& client : clients) {
      now += client->ended() || !client->received.empty() ? 1U : 0U;
    }
    most = std::max(most, now - answered);
    answered = now;
    fixture.loop.post(every_turn);
  };
  fixture.loop.post(every_turn);
  EXPECT_TRUE(fixture.until([&] { return answered == clients.size(); }));
  EXPECT_EQ(fixture.listener->stats().handshakes, clients.size());
  EXPECT_LE(most, 8U);
}

/// A client whose TLS is driven by hand.
struct TlsClient {
  explicit TlsClient(Fixture& f) : fixture(f), raw(f.listener->port()) {
    SSL_set_connect_state(ssl.get());
    SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    EXPECT_TRUE(fixture.until([&] { return SSL_do_handshake(ssl.get()) == 1 || (pass(), false); }));
    pass();
  }
  /// What each side has to say.
  void pass() {
    char* bytes = nullptr;
    if (const long size = BIO_get_mem_data(SSL_get_wbio(ssl.get()), &bytes); size > 0) {
      // The server may be gone.
      (void)::send(raw.fd, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
      (void)BIO_reset(SSL_get_wbio(ssl.get()));
    }
    over = raw.ended();
    BIO_write(SSL_get_rbio(ssl.get()), raw.received.data(), static_cast<int>(raw.received.size()));
    raw.received.clear();
    char plain[4096];
    for (int count = 0; (count = SSL_read(ssl.get(), plain, sizeof plain)) > 0;) {
      heard.append(plain, static_cast<std::size_t>(count));
    }
  }
  /// One byte a record.
  void say(std::string_view text) {
    for (const char& byte : text) {
      (void)SSL_write(ssl.get(), &byte, 1);
    }
  }
  bool hears(std::string_view text) {
    return fixture.until([&] {
      pass();
      return over || heard.find(text) != std::string::npos;
    }) && heard.find(text) != std::string::npos;
  }
  bool ends() {
    return fixture.until([&] {
      pass();
      return over;
    });
  }
  Fixture& fixture;
  RawClient raw;
  const SslPtr ssl{SSL_new(Certificates::client_tls()->native())};
  std::string heard;
  bool over = false;
};

ListenerParams with_tls() {
  ListenerParams params;
  params.tls = Certificates::server_tls();
  return params;
}

TEST(TlsListener, SE133_WhenAHelloIsTooLong_ClosesBeforeItIsWhole) {
  Fixture fixture(with_tls());
  // Records of a message of 100 kB, of which 18 kB come.
  std::string hello("\x16\x03\x01\x20\x00\x01\x01\x86\xa0", 9);
  hello += std::string(0x2000 - 4, 'x');
  const std::string more = std::string("\x16\x03\x01\x20\x00", 5) + std::string(0x2000, 'x');
  RawClient client(fixture.listener->port());
  client.send(hello + more + more);
  ASSERT_TRUE(fixture.until([&] { return client.ended(); }));
  EXPECT_EQ(fixture.listener->stats().handshake_errors, 1U);
  TlsClient usual(fixture);
  usual.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(usual.hears("HTTP/1.1 "));
}

TEST(TlsListener, SE133_WhenKeysAreUpdatedAgainAndAgain_Closes) {
  Fixture fixture(with_tls());
  TlsClient client(fixture);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(SSL_key_update(client.ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    client.say("\r\n");
    client.pass();
  }
  client.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(client.hears("HTTP/1.1 ")) << "ten a minute are nobody's attack";
  for (int i = 0; i < 30 && !client.over; ++i) {
    (void)SSL_key_update(client.ssl.get(), SSL_KEY_UPDATE_REQUESTED);
    client.say("G");
    client.pass();
  }
  EXPECT_TRUE(client.ends());
}

TEST(TlsListener, SE133_WhenRecordsAreTiny_ClosesOnceTheyAreManyAndBringNothing) {
  Fixture fixture(with_tls());
  TlsClient client(fixture);
  client.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(client.hears("HTTP/1.1 "));
  client.say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
  client.say(std::string(8'000, 'x'));
  const std::uint64_t before = fixture.listener->stats().connections;
  client.pass();
  EXPECT_FALSE(client.over);
  EXPECT_EQ(before, 1U);
  for (int i = 0; i < 10 && !client.over; ++i) {
    client.say(std::string(1'000, 'x'));
    client.pass();
  }
  EXPECT_TRUE(client.ends());
}

}  // namespace
}  // namespace kintsugi::net
