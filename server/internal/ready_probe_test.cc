#include "server/internal/ready_probe.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "http/handler.h"
#include "net/listener.h"
#include "net/x509_maker.h"

namespace kintsugi::server {
namespace {

template <class T>
T got(Expected<T> expected) {
  if (!expected) {
    ADD_FAILURE() << expected.error().to_string();
    std::abort();
  }
  return std::move(*expected);
}

struct Keys {
  net::KeyPair ca = got(net::make_ca("test"));
  [[nodiscard]] std::shared_ptr<net::TlsContext> serving() const {
    net::CertificateRequest request;
    request.common_name = "server";
    request.ip_addresses = {"127.0.0.1"};
    request.server = true;
    const net::KeyPair pair = got(net::issue(ca, request));
    net::TlsParams params;
    params.certificate_pem = pair.certificate_pem;
    params.key_pem = pair.key_pem;
    return got(net::TlsContext::server(params));
  }
  [[nodiscard]] std::shared_ptr<net::TlsContext> asking() const {
    net::TlsParams params;
    params.ca_pem = ca.certificate_pem;
    return got(net::TlsContext::client(params));
  }
};

/// Answers its first `refusals` requests with 503.
class Server final : public http::Handler {
 public:
  Server(net::Loop& loop, const Keys& keys, int refusals) : refusals_(refusals) {
    net::ListenerParams params;
    params.tls = keys.serving();
    listener_ = got(net::Listener::open(loop, params, *this));
  }
  ~Server() override { listener_->close(); }
  [[nodiscard]] std::uint16_t port() const { return listener_->port(); }
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    asked.push_back(head.target);
    stream.send_head(refusals_-- > 0 ? 503 : 200, {}, true);
    return std::make_unique<Answered>();
  }
  std::vector<std::string> asked;

 private:
  struct Answered final : http::RequestHandler {
    void on_data(std::string_view /*bytes*/, bool /*end*/) noexcept override {}
    void on_close(Errc /*cause*/) noexcept override {}
  };
  int refusals_;
  std::unique_ptr<net::Listener> listener_;
};

struct Probing {
  /// @return whether the last was ready within `patience`.
  bool run(std::vector<ReadyProbe::Target> targets, Duration patience = seconds(20)) {
    auto probe = std::make_unique<ReadyProbe>(loop, keys.asking(), std::move(targets), [&] {
      ++told;
      loop.stop();
    });
    net::Timer limit(loop);
    limit.start(patience, [this] { loop.stop(); });
    loop.run();
    return told == 1;
  }
  net::Loop loop{"test"};
  Keys keys;
  int told = 0;
};

TEST(ReadyProbe, AsksUntilAServerIsReady) {
  Probing probing;
  Server server(probing.loop, probing.keys, 2);
  EXPECT_TRUE(probing.run({{"127.0.0.1", [&] { return server.port(); }}}));
  EXPECT_EQ(server.asked, std::vector<std::string>(3, "/readyz"));
}

TEST(ReadyProbe, AsksOneAfterTheOther) {
  Probing probing;
  Server first(probing.loop, probing.keys, 1), second(probing.loop, probing.keys, 0);
  std::size_t asked_before_the_second = 0;
  EXPECT_TRUE(probing.run({{"127.0.0.1", [&] { return first.port(); }}, {"127.0.0.1", [&] {
                                                                           asked_before_the_second =
                                                                               first.asked.size();
                                                                           return second.port();
                                                                         }}}));
  EXPECT_EQ(asked_before_the_second, 2U);
  EXPECT_EQ(second.asked.size(), 1U);
}

TEST(ReadyProbe, WaitsForAPortThatIsNotKnownYet) {
  Probing probing;
  Server server(probing.loop, probing.keys, 0);
  int questions = 0;
  EXPECT_TRUE(probing.run(
      {{"127.0.0.1", [&] { return ++questions < 4 ? std::uint16_t{0} : server.port(); }}}));
  EXPECT_EQ(questions, 4);
}

TEST(ReadyProbe, OP_202_SaysWhomItWaitsForAndWhy) {
  Probing probing;
  Server server(probing.loop, probing.keys, 3);
  std::vector<std::pair<std::string, std::string>> told;
  int questions = 0;
  std::unique_ptr<ReadyProbe> probe;
  std::vector<ReadyProbe::Target> targets = {{"127.0.0.1",
                                              [&] {
                                                if (probe != nullptr) {
                                                  told.push_back(probe->waits());
                                                }
                                                return ++questions < 3 ? std::uint16_t{0}
                                                                       : server.port();
                                              },
                                              "shard-1"}};
  probe = std::make_unique<ReadyProbe>(probing.loop, probing.keys.asking(), std::move(targets),
                                       [&] { probing.loop.stop(); });
  probing.loop.run();
  ASSERT_GE(told.size(), 4U);
  EXPECT_EQ(told[1], (std::pair<std::string, std::string>("shard-1", "it does not listen yet")));
  EXPECT_EQ(told.back().second, "it answers 503");
}

TEST(ReadyProbe, AnotherAuthoritysServerIsNotReady) {
  Probing probing;
  Server stranger(probing.loop, Keys(), 0);
  int questions = 0;
  EXPECT_FALSE(probing.run({{"127.0.0.1", [&] {
                               if (++questions == 4) {
                                 probing.loop.stop();
                               }
                               return stranger.port();
                             }}}));
  EXPECT_EQ(questions, 4);
  EXPECT_TRUE(stranger.asked.empty());
}

TEST(ReadyProbe, NoServersAreReadyAtOnce) {
  Probing probing;
  EXPECT_TRUE(probing.run({}));
}

}  // namespace
}  // namespace kintsugi::server
