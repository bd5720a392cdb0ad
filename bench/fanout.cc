/// What it costs to give one event to many streams: HTTP/2 frames and TLS records of our own engine
/// and transport, from send_data() up to send(2), in one thread and without other processes, so
/// that a percent shows also on a busy machine. The peers are in memory and read nothing of it.
/// Flags: --connections 20 --streams 50 (of each) --size 520 --events 400
///        --walk 4096 (KiB of other memory that is touched between events: caches are cold)
/// stdout: a JSON line: ns per delivery (the lowest tenth, the median), calls of malloc and bytes
///         per delivery (PERF-231), writes of TLS per event (PERF-242). What is sent to a
///         connection goes at once: 64 KiB.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/link.h"
#include "http/session.h"
#include "net/tls.h"
#include "net/transport.h"
#include "net/x509_maker.h"

namespace {

std::uint64_t mallocs = 0;

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" void* __libc_malloc(std::size_t size);
extern "C" void* malloc(std::size_t size) {
  ++mallocs;
  return __libc_malloc(size);
}
#endif

namespace kintsugi::bench {
namespace {

using Result = net::Transport::Result;

constexpr std::uint32_t kWindow = 0x7fffffff;  // nothing is given back
constexpr int kSocketBuffer = 1 << 20;
constexpr int kRoundTrips = 6;  // more than a handshake or an exchange takes

template <class T>
T must(Expected<T> expected) {
  if (!expected) {
    die(expected.error().to_string());
  }
  return std::move(*expected);
}

/// One end of a connection in memory.
template <class Session>
struct End final : http::SessionHost {
  End(net::IoScratch& scratch, int fd, const net::TlsContext& tls, bool server)
      : transport(scratch, fd) {
    SSL* ssl = SSL_new(tls.native());
    server ? SSL_set_accept_state(ssl) : SSL_set_connect_state(ssl);
    transport.set_tls(net::SslPtr(ssl));
  }
  void output_ready() noexcept override {}

  /// Frames and records of what the session has to say; they wait in the transport.
  /// @returns writes of TLS
  std::size_t write() {
    std::size_t writes = 0;
    transport.begin_send();
    while (session != nullptr) {
      const auto out = transport.unsent().first(transport.room());
      const std::size_t size = session->produce(out);
      if (size == 0) {
        session->settle();
        break;
      }
      transport.put({out.data(), size});
      ++writes;
    }
    return writes;
  }

  void exchange() {
    bool full = false;
    const bool received = transport.receive(full) == Result::kOk;
    if (transport.handshake() == Result::kOk) {
      std::string_view plain;
      if (received && transport.decrypt(plain) != Result::kOk) {
        die("TLS: " + transport.error());
      }
      (void)transport.hold();
      if (session != nullptr && !plain.empty() && !session->feed(plain)) {
        die("HTTP/2");
      }
      (void)write();
    }
    (void)transport.send();
  }

  net::Transport transport;
  std::unique_ptr<Session> session;
};

/// Both ends of a connection, with open watches. The server's has its answers begun.
class Fan final : http::Handler {
 public:
  Fan(std::array<net::IoScratch, 2>& scratch, const net::TlsContext& server_tls,
      const net::TlsContext& client_tls, std::size_t streams)
      : Fan(scratch, server_tls, client_tls, pair()) {
    http::SessionLimits limits;
    limits.max_streams = static_cast<std::uint32_t>(streams);
    limits.stream_window = limits.connection_window = kWindow;
    talk();
    server.session = http::make_h2_server(*this, peer_, server, limits);
    client.session = http::make_h2_client(client, limits);
    talk();
    for (std::size_t i = 0; i < streams; ++i) {
      http::RequestHead head;
      head.method = "GET";
      head.scheme = "https";
      head.authority = "bench";
      head.target = "/watch";
      head.end_stream = true;
      (void)must(client.session->open(head, responses_.emplace_back()));
    }
    talk();
    if (watches.size() != streams) {
      die(std::to_string(watches.size()) + " watches");
    }
  }

  /// Throws away what the client was sent. @returns bytes
  std::size_t drop() {
    static std::array<char, 256 * 1024> sink;
    std::size_t bytes = 0;
    for (ssize_t size = 1; size > 0; bytes += size > 0 ? static_cast<std::size_t>(size) : 0) {
      size = ::recv(client.transport.fd(), sink.data(), sink.size(), MSG_DONTWAIT);
    }
    return bytes;
  }

  End<http::Session> server;
  End<http::ClientSession> client;
  std::vector<http::ResponseStream*> watches;

 private:
  struct Ignored final : http::ResponseHandler {
    void on_head(http::ResponseHead, bool) noexcept override {}
    void on_data(std::string_view, bool) noexcept override {}
    void on_close(Errc) noexcept override {}
  };

  static std::pair<int, int> pair() {
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) != 0) {
      die("socketpair");
    }
    ::setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
    return {fds[0], fds[1]};
  }

  Fan(std::array<net::IoScratch, 2>& scratch, const net::TlsContext& server_tls,
      const net::TlsContext& client_tls, std::pair<int, int> fds)
      : server(scratch[0], fds.first, server_tls, true),
        client(scratch[1], fds.second, client_tls, false) {}

  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead,
                                                   http::ResponseStream& stream) noexcept override {
    stream.send_head(200, {}, false);
    watches.push_back(&stream);
    return std::make_unique<Ignored>();
  }

  void talk() {
    for (int i = 0; i < kRoundTrips; ++i) {
      client.exchange();
      server.exchange();
    }
  }

  http::PeerInfo peer_;
  std::list<Ignored> responses_;
};

double part_of(std::vector<double>& values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

void run(int argc, char** argv) {
  const Flags flags(argc, argv);
  const std::size_t streams = flags.number("streams", 50), size = flags.number("size", 520);
  const std::uint64_t events = std::max<std::uint64_t>(flags.number("events", 400), 1);
  const net::KeyPair ca = must(net::make_ca("bench"));
  net::CertificateRequest request;
  request.common_name = "bench";
  request.server = true;
  const net::KeyPair pair = must(net::issue(ca, request));
  net::TlsParams params;
  params.certificate_pem = pair.certificate_pem;
  params.key_pem = pair.key_pem;
  const auto server_tls = must(net::TlsContext::server(params));
  net::TlsParams trusting;
  trusting.verify_peer = false;
  const auto client_tls = must(net::TlsContext::client(trusting));

  const auto scratch = std::make_unique<std::array<net::IoScratch, 2>>();
  std::vector<std::unique_ptr<Fan>> fans(flags.number("connections", 20));
  for (auto& fan : fans) {
    fan = std::make_unique<Fan>(*scratch, *server_tls, *client_tls, streams);
  }
  std::vector<char> other(flags.number("walk", 4'096) * 1024);
  const std::string text(size, 'x');
  std::vector<double> costs;
  std::uint64_t writes = 0, bytes = 0, allocated = 0;
  for (std::uint64_t n = 0; n < events; ++n) {
    for (std::size_t at = 0; at < other.size(); at += 64) {
      ++other[at];
    }
    const SharedBytes event{std::string_view(text)};
    const std::uint64_t before = mallocs;
    std::uint64_t begin = now_ns(), spent = 0;
    for (const auto& fan : fans) {
      for (http::ResponseStream* watch : fan->watches) {
        watch->send_data(event, false);
      }
    }
    for (const auto& fan : fans) {
      writes += fan->server.write();
      spent += now_ns() - begin;
      if (fan->server.session->wants_write() || fan->server.transport.send() != Result::kOk) {
        die("more than goes at once: fewer --streams or a smaller --size");
      }
      bytes += fan->drop();
      begin = now_ns();
    }
    allocated += mallocs - before;
    costs.push_back(static_cast<double>(spent));
  }
  const auto each = static_cast<double>(fans.size() * streams);
  const auto all = each * static_cast<double>(events);
  std::printf(
      "{\"ns_p10\": %.1f, \"ns_p50\": %.1f, \"mallocs\": %.3f, \"bytes\": %.1f, \"writes\": "
      "%.2f}\n",
      part_of(costs, 0.1) / each, part_of(costs, 0.5) / each, static_cast<double>(allocated) / all,
      static_cast<double>(bytes) / all, static_cast<double>(writes) / static_cast<double>(events));
}

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) {
  kintsugi::bench::run(argc, argv);
  return 0;
}
