#include "net/server_credential.h"

#include <gtest/gtest.h>

#include "net/testing/http_proxy.h"
#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::Certificates;
using testing::HttpProxy;
using testing::must;
using testing::run_until;

/// Answers every request and keeps the Authorization that it had.
class Asked final : public http::Handler {
 public:
  struct Answered final : http::RequestHandler {
    void on_data(std::string_view /*bytes*/, bool /*end*/) noexcept override {}
    void on_close(Errc /*cause*/) noexcept override {}
  };
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    said.emplace_back(head.headers.get("authorization"));
    as.emplace_back(head.headers.get("impersonate-user"));
    stream.send_head(200, {}, true);
    return std::make_unique<Answered>();
  }
  std::vector<std::string> said, as;
};

std::shared_ptr<TlsContext> context_that_says(const std::string& value) {
  auto context = Certificates::client_tls();
  set_credential(*context, {.authorization = Secret::copy_of(value)});
  return context;
}

TEST(ServerCredential, WhenAContextHasOne_FP156_EveryRequestSaysIt) {
  Loop loop("test");
  Asked asked;
  ListenerParams listening;
  listening.address = "127.0.0.1";
  listening.tls = Certificates::server_tls();
  const auto listener = must(Listener::open(loop, std::move(listening), asked));
  UpstreamParams params;
  params.url = must(Url::parse("https://127.0.0.1:" + std::to_string(listener->port())));
  params.tls = context_that_says("Bearer one");
  const auto upstream = Upstream::make(loop, std::move(params));
  const auto ask = [&](const std::string& own) {
    FetchRequest request;
    request.target = "/api";
    if (!own.empty()) {
      request.headers.add("authorization", own);
    }
    bool answered = false;
    const auto call = fetch(loop, *upstream, std::move(request), [&](Expected<FetchResponse> got) {
      answered = got && got->status == 200;
    });
    ASSERT_TRUE(run_until(loop, [&] { return answered; }));
  };
  ask("");
  ask("Bearer of the request");
  upstream->set_tls(context_that_says("Basic two"));  // a token that was rotated
  ask("");
  upstream->set_tls(Certificates::client_tls());
  ask("");
  EXPECT_EQ(asked.said,
            (std::vector<std::string>{"Bearer one", "Bearer of the request", "Basic two", ""}));
}

TEST(ServerCredential, WhenItIsSetAgain_TheNewOneCounts) {
  const auto context = context_that_says("Bearer one");
  set_credential(*context, {.authorization = Secret::copy_of("Bearer two")});
  EXPECT_EQ(authorization_of(*context), "Bearer two");
  EXPECT_EQ(authorization_of(*Certificates::client_tls()), "");
}

TEST(ServerCredential, WhenOneIsSomebodyElse_FP156_EveryRequestSaysThatToo) {
  Loop loop("test");
  Asked asked;
  ListenerParams listening;
  listening.address = "127.0.0.1";
  listening.tls = Certificates::server_tls();
  const auto listener = must(Listener::open(loop, std::move(listening), asked));
  UpstreamParams params;
  params.url = must(Url::parse("https://127.0.0.1:" + std::to_string(listener->port())));
  params.tls = Certificates::client_tls();
  ServerCredential somebody;
  somebody.headers.add("impersonate-user", "me");
  set_credential(*params.tls, std::move(somebody));
  const auto upstream = Upstream::make(loop, std::move(params));
  bool answered = false;
  FetchRequest request;
  request.target = "/api";
  const auto call = fetch(loop, *upstream, std::move(request),
                          [&](Expected<FetchResponse> got) { answered = got.has_value(); });
  ASSERT_TRUE(run_until(loop, [&] { return answered; }));
  EXPECT_EQ(asked.as, (std::vector<std::string>{"me"}));
}

TEST(ServerCredential, WhenAProxyMakesTheConnection_FP156_TlsIsWithTheServer) {
  Loop loop("test");
  Asked asked;
  ListenerParams listening;
  listening.address = "127.0.0.1";
  listening.tls = Certificates::server_tls();
  const auto listener = must(Listener::open(loop, std::move(listening), asked));
  const std::string there = "127.0.0.1:" + std::to_string(listener->port());
  const auto ask = [&](HttpProxy& proxy, std::string& failure) {
    UpstreamParams params;
    params.url = must(Url::parse("https://" + there));
    params.tls = Certificates::client_tls();
    set_credential(*params.tls,
                   {.proxy = {"127.0.0.1", proxy.port(), Secret::copy_of("Basic secret")}});
    const auto upstream = Upstream::make(loop, std::move(params));
    bool ended = false, answered = false;
    FetchRequest request;
    request.target = "/api";
    request.timeout = seconds(5);
    const auto call = fetch(loop, *upstream, std::move(request), [&](Expected<FetchResponse> got) {
      ended = true;
      answered = got && got->status == 200;
    });
    EXPECT_TRUE(run_until(loop, [&] { return ended; }));
    failure = upstream->last_failure();
    return answered;
  };
  std::string failure;
  {
    HttpProxy proxy("HTTP/1.1 200 OK\r\nX: y\r\n\r\n", listener->port());
    EXPECT_TRUE(ask(proxy, failure)) << failure;
    EXPECT_EQ(proxy.asked, "CONNECT " + there + " HTTP/1.1\r\nHost: " + there +
                               "\r\nProxy-Authorization: Basic secret\r\n\r\n");
  }
  {
    HttpProxy proxy("HTTP/1.1 407 Who?\r\n\r\n", 0);
    EXPECT_FALSE(ask(proxy, failure));
    EXPECT_EQ(failure, "the proxy refuses with status 407");
  }
  {
    HttpProxy proxy("", 0);
    EXPECT_FALSE(ask(proxy, failure));
    EXPECT_EQ(failure, "the proxy closed the connection");
  }
}

}  // namespace
}  // namespace kintsugi::net
