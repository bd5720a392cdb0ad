#include "auth/audit_webhook.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "net/testing/support.h"

namespace kintsugi::auth {
namespace {

using krm::Json;
using net::testing::must;
using net::testing::run_until;

/// Keeps what is posted to it.
class Collector final : public http::Handler {
 public:
  explicit Collector(net::Loop& loop) { listener = must(net::Listener::open(loop, {}, *this)); }

  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    last = std::move(head);
    return std::make_unique<Post>(*this, stream);
  }

  std::unique_ptr<net::Listener> listener;
  std::vector<int> statuses;  ///< of the next answers; then 200. 0: none at all
  http::RequestHead last;
  std::vector<std::size_t> batches;  ///< events of each post
  std::vector<std::string> ids;      ///< of events that were taken, in their order

 private:
  class Post final : public http::RequestHandler {
   public:
    Post(Collector& collector, http::ResponseStream& stream)
        : collector_(collector), stream_(stream) {}
    void on_data(std::string_view bytes, bool end) noexcept override {
      body_.append(bytes);
      stream_.consume(bytes.size());
      if (end) {
        take();
      }
    }
    void on_close(Errc) noexcept override {}

   private:
    void take() {
      int status = 200;
      if (!collector_.statuses.empty()) {
        status = collector_.statuses.front();
        collector_.statuses.erase(collector_.statuses.begin());
      }
      const Json list = must(Json::parse(body_));
      EXPECT_EQ(list.text({"kind"}), "EventList");
      EXPECT_EQ(list.text({"apiVersion"}), "audit.k8s.io/v1");
      collector_.batches.push_back(list.find("items")->size());
      if (status == 0) {
        return;
      }
      if (status == 200) {
        for (const Json& item : list.find("items")->items()) {
          collector_.ids.emplace_back(item.text({"auditID"}));
        }
      }
      stream_.send_head(status, {}, true);
    }
    Collector& collector_;
    http::ResponseStream& stream_;
    std::string body_;
  };
};

class AuditWebhookTest : public ::testing::Test {
 protected:
  AuditWebhookTest() : collector(loop) {
    params.server.url = {"http", "127.0.0.1", collector.listener->port(), "/hook"};
    params.authorization = Secret::copy_of("Bearer t0ken");
    params.batch_wait = milliseconds(20);
    params.first_pause = milliseconds(5);
    params.last_pause = milliseconds(20);
  }
  ~AuditWebhookTest() override { collector.listener->close(); }
  static std::string event(int number) {
    return R"({"kind":"Event","auditID":")" + std::to_string(number) + "\"}";
  }
  void add(AuditWebhook& webhook, int from, int to) {
    for (int i = from; i < to; ++i) {
      webhook.add(event(i));
      expected.push_back(std::to_string(i));
    }
  }
  net::Loop loop{"test"};
  Collector collector;
  AuditWebhookParams params;
  std::vector<std::string> expected;
};

TEST_F(AuditWebhookTest, WhenEventsCome_SE168_TheyArePostedInOrderAndInBatches) {
  AuditWebhook webhook(params);
  add(webhook, 0, 1'001);
  EXPECT_TRUE(run_until(loop, [&] { return webhook.stats().sent == 1'001; }));
  EXPECT_EQ(collector.ids, expected);
  EXPECT_EQ(collector.last.target, "/hook");
  EXPECT_EQ(collector.last.headers.get("authorization"), "Bearer t0ken");
  EXPECT_GE(collector.batches.size(), 3U);
  for (const std::size_t batch : collector.batches) {
    EXPECT_LE(batch, 400U);
  }
  EXPECT_EQ(webhook.stats().queued, 0U);
  EXPECT_EQ(webhook.stats().dropped, 0U);
}

TEST_F(AuditWebhookTest, WhenEventsTrickle_SE168_TheFirstDoesNotWaitForMore) {
  params.batch_wait = milliseconds(40);
  params.last_wait = milliseconds(50);
  AuditWebhook webhook(params);
  net::Timer pace(loop);
  std::function<void()> more = [&] {
    webhook.add(event(1));
    pace.start(milliseconds(5), more);
  };
  more();
  EXPECT_TRUE(run_until(loop, [&] { return webhook.stats().sent > 0; }));
  EXPECT_LT(collector.batches.front(), 400U);
}

TEST_F(AuditWebhookTest, WhenTheServerIsAwayForAWhile_SE_T074_NothingIsLost) {
  collector.statuses = {503, 429, 500};
  AuditWebhook webhook(params);
  add(webhook, 0, 10);
  EXPECT_TRUE(run_until(loop, [&] { return webhook.stats().failures == 3; }));
  add(webhook, 10, 20);
  EXPECT_TRUE(run_until(loop, [&] { return webhook.stats().sent == 20; }));
  EXPECT_EQ(collector.ids, expected);
  EXPECT_EQ(webhook.stats().dropped, 0U);
}

TEST_F(AuditWebhookTest, WhenTheServerRefuses_SE168_TheBatchIsLostAndCounted) {
  collector.statuses = {400};
  AuditWebhook webhook(params);
  add(webhook, 0, 5);
  EXPECT_TRUE(run_until(loop, [&] { return webhook.stats().dropped == 5; }));
  add(webhook, 5, 6);
  EXPECT_TRUE(run_until(loop, [&] { return webhook.stats().sent == 1; }));
  EXPECT_EQ(collector.ids, std::vector<std::string>{"5"});
}

TEST_F(AuditWebhookTest, WhenItIsDeadUnderAMillionEvents_SE_T075_TheQueueStaysAndAllAreCounted) {
  constexpr std::uint64_t kEvents = 1'000'000;
  params.server.url.port = collector.listener->port();
  collector.listener->close();
  collector.listener.reset();
  collector.listener = must(net::Listener::open(loop, {}, collector));  // another port
  params.last_wait = milliseconds(50);
  ::testing::internal::CaptureStderr();
  {
    AuditWebhook webhook(params);
    for (std::uint64_t i = 0; i < kEvents; ++i) {
      webhook.add(event(1));
    }
    const AuditWebhook::Stats stats = webhook.stats();
    EXPECT_EQ(stats.queued, params.queue_events);
    EXPECT_EQ(stats.dropped + stats.queued, kEvents);
    EXPECT_TRUE(run_until(loop, [&] { return webhook.stats().failures > 0; }));
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("audit webhook does not take events"), std::string::npos);
  EXPECT_NE(said.find("what waits is lost"), std::string::npos);
  EXPECT_LT(said.size(), 4'096U);
}

TEST_F(AuditWebhookTest, WhenItEnds_SE168_WhatWaitsIsPosted) {
  params.batch_wait = seconds(60);
  auto webhook = std::make_unique<AuditWebhook>(params);
  add(*webhook, 0, 7);
  std::thread end([&webhook] { webhook.reset(); });
  EXPECT_TRUE(run_until(loop, [&] { return collector.ids.size() == 7; }));
  end.join();
  EXPECT_EQ(collector.ids, expected);
}

TEST_F(AuditWebhookTest, WhenTheServerNeverAnswers_SE_T074_TheEndDoesNotWaitLong) {
  collector.statuses = {0};
  params.last_wait = milliseconds(50);
  auto webhook = std::make_unique<AuditWebhook>(params);
  add(*webhook, 0, 1);
  EXPECT_TRUE(run_until(loop, [&] { return collector.batches.size() == 1; }));
  std::optional<int> ended;
  std::thread end([&] {
    webhook.reset();
    loop.post([&ended] { ended = 1; });
  });
  EXPECT_TRUE(run_until(loop, [&] { return ended.has_value(); }));
  end.join();
}

}  // namespace
}  // namespace kintsugi::auth
