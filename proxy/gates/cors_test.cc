#include "proxy/gates/cors.h"

#include <gtest/gtest.h>

#include "serving/captured_answer.h"

namespace kintsugi::proxy {
namespace {

/// Answers 200 "ok" and remembers what came.
class Inner final : public RoutedHandler {
 public:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override {
    last = std::move(request.head);
    http::HeaderList headers;
    headers.add("content-type", "text/plain");
    stream.send_head(200, headers, false);
    stream.send_data(std::string_view("ok"), true);
    return std::make_unique<Taker>(*this);
  }
  http::RequestHead last;
  std::string body;

 private:
  struct Taker final : http::RequestHandler {
    explicit Taker(Inner& i) : inner(i) {}
    void on_data(std::string_view bytes, bool /*end*/) noexcept override { inner.body += bytes; }
    void on_close(Errc /*cause*/) noexcept override {}
    Inner& inner;
  };
};

struct Asked {
  int status = 0;
  std::string origin, body;
};

class Cors : public ::testing::Test {
 protected:
  Asked ask(std::vector<std::string> allowed, std::string_view origin, std::string method = "GET",
            std::string target = "/clusters/root/api") {
    CorsHandler cors(allowed, inner, console);
    http::RequestHead head;
    head.method = std::move(method);
    head.target = std::move(target);
    if (!origin.empty()) {
      head.headers.add("origin", origin);
    }
    const http::PeerInfo peer;
    serving::CapturedAnswer answer(peer, [] {});
    const auto handler = cors.on_request(understand(std::move(head), false), answer);
    handler->on_data("more", true);
    handler->on_close(Errc::kOk);
    return {answer.status(), std::string(answer.headers().get("access-control-allow-origin")),
            answer.body()};
  }
  Inner inner;
  bool console = false;
};

TEST_F(Cors, OP_704_NoOtherOriginReadsTheConsole) {
  console = true;
  for (const char* path : {"/ui", "/ui/", "/ui/api/v1/shards?limit=1", "/ui?x"}) {
    EXPECT_EQ(ask({"good"}, "https://good.example", "GET", path).origin, "") << path;
    EXPECT_EQ(ask({"good"}, "https://good.example", "OPTIONS", path).origin, "") << path;
  }
  EXPECT_EQ(ask({"good"}, "https://good.example", "GET", "/uix").origin, "https://good.example");
  console = false;
  EXPECT_EQ(ask({"good"}, "https://good.example", "GET", "/ui/").origin, "https://good.example");
}

TEST_F(Cors, WhenAnOriginIsListed_AM557_ItMayReadAnswers) {
  const Asked got = ask({"//good\\.example$"}, "https://good.example");
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.origin, "https://good.example");
  EXPECT_EQ(got.body, "ok");
  EXPECT_EQ(inner.body, "more");
  EXPECT_EQ(ask({"^x$", "good"}, "https://good.example").origin, "https://good.example");
}

TEST_F(Cors, WhenABrowserAsksFirst_AM557_204) {
  const Asked got = ask({"good"}, "https://good.example", "OPTIONS");
  EXPECT_EQ(got.status, 204);
  EXPECT_EQ(got.origin, "https://good.example");
  EXPECT_EQ(got.body, "");
  EXPECT_EQ(inner.last.method, "");
}

TEST_F(Cors, WhenAnOriginIsNotListed_AM557_NothingIsAdded) {
  EXPECT_EQ(ask({"//good\\.example$"}, "https://good.example.evil.test").origin, "");
  EXPECT_EQ(ask({}, "https://good.example").origin, "");
  EXPECT_EQ(ask({"good"}, "").origin, "");
  EXPECT_EQ(ask({"good"}, "good" + std::string(4'000, 'x')).origin, "");
  EXPECT_EQ(ask({"good"}, "https://evil.test", "OPTIONS").status, 200) << "as without CORS";
}

TEST_F(Cors, WhenAProbeOrAnUncleanPathIsAsked_AM557_NothingIsAdded) {
  for (const char* target : {"/livez", "/readyz?verbose", "/metrics", "/clusters//root"}) {
    EXPECT_EQ(ask({"good"}, "good", "GET", target).origin, "") << target;
  }
}

TEST(OriginPattern, WhenItIsNoExpression_IsRefused) {
  EXPECT_TRUE(is_origin_pattern("^https://[a-z]+\\.example(:\\d+)?$"));
  EXPECT_FALSE(is_origin_pattern("("));
}

}  // namespace
}  // namespace kintsugi::proxy
