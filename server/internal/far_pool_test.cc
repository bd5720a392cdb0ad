// What a pool does for a server beyond a link of a distance (GR-507).
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aggregation/asking/member_call.h"
#include "net/congestion.h"
#include "net/server_credential.h"
#include "net/testing/support.h"
#include "server/internal/far_link.h"
#include "shards/shard_client.h"

namespace kintsugi::server {
namespace {

using net::UpstreamClass;
using net::testing::Certificates;
using net::testing::Client;
using net::testing::make_request;
using net::testing::must;
using net::testing::run_until;

/// Keeps the question, answers "hello".
struct Asked final : http::Handler {
  struct Nothing final : http::RequestHandler {
    void on_data(std::string_view /*bytes*/, bool /*end*/) noexcept override {}
    void on_close(Errc /*cause*/) noexcept override {}
  };
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    encodings.emplace_back(head.headers.get("accept-encoding"));
    http::HeaderList headers;
    headers.add("content-length", "5");
    stream.send_head(200, headers, false);
    stream.send_data("hello", true);
    return std::make_unique<Nothing>();
  }
  std::vector<std::string> encodings;
};

struct Answered final : aggregation::MemberCall::Listener {
  void on_head(const http::ResponseHead& /*head*/) override {}
  void on_data(std::string_view bytes) override { body += bytes; }
  void on_end(Errc cause) override { end = cause; }
  void on_fault() override { end = Errc::kInternal; }
  std::string body;
  std::optional<Errc> end;
};

class FarPoolTest : public ::testing::Test {
 protected:
  void serve(http::Handler& handler, Duration one_way = milliseconds(15),
             std::shared_ptr<net::ConnectionBook> book = nullptr) {
    net::ListenerParams listening;
    listening.book = std::move(book);
    listening.tls = Certificates::server_tls();
    listener = must(net::Listener::open(loop, listening, handler));
    FarLink::Params params;
    params.delay = one_way;
    link = must(FarLink::open(loop, params));
  }
  [[nodiscard]] net::UpstreamParams params_to(bool far) const {
    net::UpstreamParams params;
    params.url.scheme = "https";
    params.url.host = "127.0.0.1";
    params.url.port = listener->port();
    params.tls = Certificates::client_tls();
    net::ServerCredential credential;
    credential.own_way = true;
    if (far) {
      credential.proxy.host = "127.0.0.1";
      credential.proxy.port = link->port();
    }
    net::set_credential(*params.tls, std::move(credential));
    return params;
  }
  void dial(bool far) { upstream = net::Upstream::make(loop, params_to(far)); }
  void send(Client& client, const std::string& target, UpstreamClass kind) {
    client.stream = &upstream->open(kind, make_request("GET", target), client);
  }
  bool until(const std::function<bool()>& condition) { return run_until(loop, condition); }
  /// Streams that the server holds, by connection.
  [[nodiscard]] std::map<const void*, int> by_connection() const {
    std::map<const void*, int> out;
    for (const auto* one : server.held) {
      ++out[&one->stream.peer()];
    }
    return out;
  }

  std::deque<Client> clients;  // hear of the end of all that follows
  net::Loop loop{"test"};
  net::testing::TestServer server;
  std::unique_ptr<net::Listener> listener;
  std::unique_ptr<FarLink> link;
  std::unique_ptr<net::Upstream> upstream;
};

TEST_F(FarPoolTest, GR_507_WatchesThatBeginTogetherAreSpreadOverFourConnections) {
  serve(server);
  dial(true);
  clients.resize(40);
  for (Client& client : clients) {
    send(client, "/hold", UpstreamClass::kWatch);
  }
  ASSERT_TRUE(until([&] { return server.held.size() == clients.size(); }));
  EXPECT_GE(upstream->round_trip(), milliseconds(30));
  const auto spread = by_connection();
  EXPECT_EQ(spread.size(), 4U);
  for (const auto& [connection, streams] : spread) {
    EXPECT_LE(streams, 11);
  }
  server.release();
}

TEST_F(FarPoolTest, GR_507_ThoseThatComeOneAfterAnotherAreSpreadAsWell) {
  serve(server);
  dial(true);
  clients.resize(12);
  for (std::size_t i = 0; i < clients.size(); ++i) {
    send(clients[i], "/hold", UpstreamClass::kWatch);
    ASSERT_TRUE(until([&] { return server.held.size() == i + 1; }));
  }
  const auto spread = by_connection();
  EXPECT_EQ(spread.size(), 4U);
  for (const auto& [connection, streams] : spread) {
    EXPECT_EQ(streams, 3);
  }
  server.release();
}

TEST_F(FarPoolTest, GR_507_WhereThereIsOnlyOneConnectionAllWatchesHaveThat) {
  net::ConnectionLimits limits;
  limits.per_address = 1;
  serve(server, milliseconds(15), std::make_shared<net::ConnectionBook>(limits));
  dial(true);
  clients.resize(20);
  for (Client& client : clients) {
    send(client, "/hold", UpstreamClass::kWatch);
  }
  ASSERT_TRUE(until([&] { return server.held.size() == clients.size(); }));
  EXPECT_EQ(by_connection().size(), 1U);
  server.release();
}

TEST_F(FarPoolTest, GR_507_OneRequestAtATimeNeedsNoSecondConnection) {
  serve(server);
  dial(true);
  for (int i = 0; i < 5; ++i) {
    Client client;
    send(client, "/small", UpstreamClass::kRead);
    ASSERT_TRUE(until([&] { return client.closed; }));
  }
  EXPECT_EQ(upstream->stats(UpstreamClass::kRead).opened, 1U);
}

TEST_F(FarPoolTest, GR_507_ANearServerIsAskedAsBefore) {
  serve(server);
  dial(false);
  clients.resize(40);
  for (Client& client : clients) {
    send(client, "/hold", UpstreamClass::kWatch);
  }
  ASSERT_TRUE(until([&] { return server.held.size() == clients.size(); }));
  EXPECT_GT(upstream->round_trip(), Duration::zero());
  EXPECT_LT(upstream->round_trip(), net::kFar);
  EXPECT_EQ(by_connection().size(), 1U);
  server.release();
}

TEST_F(FarPoolTest, GR_507_MoreOfAFarAnswerIsUnderWay) {
  serve(server);
  for (const bool far : {false, true}) {
    dial(far);
    Client client;
    client.lazy = true;
    client.keep = false;
    const std::size_t window = far ? 1'400'000 : 256U << 10;
    send(client, "/big/20000000", UpstreamClass::kRead);
    ASSERT_TRUE(until([&] { return client.received >= window; }));
    if (!far) {
      EXPECT_EQ(client.received, window);
    }
    upstream.reset();
  }
}

TEST_F(FarPoolTest, GR_507_DeadlinesAddTheRoundTrip) {
  serve(server, milliseconds(100));
  dial(true);
  Client client;
  send(client, "/small", UpstreamClass::kRead);
  ASSERT_TRUE(until([&] { return client.closed; }));
  // What asks with less time than the way takes would never have an answer.
  bool answered = false;
  std::unique_ptr<net::Call> call;
  std::function<void()> ask = [&] {
    net::FetchRequest request;
    request.target = "/small";
    request.timeout = milliseconds(190);
    call = net::fetch(loop, *upstream, std::move(request), [&](Expected<net::FetchResponse> got) {
      answered = got.has_value();
      if (!answered) {
        ask();
      }
    });
  };
  ask();
  EXPECT_TRUE(until([&] { return answered; }));
}

TEST_F(FarPoolTest, GR_507_ListsOfFarShardsAreAskedForCompressed) {
  Asked asked;
  serve(asked);
  for (const bool far : {false, true}) {
    shards::ShardClientParams params;
    params.name = "one";
    params.probe = false;
    params.upstream = [&](const std::string&) -> Expected<net::UpstreamParams> {
      return params_to(far);
    };
    shards::ShardClient client(loop, std::move(params));
    ASSERT_TRUE(client.set_base_url("https://one"));
    asked.encodings.clear();
    for (const auto kind : {UpstreamClass::kRead, UpstreamClass::kRead, UpstreamClass::kWatch}) {
      Answered answered;
      aggregation::MemberCall call(loop, answered);
      ASSERT_TRUE(call.open(client, kind, [] {
        http::RequestHead head = make_request("GET", "/list");
        head.headers.set("accept-encoding", "identity");
        return head;
      }()));
      ASSERT_TRUE(until([&] { return answered.end.has_value(); }));
      EXPECT_EQ(answered.body, "hello");
    }
    EXPECT_EQ(asked.encodings,
              (std::vector<std::string>{"identity", far ? "gzip" : "identity", "identity"}))
        << "of the first nobody knows yet how far it is";
  }
}

}  // namespace
}  // namespace kintsugi::server
