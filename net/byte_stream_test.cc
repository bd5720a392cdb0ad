// Byte streams over loopback, to servers that are written by hand.
#include "net/byte_stream.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "net/internal/tls_internal.h"
#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::Certificates;
using testing::run_until;

/// Listens on loopback; what it does with its one connection runs on a thread.
class Server {
 public:
  using Serve = std::function<void(int fd)>;
  explicit Server(Serve serve) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    EXPECT_EQ(::listen(fd_, 4), 0);
    if (serve) {
      thread_ = std::thread([this, serve = std::move(serve)] {
        const int peer = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
        if (peer >= 0) {
          serve(peer);
          ::close(peer);
        }
      });
    }
  }
  ~Server() {
    ::shutdown(fd_, SHUT_RDWR);
    if (thread_.joinable()) {
      thread_.join();
    }
    ::close(fd_);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  std::uint16_t port = 0;

 private:
  int fd_ = -1;
  std::thread thread_;
};

void echo(int fd) {
  char bytes[8'192];
  for (ssize_t count = 0; (count = ::recv(fd, bytes, sizeof bytes, 0)) > 0;) {
    for (ssize_t at = 0; at < count;) {
      const ssize_t sent =
          ::send(fd, bytes + at, static_cast<std::size_t>(count - at), MSG_NOSIGNAL);
      if (sent <= 0) {
        return;
      }
      at += sent;
    }
  }
}

/// The same in TLS, and an orderly end after `most` bytes.
Server::Serve tls_echo(std::shared_ptr<TlsContext> context, std::size_t most = 1U << 30U) {
  return [context = std::move(context), most](int fd) {
    SslPtr ssl(SSL_new(context->native()));
    SSL_set_fd(ssl.get(), fd);
    if (SSL_accept(ssl.get()) != 1) {
      return;
    }
    char bytes[8'192];
    std::size_t total = 0;
    for (int count = 0; total < most && (count = SSL_read(ssl.get(), bytes, sizeof bytes)) > 0;) {
      total += static_cast<std::size_t>(count);
      if (SSL_write(ssl.get(), bytes, count) != count) {
        return;
      }
    }
    SSL_shutdown(ssl.get());
  };
}

struct Opened {
  explicit Opened(std::uint16_t port, std::function<void(ByteStream::Params&)> edit = {}) {
    ByteStream::Params params;
    params.host = "127.0.0.1";
    params.port = port;
    if (edit) {
      edit(params);
    }
    ByteStream::Callbacks callbacks;
    callbacks.on_open = [this] { ++opened; };
    callbacks.on_bytes = [this](std::string_view bytes) { got += bytes; };
    callbacks.on_closed = [this](const std::string& error) {
      ++closed;
      fault = error;
    };
    callbacks.on_written = [this] { ++written; };
    stream = std::make_unique<ByteStream>(loop, std::move(params), std::move(callbacks));
  }
  bool until(const std::function<bool()>& met) { return run_until(loop, met); }

  Loop loop{"test"};
  std::unique_ptr<ByteStream> stream;
  int opened = 0, closed = 0, written = 0;
  std::string got, fault = "none";
};

std::function<void(ByteStream::Params&)> with_tls(std::string host, std::string address = {},
                                                  std::string ca = {}) {
  return [host = std::move(host), address = std::move(address),
          ca = std::move(ca)](ByteStream::Params& params) {
    params.host = host;
    params.address = address;
    params.tls = ca.empty() ? Certificates::client_tls() : Certificates::client_tls(ca);
  };
}

TEST(ByteStream, PlainBytesGoBothWays) {
  Server server(echo);
  Opened o(server.port);
  EXPECT_TRUE(o.stream->write("early "));
  ASSERT_TRUE(o.until([&] { return o.opened == 1; }));
  EXPECT_TRUE(o.stream->is_open());
  EXPECT_TRUE(o.stream->write("late"));
  ASSERT_TRUE(o.until([&] { return o.got == "early late"; }));
  EXPECT_EQ(o.stream->queued(), 0U);
  o.stream->close();
  EXPECT_FALSE(o.stream->write("x"));
  ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
  EXPECT_EQ(o.fault, "");
  EXPECT_EQ(o.opened, 1);
}

TEST(ByteStream, MegabytesGoBothWaysPlainAndInTls) {
  std::string sent;
  for (int i = 0; sent.size() < 6U << 20U; ++i) {
    sent += std::to_string(i);
  }
  for (const bool tls : {false, true}) {
    Server server(tls ? tls_echo(Certificates::server_tls()) : Server::Serve(echo));
    Opened o(server.port, tls ? with_tls("127.0.0.1") : std::function<void(ByteStream::Params&)>());
    ASSERT_TRUE(o.until([&] { return o.opened == 1; })) << o.fault;
    ASSERT_TRUE(o.stream->write(sent));
    EXPECT_GE(o.stream->queued(), sent.size());
    ASSERT_TRUE(o.until([&] { return o.got.size() >= sent.size(); }));
    EXPECT_TRUE(o.got == sent);
    EXPECT_EQ(o.stream->queued(), 0U);
    EXPECT_GT(o.written, 0);
    EXPECT_EQ(o.loop.stats().writes_outside_flush, 0U);
  }
}

TEST(ByteStream, TheCertificateIsForTheHostWhateverTheAddress) {
  for (const char* host : {"hooks.example", "127.0.0.1"}) {
    Server server(tls_echo(Certificates::server_tls(), 5));
    Opened o(server.port, with_tls(host, "127.0.0.1"));
    (void)o.stream->write("hello");
    ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
    EXPECT_EQ(o.got, "hello");
    EXPECT_EQ(o.fault, "");
  }
  Server server(tls_echo(Certificates::server_tls()));
  Opened o(server.port, with_tls("other.example", "127.0.0.1"));
  ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
  EXPECT_EQ(o.opened, 0);
  EXPECT_NE(o.fault.find("ostname mismatch"), std::string::npos) << o.fault;
}

TEST(ByteStream, WhenTheCertificateIsWrong_ItNeverOpens) {
  struct Case {
    const KeyPair* pair;
    std::string ca;
    std::string_view fault;
  };
  const Certificates& known = Certificates::get();
  for (const Case& each : {Case{&known.server, known.other_ca.certificate_pem, "certificate"},
                           Case{&known.expired, known.ca.certificate_pem, "expired"}}) {
    Server server(tls_echo(Certificates::server_tls(*each.pair)));
    Opened o(server.port, with_tls("127.0.0.1", "", each.ca));
    (void)o.stream->write("secret");
    ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
    EXPECT_EQ(o.opened, 0);
    EXPECT_NE(o.fault.find(each.fault), std::string::npos) << o.fault;
  }
}

TEST(ByteStream, WhenNobodyListens_ItIsRefused) {
  std::uint16_t port = 0;
  { port = Server({}).port; }
  Opened o(port);
  ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
  EXPECT_EQ(o.opened, 0);
  EXPECT_EQ(o.fault, "Connection refused");
  EXPECT_TRUE(o.stream->is_closed());
}

TEST(ByteStream, WhenTheNameIsUnknown_ItSaysSo) {
  Opened o(1, [](ByteStream::Params& params) { params.host = ""; });
  ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
  EXPECT_NE(o.fault.find("no name"), std::string::npos) << o.fault;
}

TEST(ByteStream, WhenThePeerSaysNothingInTheHandshake_ItEndsAtItsDeadline) {
  Server server({});
  Opened o(server.port, [](ByteStream::Params& params) {
    params.tls = Certificates::client_tls();
    params.open_deadline = milliseconds(50);
  });
  ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
  EXPECT_EQ(o.fault, "TLS handshake timed out");
  EXPECT_EQ(o.opened, 0);
}

TEST(ByteStream, WhenThePeerEndsDuringTheHandshake_ItSaysSo) {
  Server server([](int) {});
  Opened o(server.port, with_tls("127.0.0.1"));
  ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
  EXPECT_EQ(o.opened, 0);
  EXPECT_NE(o.fault, "");
}

TEST(ByteStream, WhenThePeerResets_TheCauseIsTold) {
  Server server([](int fd) {
    char byte = 0;
    (void)::recv(fd, &byte, 1, 0);
    const linger now{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  });
  Opened o(server.port);
  (void)o.stream->write("x");
  ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
  EXPECT_EQ(o.opened, 1);
  EXPECT_EQ(o.fault, "Connection reset by peer");
}

TEST(ByteStream, WhenThePeerEndsInOrder_ThereIsNoFault) {
  Server server([](int fd) { (void)::send(fd, "bye", 3, MSG_NOSIGNAL); });
  Opened o(server.port);
  ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
  EXPECT_EQ(o.got, "bye");
  EXPECT_EQ(o.fault, "");
}

TEST(ByteStream, WhenThePeerReadsNothing_TheQueueIsBounded) {
  Server server({});
  Opened o(server.port, [](ByteStream::Params& params) { params.max_queued = 1U << 20U; });
  ASSERT_TRUE(o.until([&] { return o.opened == 1; }));
  const std::string part(64 * 1024, 'x');
  int turns = 0;
  ASSERT_TRUE(o.until([&] {
    while (o.stream->write(part)) {
    }
    return ++turns > 200;
  }));
  EXPECT_LE(o.stream->queued(), 1U << 20U);
  EXPECT_GT(o.stream->queued(), (1U << 20U) - 2 * part.size());
  EXPECT_FALSE(o.stream->write(std::string(2U << 20U, 'x')));
  // What waits is not waited for longer than a second.
  o.stream->close();
  ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
}

TEST(ByteStream, WhenItIsDestroyed_NobodyIsCalled) {
  Server server([](int fd) { (void)::send(fd, "bye", 3, MSG_NOSIGNAL); });
  for (const char* host : {"127.0.0.1", "localhost"}) {
    Opened o(server.port, [&](ByteStream::Params& params) { params.host = host; });
    o.stream.reset();
    int turns = 0;
    ASSERT_TRUE(o.until([&] { return ++turns > 20; }));
    EXPECT_EQ(o.opened + o.closed, 0);
  }
  Opened o(server.port);
  o.stream->close();
  ASSERT_TRUE(o.until([&] { return o.closed == 1; }));
  EXPECT_EQ(o.opened, 0);
}

}  // namespace
}  // namespace kintsugi::net
