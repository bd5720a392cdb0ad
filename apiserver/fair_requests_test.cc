#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <memory>
#include <string>

#include "apiserver/memory_bounds.h"
#include "apiserver/request_bounds.h"
#include "apiserver/testing/fake_server.h"
#include "kinds/builtin_kinds.h"

// Who waits for a seat, who is refused by limits, and that both are over when the work is.
namespace kintsugi::apiserver {
namespace {

using serving::Level;
using serving::LimitKind;
using serving::LimitOf;
using testing::config_map;
using testing::Exchange;
using testing::FakeServer;

constexpr const char* kMaps = "/api/v1/namespaces/t1/configmaps";

class FairRequests : public ::testing::Test {
 protected:
  FairRequests() : server(kinds::builtin_kinds(), "lc") {
    krm::Json ns = krm::Json::object();
    ns.make({"metadata", "name"}) = "t1";
    EXPECT_EQ(server.send("POST", "/api/v1/namespaces", ns).status(), 201);
  }
  void bound(const serving::FairLimits& seats, const serving::RequestLimits& limits = {}) {
    limits_ = std::make_shared<serving::ProcessLimits>(seats, limits);
    bound_requests(server.server(), limits_);
  }
  /// Begins a request that waits for its permission.
  Exchange begin(std::string_view method, const std::string& target, std::string_view user) {
    http::RequestHead head;
    head.method = method;
    head.target = target;
    head.headers.add("x-user", user);
    return {server.server(), std::move(head), ""};
  }
  [[nodiscard]] serving::FairQueues::LevelTotals tenants() const {
    return limits_->totals()[static_cast<std::size_t>(Level::kTenant)];
  }

  std::shared_ptr<serving::ProcessLimits> limits_;
  FakeServer server;
};

TEST_F(FairRequests, SE072_OneWhoAsksForEverythingIsRefusedAndNobodyElse) {
  // So many queues that nobody is dealt the two of the heavy one: who is dealt what differs by
  // process.
  bound({.seats = 4, .queues = 4'096, .hand = 2, .queue_length = 10});
  server.hold_decisions();
  std::deque<Exchange> heavy, light;
  for (int i = 0; i < 200; ++i) {
    heavy.push_back(begin("GET", kMaps, "heavy"));
  }
  const auto refused =
      std::count_if(heavy.begin(), heavy.end(), [](Exchange& one) { return one.status() == 429; });
  EXPECT_EQ(refused, 200 - 4 - 2 * 10) << "what runs, and what two queues hold";
  EXPECT_EQ(heavy.back().header("retry-after"), "1");
  EXPECT_EQ(heavy.back().json().text({"reason"}), "TooManyRequests");
  for (int i = 0; i < 20; ++i) {
    light.push_back(begin("GET", kMaps, "light-" + std::to_string(i)));
  }
  EXPECT_EQ(server.held(), 4U) << "nobody's rights are asked about before it is his turn";
  EXPECT_TRUE(server.run_until([&] {
    server.give_decisions();
    return std::all_of(light.begin(), light.end(), [](Exchange& one) { return one.status() != 0; });
  }));
  for (Exchange& one : light) {
    EXPECT_EQ(one.status(), 200);
  }
  server.give_decisions();
  EXPECT_TRUE(server.run_until([&] {
    server.give_decisions();
    return tenants().seats == 0 && tenants().waiting == 0;
  })) << "every seat comes back";
}

TEST_F(FairRequests, SE070_HealthAndMastersDoNotWait) {
  bound({.seats = 1}, {.user = {.rps = 1}, .unauthenticated_rps = 1});
  server.hold_decisions();
  const Exchange running = begin("GET", kMaps, "a");
  Exchange waiting = begin("GET", kMaps, "b");
  EXPECT_EQ(waiting.status(), 0);
  for (int i = 0; i < 5; ++i) {
    Exchange health = begin("GET", "/livez", "c");
    EXPECT_NE(health.status(), 429);
    Exchange master = begin("GET", kMaps, "master");
    EXPECT_NE(master.status(), 429);
  }
  EXPECT_EQ(tenants().waiting, 1U);
}

TEST_F(FairRequests, SE075_WideRequestsTakeFourSeats) {
  bound({.seats = 4});
  server.hold_decisions();
  const Exchange one = begin("GET", kMaps, "a"), two = begin("GET", kMaps, "b");
  const Exchange three = begin("GET", kMaps, "c");
  EXPECT_EQ(tenants().seats, 3U);
  EXPECT_EQ(tenants().waiting, 0U);
  http::RequestHead head;
  head.method = "DELETE";
  head.target = kMaps;
  head.end_stream = true;
  head.headers.add("x-user", "d");
  const Exchange wide(server.server(), std::move(head), "");
  EXPECT_EQ(tenants().waiting, 1U) << "three are too few";
  EXPECT_EQ(fairness_report(server.server()).at({"levels", "tenant", "waiting"})->as_integer(), 1);
  const krm::Json report = fairness_report(server.server());
  const krm::Json* payers = report.find("payers");
  ASSERT_NE(payers, nullptr);
  EXPECT_TRUE(std::any_of(payers->items().begin(), payers->items().end(), [](const krm::Json& of) {
    return of.text({"payer"}) == "user d" && of.find("waiting")->as_integer() == 4;
  })) << report.dump();
}

TEST_F(FairRequests, SE074_WhoGoesLeavesTheQueue) {
  bound({.seats = 1});
  server.hold_decisions();
  Exchange running = begin("GET", kMaps, "a");
  { const Exchange gone = begin("GET", kMaps, "b"); }
  EXPECT_EQ(tenants().waiting, 0U);
  Exchange next = begin("GET", kMaps, "c");
  server.give_decisions();
  EXPECT_TRUE(server.run_until([&] {
    server.give_decisions();
    return next.status() == 200;
  }));
  EXPECT_EQ(running.status(), 200);
  server.settle();
  EXPECT_EQ(tenants().seats, 0U);
}

TEST_F(FairRequests, SE074_WhoWaitsTooLongIsTold) {
  bound({.seats = 1, .wait = milliseconds(20)});
  server.hold_decisions();
  const Exchange running = begin("GET", kMaps, "a");
  Exchange late = begin("GET", kMaps, "b");
  EXPECT_TRUE(server.run_until([&] { return late.status() != 0; }));
  EXPECT_EQ(late.status(), 429);
  EXPECT_EQ(tenants().late, 1U);
}

TEST_F(FairRequests, SE075_BodiesThatAreNotWholeHoldNoSeat) {
  bound({.seats = 2});
  std::deque<testing::FakeStream> streams;
  std::deque<std::unique_ptr<http::RequestHandler>> half;
  for (int i = 0; i < 1'045; ++i) {
    http::RequestHead head;
    head.method = "POST";
    head.target = kMaps;
    head.headers.add("content-type", "application/json");
    head.headers.add("x-user", "slow");
    half.push_back(server.server().on_request(std::move(head), streams.emplace_back()));
    half.back()->on_data("{", false);
  }
  server.settle();
  EXPECT_EQ(tenants().seats, 0U);
  EXPECT_EQ(tenants().waiting, 0U);
  EXPECT_EQ(server.send("POST", kMaps, config_map("a")).status(), 201);
  for (std::size_t i = 0; i < half.size(); ++i) {
    EXPECT_NE(streams[i].status, 429) << "not of the seats";
    half[i]->on_close(Errc::kReset);
  }
}

TEST_F(FairRequests, SE076_AWatchThatHasBegunHasNoSeat) {
  bound({.seats = 1});
  const std::string target = std::string(kMaps) + "?watch=1";
  const Exchange one = server.send("GET", target), two = server.send("GET", target);
  server.settle();
  EXPECT_EQ(tenants().seats, 0U);
  EXPECT_EQ(server.send("GET", kMaps).status(), 200);
}

TEST_F(FairRequests, FP139_LimitsOfAUserAreHisAlone) {
  bound({}, {.user = {.rps = 1, .burst = 2}});
  EXPECT_EQ(server.send("GET", kMaps).status(), 200);
  EXPECT_EQ(server.send("GET", kMaps).status(), 200);
  Exchange refused = server.send("GET", kMaps);
  EXPECT_EQ(refused.status(), 429);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(refused.json().text({"message"}),
            "Too many requests: limits.user.rps is reached, please try again later.");
  EXPECT_EQ(server.send("GET", kMaps, std::string_view(), {{"x-user", "other"}}).status(), 200);
  EXPECT_EQ(limits_->requests().refused(LimitOf::kUser, LimitKind::kRate), 1U);
}

TEST_F(FairRequests, FP139_AWatchCountsUntilItEnds) {
  bound({}, {.cluster = {.watches = 2}});
  const std::string target = std::string(kMaps) + "?watch=1";
  Exchange one = server.send("GET", target), two = server.send("GET", target);
  EXPECT_EQ(one.status(), 200);
  EXPECT_EQ(server.send("GET", target).status(), 429);
  EXPECT_EQ(server.send("GET", kMaps).status(), 200) << "no watch";
  one.close();
  Exchange next = server.send("GET", target);
  EXPECT_EQ(next.status(), 200);
}

TEST_F(FairRequests, SE089_OneUserLeavesAnEighthOfAClusterAndOfTheShardToOthers) {
  const std::string target = std::string(kMaps) + "?watch=1";
  for (const bool of_shard : {false, true}) {
    const serving::LimitRule rule{.watches = 16};
    bound({}, of_shard ? serving::RequestLimits{.shard = rule}
                       : serving::RequestLimits{.cluster = rule});
    std::deque<Exchange> watches;
    for (int i = 0; i < 14; ++i) {
      watches.push_back(server.send("GET", target));
      ASSERT_EQ(watches.back().status(), 200) << i;
    }
    Exchange refused = server.send("GET", target);
    EXPECT_EQ(refused.status(), 429);
    EXPECT_NE(refused.json()
                  .text({"message"})
                  .find(of_shard ? "limits.shard.watches" : "limits.cluster.watches"),
              std::string_view::npos);
    const auto other = [&] {
      return server.send("GET", target, std::string_view(), {{"x-user", "other"}});
    };
    watches.push_back(other());
    EXPECT_EQ(watches.back().status(), 200);
    watches.push_back(other());
    EXPECT_EQ(watches.back().status(), 200);
    EXPECT_EQ(other().status(), 429) << "no more than there are";
    for (Exchange& watch : watches) {
      watch.close();
    }
    server.settle();
  }
}

TEST_F(FairRequests, SE_T031_WhateverIsVariedOneUserHasSixOfTheQueues) {
  bound({.seats = 64, .queues = 128, .hand = 6, .queue_length = 50});
  server.hold_decisions();
  const char* const forms[] = {kMaps, "/api/v1/configmaps", "/api/v1/namespaces/t1/secrets",
                               "/api/v1/namespaces/t1/configmaps/one", "/api/v1/namespaces"};
  std::deque<Exchange> heavy;
  for (std::size_t i = 0; i < 2'000; ++i) {
    http::RequestHead head;
    head.method = i % 3 == 0 ? "DELETE" : "GET";
    head.target = forms[i % std::size(forms)];
    head.end_stream = true;
    head.headers.add("x-user", "heavy");
    head.headers.add("user-agent", "client " + std::to_string(i));
    if (i < 1'000) {
      head.headers.add("impersonate-user", "someone-" + std::to_string(i));
      head.headers.add("impersonate-group", "group-" + std::to_string(i));
    }
    heavy.emplace_back(server.server(), std::move(head), "");
    if (i == 999) {
      for (int of = 0; of < 4; ++of) {  // he may speak for them, and for their groups
        server.give_decisions();
        server.settle();
      }
    }
  }
  const auto refused =
      std::count_if(heavy.begin(), heavy.end(), [](Exchange& one) { return one.status() == 429; });
  EXPECT_LE(tenants().waiting, 6U * 50U * 4U) << "six queues, of requests of four seats at most";
  EXPECT_GE(refused, 2'000 - 4 * 64 - 6 * 50);
  EXPECT_LT(refused, 2'000 - 6 * 50) << "but six he has";
  std::deque<Exchange> light;
  for (int i = 0; i < 100; ++i) {
    light.push_back(begin("GET", kMaps, "light-" + std::to_string(i)));
  }
  EXPECT_EQ(
      std::count_if(light.begin(), light.end(), [](Exchange& one) { return one.status() == 429; }),
      0)
      << "122 queues are not his";
}

TEST_F(FairRequests, SE_T034_GetsAreAnsweredBesideAHundredListsThatNobodyReads) {
  const std::string large(50'000, 'x');
  for (int i = 0; i < 40; ++i) {
    const auto made =
        server.send("POST", kMaps, config_map("m" + std::to_string(i), {{"x", krm::Json(large)}}));
    ASSERT_EQ(made.status(), 201);
  }
  bound({.seats = 4, .queues = 64, .hand = 6, .queue_length = 50});
  server.hold_decisions();
  std::deque<Exchange> lists;
  for (int i = 0; i < 100; ++i) {
    lists.push_back(begin("GET", kMaps, "lister"));
    lists.back().stream().stuck = true;
  }
  EXPECT_EQ(tenants().seats, 4U) << "the others wait";
  EXPECT_TRUE(server.run_until([&] {
    server.give_decisions();
    return std::all_of(lists.begin(), lists.end(), [](Exchange& one) { return one.status() != 0; });
  }));
  server.settle();
  EXPECT_EQ(tenants().seats, 0U) << "what has begun has none";
  for (Exchange& one : lists) {
    EXPECT_EQ(one.status(), 200);
    EXPECT_FALSE(one.stream().ended);
    EXPECT_LT(one.body().size(), 700'000U) << "of two million bytes, as many as may wait";
  }
  for (int i = 0; i < 20; ++i) {
    Exchange get = begin("GET", std::string(kMaps) + "/m1", "getter");
    EXPECT_TRUE(server.run_until([&] {
      server.give_decisions();
      return get.status() != 0;
    }));
    EXPECT_EQ(get.status(), 200);
  }
}

TEST_F(FairRequests, SE091_AsMemoryRunsShortListsTakeMoreSeatsThenTenantsAreRefused) {
  bound({.seats = 4});
  const auto pressure = std::make_shared<serving::MemoryPressure>(1'000);
  bound_memory(server.server(), pressure);
  server.hold_decisions();
  {
    pressure->judge(799, 1'000);
    const Exchange one = begin("GET", kMaps, "a"), two = begin("GET", kMaps, "b");
    EXPECT_EQ(tenants().seats, 2U);
  }
  const auto let_go = [&] {
    return server.run_until([&] {
      server.give_decisions();
      return tenants().seats == 0;
    });
  };
  EXPECT_TRUE(let_go()) << "what has begun goes on without its client";
  {
    pressure->judge(800, 1'000);
    const Exchange one = begin("GET", kMaps, "a"), two = begin("GET", kMaps, "b");
    EXPECT_EQ(tenants().seats, 4U) << "one list";
    EXPECT_EQ(tenants().waiting, 1U) << "and one that waits";
  }
  EXPECT_TRUE(let_go());
  pressure->judge(900, 1'000);
  Exchange refused = begin("GET", kMaps, "a");
  EXPECT_EQ(refused.status(), 429);
  EXPECT_EQ(refused.header("retry-after"), "5");
  EXPECT_EQ(pressure->shed(serving::ShedStep::kTenants), 1U);
  EXPECT_NE(begin("GET", "/livez", "a").status(), 429);
  EXPECT_NE(begin("GET", kMaps, "master").status(), 429);
  pressure->judge(849, 1'000);
  EXPECT_NE(begin("GET", kMaps, "a").status(), 429) << "it is over";
}

TEST_F(FairRequests, SE091_WatchesThatNobodyReadsEndFirst) {
  const std::string target = std::string(kMaps) + "?watch=1";
  const auto watch = [&](std::string user) {
    return server.send("GET", target, std::string_view(), {{"x-user", std::move(user)}});
  };
  Exchange reads = watch("reads"), small = watch("small"), large = watch("large"),
           more = watch("large"), master = watch("master");
  small.stream().stuck = large.stream().stuck = true;
  EXPECT_EQ(server.send("POST", kMaps, config_map("one")).status(), 201);
  server.settle();
  more.stream().stuck = master.stream().stuck = true;
  EXPECT_EQ(server.send("POST", kMaps, config_map("two")).status(), 201);
  server.settle();
  EXPECT_EQ(shed_watches(server.server(), 1, false), 1U);
  EXPECT_TRUE(large.stream().was_reset || more.stream().was_reset) << "the largest payer's";
  EXPECT_EQ(shed_watches(server.server(), 9, false), 2U);
  EXPECT_TRUE(large.stream().was_reset && more.stream().was_reset && small.stream().was_reset);
  EXPECT_FALSE(reads.stream().ended || reads.stream().was_reset);
  EXPECT_FALSE(master.stream().ended || master.stream().was_reset);
  EXPECT_EQ(shed_watches(server.server(), 9, true), 1U);
  EXPECT_TRUE(master.stream().was_reset);
  EXPECT_EQ(server.send("POST", kMaps, config_map("three")).status(), 201) << "who reads, lives";
  server.settle();
  EXPECT_EQ(reads.events().size(), 3U);
}

}  // namespace
}  // namespace kintsugi::apiserver
