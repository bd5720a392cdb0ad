#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"

// How many requests may run at once, and what the next one is told; a store that fails.
namespace kintsugi::apiserver {
namespace {

using testing::config_map;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";
constexpr std::string_view kBusyText = "Too many requests, please try again later.";

class Concurrency : public ::testing::Test {
 protected:
  Concurrency()
      : server(kinds::builtin_kinds(), "lc", {.reads = 2, .writes = 1, .watch_starts = 2}) {
    krm::Json ns = krm::Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
  }
  /// Begins a request that waits for its permission.
  Exchange begin(std::string_view method, const std::string& target, std::string_view user = {}) {
    http::RequestHead head;
    head.method = method;
    head.target = target;
    if (!user.empty()) {
      head.headers.add("x-user", user);
    }
    return {server.server(), std::move(head), ""};
  }
  static http::RequestHead half_sent() {
    http::RequestHead head;
    head.method = "POST";
    head.target = kMaps;
    head.headers.add("content-type", "application/json");
    return head;
  }
  Exchange create(const char* name) { return server.send("POST", kMaps, config_map(name)); }
  static void expect_busy(Exchange& answer) {
    EXPECT_EQ(answer.status(), 429);
    EXPECT_EQ(answer.header("retry-after"), "1");
    const krm::Json status = answer.json();
    EXPECT_EQ(status.text({"reason"}), "TooManyRequests");
    EXPECT_EQ(status.text({"message"}), kBusyText);
    EXPECT_EQ(status.at({"details", "retryAfterSeconds"})->as_integer(), 1);
  }

  FakeServer server;
};

TEST_F(Concurrency, WhenTooManyReadsRun_AM026_TheNextIsToldToWait) {
  server.hold_decisions();
  Exchange one = begin("GET", kMaps);
  Exchange two = begin("GET", std::string(kMaps) + "/a");
  EXPECT_EQ(server.held(), 2U);
  Exchange three = begin("GET", kMaps);
  expect_busy(three);
  EXPECT_EQ(server.held(), 2U) << "refused before anybody is asked about its rights";
  EXPECT_EQ(server.server().stats().requests_refused, 1U);
  server.give_decisions();
  server.settle();
  EXPECT_EQ(one.status(), 200);
  EXPECT_EQ(two.status(), 404);
  Exchange four = begin("GET", kMaps);
  EXPECT_EQ(server.held(), 1U) << "there is room again";
}

TEST_F(Concurrency, WhenOnePoolIsFull_AM067_TheOthersHaveRoom) {
  server.hold_decisions();
  Exchange write = begin("DELETE", std::string(kMaps) + "/a");
  Exchange refused = begin("DELETE", std::string(kMaps) + "/b");
  expect_busy(refused);
  Exchange patch = begin("PATCH", std::string(kMaps) + "/b");
  expect_busy(patch);
  Exchange read = begin("GET", kMaps);
  Exchange discovery = begin("GET", "/apis");
  Exchange watch = begin("GET", std::string(kMaps) + "?watch=1");
  Exchange second = begin("GET", std::string(kMaps) + "?watch=1");
  EXPECT_EQ(server.held(), 5U);
  Exchange late = begin("GET", std::string(kMaps) + "?watch=1");
  expect_busy(late);
  server.give_decisions();
  server.settle();
  EXPECT_EQ(watch.status(), 200);
  EXPECT_FALSE(watch.stream().ended);
  Exchange third = begin("GET", std::string(kMaps) + "?watch=1");
  EXPECT_EQ(server.held(), 1U) << "a watch that has begun is not counted";
}

TEST_F(Concurrency, WhenClientsLeave_SE076_WhatRunsKeepsItsPlaceToItsEnd) {
  server.hold_decisions();
  {
    Exchange gone = begin("DELETE", std::string(kMaps) + "/a");
    EXPECT_EQ(server.held(), 1U);
  }
  server.settle();
  Exchange refused = begin("DELETE", std::string(kMaps) + "/a");
  expect_busy(refused);
  EXPECT_EQ(server.held(), 1U) << "a client that resets makes no further work";
  server.give_decisions();
  server.settle();
  Exchange next = begin("DELETE", std::string(kMaps) + "/a");
  EXPECT_EQ(server.held(), 1U);
}

TEST_F(Concurrency, WhenClientsLeaveBeforeTheirBodyIsWhole_SE076_NothingIsLeftOfThem) {
  for (int i = 0; i < 100; ++i) {
    testing::FakeStream stream;
    const auto handler = server.server().on_request(half_sent(), stream);
    handler->on_data("{", false);
    handler->on_close(Errc::kReset);
  }
  server.settle();
  EXPECT_EQ(create("b").status(), 201);
}

TEST_F(Concurrency, WhenBodiesAreOnTheirWay_SE075_OthersWrite) {
  std::deque<testing::FakeStream> streams(1'045);
  std::vector<std::unique_ptr<http::RequestHandler>> handlers;
  for (testing::FakeStream& stream : streams) {
    handlers.push_back(server.server().on_request(half_sent(), stream));
    handlers.back()->on_data("{", false);
  }
  server.settle();
  EXPECT_EQ(create("b").status(), 201);
  EXPECT_EQ(server.send("DELETE", std::string(kMaps) + "/b").status(), 200);
  handlers.front()->on_data(config_map("a").dump().substr(1), true);
  ASSERT_TRUE(server.run_until([&] { return streams.front().ended; }));
  EXPECT_EQ(streams.front().status, 201);
  for (std::size_t i = 1; i < streams.size(); ++i) {
    EXPECT_EQ(streams[i].status, 0);
  }
  for (const auto& handler : handlers) {
    handler->on_close(Errc::kOk);
  }
}

TEST_F(Concurrency, WhenABodyIsWholeAndItsPoolIsFull_SE075_ItIsRefusedThen) {
  testing::FakeStream stream;
  const auto handler = server.server().on_request(half_sent(), stream);
  handler->on_data("{", false);
  server.hold_decisions();
  Exchange running = begin("DELETE", std::string(kMaps) + "/a");
  EXPECT_EQ(stream.status, 0);
  handler->on_data("}", true);
  EXPECT_EQ(stream.status, 429);
  handler->on_close(Errc::kOk);
  server.give_decisions();
  server.settle();
}

TEST_F(Concurrency, WhenMoreComesThanMayBeKept_SE079_TheClientIsToldAndOthersAreServed) {
  std::deque<testing::FakeStream> streams(64);
  std::vector<std::unique_ptr<http::RequestHandler>> handlers;
  const std::string part(1U << 20, ' ');
  std::size_t refused = 0, credit = 0;
  for (testing::FakeStream& stream : streams) {
    handlers.push_back(server.server().on_request(half_sent(), stream));
    handlers.back()->on_data(part, false);
    refused += stream.status == 429 ? 1U : 0U;
    credit += stream.status == 0 ? stream.consumed : 0U;
  }
  EXPECT_GT(refused, 50U);
  EXPECT_LE(credit, 4U << 20) << "windows stay shut";
  EXPECT_EQ(server.send("DELETE", std::string(kMaps) + "/b").status(), 404);
  for (const auto& handler : handlers) {
    handler->on_close(Errc::kOk);
  }
}

TEST_F(Concurrency, WhenAMethodIsUnknown_SE116_Says405AfterAuthentication) {
  for (const std::string_view method : {"get", "Post", "TRACE", "PROPFIND", "CONNECT"}) {
    EXPECT_EQ(server.send(method, kMaps).status(), 405) << method;
    EXPECT_EQ(server.send(method, "/livez").status(), 405) << method;
    EXPECT_EQ(server.send(method, "/apis").status(), 405) << method;
  }
}

TEST_F(Concurrency, WhenAListIsStillBeingSent_AM067_ItCounts) {
  const std::string big(100'000, 'x');
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    ASSERT_EQ(server.send("POST", kMaps, config_map(name, {{"f", big}})).status(), 201);
  }
  Exchange one = begin("GET", kMaps);
  Exchange two = begin("GET", kMaps);
  one.stream().stuck = two.stream().stuck = true;
  server.settle();
  ASSERT_EQ(one.status(), 200);
  ASSERT_FALSE(one.stream().ended);
  Exchange refused = begin("GET", kMaps);
  expect_busy(refused);
  two.close();
  EXPECT_EQ(server.send("GET", std::string(kMaps) + "/a").status(), 200);
}

TEST_F(Concurrency, WhenHealthOrMastersAsk_AM067_NothingIsRefused) {
  server.hold_decisions();
  Exchange one = begin("GET", kMaps);
  Exchange two = begin("GET", kMaps);
  Exchange live = begin("GET", "/livez");
  Exchange ready = begin("GET", "/readyz");
  Exchange master = begin("GET", kMaps, "master");
  EXPECT_EQ(server.held(), 5U);
  server.give_decisions();
  server.settle();
  EXPECT_EQ(live.status(), 200);
  EXPECT_EQ(ready.status(), 200);
  EXPECT_EQ(master.status(), 200);
}

TEST_F(Concurrency, WhenTheClientReadsYaml_AM026_TheRefusalIsYaml) {
  server.hold_decisions();
  Exchange one = begin("DELETE", std::string(kMaps) + "/a");
  http::RequestHead head;
  head.method = "DELETE";
  head.target = std::string(kMaps) + "/a";
  head.headers.add("accept", "application/yaml");
  Exchange refused(server.server(), std::move(head), "");
  EXPECT_EQ(refused.status(), 429);
  EXPECT_EQ(refused.header("content-type"), "application/yaml");
  EXPECT_NE(refused.body().find(kBusyText), std::string::npos);
}

TEST(ConcurrencyLimits, WhenZero_AM067_ThereIsNoLimit) {
  FakeServer server(kinds::builtin_kinds(), "lc", {0, 0, 0});
  server.hold_decisions();
  std::vector<Exchange> all;
  for (int i = 0; i < 5'000; ++i) {
    http::RequestHead head;
    head.method = "DELETE";
    head.target = std::string(kMaps) + "/a";
    all.emplace_back(server.server(), std::move(head), "");
  }
  EXPECT_EQ(server.held(), 5'000U);
}

class StoreFault : public Concurrency {
 protected:
  void expect_fault(Exchange answer, std::string_view operation, std::string_view kind,
                    std::string_view group) {
    EXPECT_EQ(answer.status(), 500);
    EXPECT_EQ(answer.header("retry-after"), "2");
    const krm::Json status = answer.json();
    EXPECT_EQ(status.text({"reason"}), "ServerTimeout");
    std::string resource(kind);
    if (!group.empty()) {
      resource.append(".").append(group);
    }
    EXPECT_EQ(status.text({"message"}), "The " + std::string(operation) + " operation against " +
                                            resource +
                                            " could not be completed at this time, please try "
                                            "again.");
    EXPECT_EQ(status.text({"details", "kind"}), kind);
    EXPECT_EQ(status.text({"details", "group"}), group);
    EXPECT_EQ(status.at({"details", "retryAfterSeconds"})->as_integer(), 2);
  }
};

TEST_F(StoreFault, WhenTheStoreCannotWrite_AM033_EveryOperationSaysWhichAndWhenToRetry) {
  ASSERT_EQ(create("a").status(), 201);
  const std::string item = std::string(kMaps) + "/a";
  const krm::Json now = server.send("GET", item).json();
  for (const Errc fault : {Errc::kIo, Errc::kFull}) {
    server.store().fail_with(fault);
    expect_fault(server.send("GET", item), "get", "configmaps", "");
    expect_fault(server.send("PUT", item, now), "update", "configmaps", "");
    expect_fault(server.send("PATCH", item, std::string_view(R"({"data":{"x":"2"}})"),
                             {{"content-type", "application/merge-patch+json"}}),
                 "update", "configmaps", "");
    expect_fault(server.send("DELETE", item), "delete", "configmaps", "");
    krm::Json lease = krm::Json::object();
    lease.make({"metadata", "name"}) = "l";
    expect_fault(server.send("POST", "/apis/coordination.k8s.io/v1/namespaces/t1/leases", lease),
                 "create", "leases", "coordination.k8s.io");
  }
  server.store().fail_with(Errc::kOk);
  EXPECT_EQ(server.send("PUT", item, now).status(), 200);
}

}  // namespace
}  // namespace kintsugi::apiserver
