#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/listener.h"
#include "net/loop.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "net/x509_maker.h"

/// For the tests of net/ only: a loop that runs until something is true, certificates, a server
/// with known answers, and a client that counts.
namespace kintsugi::net::testing {

/// The value; ends the process with the message when there is none.
template <class T>
T must(Expected<T> expected) {
  if (!expected) {
    std::fprintf(stderr, "%s\n", expected.error().to_string().c_str());
    std::abort();
  }
  return std::move(*expected);
}

/// Runs `loop` until `condition` holds; fails the test after 30 s.
inline bool run_until(Loop& loop, const std::function<bool()>& condition) {
  bool met = false;
  std::function<void()> check;
  Timer pace(loop), limit(loop);
  check = [&] {
    met = condition();
    if (met) {
      loop.stop();
    } else {
      pace.start(milliseconds(1), check);
    }
  };
  pace.start(milliseconds(1), check);
  limit.start(seconds(30), [&loop] { loop.stop(); });
  loop.run();
  EXPECT_TRUE(met) << "condition not met within 30 s";
  return met;
}

struct Certificates {
  KeyPair ca, other_ca, server, client, expired;

  static const Certificates& get() {
    static const Certificates made = [] {
      Certificates c;
      c.ca = must(make_ca("test-ca"));
      c.other_ca = must(make_ca("other-ca"));
      CertificateRequest serving;
      serving.common_name = "server";
      serving.dns_names = {"localhost", "hooks.example"};
      serving.ip_addresses = {"127.0.0.1"};
      serving.server = true;
      c.server = must(issue(c.ca, serving));
      serving.days = -1;
      c.expired = must(issue(c.ca, serving));
      CertificateRequest user;
      user.common_name = "alice";
      user.organizations = {"system:masters"};
      user.client = true;
      c.client = must(issue(c.other_ca, user));
      return c;
    }();
    return made;
  }

  static std::shared_ptr<TlsContext> server_tls(const KeyPair& pair = get().server) {
    TlsParams params;
    params.certificate_pem = pair.certificate_pem;
    params.key_pem = pair.key_pem;
    params.request_client_certificate = true;
    return must(TlsContext::server(params));
  }
  static std::shared_ptr<TlsContext> client_tls(const std::string& ca = get().ca.certificate_pem) {
    TlsParams params;
    params.ca_pem = ca;
    params.certificate_pem = get().client.certificate_pem;
    params.key_pem = get().client.key_pem;
    return must(TlsContext::client(params));
  }
};

/// Answers: /echo the body as it comes, /big/<n> that many bytes, /hold nothing until release(),
/// /small "hello"; Upgrade: 101 and the bytes back.
class TestServer final : public http::Handler {
 public:
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    ++requests;
    last_peer = &stream.peer();
    last_identity = stream.peer().identity;
    last_version = head.version;
    if (!head.protocol.empty()) {
      http::HeaderList headers;
      headers.add("connection", "Upgrade");
      headers.add("upgrade", head.protocol);
      stream.send_head(101, headers, false);
      return std::make_unique<Echo>(*this, stream);
    }
    if (head.target == "/echo") {
      stream.send_head(200, {}, false);
      return std::make_unique<Echo>(*this, stream);
    }
    if (head.target.starts_with("/big/")) {
      stream.send_head(200, {}, false);
      return std::make_unique<Big>(*this, stream, std::stoul(head.target.substr(5)));
    }
    if (head.target == "/hold") {
      auto made = std::make_unique<Held>(*this, stream);
      held.push_back(made.get());
      return made;
    }
    http::HeaderList headers;
    headers.add("content-length", "5");
    stream.send_head(200, headers, false);
    stream.send_data("hello", true);
    return std::make_unique<Base>(*this, stream);
  }

  /// Answers everything that is held.
  void release() {
    for (Base* item : std::exchange(held, {})) {
      item->stream.send_head(200, {}, true);
    }
  }

  struct Base : http::RequestHandler {
    Base(TestServer& the_server, http::ResponseStream& the_stream)
        : server(the_server), stream(the_stream) {
      ++server.open;
    }
    ~Base() override { --server.open; }
    void on_data(std::string_view bytes, bool /*end*/) noexcept override {
      stream.consume(bytes.size());
    }
    void on_close(Errc cause) noexcept override {
      std::erase(server.held, this);
      server.closed.push_back(cause);
    }
    TestServer& server;
    http::ResponseStream& stream;
  };

  struct Held final : Base {
    using Base::Base;
  };

  struct Echo final : Base {
    using Base::Base;
    void on_data(std::string_view bytes, bool end) noexcept override {
      stream.send_data(bytes, end);
      owed += bytes.size();
      on_drained_or_empty();
    }
    void on_drained() noexcept override { on_drained_or_empty(); }
    void on_drained_or_empty() {
      server.largest_unsent = std::max(server.largest_unsent, stream.unsent_bytes());
      if (stream.unsent_bytes() <= 64 * 1024) {
        stream.consume(std::exchange(owed, 0));
      }
    }
    std::size_t owed = 0;
  };

  struct Big final : Base {
    Big(TestServer& the_server, http::ResponseStream& the_stream, std::size_t size)
        : Base(the_server, the_stream), left(size) {
      on_drained();
    }
    void on_drained() noexcept override {
      static const std::string chunk(16 * 1024, 'x');
      while (left > 0 && stream.unsent_bytes() <= 64 * 1024) {
        const std::size_t count = std::min(left, chunk.size());
        left -= count;
        stream.send_data(std::string_view(chunk).substr(0, count), left == 0);
      }
      server.largest_unsent = std::max(server.largest_unsent, stream.unsent_bytes());
      server.left = left;
    }
    std::size_t left;
  };

  std::size_t requests = 0, open = 0, largest_unsent = 0, left = 0;
  int last_version = 0;
  const http::PeerInfo* last_peer = nullptr;
  std::shared_ptr<const void> last_identity;
  std::vector<Base*> held;
  std::vector<Errc> closed;
};

/// One request, counted. Gives credit back at once unless `lazy`.
struct Client final : http::ResponseHandler {
  void on_head(http::ResponseHead head, bool end) noexcept override {
    status = head.status;
    ended = end;
  }
  void on_data(std::string_view bytes, bool end) noexcept override {
    received += bytes.size();
    if (keep) {
      body.append(bytes);
    }
    ended = ended || end;
    if (lazy) {
      owed += bytes.size();
    } else if (stream != nullptr && !bytes.empty()) {
      stream->consume(bytes.size());
    }
  }
  void on_drained() noexcept override {
    if (on_room) {
      on_room();
    }
  }
  void on_close(Errc cause) noexcept override {
    closed = true;
    result = cause;
    stream = nullptr;
  }
  void pay() {
    if (stream != nullptr) {
      stream->consume(std::exchange(owed, 0));
    }
  }

  http::RequestStream* stream = nullptr;
  bool lazy = false, keep = true, closed = false, ended = false;
  int status = 0;
  std::size_t received = 0, owed = 0;
  std::string body;
  Errc result = Errc::kOk;
  std::function<void()> on_room;
};

inline http::RequestHead make_request(std::string method, std::string target, bool end = true) {
  http::RequestHead head;
  head.method = std::move(method);
  head.target = std::move(target);
  head.end_stream = end;
  return head;
}

/// A listener and a pool that talks to it, on one loop.
class Pair {
 public:
  enum class Mode { kH2Tls, kH1Tls, kH1Plain, kH2Plain };
  static constexpr Mode kModes[] = {Mode::kH2Tls, Mode::kH1Tls, Mode::kH1Plain, Mode::kH2Plain};

  explicit Pair(Mode mode, std::function<void(ListenerParams&, UpstreamParams&)> change = nullptr) {
    ListenerParams listening;
    const bool tls = mode == Mode::kH2Tls || mode == Mode::kH1Tls;
    const bool http2 = mode == Mode::kH2Tls || mode == Mode::kH2Plain;
    if (tls) {
      listening.tls = Certificates::server_tls();
      upstream_params.tls = Certificates::client_tls();
    }
    upstream_params.http2 = http2;
    upstream_params.prior_knowledge = mode == Mode::kH2Plain;
    upstream_params.url.scheme = tls ? "https" : "http";
    upstream_params.url.host = "127.0.0.1";
    if (change) {
      change(listening, upstream_params);
    }
    listener = must(Listener::open(loop, listening, server));
    upstream_params.url.port = listener->port();
    upstream = Upstream::make(loop, upstream_params);
  }

  http::RequestStream& send(Client& client, http::RequestHead head,
                            UpstreamClass kind = UpstreamClass::kRead) {
    client.stream = &upstream->open(kind, std::move(head), client);
    return *client.stream;
  }
  bool until(const std::function<bool()>& condition) { return run_until(loop, condition); }

  Loop loop{"test"};
  TestServer server;
  UpstreamParams upstream_params;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Upstream> upstream;
};

}  // namespace kintsugi::net::testing
