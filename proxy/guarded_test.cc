// Throws planted below the seams of a request: each ends as one 500, and the process goes on.
#include <stdexcept>

#include "base/guard.h"
#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Answer;
using testing::Rig;

// E17.
TEST(Guarded, WhenAHandlerThrows_SE_T081_TheClientGets500AndTheProxyLives) {
  Rig rig(nullptr, [](ProxyHandlerParams& params) {
    params.wildcard = true;
    params.ready = []() -> bool { throw std::out_of_range("planted"); };
    params.partition = [](std::string_view, std::string_view) -> std::optional<krm::Json> {
      throw 7;
    };
  });
  rig.log_in();
  for (const char* target :
       {"/readyz", "/readyz/informer-sync", "/partitions/root/p/clusters/*/api/v1/configmaps",
        "/partitions/root/p/clusters/*/apis",
        "/partitions/root/p/services/apiexport/c1/e/clusters/*/api/v1/configmaps"}) {
    const std::uint64_t before = caught_exceptions();
    Answer answer;
    rig.ask(answer, Rig::get(target));
    EXPECT_EQ(answer.status, 500) << target;
    const auto status = krm::Json::parse(answer.body);
    ASSERT_TRUE(status) << target;
    EXPECT_EQ(status->text({"reason"}), "InternalError") << target;
    EXPECT_EQ(answer.body.find("planted"), std::string::npos);
    EXPECT_EQ(caught_exceptions(), before + 1) << target;
  }
  Answer alive;
  rig.ask(alive, Rig::get("/livez"));
  EXPECT_EQ(alive.status, 200);
}

TEST(Guarded, WhenATimerOrPostedFunctionThrows_SE181_TheLoopGoesOn) {
  Rig rig;
  const std::uint64_t before = caught_exceptions();
  net::Timer timer(rig.loop);
  timer.start(milliseconds(1), [] { throw std::logic_error("planted"); });
  rig.loop.post([] { throw std::out_of_range("planted"); });
  rig.loop.defer([] { throw std::runtime_error("planted"); });
  bool after = false;
  rig.loop.post([&after] { after = true; });
  EXPECT_TRUE(rig.until([&] { return after && caught_exceptions() == before + 3; }));
}

TEST(Guarded, WhenACallbackOfAFetchThrows_SE181_TheFetchEnds) {
  Rig rig;
  rig.shard.answer = [](testing::Exchange& exchange) {
    testing::FakeShard::reply(exchange, 200, "{}");
  };
  net::UpstreamParams params;
  params.url = net::Url{"http", "127.0.0.1", rig.shard_port, ""};
  params.prior_knowledge = true;
  const auto upstream = net::Upstream::make(rig.loop, params);
  for (const bool at_head : {true, false}) {
    const std::uint64_t before = caught_exceptions();
    Errc cause = Errc::kOk;
    net::FetchRequest request;
    request.method = "GET";
    request.target = "/x";
    net::StreamCallbacks callbacks;
    callbacks.on_head = [at_head](const http::ResponseHead&) {
      if (at_head) {
        throw std::out_of_range("planted");
      }
    };
    callbacks.on_data = [at_head](std::string_view) {
      if (!at_head) {
        throw std::out_of_range("planted");
      }
    };
    callbacks.on_end = [&cause](Errc why) { cause = why; };
    const auto call = net::stream(rig.loop, *upstream, std::move(request), std::move(callbacks));
    EXPECT_TRUE(rig.until([&] { return cause != Errc::kOk; }));
    EXPECT_EQ(cause, Errc::kInternal);
    EXPECT_EQ(caught_exceptions(), before + 1);
  }
}

TEST(Guarded, WhenAFetchIsAnsweredWithAThrow_SE181_TheLoopGoesOn) {
  Rig rig;
  const std::uint64_t before = caught_exceptions();
  rig.shard.answer = [](testing::Exchange& exchange) {
    testing::FakeShard::reply(exchange, 200, "{}");
  };
  net::UpstreamParams params;
  params.url = net::Url{"http", "127.0.0.1", rig.shard_port, ""};
  params.prior_knowledge = true;
  const auto upstream = net::Upstream::make(rig.loop, params);
  net::FetchRequest request;
  request.method = "GET";
  request.target = "/x";
  const auto call =
      net::fetch(rig.loop, *upstream, std::move(request),
                 [](Expected<net::FetchResponse>) { throw std::invalid_argument("planted"); });
  EXPECT_TRUE(rig.until([&] { return caught_exceptions() == before + 1; }));
}

}  // namespace
}  // namespace kintsugi::proxy
