#include "serving/trace_gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "auth/authenticator.h"
#include "base/trace.h"

namespace kintsugi::serving {
namespace {

const std::string kTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-";

/// Takes an answer.
class Client final : public http::ResponseStream {
 public:
  void send_head(int status, const http::HeaderList& /*headers*/, bool /*end*/) noexcept override {
    status_ = status;
  }
  void send_data(std::string_view /*bytes*/, bool /*end*/) noexcept override {}
  void send_data(SharedBytes /*bytes*/, bool /*end*/) noexcept override {}
  void send_trailers(const http::HeaderList& /*trailers*/) noexcept override {}
  void reset(Errc /*cause*/) noexcept override {}
  void consume(std::size_t /*bytes*/) noexcept override {}
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override { return 0; }
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return peer_; }
  void close_connection_after() noexcept override {}

  int status_ = 0;
  http::PeerInfo peer_;
};

/// Answers, and remembers what it was asked.
class Server final : public http::Handler {
 public:
  struct Nothing final : http::RequestHandler {
    void on_data(std::string_view /*bytes*/, bool /*end*/) noexcept override {}
    void on_close(Errc /*cause*/) noexcept override {}
  };
  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    head_ = std::move(head);
    stream.send_head(status_, {}, false);
    stream.send_data(std::string_view("12345"), true);
    return std::make_unique<Nothing>();
  }
  http::RequestHead head_;
  int status_ = 200;
};

class TraceGateTest : public testing::Test {
 protected:
  TraceGateTest() { (void)take_spans(100'000); }

  /// The traceparent that the server sees.
  std::string ask(const TraceRules& rules, const std::vector<std::string>& parents = {},
                  const std::string& target = "/api/v1/namespaces/a/secrets?limit=1",
                  const std::string& group = "") {
    TraceGate gate(rules, server_);
    http::RequestHead head;
    head.method = "GET";
    head.target = target;
    for (const std::string& parent : parents) {
      head.headers.add("traceparent", parent);
    }
    if (!group.empty()) {
      head.headers.add("x-remote-group", group);
    }
    auto handler = gate.on_request(std::move(head), client_);
    handler->on_close(Errc::kOk);
    return std::string(server_.head_.headers.get("traceparent"));
  }

  void come_as(bool from_client_ca, std::vector<std::string> groups) {
    auth::CertificateIdentity certificate;
    certificate.valid = true;
    certificate.from_client_ca = from_client_ca;
    certificate.from_request_header_ca = !from_client_ca;
    certificate.organizations = std::move(groups);
    client_.peer_.identity = std::make_shared<const auth::CertificateIdentity>(certificate);
  }

  Client client_;
  Server server_;
};

TEST_F(TraceGateTest, OP_503_ASpanSaysWhatWasAskedAndAnswered) {
  const std::string parent = ask({.per_million = 1'000'000}, {kTrace + "00"},
                                 "/clusters/root:a/apis/apps/v1/namespaces/b/deployments?x=secret");
  const auto spans = take_spans(10);
  ASSERT_EQ(spans.size(), 1U);
  const Span& span = spans[0];
  EXPECT_EQ(span.name, "list apps/deployments");
  EXPECT_EQ(span.kind, SpanKind::kServer);
  EXPECT_EQ(span.parent, 0xb7ad6b7169203331U);
  EXPECT_EQ(parse_trace_parent(parent), (TraceParent{span.trace, span.id, true}));
  std::string told;
  for (const SpanAttribute& one : span.attributes) {
    told +=
        std::string(one.key) + "=" + (one.is_number ? std::to_string(one.number) : one.text) + "\n";
  }
  EXPECT_EQ(told,
            "http.request.method=GET\n"
            "url.path=/clusters/root:a/apis/apps/v1/namespaces/b/deployments\n"
            "kintsugi.cluster=root:a\nhttp.response.status_code=200\nkintsugi.bytes=5\n");
}

TEST_F(TraceGateTest, OP_503_NamesHoldNothingThatAClientHasMadeUp) {
  for (const auto& [status, target, name] :
       {std::tuple(404, "/apis/made.up/v1/things", "HTTP resource"),
        std::tuple(403, "/apis/made.up/v1/things", "HTTP resource"),
        std::tuple(200, "/what/ever", "HTTP"), std::tuple(500, "/api/v1/pods", "HTTP resource"),
        std::tuple(200, "/api/v1/pods?watch=1", "watch pods")}) {
    server_.status_ = status;
    (void)ask({.per_million = 1'000'000}, {}, target);
    const auto spans = take_spans(10);
    ASSERT_EQ(spans.size(), 1U) << target;
    EXPECT_EQ(spans[0].name, name);
    EXPECT_EQ(spans[0].parent, 0U);
    EXPECT_EQ(spans[0].fault, status == 500 ? "500" : "");
  }
}

TEST_F(TraceGateTest, OP_502_WhatIsNotRecordedIsPassedOnWithoutTheFlag) {
  EXPECT_EQ(ask({}, {kTrace + "01"}), kTrace + "00");  // a stranger's flag
  EXPECT_EQ(ask({}, {kTrace + "00"}), kTrace + "00");
  EXPECT_EQ(ask({}), "");
  const auto ours = parse_trace_parent(ask({.per_million = 1}));
  EXPECT_TRUE(ours && !ours->sampled);  // those behind decide as we do
  for (const auto& bad : {std::vector<std::string>{"nonsense"}, {kTrace + "01", kTrace + "01"}}) {
    EXPECT_EQ(ask({}, bad), "");
  }
  EXPECT_EQ(take_spans(10).size(), 0U);
}

TEST_F(TraceGateTest, OP_502_AFlagCountsOfTrustedGroupsAlone) {
  const auto is_recorded = [this](bool asserts, const std::string& group) {
    TraceRules rules;
    rules.takes_asserted = asserts;
    (void)ask(rules, {kTrace + "01"}, "/api/v1/pods", group);
    return take_spans(10).size() == 1;
  };
  EXPECT_FALSE(is_recorded(true, "system:masters"));  // nobody's word
  come_as(true, {"team-a"});
  EXPECT_FALSE(is_recorded(true, "system:masters"));  // a client's
  come_as(true, {"team-a", "system:kcp:admin"});
  EXPECT_TRUE(is_recorded(false, ""));
  come_as(false, {});
  EXPECT_TRUE(is_recorded(true, "system:kcp:admin"));
  EXPECT_FALSE(is_recorded(true, "team-a"));
  EXPECT_FALSE(is_recorded(false, "system:kcp:admin"));
}

}  // namespace
}  // namespace kintsugi::serving
