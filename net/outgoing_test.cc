#include "net/outgoing.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "net/testing/http_proxy.h"
#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

using testing::Certificates;
using testing::HttpProxy;
using testing::must;
using testing::run_until;

/// A server of a tenant, and a client that may talk to it or not.
class OutgoingTest : public ::testing::Test {
 protected:
  class Server final : public http::Handler {
   public:
    std::unique_ptr<http::RequestHandler> on_request(
        http::RequestHead head, http::ResponseStream& stream) noexcept override {
      ++requests;
      last = head;
      certificates = stream.peer().certificates_der.size();
      struct Call final : http::RequestHandler {
        explicit Call(http::ResponseStream& the_stream) : stream(the_stream) {}
        void on_data(std::string_view bytes, bool) noexcept override {
          stream.consume(bytes.size());
        }
        void on_drained() noexcept override {
          if (endless) {
            stream.send_data(std::string(64U << 10, 'x'), false);
          }
        }
        void on_close(Errc) noexcept override {}
        http::ResponseStream& stream;
        bool endless = false;
      };
      auto call = std::make_unique<Call>(stream);
      if (head.target.starts_with("/silent")) {
        return call;
      }
      http::HeaderList headers;
      if (head.target.starts_with("/moved")) {
        headers.add("location", "/elsewhere");
      }
      if (head.target.starts_with("/fields")) {
        headers.add("x-long", std::string(20U << 10, 'x'));
      }
      stream.send_head(status, headers, false);
      if (head.target.starts_with("/endless")) {
        call->endless = true;
        stream.send_data(std::string(128U << 10, 'x'), false);
      } else if (!head.target.starts_with("/stuck")) {
        stream.send_data("top secret", true);
      }
      return call;
    }
    int status = 200;
    int requests = 0;
    std::size_t certificates = 0;
    http::RequestHead last;
  };

  OutgoingTest() {
    ListenerParams listening;
    listening.tls = Certificates::server_tls();
    listener_ = must(Listener::open(loop_, listening, server_));
    allow({"127.0.0.0/8"});
  }

  void allow(const std::vector<std::string>& list) {
    OutgoingRules rules;
    rules.allow = list;
    policy_ = must(make_outgoing_policy(rules));
    make();
  }
  void make() {
    client_ = std::make_unique<Outgoing>(
        loop_, policy_,
        [this](Loop& loop, const std::string& /*cluster*/, const std::string& host,
               std::uint16_t port, Outgoing::Answers done) -> std::shared_ptr<void> {
          ++look_ups_;
          auto alive = std::make_shared<int>(0);
          std::vector<SocketAddress> found;
          for (const std::string& text : names_[host]) {
            found.push_back(*numeric_address(text, port));
          }
          loop.post([weak = std::weak_ptr<int>(alive), found, done = std::move(done)] {
            if (!weak.expired()) {
              done(found.empty() ? Expected<std::vector<SocketAddress>>(
                                       fail(Errc::kUnreachable, "no such name"))
                                 : found);
            }
          });
          return alive;
        });
  }
  [[nodiscard]] std::string url(const std::string& path,
                                const std::string& host = "127.0.0.1") const {
    return "https://" + host + ":" + std::to_string(listener_->port()) + path;
  }
  [[nodiscard]] OutgoingRequest request(std::string url) const {
    OutgoingRequest out;
    out.cluster = "c1";
    out.url = std::move(url);
    out.ca_pem = Certificates::get().ca.certificate_pem;
    out.timeout = seconds(5);
    return out;
  }
  /// The body, or what a tenant hears.
  std::string send(OutgoingRequest request) {
    std::optional<std::string> text;
    const auto call = client_->send(std::move(request), [&](Expected<OutgoingAnswer> answer) {
      text = answer ? answer->body : std::string(answer.error().message());
    });
    begun_ = Clock::now();
    run_until(loop_, [&] { return text.has_value(); });
    took_ = Clock::now() - begun_;
    return *text;
  }
  std::string send(const std::string& where) { return send(request(where)); }

  Loop loop_{"test"};
  Server server_;
  std::unique_ptr<Listener> listener_;
  OutgoingPolicy policy_;
  std::map<std::string, std::vector<std::string>> names_;
  int look_ups_ = 0;
  std::unique_ptr<Outgoing> client_;
  TimePoint begun_;
  Duration took_{};
};

TEST_F(OutgoingTest, SE103_WhenAllowed_AsksWithoutAnythingOfOurs) {
  OutgoingRequest post = request(url("/hook?a=b"));
  post.query = "&timeout=30s";
  post.method = "POST";
  post.body = "question";
  EXPECT_EQ(send(std::move(post)), "top secret");
  EXPECT_EQ(server_.last.method, "POST");
  EXPECT_EQ(server_.last.target, "/hook?a=b&timeout=30s");
  EXPECT_EQ(server_.certificates, 0U);
  EXPECT_FALSE(server_.last.headers.contains("authorization"));
  EXPECT_FALSE(server_.last.headers.contains("accept-encoding"));
}

TEST_F(OutgoingTest, SE106_WhenDenied_NobodyIsDialled) {
  allow({});
  for (const char* host : {"127.0.0.1", "127.1", "2130706433", "0x7f.1", "[::1]",
                           "[::ffff:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]",
                           "169.254.169.254", "localhost.", "user@127.0.0.1"}) {
    EXPECT_EQ(send(url("/", host)), kUrlNotAllowed) << host;
  }
  EXPECT_EQ(look_ups_, 0);
  EXPECT_EQ(server_.requests, 0);
  EXPECT_EQ(listener_->stats().accepted, 0U);
}

TEST_F(OutgoingTest, SE105_WhenOneAnswerIsDenied_NobodyIsDialledAndTheTextTellsNothing) {
  OutgoingRules rules;
  rules.deny = {"127.0.0.0/8"};
  rules.ports = {listener_->port()};
  policy_ = must(make_outgoing_policy(rules));
  make();
  names_["mixed.example"] = {"8.8.8.8", "127.0.0.1"};
  names_["inner.example"] = {"127.0.0.1"};
  names_["mapped.example"] = {"::ffff:127.0.0.1"};
  for (const char* host : {"mixed.example", "inner.example", "mapped.example", "none.example"}) {
    EXPECT_EQ(send(url("/", host)), kNotReached) << host;
    EXPECT_GE(took_, milliseconds(950)) << host;
  }
  names_["localhost"] = {"127.0.0.1"};
  EXPECT_EQ(send(url("/", "localhost")), kUrlNotAllowed);
  EXPECT_EQ(listener_->stats().accepted, 0U);
}

TEST_F(OutgoingTest, SE105_WhenANameIsRebound_TheNextDialIsJudgedAnew) {
  OutgoingRules rules;
  rules.allow = {"127.0.0.1"};
  policy_ = must(make_outgoing_policy(rules));
  make();
  names_["localhost"] = {"127.0.0.1"};
  EXPECT_EQ(send(url("/", "localhost")), "top secret");
  EXPECT_EQ(server_.last.authority, "localhost:" + std::to_string(listener_->port()));
  EXPECT_EQ(look_ups_, 1);
  names_["localhost"] = {"127.0.0.2"};
  EXPECT_EQ(send(url("/", "localhost")), "top secret");  // the connection to what was judged
  EXPECT_EQ(look_ups_, 1);
  make();
  EXPECT_EQ(send(url("/", "localhost")), kUrlNotAllowed);
  EXPECT_EQ(look_ups_, 2);
  EXPECT_EQ(server_.requests, 2);
}

TEST_F(OutgoingTest, SE105_WhenTheFirstAddressIsClosed_TheNextOneIsTried) {
  names_["localhost"] = {"127.0.0.9", "127.0.0.1"};
  EXPECT_EQ(send(url("/", "localhost")), "top secret");
}

class ProxiedTest : public OutgoingTest {
 protected:
  void through(const std::string& proxy) {
    policy_.proxies = std::make_shared<const ProxyRules>("", proxy, "");
    make();
  }
  void through(const HttpProxy& proxy) {
    through("http://127.0.0.1:" + std::to_string(proxy.port()));
  }

  ProxiedTest() {
    allow({"203.0.113.5", "127.0.0.1"});
    names_["hooks.example"] = {"203.0.113.5"};
  }
};

TEST_F(ProxiedTest, SE105_AProxyIsToldTheJudgedAddressAndTlsIsWithTheName) {
  HttpProxy proxy("HTTP/1.1 200 OK\r\n\r\n", listener_->port());
  through(proxy);
  EXPECT_EQ(send(url("/", "hooks.example")), "top secret");
  const std::string there = "203.0.113.5:" + std::to_string(listener_->port());
  EXPECT_EQ(proxy.asked, "CONNECT " + there + " HTTP/1.1\r\nHost: " + there + "\r\n\r\n");
  EXPECT_EQ(server_.last.authority, "hooks.example:" + std::to_string(listener_->port()));
}

TEST_F(ProxiedTest, SE105_AnotherServerBehindTheProxyIsNotBelieved) {
  names_["other.example"] = {"203.0.113.5"};
  HttpProxy proxy("HTTP/1.1 200 OK\r\n\r\n", listener_->port());
  through(proxy);
  EXPECT_EQ(send(url("/", "other.example")), kNotVerified);
  EXPECT_EQ(server_.requests, 0);
}

TEST_F(ProxiedTest, SE106_WhatIsDeniedIsNeverNamedToAProxy) {
  names_["inner.example"] = {"10.0.0.1"};
  names_["mixed.example"] = {"203.0.113.5", "169.254.169.254"};
  HttpProxy proxy("HTTP/1.1 200 OK\r\n\r\n", listener_->port());
  through(proxy);
  for (const char* host : {"inner.example", "mixed.example"}) {
    EXPECT_EQ(send(url("/", host)), kNotReached) << host;
  }
  EXPECT_EQ(send(url("/", "169.254.169.254")), kUrlNotAllowed);
  EXPECT_EQ(proxy.asked, "");
}

TEST_F(ProxiedTest, SE105_LoopbackThatIsAllowedIsOurs) {
  names_["hooks.example"] = {"127.0.0.1"};
  HttpProxy proxy("HTTP/1.1 200 OK\r\n\r\n", listener_->port());
  through(proxy);
  EXPECT_EQ(send(url("/", "hooks.example")), "top secret");
  EXPECT_EQ(proxy.asked, "");
}

TEST_F(ProxiedTest, SE108_AProxyThatRefusesOrIsSilentReadsLikeAServerThatIs) {
  {
    HttpProxy proxy("HTTP/1.1 403 secret\r\nX: secret\r\n\r\nsecret", 0);
    through(proxy);
    EXPECT_EQ(send(url("/", "hooks.example")), kNotReached);
    EXPECT_GE(took_, milliseconds(950));
  }
  {
    HttpProxy proxy("", listener_->port());
    through(proxy);
    OutgoingRequest slow = request(url("/", "hooks.example"));
    slow.timeout = milliseconds(200);
    EXPECT_EQ(send(std::move(slow)), kNotReached);
    EXPECT_GE(took_, milliseconds(950));
    EXPECT_LE(took_, seconds(3));
    client_.reset();
  }
  through("socks5://127.0.0.1:1");
  EXPECT_EQ(send(url("/", "hooks.example")), kNotReached);
  EXPECT_EQ(server_.requests, 0);
}

TEST_F(OutgoingTest, SE108_WhateverTheAnswer_NoByteOfItIsTold) {
  server_.status = 302;
  EXPECT_EQ(send(url("/moved")), "the server answered 302");
  EXPECT_EQ(server_.last.target, "/moved");
  for (const int status : {204, 301, 307, 401, 404, 500, 503}) {
    server_.status = status;
    EXPECT_EQ(send(url("/secret")), "the server answered " + std::to_string(status));
  }
  server_.status = 200;
  EXPECT_EQ(send(url("/endless")), kNotUnderstood);
  EXPECT_EQ(send(url("/fields")), kNotUnderstood);
}

TEST_F(OutgoingTest, SE108_RefusedSilentAndSlow_ReadAlike) {
  OutgoingRequest slow = request(url("/silent"));
  slow.timeout = milliseconds(100);
  EXPECT_EQ(send(std::move(slow)), kNotReached);
  EXPECT_GE(took_, milliseconds(950));
  OutgoingRequest stuck = request(url("/stuck"));
  stuck.timeout = milliseconds(100);
  EXPECT_EQ(send(std::move(stuck)), kNotReached);
  EXPECT_GE(took_, milliseconds(950));
  EXPECT_EQ(send(url("/", "127.0.0.1").replace(8, 9, "127.0.0.7")), kNotReached);
  EXPECT_GE(took_, milliseconds(950));
  const std::string plain = url("/");
  listener_->close();
  EXPECT_EQ(send(plain), kNotReached);
  EXPECT_GE(took_, milliseconds(950));
}

TEST_F(OutgoingTest, SE103_WhenTheCertificateDoesNotHold_SaysOnlyThat) {
  OutgoingRequest other = request(url("/"));
  other.ca_pem = Certificates::get().other_ca.certificate_pem;
  EXPECT_EQ(send(std::move(other)), kNotVerified);
  OutgoingRequest system = request(url("/"));
  system.ca_pem.clear();
  EXPECT_EQ(send(std::move(system)), kNotVerified);
  OutgoingRequest broken = request(url("/"));
  broken.ca_pem = "no certificate";
  EXPECT_EQ(send(std::move(broken)), kNotVerified);
  names_["other.example"] = {"127.0.0.1"};
  EXPECT_EQ(send(url("/", "other.example")), kNotVerified);
  EXPECT_EQ(server_.requests, 0);
}

TEST_F(OutgoingTest, SE107_AtMostEightAtOnce_TheNextOnesWait) {
  std::vector<std::unique_ptr<Call>> calls;
  int done = 0;
  for (int i = 0; i < 12; ++i) {
    calls.push_back(
        client_->send(request(url("/silent")), [&](const Expected<OutgoingAnswer>&) { ++done; }));
  }
  run_until(loop_, [&] { return server_.requests == 8; });
  std::optional<std::string> other;
  OutgoingRequest neighbour = request(url("/"));
  neighbour.cluster = "c2";
  const auto call = client_->send(std::move(neighbour), [&](Expected<OutgoingAnswer> answer) {
    other = answer ? answer->body : std::string(answer.error().message());
  });
  run_until(loop_, [&] { return other.has_value(); });
  EXPECT_EQ(*other, "top secret");
  EXPECT_EQ(server_.requests, 9);
  calls.erase(calls.begin(), calls.begin() + 4);
  run_until(loop_, [&] { return server_.requests == 13; });
  EXPECT_EQ(done, 0);
}

using Grant = OutgoingBudget::Grant;
using Outcome = OutgoingBudget::Outcome;

TEST(OutgoingBudget, SE107_TwentyASecond_AndAPauseAfterFiveFailures) {
  OutgoingBudget budget;
  TimePoint now{};
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(budget.take("c", "s", now), Grant::kGo);
    budget.give_back("c", "s", Outcome::kAnswered, now, now);
  }
  EXPECT_EQ(budget.take("c", "s", now), Grant::kWait);
  EXPECT_EQ(budget.take("d", "s", now), Grant::kGo);
  now += milliseconds(51);
  EXPECT_EQ(budget.take("c", "s", now), Grant::kGo);
  budget.give_back("c", "s", Outcome::kAnswered, now, now);
  EXPECT_EQ(budget.take("c", "s", now), Grant::kWait);
  now += seconds(1);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(budget.take("c", "bad", now), Grant::kGo);
    budget.give_back("c", "bad", Outcome::kFailed, now, now);
  }
  EXPECT_EQ(budget.take("c", "bad", now), Grant::kPaused);
  EXPECT_EQ(budget.take("c", "good", now), Grant::kGo);
  EXPECT_EQ(budget.take("c", "bad", now + seconds(29)), Grant::kPaused);
  now += seconds(30);
  EXPECT_EQ(budget.take("c", "bad", now), Grant::kGo);
  EXPECT_EQ(budget.take("c", "bad", now), Grant::kPaused) << "one trial at a time";
  budget.give_back("c", "bad", Outcome::kFailed, now, now);
  EXPECT_EQ(budget.take("c", "bad", now + seconds(29)), Grant::kPaused);
  EXPECT_EQ(budget.take("c", "bad", now + seconds(30)), Grant::kGo);
  budget.give_back("c", "bad", Outcome::kAnswered, now, now);
  EXPECT_EQ(budget.take("c", "bad", now + seconds(30)), Grant::kGo);
}

TEST(OutgoingBudget, SE107_AProvenServerIsBoundByTheEightAlone) {
  OutgoingBudget budget;
  TimePoint now{};
  ASSERT_EQ(budget.take("c", "hook", now), Grant::kGo);
  budget.give_back("c", "hook", Outcome::kProven, now, now);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(budget.take("c", "hook", now), Grant::kGo) << i;
    budget.give_back("c", "hook", Outcome::kProven, now, now);
  }
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(budget.take("c", "hook", now), Grant::kGo);
  }
  EXPECT_EQ(budget.take("c", "hook", now), Grant::kWait);
  for (int i = 0; i < 8; ++i) {
    budget.give_back("c", "hook", Outcome::kAnswered, now, now);
  }
  // Nobody else gains by it, and it is forgotten after a while.
  now += seconds(301);
  for (const char* server : {"other", "hook"}) {
    int granted = 0;
    for (; budget.take("c", server, now) == Grant::kGo; ++granted) {
      budget.give_back("c", server, Outcome::kAnswered, now, now);
    }
    EXPECT_EQ(granted, 20) << server;
    now += seconds(2);
  }
  ASSERT_EQ(budget.take("d", "hook", now), Grant::kGo);
  budget.give_back("d", "hook", Outcome::kAnswered, now, now);
}

TEST(OutgoingBudget, SE107_WhatFailsTogetherIsOneFailure) {
  OutgoingBudget budget;
  TimePoint now = TimePoint() + seconds(5);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(budget.take("c", "s", now), Grant::kGo) << round;
    }
    const TimePoint granted = now;
    now += seconds(1);
    for (int i = 0; i < 5; ++i) {
      budget.give_back("c", "s", Outcome::kFailed, granted, now + milliseconds(i));
    }
    now += milliseconds(10);
  }
  ASSERT_EQ(budget.take("c", "s", now), Grant::kGo) << "four failures";
  budget.give_back("c", "s", Outcome::kFailed, now, now);
  EXPECT_EQ(budget.take("c", "s", now), Grant::kPaused);
}

TEST(OutgoingBudget, SE107_AProvenServerIsTriedAgainSoon) {
  OutgoingBudget budget;
  TimePoint now = TimePoint() + seconds(5);
  ASSERT_EQ(budget.take("c", "s", now), Grant::kGo);
  budget.give_back("c", "s", Outcome::kProven, now, now);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(budget.take("c", "s", now), Grant::kGo);
    budget.give_back("c", "s", Outcome::kFailed, now, now);
  }
  for (const int pause : {1, 2, 4, 8, 16, 30, 30}) {
    EXPECT_EQ(budget.take("c", "s", now + seconds(pause) - milliseconds(1)), Grant::kPaused);
    now += seconds(pause);
    ASSERT_EQ(budget.take("c", "s", now), Grant::kGo) << pause;
    EXPECT_EQ(budget.take("c", "s", now), Grant::kPaused);
    budget.give_back("c", "s", Outcome::kUntold, now, now);  // given up: the next one tries
    ASSERT_EQ(budget.take("c", "s", now), Grant::kGo);
    budget.give_back("c", "s", Outcome::kFailed, now, now);
  }
  now += seconds(30);
  ASSERT_EQ(budget.take("c", "s", now), Grant::kGo);
  budget.give_back("c", "s", Outcome::kProven, now, now);
  EXPECT_EQ(budget.take("c", "s", now), Grant::kGo);
}

TEST(OutgoingBudget, SE107_HoweverManyClustersAsk_FewAreRemembered) {
  OutgoingBudget::Limits limits;
  limits.max_clusters = 4;
  OutgoingBudget budget(limits);
  TimePoint now{};
  for (int i = 0; i < 100; ++i) {
    now += seconds(2);
    const std::string name = std::to_string(i);
    ASSERT_EQ(budget.take(name, "s", now), Grant::kGo);
    budget.give_back(name, "s", Outcome::kAnswered, now, now);
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(budget.take("c", "s", now), Grant::kGo);
  }
  EXPECT_EQ(budget.take("c", "s", now), Grant::kWait);
}

TEST_F(OutgoingTest, SE107_WhoRepeatsWhatNobodyGuessesIsProven) {
  const auto seconds_for = [this](const std::string& echo) {
    policy_.budget = std::make_shared<OutgoingBudget>();
    make();
    const TimePoint begun = Clock::now();
    for (int i = 0; i < 30; ++i) {
      OutgoingRequest one = request(url("/"));
      one.echo = echo;
      EXPECT_EQ(send(std::move(one)), "top secret");
    }
    return Clock::now() - begun;
  };
  EXPECT_GE(seconds_for("another"), milliseconds(450));
  EXPECT_GE(seconds_for(""), milliseconds(450));
  // On a machine that does other work one try says nothing: what is paced never takes less.
  bool unpaced = false;
  for (int i = 0; i < 10 && !unpaced; ++i) {
    unpaced = seconds_for("secret") < milliseconds(450);
  }
  EXPECT_TRUE(unpaced);
}

TEST(OutgoingResolver, WhenItsCallerGoes_NobodyIsTold) {
  Loop loop("test");
  const Outgoing::Resolve resolve = system_resolver();
  bool told = false;
  resolve(loop, "c", "localhost", 443, [&](const auto&) { told = true; }).reset();
  std::optional<bool> found;
  const auto kept = resolve(loop, "c", "localhost", 443,
                            [&](const auto& answers) { found = answers.has_value(); });
  run_until(loop, [&] { return found.has_value(); });
  EXPECT_TRUE(*found);
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace kintsugi::net
