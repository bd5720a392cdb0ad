#include "serving/trace_exporter.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/trace.h"
#include "net/testing/support.h"
#include "net/upstream_peer.h"
#include "serving/internal/otlp.h"

namespace kintsugi::serving {
namespace {

using net::testing::must;
using net::testing::run_until;

/// What a collector is asked, and what it answers: one after the other, the last one for ever.
class Collector final : public http::Handler {
 public:
  struct Asked {
    std::string target, type, body, traceparent;
  };
  explicit Collector(std::deque<std::pair<int, std::string>> answers)
      : answers_(std::move(answers)), loop_("collector") {
    net::ListenerParams params;
    listener_ = must(net::Listener::open(loop_, std::move(params), *this));
    endpoint = "http://127.0.0.1:" + std::to_string(listener_->port());
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Collector() override {
    loop_.post([this] {
      listener_.reset();
      loop_.stop();
    });
    thread_.join();
  }
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    return std::make_unique<Request>(*this, head, stream);
  }
  /// Waits for so many requests.
  std::vector<Asked> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(30), [&] { return asked_.size() >= count; }));
    return asked_;
  }
  std::string endpoint;

 private:
  struct Request final : http::RequestHandler {
    Request(Collector& o, const http::RequestHead& head, http::ResponseStream& s)
        : owner(o), stream(s) {
      asked.target = head.target;
      asked.type = head.headers.get("content-type");
      asked.traceparent = head.headers.get("traceparent");
    }
    void on_data(std::string_view bytes, bool end) noexcept override {
      asked.body.append(bytes);
      stream.consume(bytes.size());
      if (end) {
        owner.answer(std::move(asked), stream);
      }
    }
    void on_close(Errc /*cause*/) noexcept override {}
    Collector& owner;
    http::ResponseStream& stream;
    Asked asked;
  };

  void answer(Asked asked, http::ResponseStream& stream) {
    const auto [status, body] = answers_.front();
    if (answers_.size() > 1) {
      answers_.pop_front();
    }
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(std::move(asked));
    }
    changed_.notify_all();
    if (status == 0) {
      return;  // silence
    }
    http::HeaderList headers;
    headers.add("content-length", std::to_string(body.size()));
    stream.send_head(status, headers, body.empty());
    if (!body.empty()) {
      stream.send_data(body, true);
    }
  }

  std::deque<std::pair<int, std::string>> answers_;
  net::Loop loop_;
  std::unique_ptr<net::Listener> listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Asked> asked_;
  std::thread thread_;
};

class TraceExporterTest : public ::testing::Test {
 protected:
  TraceExporterTest() {
    (void)take_spans(1'000'000);
    before_ = trace_stats();
  }
  static std::unique_ptr<TraceExporter> start(const Collector& to) {
    TraceParams params;
    params.endpoint = to.endpoint;
    params.service = "test";
    params.pause = params.retry = milliseconds(5);
    params.timeout = seconds(20);
    return must(TraceExporter::start(std::move(params)));
  }
  static void record(std::size_t count, const std::string& name = "one") {
    for (std::size_t i = 0; i < count; ++i) {
      Span span;
      span.trace = new_trace_id();
      span.id = new_span_id();
      span.name = name;
      record_span(std::move(span));
    }
  }
  /// Since the test began.
  [[nodiscard]] TraceStats stats() const {
    const TraceStats now = trace_stats();
    return {now.recorded - before_.recorded, now.dropped - before_.dropped, now.sent - before_.sent,
            now.failed - before_.failed};
  }
  TraceStats before_;
};

TEST_F(TraceExporterTest, OP_504_SpansAreSentInBatches_AndWhatIsLeftAtTheEnd) {
  Collector collector({{200, ""}});
  auto exporter = start(collector);
  EXPECT_TRUE(is_tracing());
  record(1, "first of all");
  const auto asked = collector.wait(1);
  EXPECT_EQ(asked[0].target, "/v1/traces");
  EXPECT_EQ(asked[0].type, "application/x-protobuf");
  EXPECT_NE(asked[0].body.find("first of all"), std::string::npos);
  EXPECT_NE(asked[0].body.find("service.name"), std::string::npos);
  record(600);
  exporter.reset();
  EXPECT_FALSE(is_tracing());
  EXPECT_EQ(stats().sent, 601U);
  EXPECT_EQ(stats().failed, 0U);
  for (const Collector::Asked& one : collector.wait(1)) {
    EXPECT_LT(one.body.size(), 512U * 60 + 200);
  }
}

TEST_F(TraceExporterTest, OP_504_WhoIsCrowdedIsAskedAgain) {
  Collector collector({{503, ""}, {429, ""}, {200, ""}});
  auto exporter = start(collector);
  record(3);
  const auto asked = collector.wait(3);
  EXPECT_EQ(asked[0].body, asked[2].body);
  exporter.reset();
  EXPECT_EQ(stats().sent, 3U);
}

TEST_F(TraceExporterTest, OP_504_WhatIsRefusedIsCountedAndNotRepeated) {
  // partial_success {rejected_spans: 2}
  Collector collector({{400, ""}, {200, std::string("\x0a\x02\x08\x02", 4)}});
  auto exporter = start(collector);
  record(5);
  (void)collector.wait(1);
  record(3);
  (void)collector.wait(2);
  exporter.reset();
  EXPECT_EQ(stats().sent + stats().failed, 8U);
  EXPECT_EQ(stats().failed, 7U);
}

TEST_F(TraceExporterTest, OP_504_NobodyWaitsForWhoIsSilent) {
  Collector collector({{0, ""}});
  auto exporter = start(collector);
  record(1);
  (void)collector.wait(1);
  record(2'000);
  EXPECT_EQ(stats().recorded + stats().dropped, 2'001U);
  EXPECT_GE(stats().dropped, 2'001U - 1 - 1'024);
  const TimePoint begun = Clock::now();
  exporter.reset();
  EXPECT_LT(Clock::now() - begun, seconds(20));  // not the time-out of the request
}

TEST_F(TraceExporterTest, OP_501_WhatIsNoEndpointEndsTheStart) {
  TraceParams params;
  params.endpoint = "collector:4318";
  EXPECT_FALSE(TraceExporter::start(params));
  params.endpoint = "https://127.0.0.1:1";
  params.ca_file = "/nowhere";
  EXPECT_FALSE(TraceExporter::start(params));
  params.endpoint = "http://127.0.0.1:1";
  params.headers_file = "/nowhere";
  EXPECT_FALSE(TraceExporter::start(params));
  EXPECT_FALSE(is_tracing());
}

TEST(Otlp, AnswersAreRead) {
  EXPECT_EQ(rejected_spans(""), 0U);
  EXPECT_EQ(rejected_spans(std::string("\x0a\x02\x08\x05", 4)), 5U);
  EXPECT_EQ(rejected_spans(std::string("\x0a\x05\x08\x05\x12\x01x", 7)), 5U);
  for (const std::string& text :
       {std::string("\x0a"), std::string("\x0a\x09\x08", 3), std::string("\xff\xff\xff"),
        std::string("{}"), std::string(20, '\xff'), std::string("\x0b\x01", 2)}) {
    EXPECT_EQ(rejected_spans(text), std::nullopt) << text.size();
  }
}

/// A client of a server that says what it was asked.
TEST_F(TraceExporterTest, OP_502_OP_503_RequestsOfARecordedTraceAreSpans) {
  Collector server({{200, "hello"}});
  net::Loop loop("client");
  net::UpstreamParams params;
  params.url = must(net::Url::parse(server.endpoint));
  const auto upstream = net::Upstream::make(loop, params);
  net::name_peer(*upstream, "shard-1");
  const std::string sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const std::string not_sampled = sampled.substr(0, sampled.size() - 1) + "0";
  const auto ask = [&](const std::string& parent) {
    net::FetchRequest request;
    request.method = "POST";
    request.body = "x";
    request.headers.add("traceparent", parent);
    bool done = false;
    const auto call = net::fetch(
        loop, *upstream, std::move(request), [&done](const Expected<net::FetchResponse>& answer) {
          EXPECT_TRUE(answer && answer->status == 200 && answer->body == "hello");
          done = true;
        });
    EXPECT_TRUE(run_until(loop, [&done] { return done; }));
  };
  ask(sampled);
  EXPECT_EQ(stats().recorded, 0U);  // nobody collects
  set_tracing(true);
  ask(not_sampled);
  EXPECT_EQ(stats().recorded, 0U);
  ask(sampled);
  set_tracing(false);
  const auto spans = take_spans(10);
  ASSERT_EQ(spans.size(), 1U);
  EXPECT_EQ(spans[0].name, "forward");
  EXPECT_EQ(spans[0].kind, SpanKind::kClient);
  EXPECT_EQ(spans[0].parent, 0xb7ad6b7169203331U);
  EXPECT_EQ(spans[0].fault, "");
  EXPECT_LE(spans[0].begin, spans[0].first_byte);
  EXPECT_LE(spans[0].first_byte, spans[0].end);
  const auto asked = server.wait(3);
  EXPECT_EQ(asked[0].traceparent, sampled);
  EXPECT_EQ(asked[1].traceparent, not_sampled);
  EXPECT_EQ(parse_trace_parent(asked[2].traceparent),
            (TraceParent{spans[0].trace, spans[0].id, true}));
}

TEST_F(TraceExporterTest, OP_503_WhoIsNotReachedOrLetsGoIsASpanToo) {
  Collector server({{0, ""}});
  net::Loop loop("client");
  net::UpstreamParams params;
  params.url = must(net::Url::parse(server.endpoint));
  auto upstream = net::Upstream::make(loop, params);
  net::FetchRequest request;
  request.method = "POST";
  request.body = "x";
  request.headers.add("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  set_tracing(true);
  auto call = net::fetch(loop, *upstream, request, [](const Expected<net::FetchResponse>&) {});
  ASSERT_TRUE(
      run_until(loop, [&] { return upstream->stats(net::UpstreamClass::kRead).requests > 0; }));
  (void)server.wait(1);
  call.reset();
  params.url.port = 1;
  const auto nobody = net::Upstream::make(loop, params);
  bool failed = false;
  call = net::fetch(loop, *nobody, request,
                    [&](const Expected<net::FetchResponse>&) { failed = true; });
  ASSERT_TRUE(run_until(loop, [&] { return failed; }));
  set_tracing(false);
  const auto spans = take_spans(10);
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].name, "request");
  EXPECT_EQ(spans[0].fault, "cancelled");
  EXPECT_NE(spans[1].fault, "");
}

}  // namespace
}  // namespace kintsugi::serving
