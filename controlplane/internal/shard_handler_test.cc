#include "controlplane/internal/shard_handler.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "apiserver/testing/fake_server.h"
#include "base/guard.h"
#include "krm/request_info.h"

namespace kintsugi::controlplane {
namespace {

/// The server behind it: keeps what arrives.
class Behind final : public http::Handler {
 public:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      http::RequestHead head, http::ResponseStream&) noexcept override {
    struct Nothing final : http::RequestHandler {
      void on_data(std::string_view, bool) noexcept override {}
      void on_close(Errc) noexcept override {}
    };
    target = std::move(head.target);
    return std::make_unique<Nothing>();
  }
  std::string target;
};

class ShardHandlerTest : public ::testing::Test {
 protected:
  ShardHandlerTest() {
    krm::Json object;
    object.make({"metadata", "annotations", "kcp.io/path"}) = "root";
    object.make({"status", "phase"}) = "Ready";
    index_.put_cluster("root", &object);
  }
  /// What arrives behind it; "" when it answered itself.
  std::string ask(std::string target, const char* method = "GET") {
    stream_ = std::make_unique<apiserver::testing::FakeStream>();
    behind_.target.clear();
    http::RequestHead head;
    head.method = method;
    head.target = std::move(target);
    head.end_stream = true;
    (void)handler_.on_request(std::move(head), *stream_);
    return behind_.target;
  }
  ClusterIndex index_;
  Behind behind_;
  ShardHandler handler_{behind_, index_,
                        [](std::string_view, std::string_view, std::string_view) { return false; },
                        false};
  std::unique_ptr<apiserver::testing::FakeStream> stream_;
};

TEST_F(ShardHandlerTest, WhenAPathIsEscaped_KK371_ArrivesInItsCanonicalForm) {
  EXPECT_EQ(ask("/clusters/root/api%2Fv1/secrets?a=%2F"), "/clusters/root/api/v1/secrets?a=%2F");
  EXPECT_EQ(ask("/%63lusters/root/%61pis/g/v1/%77atch/foo"), "/clusters/root/apis/g/v1/watch/foo");
  EXPECT_EQ(ask("/clusters/root/api/v1/namespaces/t/configmaps/a%2Fb"),
            "/clusters/root/api/v1/namespaces/t/configmaps/a/b");
  EXPECT_EQ(ask("/clusters/root/api/v1/secrets/a%252Fb"), "/clusters/root/api/v1/secrets/a%252Fb");
  EXPECT_EQ(ask("/clusters/%2a/api/v1/secrets"), "/clusters/*/api/v1/secrets");
  EXPECT_EQ(ask("/clusters/root%3Aorg/api"), "/clusters/root:org/api");
  EXPECT_EQ(ask("/services/apiexport/c%3Ad/e/cluster%73/x/%61pis"),
            "/services/apiexport/c:d/e/clusters/x/apis");
}

TEST_F(ShardHandlerTest, WhenAFrontWordWouldBeMadeOfAnEscape_KK372_ItIsNot) {
  for (const char* target : {"/clusters%2Froot/api", "/clusters/root%2Fapi", "/clusters/a%2Fb/api",
                             "/services%2Fapiexport/c/e/clusters/x"}) {
    EXPECT_EQ(ask(target), target);
  }
}

TEST_F(ShardHandlerTest, WhenAPathIsUnclean_KK375_IsSentToTheCleanedOneOfItsCluster) {
  const std::pair<const char*, const char*> cases[] = {
      {"/clusters/root//api?x=1", "/clusters/root/api?x=1"},
      {"/clusters/root/./api", "/clusters/root/api"},
      {"/clusters/root/x/../api", "/clusters/root/api"},
      {"/clusters/root/x/%2e%2e/api", "/clusters/root/api"},
      {"//api", "/api"},
  };
  for (const auto& [target, location] : cases) {
    EXPECT_EQ(ask(target), "") << target;
    EXPECT_EQ(stream_->status, 307) << target;
    EXPECT_EQ(stream_->headers.get("location"), location);
  }
}

TEST_F(ShardHandlerTest, WhenSomethingBelowThrows_SE181_TheRequestEndsAlone) {
  ShardHandler faulty(
      behind_, index_, [](auto, auto, auto) -> bool { throw std::out_of_range("planted"); }, false);
  for (const char* method : {"GET", "HEAD", "POST"}) {
    const std::uint64_t before = caught_exceptions();
    apiserver::testing::FakeStream stream;
    http::RequestHead head;
    head.method = method;
    head.target = "/clusters/*/apis/g/v1/widgets:0a";
    head.end_stream = true;
    const auto handler = faulty.on_request(std::move(head), stream);
    ASSERT_NE(handler, nullptr);
    EXPECT_EQ(stream.status, 500) << method;
    EXPECT_TRUE(stream.ended) << method;
    EXPECT_EQ(stream.body.find("planted"), std::string::npos);
    EXPECT_EQ(caught_exceptions(), before + 1);
  }
}

TEST_F(ShardHandlerTest, WhenAPathIsNone_SE027_KK371_IsRefused) {
  for (const char* target :
       {"/clusters/root/../other/api", "/clusters/root/%2e%2e/other", "/clusters/root/a%00b",
        "/clusters/*/..%2Fx", "/clusters/root/a%2F%2Fb", "/clusters/root/%zz",
        "/clusters/root/%C2%85", "/services/apiexport/c/e/clusters/x/%0a", "/api%2f%2e%2e"}) {
    for (const char* method : {"GET", "POST", "HEAD"}) {
      EXPECT_EQ(ask(target, method), "") << target;
      EXPECT_EQ(stream_->status, 400) << target;
      EXPECT_TRUE(stream_->ended) << target;
      if (method != std::string_view("HEAD")) {
        const auto status = krm::Json::parse(stream_->body);
        ASSERT_TRUE(status) << target;
        EXPECT_EQ(status->text({"reason"}), "BadRequest") << target;
      }
    }
  }
  EXPECT_EQ(ask("/" + std::string(20'000, 'a')), "");
  EXPECT_EQ(stream_->status, 414);
}

TEST_F(ShardHandlerTest, WhatIsAnsweredHere_SE007_SE036_HasALineOfTheAudit) {
  std::vector<std::string> lines;
  ShardHandler audited(
      behind_, index_, [](auto, auto, auto) { return false; }, false,
      [&](std::string line) { lines.push_back(std::move(line)); });
  const std::tuple<const char*, const char*, const char*, int> cases[] = {
      {"GET", "/clusters/root/a%00b", "root", 400},
      {"POST", "/clusters/root/..%2Fx?x=1", "root", 400},
      {"HEAD", "/clusters/root//api", "root", 307},
      {"DELETE", "/clusters/root/%zz", "root", 400},
      {"GET", "/clusters/root/metrics", "root", 501},
      {"GET", "/api%2f%2e%2e", "", 400},
  };
  for (const auto& [method, target, cluster, code] : cases) {
    lines.clear();
    apiserver::testing::FakeStream stream;
    http::RequestHead head;
    head.method = method;
    head.target = target;
    head.headers.add("audit-id", "mine");
    head.headers.add("user-agent", "curl");
    head.end_stream = true;
    (void)audited.on_request(std::move(head), stream);
    EXPECT_EQ(stream.status, code) << target;
    ASSERT_EQ(lines.size(), 1U) << target;
    const auto event = krm::Json::parse(lines[0]);
    ASSERT_TRUE(event) << lines[0];
    EXPECT_EQ(event->text({"auditID"}), "mine");
    EXPECT_EQ(event->text({"requestURI"}), target);
    EXPECT_EQ(event->text({"userAgent"}), "curl");
    EXPECT_EQ(event->at({"responseStatus", "code"})->dump(), std::to_string(code)) << target;
    EXPECT_EQ(event->text({"annotations", "kcp.io/cluster"}), cluster) << target;
  }
  lines.clear();
  apiserver::testing::FakeStream stream;
  http::RequestHead head;
  head.method = "GET";
  head.target = "/clusters/root/api";
  (void)audited.on_request(std::move(head), stream);
  EXPECT_TRUE(lines.empty()) << "what goes on is the server's to write about";
}

}  // namespace
}  // namespace kintsugi::controlplane
