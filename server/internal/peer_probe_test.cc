#include "server/internal/peer_probe.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/listener.h"
#include "net/x509_maker.h"
#include "serving/answer.h"

namespace kintsugi::server {
namespace {

using Texts = std::vector<std::string>;

TEST(PeerProbe, OP_105_ClocksAreComparedByTheDateOfAnswers) {
  EXPECT_EQ(seconds_ahead("Thu, 01 Jan 1970 00:01:40 GMT", 40), 60);
  EXPECT_EQ(seconds_ahead("Thu, 01 Jan 1970 00:01:40 GMT", 100), 0);
  for (const char* text : {"", "yesterday", "Thu, 01 Jan 1970 00:01:40", "1970-01-01T00:00:00Z"}) {
    EXPECT_EQ(seconds_ahead(text, 0), std::nullopt) << text;
  }
}

/// Paths are what it answers: "/403" a Status, "/list" 200, "/behind" with an old date.
class Answers final : public http::Handler {
 public:
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    if (head.target == "/behind") {
      http::HeaderList headers;
      headers.add("date", "Thu, 01 Jan 1970 00:00:00 GMT");
      stream.send_head(200, headers, true);
      return nullptr;
    }
    const int status = head.target == "/list" ? 200 : std::stoi(head.target.substr(1, 3));
    const std::string body =
        head.target.ends_with("/nobody")
            ? R"({"kind":"Status","message":"User \"system:anonymous\" cannot"})"
            : R"({"kind":"Status","message":"not\nyours"})";
    return serving::answer_json(head, stream, status, body);
  }
};

/// A server on a thread of its own.
class Serving {
 public:
  explicit Serving(std::shared_ptr<net::TlsContext> tls) : loop_("serving") {
    net::ListenerParams params;
    params.tls = std::move(tls);
    listener_ = std::move(*net::Listener::open(loop_, std::move(params), answers_));
    port = listener_->port();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Serving() {
    loop_.post([this] {
      listener_.reset();
      loop_.stop();
    });
    thread_.join();
  }
  std::uint16_t port = 0;

 private:
  Answers answers_;
  net::Loop loop_;
  std::unique_ptr<net::Listener> listener_;
  std::thread thread_;
};

class PeerProbeTest : public testing::Test {
 protected:
  PeerProbeTest() : ca_(std::move(*net::make_ca("test-ca"))) {}

  std::shared_ptr<net::TlsContext> serving(const std::string& address, int days = 1) {
    net::CertificateRequest request;
    request.common_name = "server";
    request.ip_addresses = {address};
    request.server = true;
    request.days = days;
    const net::KeyPair pair = std::move(*net::issue(ca_, request));
    net::TlsParams params;
    params.certificate_pem = pair.certificate_pem;
    params.key_pem = Secret::copy_of(pair.key_pem.view());
    return std::move(*net::TlsContext::server(params));
  }

  static Peer peer(std::uint16_t port, const std::string& target, const std::string& ca = "") {
    Peer out;
    out.place = "a.yaml:1: key";
    out.name = "root";
    out.server.url = net::Url{ca.empty() ? "http" : "https", "127.0.0.1", port, ""};
    if (!ca.empty()) {
      net::TlsParams params;
      params.ca_pem = ca;
      out.server.tls = std::move(*net::TlsContext::client(params));
    }
    out.asks = Peer::Asks::kReads;
    out.target = target;
    out.required = true;
    return out;
  }

  /// Without the beginnings that all have.
  static Texts findings(std::vector<Peer> peers, PeerProbe::Bounds bounds = {}) {
    PeerProbe probe(bounds);
    for (Peer& one : peers) {
      probe.add(std::move(one));
    }
    Texts out;
    for (const ConfigFinding& one : probe.run().findings) {
      EXPECT_TRUE(one.text.starts_with("a.yaml:1: key: root (http")) << one.text;
      out.push_back((one.is_error ? "" : "warning: ") + one.text.substr(one.text.find("): ") + 3));
    }
    return out;
  }

  const net::KeyPair ca_;
};

TEST_F(PeerProbeTest, OP_105_AnswersAreJudgedInTheirOrder) {
  const Serving plain(nullptr);
  std::vector<Peer> peers;
  for (const char* target : {"/200", "/401", "/403", "/403/nobody", "/404", "/503", "/behind"}) {
    peers.push_back(peer(plain.port, target));
  }
  Texts found = findings(std::move(peers));
  ASSERT_EQ(found.size(), 6U);
  EXPECT_TRUE(found.back().starts_with("warning: its clock is ") &&
              found.back().ends_with(" s behind"))
      << found.back();
  found.pop_back();
  EXPECT_EQ(found,
            (Texts{"does not take the credential (401)", "does not allow it (403): not yours",
                   "takes this for system:anonymous (403)", "answers 404: not yours",
                   "answers 503: not yours"}));
}

TEST_F(PeerProbeTest, OP_105_WhoIsOnlyToAnswerMayNotKnowThePath) {
  const Serving plain(nullptr);
  Peer one = peer(plain.port, "/404");
  one.asks = Peer::Asks::kAnswers;
  std::vector<Peer> peers;
  peers.push_back(std::move(one));
  EXPECT_EQ(findings(std::move(peers)), Texts{});
}

TEST_F(PeerProbeTest, OP_105_CertificatesAreToldOf) {
  const net::KeyPair other = std::move(*net::make_ca("other-ca"));
  const Serving right(serving("127.0.0.1")), renamed(serving("10.0.0.1")),
      ended(serving("127.0.0.1", -1)), plain(nullptr);
  const std::string& ca = ca_.certificate_pem;
  std::vector<Peer> peers;
  peers.push_back(peer(right.port, "/200", ca));
  peers.push_back(peer(right.port, "/200", other.certificate_pem));
  peers.push_back(peer(renamed.port, "/200", ca));
  peers.push_back(peer(ended.port, "/200", ca));
  peers.push_back(peer(plain.port, "/200", ca));
  peers.back().required = false;
  const Texts found = findings(std::move(peers));
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0], "its certificate is not of the CA that is named");
  EXPECT_EQ(found[1], "its certificate does not name the host (it is for 10.0.0.1)");
  EXPECT_TRUE(found[2].starts_with("its certificate has ended (20")) << found[2];
  EXPECT_TRUE(found[3].starts_with("warning: ")) << found[3];
}

TEST_F(PeerProbeTest, OP_105_WhoIsSilentOrAwayIsToldOfInTime) {
  const int silent = ::socket(AF_INET, SOCK_STREAM, 0), away = ::socket(AF_INET, SOCK_STREAM, 0);
  std::vector<Peer> peers;
  for (const int fd : {silent, away}) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    peers.push_back(peer(::ntohs(address.sin_port), "/200"));
  }
  ASSERT_EQ(::listen(silent, 8), 0);
  ::close(away);
  PeerProbe::Bounds bounds;
  bounds.each = seconds(1);
  const Texts found = findings(std::move(peers), bounds);
  EXPECT_EQ(found, (Texts{"did not answer within 1 s", "refused the connection"}));

  std::vector<Peer> many;  // one after the other: the bound of all ends it
  for (int i = 0; i < 8; ++i) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ASSERT_EQ(::getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size), 0);
    many.push_back(peer(::ntohs(address.sin_port), "/200"));
  }
  bounds.at_once = 1;
  bounds.all = seconds(2);
  const Texts cut = findings(std::move(many), bounds);
  ASSERT_EQ(cut.size(), 8U);
  EXPECT_EQ(cut.back(), "did not answer within 2 s, as all have to");
  ::close(silent);
}

TEST_F(PeerProbeTest, OP_105_ThoseThatAnAnswerNamesAreAskedToo) {
  const Serving plain(nullptr);
  std::vector<Peer> peers;
  peers.push_back(peer(plain.port, "/list"));
  peers.back().more = [&](std::string_view body) {
    EXPECT_TRUE(body.starts_with("{"));
    std::vector<Peer> named;
    for (const char* target : {"/401", "/404"}) {
      named.push_back(peer(plain.port, target));
    }
    return named;
  };
  PeerProbe::Bounds bounds;
  bounds.at_once = 1;
  EXPECT_EQ(findings(std::move(peers), bounds).size(), 2U);
}

}  // namespace
}  // namespace kintsugi::server
